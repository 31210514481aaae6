"""What changes the picture of a room although nobody does anything: a process ends, or a time runs out.

No bell rings then, so a page that shows rooms must watch these processes, and look again at these moments.
"""

from __future__ import annotations

from conch.agents.records import recorded_process
from conch.clock import MINUTE, SECOND
from conch.host.processes import Process
from conch.lean import NamedTuple
from conch.overseeing.survey import UNACCEPTED_AFTER, UNANSWERED_AFTER
from conch.storage.base import Store

_MOST_PROCESSES = 1_000


class Lapses(NamedTuple):
    processes: tuple[Process, ...]
    """Those of the members of open rooms. Without one, only the time since a member's last call counts."""
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
