"""One process that plays many agents. It reads orders from its input, line by line, and reports on its output.

Its agents share one app, as behind a server with many clients: one pool of store connections and one bell.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from conch.agents.identity import Signal, Signals, identify
from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bus.drafts import Draft
from conch.bus.peers import Peer
from conch.errors import ConchError
from conch.host import processes
from conch.host.processes import Process
from conch.turns import waiting
from scale_crowd import Crowd, Seat

Report = dict[str, Any]
_AS_HARNESS = ("mcp_harness", "bench")
Place = tuple[str, str]
"""An agent, and the path or id of its room."""


class Worker:
    def __init__(self, app: App) -> None:
        self._app = app
        # All agents name the process that started us as theirs, so that any worker can speak for any of them.
        self._nobody = Caller("bench:0000", "nobody", processes.look_up(os.getppid()), "mcp_harness", None)
        self._crowd = Crowd(app, [])
        self._peers: dict[bool, Peer] = {}
        self._woken: queue.SimpleQueue[float] = queue.SimpleQueue()

    def join(self, places: list[Place]) -> Report:
        """Create these agents, and let each join the room of its path."""
        rooms = {}
        for agent_id, path in places:
            caller = identify(self._app.store, _signals(agent_id, self._nobody.process))
            rooms[path] = self._app.membership.join_path(caller, path).snapshot.room.room_id
        return {"rooms": rooms}

    def reorder(self, room_id: str, order: list[str]) -> Report:
        self._app.membership.reorder_members(self._caller(order[0]), room_id, order)
        return {}

    def relay(self, expected: list[Place], start: float, seconds: float) -> Report:
        """Claim and release in these rooms, one after the other, each time as the agent whose turn it is."""
        calls: list[float] = []
        refusals: list[str] = []
        places = [tuple(place) for place in expected]
        time.sleep(max(0.0, start - time.monotonic()))
        while places and time.monotonic() < start + seconds:
            for index, (agent_id, room_id) in enumerate(places):
                try:
                    places[index] = (self._take_turn(self._caller(agent_id), room_id, calls) or agent_id, room_id)
                except ConchError as refusal:
                    refusals.append(str(refusal))
        return {"turns": len(calls) // 2, "calls": calls, "refusals": refusals, "expected": places}

    def gather(self, places: list[Place]) -> Report:
        """Let these agents wait for their sticks; returns once every agent waits or holds one."""
        self._crowd = Crowd(self._app, [Seat(self._caller(agent_id), room_id) for agent_id, room_id in places])
        self._crowd.gather()
        return {}

    def let_go(self, agent_id: str) -> Report:
        self._crowd.let_go(agent_id)
        return {}

    def settle(self, agent_id: str) -> Report:
        self._crowd.settle(agent_id)
        return {}

    def handed(self, agent_id: str) -> Report:
        return {"seconds": self._crowd.handed(agent_id)}

    def take_turns(self, seconds: float) -> Report:
        return self._crowd.take_turns(seconds)

    # -- messages

    def enter(self, place: int) -> Report:
        """Take a name on the topic that all share, and on one of its own."""
        names = {True: "shared", False: f"own-{place}"}
        for is_shared, name in names.items():
            topic, _ = self._app.topics.create(name, None, "reuse")
            caller = identify(self._app.store, _signals(f"bench:{place:04d}", self._nobody.process))
            self._peers[is_shared] = self._app.peers.join_as_itself(caller, topic.topic_id)
        return {}

    def send(self, seconds: float, shares: bool) -> Report:
        """Send one message after the other, on the shared topic or on its own. The bare loop does not read either."""
        return _repeat(seconds, lambda: self._send(shares))

    def bare(self, seconds: float, shares: bool) -> Report:
        """What takes the place of a message without conch."""
        with psycopg.connect(os.environ["CONCH_STORE"]) as connection:

            def act() -> None:
                connection.execute("INSERT INTO bare (sender, content) VALUES (%s, %s)", [1, "a message"])
                connection.execute("SELECT pg_notify('bare', '')")
                connection.commit()

            return _repeat(seconds, act)

    def send_once(self) -> Report:
        self._send(True)
        return {}

    def await_message(self) -> Report:
        """Wait for a message on the shared topic; returns once it listens."""
        peer = self._peers[True]
        self._app.messages.mark_read(peer, self._app.messages.standing(peer)[1].highest_seq)
        threading.Thread(target=self._hear, args=(peer,), daemon=True).start()
        time.sleep(0.05)
        return {}

    def heard(self) -> Report:
        return {"seconds": self._woken.get(timeout=20)}

    def _send(self, shares: bool) -> None:
        self._app.messages.send(self._peers[shares], [Draft(repr(time.monotonic()))])

    def _hear(self, peer: Peer) -> None:
        page = self._app.messages.sync(peer, [], wait_seconds=20).page
        self._woken.put(time.monotonic() - float(page.received[-1].content_markdown))

    # -- turns

    def _take_turn(self, caller: Caller, room_id: str, calls: list[float]) -> str | None:
        """Release the stick; returns the next agent."""
        started = time.monotonic()
        room = self._app.claims.wait_for_turn(caller, room_id, None, 0).snapshot.room
        claimed = time.monotonic()
        handoff = {"status": repr(claimed), "next_action": "Pass it on."}
        offer = self._app.turns.release_stick(caller, room_id, room.lease_id or "", room.turn_id, handoff)
        calls += [claimed - started, time.monotonic() - claimed]
        return offer.room.reserved_for

    def _caller(self, agent_id: str) -> Caller:
        return self._nobody._replace(agent_id=agent_id)


def _signals(agent_id: str, process: Process | None) -> Signals:
    return Signals((Signal("explicit", agent_id, "bench"),), "bench", process, None, *_AS_HARNESS)


def _repeat(seconds: float, act: Callable[[], None]) -> Report:
    took: list[float] = []
    end = time.monotonic() + seconds
    while (started := time.monotonic()) < end:
        act()
        took.append(time.monotonic() - started)
    return {"took": took}


def main() -> None:
    if "--unlimited" in sys.argv:
        waiting.LOOKS_PER_SECOND = sys.maxsize
    app = open_app(os.environ)
    worker = Worker(app)
    for line in sys.stdin:
        order = json.loads(line)
        action = getattr(worker, order.pop("do"))
        print(json.dumps(action(**order)), flush=True)
    app.close()


if __name__ == "__main__":
    main()
