"""Since when a member has been waiting for the stick, for people who look at the room.

A harness waits call after call. So a wait that begins soon after the last one ended goes on from there.
"""

from __future__ import annotations

from contextlib import suppress

from conch.bells.base import activity_channel
from conch.clock import SECOND
from conch.errors import StoreError
from conch.storage.base import Store

_SOON = 120 * SECOND  # a model may think this long between two calls
_EVER = 2**62
_NOTED = 60 * SECOND  # a note that is younger need not be written again


class WaitNote:
    """A wait of one member. It is noted only once the member really waits, and a failure to note it is ignored.

    It rings where people watch, because nothing else tells them that a member waits now, or no longer does.
    """

    def __init__(self, store: Store, room_id: str, agent_id: str) -> None:
        self._store = store
        self._member = {"room_id": room_id, "agent_id": agent_id}
        self._waits = False

    def begin(self) -> None:
        """The wait is about to sleep, for the first time or again."""
        if not self._waits:
            self._waits = True
            self._note(_SOON)

    def end(self) -> None:
        """The wait ends without the stick. A wait that ends with it need not be noted, because the log shows it."""
        if self._waits:
            self._note(_EVER)

    def _note(self, soon: int) -> None:
        with suppress(StoreError):
            self._write(soon)
            self._store.ring(activity_channel(self._member["room_id"]))

    def _write(self, soon: int) -> None:
        """Note that the member is waiting: since now, unless it waited a moment ago."""
        with self._store.look() as tx:
            row = tx.one("find_wait", **self._member)
            if row is None or tx.now - (row["waited_at"] or 0) < _NOTED:
                return
        with self._store.write(self._member["agent_id"]) as tx:
            tx.run("note_wait", now=tx.now, soon=tx.now - soon, **self._member)
