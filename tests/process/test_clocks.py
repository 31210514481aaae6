"""Wall clocks that jump may open a takeover, but never create a second owner or block a wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bells.base import seat_channel
from conch.calls import Call
from conch.errors import Cancelled, TakeoverNotAvailable, TurnMismatch
from conch.turns.waiting import Wait

HANDOFF = {"status": "done", "next_action": "go on"}
HOUR = 3_600
DAY_MS = 24 * HOUR * 1_000

JUMPS = pytest.mark.parametrize(
    "jumps",
    [(HOUR,), (-HOUR,), (HOUR, -HOUR), (-HOUR, HOUR), (HOUR, HOUR, -HOUR)],
    ids=lambda jumps: " then ".join("forth" if jump > 0 else "back" for jump in jumps),
)


class Table:
    """A room with two members in this process, and the stick in codex's hand."""

    def __init__(self, app: App, agent: Callable[..., Caller], workspace: str, until: Callable[..., Any]) -> None:
        self.app = app
        self.until = until
        self.codex, self.claude = agent("codex:1"), agent("claude:1")
        for caller in (self.codex, self.claude):
            self.room_id = app.membership.join_path(caller, workspace).snapshot.room.room_id
        mine = self.wait(self.codex).snapshot.room
        self.lease = str(mine.lease_id), mine.turn_id

    def wait(self, caller: Caller, max_wait_ms: int = 0) -> Wait:
        return self.app.claims.wait_for_turn(caller, self.room_id, max_wait_ms=max_wait_ms)

    def heartbeat(self) -> None:
        self.app.turns.heartbeat(self.codex, self.room_id, *self.lease)

    def take_over(self) -> Any:
        return self.app.claims.takeover_stick(self.claude, self.room_id, self.lease[1], "it does not answer")

    def set_lease_ms(self, milliseconds: int) -> None:
        self.app.membership.set_room_policy(self.codex, self.room_id, {"owner_lease_ttl_ms": milliseconds})
        self.heartbeat()

    def let_everybody_look(self) -> None:
        self.app.membership.append_note(self.codex, self.room_id, "look up")

    def start_waiting(self, max_wait_ms: int) -> Callable[[], tuple[Wait, float]]:
        """claude waits in a thread; the result is how that ended, and after how many seconds."""
        ended: list[tuple[Wait, float]] = []

        def wait() -> None:
            began = time.monotonic()
            ended.append((self.wait(self.claude, max_wait_ms), time.monotonic() - began))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        self.until(lambda: self.app.bell.hears(seat_channel(self.room_id, "claude:1")))

        def result() -> tuple[Wait, float]:
            thread.join(timeout=60)
            assert ended, "the wait did not end"
            return ended[0]

        return result


@pytest.fixture
def table(app: App, agent: Callable[..., Caller], workspace: str, until: Callable[..., Any]) -> Table:
    return Table(app, agent, workspace, until)


@JUMPS
def test_an_owner_whose_clock_jumps_keeps_the_stick_and_hands_it_on(
    table: Table, clock: Any, referee: Any, jumps: tuple[int, ...]
) -> None:
    for jump in jumps:
        clock.move(seconds=jump)
        assert table.wait(table.claude).snapshot.room.owner == "codex:1"
        table.heartbeat()
        assert table.wait(table.claude).status == "not_yet"

    table.app.turns.release_stick(table.codex, table.room_id, *table.lease, HANDOFF)

    mine = table.wait(table.claude)
    assert (mine.status, mine.handoff, mine.snapshot.room.turn_id) == ("your_turn", HANDOFF, 2)
    referee.check(table.room_id)


@JUMPS
def test_a_stick_on_its_way_survives_the_jump(table: Table, clock: Any, jumps: tuple[int, ...]) -> None:
    table.app.turns.release_stick(table.codex, table.room_id, *table.lease, HANDOFF)

    for jump in jumps:
        clock.move(seconds=jump)
        assert table.wait(table.codex).status != "your_turn"

    assert table.wait(table.claude).status == "your_turn"


