"""Notices that a process uses another store than before: wiped, restored, or another one in its place."""

from __future__ import annotations

import os

from conch.errors import StoreReplaced
from conch.lean import Any
from conch.storage.base import Replacement


class Replacements:
    """Every store has a random `epoch` in its table `meta`. A wipe, a restore and every copy gets a new one."""

    def __init__(self, place: str) -> None:
        self.found: list[Replacement] = []
        self.is_to_be_told = False
        """Whether this process has found a copy of this store in its place, and others could miss it."""
        self._place = place
        self._epoch: str | None = None
        self._is_known = False

    @property
    def expected(self) -> str | None:
        """The epoch of the previous transaction; None if there was none."""
        return self._epoch if self._is_known else None

    def check(self, epoch: str | None) -> None:
        """Compare the epoch with that of the previous transaction. StoreReplaced if it differs; nothing was changed."""
        if not self._is_known:
            self.expect(epoch)
        elif epoch != self._epoch:
            self.expect(epoch)
            message = f"The store at {self._place} was wiped, restored or replaced since your last call."
            raise self.add(message, store=self._place)

    def expect(self, epoch: str | None) -> None:
        """Use the store with this epoch from now on."""
        self._epoch, self._is_known = epoch, True

    def add(self, message: str, **details: Any) -> StoreReplaced:
        """Note a replacement. Returns the error that makes the request run again, on the store that is there now."""
        self.found.append(Replacement(message, details))
        return StoreReplaced(message, **details)

    def forget_epoch(self) -> None:
        """Use whatever store is there at the next transaction."""
        self._is_known = False


def new_epoch() -> str:
    return os.urandom(8).hex()
