"""One agent in a process of its own, for the tests of contention, kills and the writers' queue.

    python player.py ROLE '{"argument": "value"}'

It uses conch as a library on the store that its environment selects, says what happened as lines of JSON, and
ends when its role is played. `ready` waits at the test's starting gate, so that many players start at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import sys
import time
from typing import Any

from conch.agents.identity import Signal, Signals, identify
from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bus.drafts import Draft
from conch.clock import system_clock
from conch.errors import ConchError, StoreBusy, UnknownMember
from conch.host import processes
from conch.rooms.log import append_event
from conch.rooms.room import load_room, save_room
from conch.storage.sqlite.queue import Queue
from conch.turns.waiting import Wait

LONGEST_WAIT_MS = 20_000


def say(*words: Any) -> None:
    print(json.dumps(words), flush=True)


def ready(gate: str) -> None:
    """Wait until the test opens the gate: the kernel lets everybody through at the same moment."""
    with open(gate) as file:
        say("ready")
        fcntl.flock(file, fcntl.LOCK_SH)


def hear() -> str:
    """The test's next word; without a test there is nothing left to play for."""
    return sys.stdin.readline().strip() or sys.exit()


def agent(app: App, agent_id: str) -> Caller:
    signal, here = Signal("explicit", agent_id, "CONCH_AGENT_ID"), processes.look_up(os.getpid())
    return identify(app.store, Signals((signal,), "agent", here, None, "mcp_harness", ""))


class Seat:
    """An agent that has joined a workspace's room."""

    def __init__(self, agent_id: str, workspace: str, skew_seconds: int = 0, app: App | None = None) -> None:
        self.app = app or open_app(os.environ, lambda: system_clock() + skew_seconds * 1_000_000)
        self.me = agent(self.app, agent_id)
        self.workspace = workspace
        self.room_id = self.join()

    def join(self) -> str:
        return self.app.membership.join_path(self.me, self.workspace).snapshot.room.room_id

    def leave(self) -> None:
        self.app.membership.leave_path(self.me, self.room_id)

    def wait(self, max_wait_ms: int) -> Wait:
        return self.app.claims.wait_for_turn(self.me, self.room_id, max_wait_ms=max_wait_ms)

    def claim(self) -> tuple[str, int]:
        """Wait for the stick, as long as the test does, and say what came with it."""
        while (wait := self.wait(LONGEST_WAIT_MS)).status == "not_yet":
            pass
        room = wait.snapshot.room
        assert wait.status == "your_turn" and room.lease_id, f"{self.me.agent_id} did not get its turn: {wait.status}"
        say("claimed", room.turn_id, room.lease_id, wait.handoff, wait.from_agent_id, wait.reason)
        return room.lease_id, room.turn_id

    def others(self) -> list[str]:
        members = self.app.rooms.get_state(None, self.room_id).members
        return [member.agent_id for member in members if member.agent_id != self.me.agent_id]


def write_down(agent_id: str, turn_id: int) -> dict[str, Any]:
    """A handoff that no other player could have written, with letters and line breaks that must survive."""
    return {
        "status": f"{agent_id} made turn {turn_id} \N{SPIRAL SHELL}\n\tand said “so”",
        "next_action": f"make turn {turn_id + 1}",
        "artifacts": [{"path": "src/ä b.py", "lines": [turn_id, turn_id + 1], "role": "edit"}],
    }


def count_up(ledger: str) -> None:
    """Not atomic on purpose: two owners at once would lose a count."""
    with open(ledger, "r+") as file:
        count = int(file.read())
        os.sched_yield()
        file.seek(0)
        file.write(str(count + 1))


# -- roles: contention


def join_fresh(agent_id: str, stores: list[str], workspace: str, gates: list[str]) -> None:
    """Enter the same room of one new store after the other."""
    for store, gate in zip(stores, gates, strict=True):
        ready(gate)
        app = open_app({**os.environ, "CONCH_DATA_DIR": store})
        joined = app.membership.join_path(agent(app, agent_id), workspace)
        member = joined.snapshot.member(agent_id)
        say("joined", joined.snapshot.room.room_id, member.ordinal, joined.created)
        app.close()


def claim_idle(agent_id: str, workspaces: list[str], gates: list[str]) -> None:
    """Ask once for the stick of one idle room after the other."""
    app = open_app(os.environ)
    seats = [Seat(agent_id, workspace, app=app) for workspace in workspaces]
    for seat, gate in zip(seats, gates, strict=True):
        ready(gate)
        try:
            say("asked", seat.wait(0).status)
        except StoreBusy as refusal:
            say("asked", refusal.code)
    hear()  # a player that ended while holding the stick would be gone, which other tests cover


