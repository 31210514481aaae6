"""Agents that all want the stick of their room at the same time, each on its own thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conch.agents.records import Caller
from conch.app import App
from conch.calls import Call
from conch.errors import Cancelled, ConchError
from conch.turns.waiting import Wait

LONGEST_WAIT_MS = 50_000
PATIENCE_SECONDS = 50.0


class Seat:
    """An agent in its room. It keeps the stick until its gate is open."""

    def __init__(self, caller: Caller, room_id: str) -> None:
        self.caller = caller
        self.room_id = room_id
        self.settled = threading.Event()
        """The agent waits or holds the stick."""
        self.gate = threading.Event()
        self.handed: queue.SimpleQueue[float] = queue.SimpleQueue()
        """Seconds from the start of another agent's release to the end of the claim here."""


class Crowd:
    def __init__(self, app: App, seats: list[Seat]) -> None:
        self._app = app
        self._seats = {seat.caller.agent_id: seat for seat in seats}
        self._lock = threading.Lock()  # guards what follows
        self._calls: set[Call] = set()
        self._gathered = False
        self._free = False
        self._over = False
        self._turns = 0
        self._refusals: list[str] = []

    def gather(self) -> None:
        """Returns once every agent waits or holds the stick."""
        for seat in self._seats.values():
            threading.Thread(target=self._live, args=(seat,), daemon=True).start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        if not all(seat.settled.wait(max(0.0, deadline - time.monotonic())) for seat in self._seats.values()):
            raise TimeoutError(f"not all of {len(self._seats)} agents wait after {PATIENCE_SECONDS:.0f} s")
        self._gathered = True

    def let_go(self, agent_id: str) -> None:
        """Let the holder release the stick once."""
        seat = self._seats[agent_id]
        seat.settled.clear()
        seat.gate.set()

    def settle(self, agent_id: str) -> None:
        """Returns once this agent, which has let go, waits again."""
        if not self._seats[agent_id].settled.wait(PATIENCE_SECONDS):
            raise TimeoutError(f"{agent_id} does not wait after {PATIENCE_SECONDS:.0f} s")

    def handed(self, agent_id: str) -> float:
        """Wait until this agent has the stick; returns how long the handover took."""
        return self._seats[agent_id].handed.get(timeout=PATIENCE_SECONDS)

    def take_turns(self, seconds: float) -> dict[str, Any]:
        """Let all agents take turns for this long, then stop."""
        self._free, self._turns = True, 0
        self._open_gates()
        time.sleep(seconds)
        with self._lock:
            self._over = True
            report = {"turns": self._turns, "refusals": list(self._refusals)}
            calls = list(self._calls)
        for call in calls:
            call.cancel()
        self._open_gates()
        return report

    def _open_gates(self) -> None:
        for seat in self._seats.values():
            seat.gate.set()

    def _live(self, seat: Seat) -> None:
        while not self._over:
            try:
                self._take_turn(seat)
            except Cancelled:
                return
            except ConchError as refusal:
                self._refusals.append(str(refusal))

    def _take_turn(self, seat: Seat) -> None:
        with self._call(seat) as call:
            wait = self._app.claims.wait_for_turn(seat.caller, seat.room_id, None, LONGEST_WAIT_MS, call)
        if wait.status != "your_turn":
            return
        self._count(seat, wait, time.monotonic())
        seat.gate.wait()
        if not self._free:
            seat.gate.clear()
        room = wait.snapshot.room
        handoff = {"status": repr(time.monotonic()), "next_action": "Pass it on."}
        self._app.turns.release_stick(seat.caller, seat.room_id, room.lease_id or "", room.turn_id, handoff)

    def _count(self, seat: Seat, wait: Wait, claimed: float) -> None:
        seat.settled.set()
        if wait.reason == "already_owner":
            return
        if wait.handoff is not None and self._gathered:
            seat.handed.put(claimed - float(wait.handoff["status"]))
        with self._lock:
            self._turns += 1

    @contextmanager
    def _call(self, seat: Seat) -> Iterator[Call]:
        """A call that is cancelled when the time is up. Its first report shows that it waits."""
        call = Call(lambda text: seat.settled.set())
        with self._lock:
            self._calls.add(call)
            if self._over:
                call.cancel()
        try:
            yield call
        finally:
            with self._lock:
                self._calls.discard(call)
