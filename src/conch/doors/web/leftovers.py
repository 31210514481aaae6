"""What members that are gone have left in the workspaces.

Finding out means asking git, which takes seconds in a large checkout. So a thread asks. Pages get what is known, and
hear when more is known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from conch.clock import SECOND
from conch.errors import ConchError
from conch.lean import NamedTuple
from conch.members.adoption import Candidate
from conch.overseeing.survey import find_gone
from conch.rooms.room import Snapshot

_FRESH = 10 * SECOND  # a page reads its room at every change
_FIRST_SECONDS = 1.0  # how long the first reader waits, so that a page shows everything at once


class _Found(NamedTuple):
    gone: frozenset[str]
    at: int
    candidates: list[Candidate]


class Leftovers:
    def __init__(self, find: Callable[[str], list[Candidate]], announce: Callable[[], None]) -> None:
        """`find` takes a room_id; `announce` tells the pages to look again."""
        self._find = find
        self._announce = announce
        self._lock = threading.Lock()
        self._found: dict[str, _Found] = {}
        self._searches: dict[str, threading.Thread] = {}

    def of(self, snapshot: Snapshot) -> list[Candidate]:
        """What is known to be left in a room."""
        room_id, gone, now = snapshot.room.room_id, find_gone(snapshot), snapshot.now
        if not gone:
            return []
        with self._lock:
            found, search = self._found.get(room_id), self._searches.get(room_id)
            is_fresh = found is not None and found.gone == gone and now - found.at < _FRESH
            if search is None and not is_fresh:
                search = threading.Thread(target=self._search, args=(room_id, gone, now), daemon=True)
                search.start()  # it needs the lock to end
                self._searches[room_id] = search
        if found is None and search is not None:
            search.join(_FIRST_SECONDS)
            found = self._found.get(room_id)
        return found.candidates if found else []

    def _search(self, room_id: str, gone: frozenset[str], now: int) -> None:
        """If it cannot be found out, the rest of the room is still worth showing."""
        try:
            candidates = self._find(room_id)
        except (ConchError, OSError, RuntimeError, MemoryError):  # the last two: no thread or no memory is left
            candidates = []
        with self._lock:
            before = self._found.get(room_id)
            self._found[room_id] = _Found(gone, now, candidates)
            del self._searches[room_id]
        if candidates != (before.candidates if before else []):
            self._announce()
