"""The post of a lease's guardian: one byte of a file that all guardians share, locked by the one that stands there."""

from __future__ import annotations

import fcntl
import os

from conch.config import Settings
from conch.ids import digest


class Post:
    """The kernel frees it when the guardian ends, however that happens; nothing is left to clear away."""

    def __init__(self, settings: Settings, lease_id: str) -> None:
        self._path = os.path.join(os.path.dirname(settings.database), "guardians")
        self._place = int(digest(lease_id)[:15], 16)

    def take(self) -> bool:
        """Stand here until the process ends; False if another one does."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._place)
        except OSError:
            os.close(file)
            return False
        return True

    def is_free(self) -> bool:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._place)
        except OSError:
            return False
        finally:
            os.close(file)
        return True
