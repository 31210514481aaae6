"""What changes the picture of a room although nobody does anything: a process ends, or a time runs out.

No bell rings then, so a page that shows rooms must watch these processes, and look again at these moments.
"""

from __future__ import annotations

from collections.abc import Iterable

from conch.agents.records import recorded_process
from conch.clock import MINUTE, SECOND
from conch.host.processes import Process, check
from conch.lean import NamedTuple
from conch.overseeing.survey import UNACCEPTED_AFTER, UNANSWERED_AFTER
from conch.storage.base import Store

_MOST_PROCESSES = 1_000
_MOST_ENDS = 10_000


class Lapses(NamedTuple):
    processes: tuple[Process, ...]
    """Those of the members of open rooms. For a member without one, only the time since its last call counts."""
    seconds: float | None
    """Until the next time runs out: a lease, a claim, a reservation, a question, a notice, or a member's silence."""


def foresee_lapses(store: Store, stale_minutes: float) -> Lapses:
    with store.read() as tx:
        rows = tx.all("watched_processes", limit=_MOST_PROCESSES)
        found = tx.one(
            "next_lapse",
            now=tx.now,
            unanswered_after=UNANSWERED_AFTER,
            unaccepted_after=UNACCEPTED_AFTER,
            stale_after=int(stale_minutes * MINUTE),
        )
        moment = found["moment"] if found else None
        processes = tuple(process for row in rows if (process := recorded_process(row)) is not None)
        return Lapses(processes, None if moment is None else (moment - tx.now) / SECOND)


class Ends:
    """When processes ended, as far as they were watched. The system does not keep that."""

    def __init__(self) -> None:
        self._running: frozenset[Process] = frozenset()
        self._ended: dict[Process, int] = {}

    def watch(self, processes: Iterable[Process]) -> None:
        """Watch these processes from now on, and no others. If one has ended already, nobody knows when."""
        self._running = frozenset(each for each in processes if each in self._running or check(each) == "alive")

    def notice(self, now: int) -> None:
        """Look which of the watched processes have ended, and record that they ended now."""
        ended = [each for each in self._running if check(each) == "gone"]
        self._running = self._running.difference(ended)
        for each in ended:
            self._ended[each] = now
        while len(self._ended) > _MOST_ENDS:
            del self._ended[next(iter(self._ended))]

    def find(self, process: Process) -> int | None:
        return self._ended.get(process)