def take_turns(agent_id: str, workspace: str, turns: int, gate: str, ledger: str, skew_seconds: int = 0) -> None:
    """Claim, work and let go, now to the next and now to a chosen one; sometimes leave with the stick on its way."""
    seat, dice = Seat(agent_id, workspace, skew_seconds), random.Random(agent_id)
    ready(gate)
    for turn in range(turns):
        lease_id, turn_id = seat.claim()
        count_up(ledger)
        let_go(seat, lease_id, turn_id, dice)
        is_last = turn == turns - 1
        if is_last or dice.random() < 0.3:
            seat.leave()
            if not is_last:
                seat.join()
    say("done")


def let_go(seat: Seat, lease_id: str, turn_id: int, dice: random.Random) -> None:
    handoff, others = write_down(seat.me.agent_id, turn_id), seat.others()
    say("wrote", turn_id, handoff)
    if others and dice.random() < 0.3:
        try:
            seat.app.turns.pass_stick(seat.me, seat.room_id, lease_id, turn_id, dice.choice(others), handoff)
            return
        except UnknownMember:
            pass  # it has just left
    seat.app.turns.release_stick(seat.me, seat.room_id, lease_id, turn_id, handoff)


def grab(agent_id: str, workspace: str, tries: int, gate: str) -> None:
    """Take the stick whenever that is possible at all, and go on with leases that were lost long ago."""
    seat, dice = Seat(agent_id, workspace), random.Random(agent_id)
    held: list[tuple[str, int]] = []
    ready(gate)
    for _ in range(tries):
        try:
            grab_once(seat, dice, held)
        except ConchError as refusal:
            say("refused", refusal.code)
    say("done")


def grab_once(seat: Seat, dice: random.Random, held: list[tuple[str, int]]) -> None:
    turns, deed = seat.app.turns, dice.choice(["wait", "wait", "wait", "heartbeat", "release"])
    if deed == "wait":
        wait = seat.wait(0)
        if wait.status == "takeover_available":
            room = seat.app.claims.takeover_stick(seat.me, seat.room_id, wait.snapshot.room.turn_id, "grabbed").room
        else:
            room = wait.snapshot.room
        if room.owner == seat.me.agent_id and (room.lease_id, room.turn_id) not in held:
            held.append((str(room.lease_id), room.turn_id))
            say("granted", room.turn_id, room.lease_id)
    elif held:
        lease_id, turn_id = dice.choice(held[-3:])
        if deed == "heartbeat":
            turns.heartbeat(seat.me, seat.room_id, lease_id, turn_id)
        else:
            turns.release_stick(seat.me, seat.room_id, lease_id, turn_id, write_down(seat.me.agent_id, turn_id))
            say("released", turn_id)


def take_notes(agent_id: str, workspace: str, notes: int, gate: str) -> None:
    """Write as fast as the store allows; say how long the slowest write took."""
    seat, longest = Seat(agent_id, workspace), 0.0
    ready(gate)
    for number in range(notes):
        began = time.monotonic()
        seat.app.membership.append_note(seat.me, seat.room_id, f"{agent_id} {number}")
        longest = max(longest, time.monotonic() - began)
    say("done", longest)


# -- roles: reservations and notices


def reserve_at_random(agent_id: str, workspace: str, tries: int, gate: str, locks: str, seed: int) -> None:
    """Reserve files and directories of a small tree. No other player may have any file of what is granted."""
    seat, chance = Seat(agent_id, workspace), random.Random(seed)
    files = [f"{a}/{b}/{c}.py" for a in "ab" for b in "ab" for c in "ab"]
    scopes = [".", *"ab", *(f"{a}/{b}/*" for a in "ab" for b in "ab"), *files, *files]
    ready(gate)
    for _ in range(tries):
        scope = chance.choice(scopes)
        try:
            seat.app.reservations.reserve(seat.me, seat.room_id, scope, takeover_stale=chance.random() < 0.5)
        except ConchError as refusal:
            say("refused", refusal.code)
            continue
        inside = [f for f in files if scope == "." or f.startswith(scope.rstrip("*"))]
        marks = [os.path.join(locks, f.replace("/", "-")) for f in inside]
        for mark in marks:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))  # fails if another player has it now
        os.sched_yield()
        for mark in marks:
            os.unlink(mark)
        seat.app.reservations.release(seat.me, seat.room_id, scope)
        say("granted", scope)
    say("done")


