"""The policy: what is older than a number of days is pruned, by a command or about once a day by a server."""

from __future__ import annotations

import time

from conch.bells.base import Bell
from conch.clock import DAY, MINUTE
from conch.config import Settings
from conch.lean import NamedTuple, threading
from conch.retention.pruning import Pruned, Pruning, idle_channels
from conch.storage.base import Store

_FIRST_PAUSE = 5.0  # seconds: not while a harness waits for its servers to start
_PAUSE = 3_600.0
_RETRY = 60 * MINUTE
# The shortest rest between two steps, in seconds: in a server, and in a command that a person waits for.
# Without a rest, the next step could take the lock before a writer that waits for it has woken up.
_REST, _SHORT_REST = 0.02, 0.002


class Outcome(NamedTuple):
    pruned: Pruned
    is_tidy: bool
    """Whether the log beside the store's file could be truncated; False while another process reads."""


class Retention:
    def __init__(self, store: Store, bell: Bell, settings: Settings) -> None:
        self._store = store
        self._bell = bell
        self._days = settings.retention_days

    def survey(self, age: int) -> Pruned:
        """What is older than `age` microseconds and can go. Nothing is changed."""
        return Pruning(self._store, age).survey()

    def prune(self, age: int, compact: bool = False) -> Outcome:
        """Delete it. `compact` also gives the space back to the disk, while others cannot write."""
        return self._prune(Pruning(self._store, age, _Rest(_SHORT_REST)), compact)

    def prune_if_due(self) -> Outcome | None:
        """Prune by `CONCH_RETENTION_DAYS`. None if that is off, or a process has done so within a day."""
        if not self._days or not self._claim():
            return None
        outcome = self._prune(Pruning(self._store, self._days * DAY, _Rest(_REST)), compact=False)
        with self._store.write("retention") as tx:
            tx.run("note_pruning", now=str(tx.now))
        return outcome

    def _prune(self, pruning: Pruning, compact: bool) -> Outcome:
        idle = idle_channels(self._store, pruning.cutoff)  # before the rooms are gone
        pruned = pruning.run()
        self._bell.forget(idle)
        is_worth_it = any(pruned) or compact
        return Outcome(pruned, self._store.tidy(compact) if is_worth_it else True)

    def _claim(self) -> bool:
        """Whether this process should prune. If it does not finish, any process may try again after an hour."""
        with self._store.read() as tx:  # most of the time this is enough
            last = tx.one("pruned_at")
            if last and int(last["value"]) > tx.now - DAY:
                return False
        with self._store.write("retention") as tx:
            return tx.count("claim_pruning", now=str(tx.now - DAY + _RETRY), due=tx.now - DAY) > 0


def keep_pruned(retention: Retention, first_pause: float = _FIRST_PAUSE) -> None:
    """Prune when it is due, in a thread of its own, for as long as the process lives. It may end at any moment."""
    threading.Thread(target=_keep_pruned, args=(retention, first_pause), daemon=True).start()


def _keep_pruned(retention: Retention, first_pause: float) -> None:
    time.sleep(first_pause)
    while True:
        try:
            retention.prune_if_due()
        except Exception:  # the store may be closed by now; calls report other trouble, and this tries again later
            pass
        time.sleep(_PAUSE)


class _Rest:
    """Rests for as long as the last step took, so that others get at least half of the time."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._since = time.monotonic()

    def __call__(self) -> None:
        time.sleep(max(self._least, time.monotonic() - self._since))
        self._since = time.monotonic()