def test_a_takeover_after_a_jump_leaves_one_owner(table: Table, clock: Any, referee: Any) -> None:
    clock.move(seconds=HOUR)
    taken = table.take_over().room
    clock.move(seconds=-HOUR)

    with pytest.raises(TurnMismatch):
        table.heartbeat()
    assert table.wait(table.codex).status == "not_yet"
    table.app.turns.release_stick(table.claude, table.room_id, str(taken.lease_id), taken.turn_id, HANDOFF)
    referee.check(table.room_id)


def test_only_the_stores_clock_opens_a_takeover(table: Table, clock: Any) -> None:
    table.set_lease_ms(10)

    assert table.wait(table.claude, max_wait_ms=50).status == "not_yet"
    with pytest.raises(TakeoverNotAvailable):
        table.take_over()
    clock.move(milliseconds=10)
    assert table.wait(table.claude, max_wait_ms=50).reason == "owner_timeout"
    assert table.take_over().revoked == "codex:1"


def test_a_clock_that_was_set_back_makes_nobody_inactive(table: Table, clock: Any) -> None:
    clock.move(seconds=-HOUR)

    snapshot = table.app.rooms.get_state(None, table.room_id)

    assert [snapshot.is_active(member) for member in snapshot.members] == [True, True]
    offer = table.app.turns.release_stick(table.codex, table.room_id, *table.lease, HANDOFF)
    assert offer.room.reserved_for == "claude:1"


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forth", "back"])
def test_a_wait_takes_as_long_as_it_said_whatever_the_clock_does(table: Table, clock: Any, jump: int) -> None:
    table.set_lease_ms(DAY_MS)
    result = table.start_waiting(400)

    clock.move(seconds=jump)
    table.let_everybody_look()

    wait, seconds = result()
    assert wait.status == "not_yet"
    assert seconds >= 0.4


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forth", "back"])
def test_a_waiter_gets_the_stick_although_the_clock_jumped_meanwhile(table: Table, clock: Any, jump: int) -> None:
    table.set_lease_ms(DAY_MS)
    result = table.start_waiting(30_000)

    clock.move(seconds=jump)
    table.app.turns.release_stick(table.codex, table.room_id, *table.lease, HANDOFF)

    wait, _ = result()
    assert (wait.status, wait.reason, wait.handoff) == ("your_turn", "sequence", HANDOFF)


def test_a_waiter_is_told_of_the_takeover_that_a_jump_opened(table: Table, clock: Any) -> None:
    result = table.start_waiting(30_000)

    clock.move(seconds=HOUR)
    table.let_everybody_look()

    wait, _ = result()
    assert (wait.status, wait.reason, wait.snapshot.state) == ("takeover_available", "owner_timeout", "stale_owner")


def test_a_waiting_agent_stays_active_however_short_the_presence_time_is(
    environ: dict[str, str], agent: Callable[..., Caller], workspace: str, until: Callable[..., Any]
) -> None:
    with closing(open_app({**environ, "CONCH_PRESENCE_TTL_MS": "4000"})) as app:
        table = Table(app, agent, workspace, until)
        call = Call()
        thread = threading.Thread(target=wait_until_cancelled, args=(table, call))
        thread.start()

        def claude() -> tuple[bool, int]:
            snapshot = app.rooms.get_state(None, table.room_id)
            member = snapshot.member("claude:1")
            return snapshot.is_active(member), member.last_seen_at

        _, joined = claude()
        is_active, _ = until(lambda: (now := claude()) != (True, joined) and now)
        call.cancel()
        thread.join()

    assert is_active


def wait_until_cancelled(table: Table, call: Call) -> None:
    with pytest.raises(Cancelled):
        table.app.claims.wait_for_turn(table.claude, table.room_id, call=call)