def mark_events(agent_id: str, workspace: str, event_ids: list[str], mark: str, gate: str) -> None:
    """Mark one notice after the other."""
    seat = Seat(agent_id, workspace)
    ready(gate)
    for event_id in event_ids:
        say("marked", seat.app.notices.mark(seat.me, event_id, mark).state)
    say("done")


# -- roles: who is killed or stopped


def hold(agent_id: str, workspace: str) -> None:
    """Claim the stick and keep it until the test says to let go."""
    seat = Seat(agent_id, workspace)
    lease_id, turn_id = seat.claim()
    hear()
    try:
        seat.app.turns.release_stick(seat.me, seat.room_id, lease_id, turn_id, write_down(agent_id, turn_id))
        say("released")
    except ConchError as refusal:
        say(refusal.code, refusal.details["current_owner"])


def sit(agent_id: str, workspace: str) -> None:
    """Join and do nothing."""
    say("joined", Seat(agent_id, workspace).room_id)
    hear()


def wait_once(agent_id: str, workspace: str) -> None:
    """Wait for the stick; say how it ended."""
    wait = Seat(agent_id, workspace).wait(LONGEST_WAIT_MS)
    say("woken", wait.status, wait.reason, wait.snapshot.state)


def stay_inside(agent_id: str, workspace: str) -> None:
    """Write half of a note, and stay inside the transaction until the test says to write the other half."""
    seat = Seat(agent_id, workspace)
    with seat.app.store.write(seat.room_id) as tx:
        _, room = append_event(tx, load_room(tx, seat.room_id), "note", by=agent_id, details={"note": "in two halves"})
        say("inside")
        hear()
        save_room(tx, room)
    say("outside")


def stand_first_in_queue() -> None:
    """Hold the writers' queue, but not SQLite's lock, until the test says to go."""
    app = open_app(os.environ)
    with app.store.read():
        pass  # makes the store
    queue = Queue(f"{app.store.describe()}.queue")
    place = queue.enter(30)
    say("first")
    hear()
    queue.leave(place)
    say("gone")
    hear()


def note_when_told(agent_id: str, workspace: str) -> None:
    """Write one note for every word, and say how that went and how long it took."""
    seat = Seat(agent_id, workspace)
    say("joined")
    while word := hear():
        began = time.monotonic()
        try:
            seat.app.membership.append_note(seat.me, seat.room_id, word)
            outcome = "noted"
        except ConchError as refusal:
            outcome = refusal.code
        except KeyboardInterrupt:
            outcome = "interrupted"
        say(outcome, time.monotonic() - began)


# -- roles: the bus


def make_topics(names: list[str], gates: list[str]) -> None:
    """Make, or find, one topic after the other."""
    app = open_app(os.environ)
    with app.store.read():
        pass  # the first process to open the store has more work
    for name, gate in zip(names, gates, strict=True):
        ready(gate)
        topic, created = app.topics.create(name, None, "reuse")
        say("made", topic.topic_id, created)


def write_messages(name: str, topic_id: str, count: int, gate: str) -> None:
    """Say one thing after the other on a topic."""
    app = open_app(os.environ)
    me = app.peers.join(agent(app, f"test:{name}"), name, topic_id, None, None).peer
    ready(gate)
    for number in range(count):
        app.messages.send(me, [Draft(f"{name} {number}")])
    say("done")


def read_messages(name: str, topic_id: str, through: int, token: str | None = None) -> None:
    """Read a topic as a door does: a cursor moves only behind what has been said aloud."""
    app = open_app(os.environ)
    joined = app.peers.join(agent(app, f"test:{name}"), name, topic_id, None, token)
    say("joined", joined.reclaim_token)
    last_seq = 0
    while last_seq < through:
        synced = app.messages.sync(joined.peer, [], max_items=50, wait_seconds=LONGEST_WAIT_MS / 1_000)
        say("read", [(message.seq, message.content_markdown) for message in synced.page.received])
        app.messages.settle(synced, advance=True)
        last_seq = synced.page.last_seq
    say("done")


ROLES = (
    join_fresh,
    claim_idle,
    take_turns,
    grab,
    take_notes,
    reserve_at_random,
    mark_events,
    hold,
    sit,
    wait_once,
    stay_inside,
    stand_first_in_queue,
    note_when_told,
    make_topics,
    write_messages,
    read_messages,
)


def main(words: list[str]) -> None:
    role, arguments = words
    {each.__name__: each for each in ROLES}[role](**json.loads(arguments))
