"""The rules of the stick, one test each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bells.base import Bell
from conch.bells.waits import Pause
from conch.calls import Call
from conch.errors import (
    Cancelled,
    ConchError,
    InvalidArgument,
    InvalidHandoff,
    LimitExceeded,
    RoomClosed,
    StaleLease,
    TakeoverNotAvailable,
    TurnMismatch,
    UnknownMember,
    UnknownRoom,
)
from conch.host import processes
from conch.host.processes import Process
from conch.rooms.log import list_events
from conch.storage.base import Store
from conch.tools.advice import STEPS
from conch.turns import waiting
from conch.turns.waiting import Wait
from conch.upkeep.verify import verify_store

HANDOFF = {"status": "wrote the plan", "next_action": "review it", "artifacts": [{"path": "plan.md", "role": "review"}]}


class Table:
    """A room with three agents who have joined in this order: codex, claude, gemini."""

    def __init__(self, app: App, agent: Callable[..., Caller], workspace: str) -> None:
        self.app = app
        self.workspace = workspace
        self.codex, self.claude, self.gemini = agent("codex:1"), agent("claude:1"), agent("gemini:1")
        for caller in (self.codex, self.claude, self.gemini):
            self.room_id = app.membership.join_path(caller, workspace).snapshot.room.room_id

    def wait(self, caller: Caller, **options: Any) -> Wait:
        return self.app.claims.wait_for_turn(caller, self.room_id, max_wait_ms=0, **options)

    def claim(self, caller: Caller) -> tuple[str, int]:
        wait = self.wait(caller)
        assert wait.status == "your_turn"
        assert wait.snapshot.room.lease_id is not None
        return wait.snapshot.room.lease_id, wait.snapshot.room.turn_id

    def release(self, caller: Caller, lease: tuple[str, int], handoff: Any = HANDOFF) -> Any:
        return self.app.turns.release_stick(caller, self.room_id, *lease, handoff)

    def pass_to(self, caller: Caller, lease: tuple[str, int], to: str, handoff: Any = HANDOFF) -> Any:
        return self.app.turns.pass_stick(caller, self.room_id, *lease, to, handoff)

    def heartbeat(self, caller: Caller, lease: tuple[str, int]) -> Any:
        return self.app.turns.heartbeat(caller, self.room_id, *lease)

    def take_over(self, caller: Caller, turn_id: int, reason: str = "it does not answer") -> Any:
        return self.app.claims.takeover_stick(caller, self.room_id, turn_id, reason)

    def state(self) -> str:
        return self.app.rooms.get_state(None, self.room_id).state

    def events(self) -> list[str]:
        return [event.event_type for event in list_events(self.app.store, self.room_id, 0, 100).events]

    def seen_now(self, *callers: Caller) -> None:
        for caller in callers:
            self.app.membership.join_path(caller, self.workspace)


@pytest.fixture
def table(app: App, agent: Callable[..., Caller], workspace: str) -> Table:
    return Table(app, agent, workspace)


# -- claiming


def test_an_idle_room_is_claimed_by_the_first_agent_that_asks(table: Table) -> None:
    wait = table.wait(table.claude)

    assert (wait.status, wait.reason, wait.handoff, wait.from_agent_id) == ("your_turn", "open_claim", None, None)
    assert wait.snapshot.room.turn_id == 1
    assert table.state() == "owned"


def test_a_second_asker_is_told_who_holds_the_stick_and_until_when(table: Table) -> None:
    table.claim(table.codex)

    wait = table.wait(table.claude)

    room = wait.snapshot.room
    assert (wait.status, wait.snapshot.state, room.owner, room.turn_id) == ("not_yet", "owned", "codex:1", 1)
    assert room.lease_expires_at == wait.snapshot.now + 45 * 60_000_000


def test_the_owner_who_asks_again_gets_the_same_lease_and_the_handoff_it_received(table: Table) -> None:
    table.release(table.codex, table.claim(table.codex))
    lease = table.claim(table.claude)

    again = table.wait(table.claude)

    assert (again.status, again.reason) == ("your_turn", "already_owner")
    assert (again.snapshot.room.lease_id, again.snapshot.room.turn_id) == lease
    assert (again.handoff, again.from_agent_id) == (HANDOFF, "codex:1")


def test_an_outsider_must_join_before_it_waits(table: Table, agent: Callable[..., Caller]) -> None:
    with pytest.raises(UnknownMember) as refusal:
        table.wait(agent("stranger:1"))

    assert "join_path" in refusal.value.advised(STEPS)


def test_an_unknown_room_is_named_in_the_error(table: Table) -> None:
    with pytest.raises(UnknownRoom) as refusal:
        table.app.claims.wait_for_turn(table.codex, "room_'; DROP TABLE path_rooms; --", max_wait_ms=0)

    assert refusal.value.details["field"] == "room_id"


def test_simultaneous_claims_within_one_process_grant_exactly_one(table: Table) -> None:
    start, found = threading.Barrier(3), []

    def claim(caller: Caller) -> None:
        start.wait()
        found.append(table.wait(caller).status)

    threads = [threading.Thread(target=claim, args=(c,)) for c in (table.codex, table.claude, table.gemini)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(found) == ["not_yet", "not_yet", "your_turn"]
    assert table.events().count("claim") == 1


# -- releasing and passing


def test_release_reserves_for_the_next_member_in_sequence_with_the_handoff(table: Table) -> None:
    offer = table.release(table.codex, table.claim(table.codex))

    assert (offer.room.state, offer.room.reserved_for, offer.room.sequence_index) == ("reserved", "claude:1", 1)
    assert offer.room.pending_handoff_event_seq == offer.event_seq
    assert (offer.room.owner, offer.room.lease_id, offer.room.turn_id) == (None, None, 1)


def test_the_stick_goes_round_in_the_order_of_joining(table: Table) -> None:
    order = []
    for caller in (table.codex, table.claude, table.gemini, table.codex):
        order.append(table.release(caller, table.claim(caller)).room.reserved_for)

    assert order == ["claude:1", "gemini:1", "codex:1", "claude:1"]


def test_the_recipient_gets_the_handoff_word_for_word(table: Table) -> None:
    handoff = {**HANDOFF, "open_questions": ["naïve? “yes” ☂"], "do_not": ["touch\tmain\r\n"], "status": " a\n\n b "}
    table.release(table.codex, table.claim(table.codex), handoff)

    wait = table.wait(table.claude)

    assert (wait.handoff, wait.from_agent_id, wait.reason) == (handoff, "codex:1", "sequence")
    assert wait.snapshot.room.turn_id == 2


def test_only_the_reserved_recipient_may_claim(table: Table) -> None:
    table.release(table.codex, table.claim(table.codex))

    assert table.wait(table.gemini).status == "not_yet"
    assert table.wait(table.codex).status == "not_yet"
    assert table.wait(table.claude).status == "your_turn"


def test_release_without_another_active_member_leaves_the_room_idle_with_the_handoff(table: Table, clock: Any) -> None:
    clock.advance(minutes=5 * 60)
    offer = table.release(table.codex, table.claim(table.codex))
    assert (offer.room.state, offer.room.reserved_for, offer.recipient_status) == ("idle", None, None)

    wait = table.wait(table.gemini)

    assert (wait.status, wait.reason, wait.handoff) == ("your_turn", "open_claim", HANDOFF)


def test_an_explicit_pass_skips_the_sequence_which_goes_on_from_the_recipient(table: Table) -> None:
    offer = table.pass_to(table.codex, table.claim(table.codex), "gemini:1")
    assert (offer.room.reserved_for, offer.room.sequence_index) == ("gemini:1", 2)

    wait = table.wait(table.gemini)

    assert (wait.status, wait.reason) == ("your_turn", "direct_pass")
    assert wait.snapshot.room.lease_id is not None
    after = table.release(table.gemini, (wait.snapshot.room.lease_id, wait.snapshot.room.turn_id))
    assert after.room.reserved_for == "codex:1"


def test_pass_to_a_stranger_is_refused_and_changes_nothing(table: Table) -> None:
    lease = table.claim(table.codex)

    with pytest.raises(UnknownMember) as refusal:
        table.pass_to(table.codex, lease, "stranger:1")

    assert refusal.value.details["to_agent_id"] == "stranger:1"
    assert table.state() == "owned"


def test_pass_to_an_inactive_member_is_refused(table: Table, clock: Any) -> None:
    clock.advance(minutes=5 * 60)

    with pytest.raises(UnknownMember):
        table.pass_to(table.codex, table.claim(table.codex), "claude:1")


def test_pass_to_oneself_is_refused(table: Table) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        table.pass_to(table.codex, table.claim(table.codex), "codex:1")

    assert refusal.value.details["field"] == "to_agent_id"


@pytest.mark.parametrize(
    ("handoff", "field"),
    [
        ({"status": "x"}, "next_action"),
        ({"next_action": "x"}, "status"),
        ({"status": "", "next_action": "x"}, "status"),
        ({"status": "x", "next_action": " \n"}, "next_action"),
        ({"status": 7, "next_action": "x"}, "status"),
        ({"status": "x", "next_action": "x", "extra": 1}, "extra"),
        ({"status": "x", "next_action": "x", "artifacts": {}}, "artifacts"),
        ({"status": "x", "next_action": "x", "artifacts": ["plan.md"]}, "artifacts[0]"),
        ({"status": "x", "next_action": "x", "artifacts": [{"path": "a"}]}, "artifacts[0].role"),
        ({"status": "x", "next_action": "x", "artifacts": [{"role": "edit"}]}, "artifacts[0].path"),
        ({"status": "x", "next_action": "x", "artifacts": [{"path": "a", "role": "delete"}]}, "artifacts[0].role"),
        (
            {"status": "x", "next_action": "x", "artifacts": [{"path": "a", "role": "edit", "lines": [9, 3]}]},
            "artifacts[0].lines",
        ),
        ({"status": "x", "next_action": "x", "do_not": "x"}, "do_not"),
        ({"status": "x", "next_action": "x", "open_questions": [""]}, "open_questions[0]"),
        (None, "handoff"),
        ([], "handoff"),
    ],
)
def test_a_poor_handoff_is_refused_by_its_field_and_the_stick_is_kept(table: Table, handoff: Any, field: str) -> None:
    lease = table.claim(table.codex)

    with pytest.raises(InvalidHandoff) as refusal:
        table.release(table.codex, lease, handoff)

    assert refusal.value.details["field"] == field
    assert table.heartbeat(table.codex, lease).owner == "codex:1"


def test_a_handoff_of_a_megabyte_is_refused_with_the_limit(table: Table) -> None:
    lease = table.claim(table.codex)

    with pytest.raises(LimitExceeded) as refusal:
        table.release(table.codex, lease, {"status": "x" * 1_000_000, "next_action": "x"})

    assert refusal.value.details["limit"] == 256 * 1024
    assert table.state() == "owned"


def test_release_says_whether_the_recipient_is_present_or_away(table: Table, clock: Any) -> None:
    lease = table.claim(table.codex)
    clock.advance(minutes=9)
    assert table.release(table.codex, lease).recipient_status == "present"

    table.seen_now(table.claude)
    lease = table.claim(table.claude)
    clock.advance(minutes=11)
    table.seen_now(table.claude)

    assert table.release(table.claude, lease).recipient_status == "away"


def _wait_in_background(table: Table, caller: Caller) -> tuple[threading.Thread, list[Wait], Call]:
    """A real wait in another thread, begun for sure: its call has reported that it waits."""
    waiting, found = threading.Event(), list[Wait]()
    call = Call(report=lambda _text: waiting.set())

    def wait() -> None:
        try:
            found.append(table.app.claims.wait_for_turn(caller, table.room_id, max_wait_ms=30_000, call=call))
        except Cancelled:
            pass

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(10)
    return thread, found, call


def test_release_says_that_the_recipient_is_waiting_and_wakes_it(table: Table) -> None:
    lease = table.claim(table.codex)
    thread, found, _ = _wait_in_background(table, table.claude)

    offer = table.release(table.codex, lease)

    thread.join(10)
    assert offer.recipient_status == "waiting"
    assert [wait.status for wait in found] == ["your_turn"]


def test_a_recipient_counts_as_waiting_however_fast_it_claims(table: Table) -> None:
    statuses = []
    for _ in range(20):
        lease = table.claim(table.codex)
        thread, found, _ = _wait_in_background(table, table.claude)
        statuses.append(table.release(table.codex, lease).recipient_status)
        thread.join(10)
        room = found[0].snapshot.room
        table.app.turns.pass_stick(table.claude, table.room_id, room.lease_id, room.turn_id, "codex:1", HANDOFF)

    assert statuses == ["waiting"] * 20


def test_waiting_first_prefers_the_next_member_that_waits_right_now(table: Table) -> None:
    table.app.membership.set_room_policy(table.codex, table.room_id, {"release_order": "waiting_first"})
    lease = table.claim(table.codex)
    thread, found, _ = _wait_in_background(table, table.gemini)

    offer = table.release(table.codex, lease)

    thread.join(10)
    assert (offer.room.reserved_for, offer.recipient_status) == ("gemini:1", "waiting")
    assert found[0].reason == "sequence"


class WritingBell:
    """Asked who listens, it first writes to the room from another connection: a held lock would refuse that."""

    def __init__(self, bell: Bell, store: Store, room_id: str) -> None:
        self._bell = bell
        self._store = store
        self._room_id = room_id
        self.asked = 0

    def hears(self, channel: str) -> bool:
        with self._store.write(self._room_id):
            self.asked += 1
        return self._bell.hears(channel)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bell, name)


@pytest.mark.parametrize("release_order", ["sequence", "waiting_first"])
def test_nobody_is_asked_who_listens_while_the_writers_lock_is_held(
    table: Table, environ: dict[str, str], clock: Any, release_order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.app.membership.set_room_policy(table.codex, table.room_id, {"release_order": release_order})
    other = open_app({**environ, "CONCH_BUSY_TIMEOUT_MS": "50"}, clock)
    bell = WritingBell(table.app.bell, other.store, table.room_id)
    turns = App(table.app.store, bell, table.app.settings).turns
    asks_after_commits = hasattr(table.app.store, "_hears")  # a server says who listens when it sends the ring
    monkeypatch.setattr(table.app.store, "_hears", bell.hears, raising=False)

    passed = turns.pass_stick(table.codex, table.room_id, *table.claim(table.codex), "claude:1", HANDOFF)
    asked_by_pass = bell.asked
    released = turns.release_stick(table.claude, table.room_id, *table.claim(table.claude), HANDOFF)

    other.close()
    assert (passed.recipient_status, released.recipient_status) == ("present", "present")
    assert (asked_by_pass > 0) is asks_after_commits
    assert (bell.asked > asked_by_pass) is asks_after_commits


def test_waiting_first_falls_back_to_the_sequence_when_nobody_waits(table: Table) -> None:
    table.app.membership.set_room_policy(table.codex, table.room_id, {"release_order": "waiting_first"})

    offer = table.release(table.codex, table.claim(table.codex))

    assert offer.room.reserved_for == "claude:1"


def test_a_cancelled_wait_claims_nothing(table: Table) -> None:
    lease = table.claim(table.codex)
    thread, found, call = _wait_in_background(table, table.claude)

    call.cancel()
    thread.join(10)
    table.release(table.codex, lease)

    assert found == []
    assert table.app.rooms.get_state(None, table.room_id).room.reserved_for == "claude:1"


def test_a_claim_that_cannot_be_delivered_is_given_back_as_it_was(table: Table) -> None:
    offer = table.pass_to(table.codex, table.claim(table.codex), "gemini:1")
    wait = table.wait(table.gemini)

    table.app.claims.give_back(table.gemini, wait.claim)

    room = table.app.rooms.get_state(None, table.room_id).room
    assert (room.state, room.reserved_for, room.turn_id) == ("reserved", "gemini:1", 2)
    assert room.claim_expires_at == offer.room.claim_expires_at
    again = table.wait(table.gemini)
    assert (again.reason, again.handoff, again.snapshot.room.turn_id) == ("direct_pass", HANDOFF, 3)


def test_a_listener_tells_of_a_claim_that_a_wait_of_its_agent_has_just_made(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.release(table.codex, table.claim(table.codex))
    waits: list[Any] = []
    change = table.app.rooms.change

    def claim_first(*given: Any, **more: Any) -> Any:
        patch.undo()
        waits.append(table.wait(table.claude))
        return change(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(table.app.rooms, "change", claim_first)
        found = table.app.claims.look_for_offer(table.claude, table.room_id, Call(), Pause(0.0))

    assert found is not None and found.claim is not None
    assert not table.app.claims.give_back(table.claude, waits[0].claim)  # the listener may still tell of it
    assert table.app.claims.give_back(table.claude, found.claim)


def test_a_stick_is_never_given_back_to_an_agent_that_has_left(table: Table, clock: Any) -> None:
    offer = table.pass_to(table.codex, table.claim(table.codex), "gemini:1")
    clock.advance(minutes=60)
    taken = table.take_over(table.claude, offer.room.turn_id)
    table.app.membership.leave_path(table.gemini, table.room_id)

    table.app.claims.give_back(table.claude, taken.claim)

    room = table.app.rooms.get_state(None, table.room_id).room
    assert (room.state, room.reserved_for, room.claim_expires_at) == ("idle", None, None)
    assert (table.wait(table.claude).reason, verify_store(table.app.store).problems) == ("open_claim", [])


def test_a_stick_is_never_given_back_to_an_agent_whose_process_is_gone(
    table: Table, agent: Callable[..., Caller], child: Any
) -> None:
    process = child()
    mortal = agent("mortal:1", process.process)
    table.app.membership.join_path(mortal, table.workspace)
    table.pass_to(table.codex, table.claim(table.codex), "mortal:1")
    undelivered = table.wait(mortal).claim
    process.kill()

    table.app.claims.give_back(mortal, undelivered)

    room = table.app.rooms.get_state(None, table.room_id).room
    assert (room.state, room.reserved_for) == ("idle", None)
    assert table.wait(table.claude).handoff == HANDOFF


def test_a_claim_is_not_given_back_past_a_newer_grant(table: Table, clock: Any) -> None:
    undelivered = table.wait(table.codex).claim
    clock.advance(minutes=60)
    newer = table.take_over(table.claude, undelivered.room.turn_id)

    assert not table.app.claims.give_back(table.codex, undelivered)

    room = table.app.rooms.get_state(None, table.room_id).room
    assert (room.owner, room.lease_id) == ("claude:1", newer.room.lease_id)


def test_a_claim_that_was_delivered_after_all_is_not_given_back(table: Table) -> None:
    table.release(table.codex, table.claim(table.codex))
    undelivered = table.wait(table.claude)
    again = table.wait(table.claude)

    table.app.claims.give_back(table.claude, undelivered.claim)

    assert (again.status, again.reason) == ("your_turn", "already_owner")
    assert table.app.rooms.get_state(None, table.room_id).room.owner == "claude:1"


def test_a_cursor_ends_the_wait_at_the_next_event(table: Table) -> None:
    table.claim(table.codex)
    cursor = table.wait(table.claude).snapshot.room.last_event_seq
    table.app.membership.append_note(table.codex, table.room_id, "half way")

    wait = table.app.claims.wait_for_turn(table.claude, table.room_id, cursor=cursor, max_wait_ms=30_000)

    assert wait.status == "not_yet"
    assert wait.snapshot.room.last_event_seq > cursor


# -- waiting in a crowd


@pytest.fixture
def crowded(table: Table, monkeypatch: pytest.MonkeyPatch) -> Table:
    """As in a room with so many members that they look only much later after a ring for all."""
    monkeypatch.setattr(waiting, "LOOKS_PER_SECOND", 1e-9)
    return table


def test_the_recipient_in_a_crowd_wakes_at_once(crowded: Table) -> None:
    lease = crowded.claim(crowded.codex)
    thread, found, _ = _wait_in_background(crowded, crowded.claude)
    crowded.app.membership.append_note(crowded.codex, crowded.room_id, "heard by all")

    crowded.release(crowded.codex, lease)

    thread.join(10)
    assert [wait.status for wait in found] == ["your_turn"]


def test_a_wait_in_a_crowd_is_cancelled_at_once(crowded: Table) -> None:
    crowded.claim(crowded.codex)
    thread, found, call = _wait_in_background(crowded, crowded.claude)
    crowded.app.membership.append_note(crowded.codex, crowded.room_id, "heard by all")

    call.cancel()

    thread.join(10)
    assert not thread.is_alive()
    assert found == []


def test_a_crowd_sees_at_once_that_the_owner_is_gone(crowded: Table, agent: Callable[..., Caller], child: Any) -> None:
    process = child()
    mortal = agent("mortal:1", process.process)
    crowded.app.membership.join_path(mortal, crowded.workspace)
    crowded.claim(mortal)
    thread, found, _ = _wait_in_background(crowded, crowded.claude)
    crowded.app.membership.append_note(crowded.codex, crowded.room_id, "heard by all")

    process.kill()

    thread.join(10)
    assert [(wait.status, wait.reason) for wait in found] == [("takeover_available", "owner_gone")]


def test_a_wait_that_ends_without_the_stick_knows_who_has_it(table: Table) -> None:
    table.claim(table.codex)

    wait = table.app.claims.wait_for_turn(table.claude, table.room_id, max_wait_ms=20)

    assert (wait.snapshot.state, wait.snapshot.member(wait.snapshot.expected or "").agent_id) == ("owned", "codex:1")


def test_a_member_that_leaves_while_it_waits_is_told_so(table: Table) -> None:
    table.claim(table.codex)
    refusals: list[str] = []

    def wait() -> None:
        try:
            table.app.claims.wait_for_turn(table.claude, table.room_id, max_wait_ms=30_000, call=call)
        except UnknownMember as refusal:
            refusals.append(refusal.code)

    waiting = threading.Event()
    call = Call(report=lambda _text: waiting.set())
    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(10)
    table.app.membership.leave_path(table.claude, table.room_id)

    thread.join(10)
    assert refusals == ["unknown_member"]


# -- fencing


def test_a_wrong_turn_comes_before_a_wrong_lease(table: Table) -> None:
    table.claim(table.codex)

    with pytest.raises(TurnMismatch) as refusal:
        table.heartbeat(table.codex, ("lease_wrong", 7))

    assert refusal.value.to_dict().items() >= {"current_owner": "codex:1", "current_turn_id": 1}.items()
    assert refusal.value.details["room_state"] == "owned"


@pytest.mark.parametrize("action", ["heartbeat", "release", "pass"])
def test_a_stale_lease_is_refused_by_every_owner_action(table: Table, action: str) -> None:
    table.claim(table.codex)
    stale = ("lease_stale", 1)
    attempts = {
        "heartbeat": lambda: table.heartbeat(table.codex, stale),
        "release": lambda: table.release(table.codex, stale),
        "pass": lambda: table.pass_to(table.codex, stale, "gemini:1"),
    }

    with pytest.raises(StaleLease) as refusal:
        attempts[action]()

    assert refusal.value.details["current_owner"] == "codex:1"


def test_the_lease_of_another_agent_is_refused(table: Table) -> None:
    lease = table.claim(table.codex)

    with pytest.raises(StaleLease):
        table.release(table.claude, lease)


def test_a_lease_ends_with_the_release(table: Table) -> None:
    lease = table.claim(table.codex)
    table.release(table.codex, lease)

    with pytest.raises(StaleLease) as refusal:
        table.heartbeat(table.codex, lease)

    assert refusal.value.details["current_owner"] is None


# -- timeouts


def test_a_lapsed_lease_opens_takeover_but_revokes_nobody(table: Table, clock: Any) -> None:
    lease = table.claim(table.codex)
    clock.advance(minutes=46)

    wait = table.wait(table.claude)

    assert (wait.status, wait.reason, wait.snapshot.state) == ("takeover_available", "owner_timeout", "stale_owner")
    assert table.heartbeat(table.codex, lease).lease_expires_at == clock.now + 45 * 60_000_000
    assert table.state() == "owned"


def test_a_lapsed_owner_may_still_release(table: Table, clock: Any) -> None:
    lease = table.claim(table.codex)
    clock.advance(minutes=46)

    assert table.release(table.codex, lease).room.reserved_for == "claude:1"


def test_a_lapsed_owner_that_waits_gets_its_lease_renewed(table: Table, clock: Any) -> None:
    table.claim(table.codex)
    clock.advance(minutes=46)

    assert table.wait(table.codex).reason == "already_owner"
    assert table.wait(table.claude).status == "not_yet"


def test_takeover_after_an_owner_timeout_fences_the_old_owner(table: Table, clock: Any) -> None:
    lease = table.claim(table.codex)
    clock.advance(minutes=46)

    taken = table.take_over(table.gemini, 1, "owner lease expired")

    assert (taken.room.owner, taken.room.turn_id, taken.revoked) == ("gemini:1", 2, "codex:1")
    assert taken.room.lease_id != lease[0]
    with pytest.raises(TurnMismatch):
        table.release(table.codex, lease)
    with pytest.raises(StaleLease):
        table.heartbeat(table.codex, (lease[0], 2))


def test_takeover_is_refused_while_the_owner_has_time(table: Table) -> None:
    table.claim(table.codex)

    with pytest.raises(TakeoverNotAvailable) as refusal:
        table.take_over(table.claude, 1)

    assert refusal.value.details["reason"] == "not_timed_out"


def test_takeover_of_the_wrong_turn_is_refused(table: Table, clock: Any) -> None:
    table.claim(table.codex)
    clock.advance(minutes=46)

    with pytest.raises(TurnMismatch):
        table.take_over(table.claude, 0)


def test_takeover_of_an_idle_room_points_to_wait_for_turn(table: Table) -> None:
    with pytest.raises(TakeoverNotAvailable) as refusal:
        table.take_over(table.claude, 0)

    assert "wait_for_turn" in refusal.value.advised(STEPS)


def test_the_stale_owner_cannot_take_over_from_itself(table: Table, clock: Any) -> None:
    table.claim(table.codex)
    clock.advance(minutes=46)

    with pytest.raises(TakeoverNotAvailable) as refusal:
        table.take_over(table.codex, 1)

    assert refusal.value.details["reason"] == "your_own_turn"


def test_a_missed_claim_opens_takeover_and_the_room_stays_reserved(table: Table, clock: Any) -> None:
    table.release(table.codex, table.claim(table.codex))
    clock.advance(minutes=21)

    wait = table.wait(table.gemini)

    assert (wait.status, wait.reason, wait.snapshot.state) == ("takeover_available", "claim_timeout", "reserved")
    assert wait.snapshot.room.reserved_for == "claude:1"


def test_the_recipient_may_claim_late_until_somebody_takes_over(table: Table, clock: Any) -> None:
    table.release(table.codex, table.claim(table.codex))
    clock.advance(minutes=21)

    assert table.wait(table.claude).status == "your_turn"


def test_the_prior_owner_is_refused_while_another_active_member_could_take_over(table: Table, clock: Any) -> None:
    table.release(table.codex, table.claim(table.codex))
    clock.advance(minutes=21)

    assert table.wait(table.codex).status == "not_yet"
    with pytest.raises(TakeoverNotAvailable) as refusal:
        table.take_over(table.codex, 1)

    assert refusal.value.details["reason"] == "prior_owner"
    assert table.take_over(table.gemini, 1).revoked == "claude:1"
    assert table.wait(table.claude).status == "not_yet"


def test_the_prior_owner_may_take_over_when_nobody_else_is_active(table: Table, clock: Any) -> None:
    table.release(table.codex, table.claim(table.codex))
    clock.advance(minutes=5 * 60)

    assert table.wait(table.codex).status == "takeover_available"
    assert table.take_over(table.codex, 1).room.owner == "codex:1"


def test_a_takeover_writes_no_handoff_and_leads_to_the_last_one(table: Table, clock: Any) -> None:
    table.release(table.codex, table.claim(table.codex))
    clock.advance(minutes=21)
    table.take_over(table.gemini, 1, "claim timeout expired")

    events = list_events(table.app.store, table.room_id, None, 50).events

    assert [e.handoff for e in events if e.handoff] == [HANDOFF]
    assert (events[-1].event_type, events[-1].reason) == ("takeover", "claim timeout expired")
    assert (events[-1].from_agent_id, events[-1].to_agent_id) == ("claude:1", "gemini:1")
    assert table.wait(table.gemini).handoff == HANDOFF


# -- death beats timeout


def test_a_dead_owner_opens_takeover_at_once_and_cannot_act_any_more(
    table: Table, agent: Callable[..., Caller], child: Any
) -> None:
    process = child()
    mortal = agent("mortal:1", process.process)
    table.app.membership.join_path(mortal, table.workspace)
    lease = table.claim(mortal)

    process.kill()

    wait = table.wait(table.claude)
    assert (wait.status, wait.reason, wait.snapshot.state) == ("takeover_available", "owner_gone", "owner_gone")
    for attempt in (lambda: table.heartbeat(mortal, lease), lambda: table.release(mortal, lease)):
        with pytest.raises(StaleLease):
            attempt()
    with pytest.raises(UnknownMember):
        table.wait(mortal)
    assert table.take_over(table.claude, 1).revoked == "mortal:1"


def test_a_waiter_is_woken_by_the_death_of_the_owner(table: Table, agent: Callable[..., Caller], child: Any) -> None:
    process = child()
    mortal = agent("mortal:1", process.process)
    table.app.membership.join_path(mortal, table.workspace)
    table.claim(mortal)
    thread, found, _ = _wait_in_background(table, table.claude)

    process.kill()

    thread.join(10)
    assert [(wait.status, wait.reason) for wait in found] == [("takeover_available", "owner_gone")]


@pytest.mark.parametrize("waits", [True, False], ids=["wait", "listen"])
def test_an_owner_that_lets_go_and_ends_while_others_look_is_not_called_gone(
    table: Table, agent: Callable[..., Caller], child: Any, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    process = child()
    mortal = agent("mortal:1", process.process)
    table.app.membership.join_path(mortal, table.workspace)
    claim = table.claim(mortal)
    check = processes.check

    def check_late(asked: Process | None) -> Any:
        """Sees the process as it is once its agent has let go of the stick and ended."""
        if asked == process.process:
            monkeypatch.setattr(processes, "check", check)
            table.release(mortal, claim)
            process.kill()
        return check(asked)

    monkeypatch.setattr(processes, "check", check_late)
    if waits:
        found = table.wait(table.claude)
    else:
        found = table.app.claims.look_for_offer(table.claude, table.room_id, Call(), Pause(0.0))

    assert found is None or found.status in ("your_turn", "not_yet")


def test_a_dead_recipient_opens_takeover_at_once_even_for_the_prior_owner(
    table: Table, agent: Callable[..., Caller], child: Any
) -> None:
    process = child()
    mortal = agent("mortal:1", process.process)
    table.app.membership.join_path(mortal, table.workspace)
    table.pass_to(table.codex, table.claim(table.codex), "mortal:1")

    process.kill()

    wait = table.wait(table.codex)
    assert (wait.status, wait.reason, wait.snapshot.state) == (
        "takeover_available",
        "recipient_gone",
        "recipient_gone",
    )
    with pytest.raises(UnknownMember):
        table.wait(mortal)
    assert table.take_over(table.gemini, 1).revoked == "mortal:1"


def test_release_skips_a_member_whose_process_is_gone(
    app: App, agent: Callable[..., Caller], workspace: str, child: Any
) -> None:
    process = child()
    codex, mortal, gemini = agent("codex:1"), agent("mortal:1", process.process), agent("gemini:1")
    for caller in (codex, mortal, gemini):
        room_id = app.membership.join_path(caller, workspace).snapshot.room.room_id
    room = app.claims.wait_for_turn(codex, room_id, max_wait_ms=0).snapshot.room
    process.kill()

    offer = app.turns.release_stick(codex, room_id, room.lease_id or "", 1, HANDOFF)

    assert offer.room.reserved_for == "gemini:1"


def test_a_process_of_another_host_is_never_called_gone(table: Table, agent: Callable[..., Caller], child: Any) -> None:
    process = child()
    remote = agent("remote:1", process.process._replace(host_id="elsewhere"))
    table.app.membership.join_path(remote, table.workspace)
    table.claim(remote)

    process.kill()

    assert table.wait(table.claude).status == "not_yet"


def test_a_resumed_agent_in_a_new_process_goes_on_as_the_owner(
    table: Table, agent: Callable[..., Caller], child: Any
) -> None:
    first, second = child(), child()
    before = agent("mortal:1", first.process)
    table.app.membership.join_path(before, table.workspace)
    lease = table.claim(before)
    first.kill()

    after = agent("mortal:1", second.process)

    assert table.wait(after).reason == "already_owner"
    assert table.release(after, lease).room.state == "reserved"


# -- dormancy and closing


def test_a_deserted_room_is_dormant_readable_and_resumable(table: Table, clock: Any) -> None:
    table.release(table.codex, table.claim(table.codex))
    table.claim(table.claude)
    clock.advance(minutes=40)
    table.release(table.claude, table.claim(table.claude))
    clock.advance(minutes=6 * 60)

    assert table.state() == "dormant"
    assert "release" in table.events()
    assert table.wait(table.gemini).status == "your_turn"
    assert table.state() == "owned"


def test_recovery_states_come_before_dormant(table: Table, clock: Any) -> None:
    table.claim(table.codex)
    clock.advance(minutes=6 * 60)

    assert table.state() == "stale_owner"


def test_a_closed_room_says_closed_and_refuses_every_change(table: Table) -> None:
    lease = table.claim(table.codex)
    table.app.membership.close_room(table.codex, table.room_id, *lease, "done")

    assert table.wait(table.claude).status == "closed"
    attempts: list[Callable[[], Any]] = [
        lambda: table.heartbeat(table.codex, lease),
        lambda: table.release(table.codex, lease),
        lambda: table.take_over(table.claude, 1),
        lambda: table.app.membership.append_note(table.claude, table.room_id, "late"),
        lambda: table.app.membership.set_room_policy(table.claude, table.room_id, {}),
    ]
    for attempt in attempts:
        with pytest.raises(RoomClosed):
            attempt()
    assert table.events()[-1] == "close"


def test_joining_the_path_of_a_closed_room_opens_a_new_one(table: Table) -> None:
    table.app.membership.close_room(table.codex, table.room_id, *table.claim(table.codex), None)

    joined = table.app.membership.join_path(table.codex, table.workspace)

    assert joined.created
    assert joined.snapshot.room.room_id != table.room_id


# -- presence


def test_waiting_keeps_a_member_active(table: Table, clock: Any) -> None:
    lease = table.claim(table.codex)
    for _ in range(12):
        clock.advance(minutes=30)
        table.wait(table.gemini)
        table.heartbeat(table.codex, lease)

    assert table.release(table.codex, lease).room.reserved_for == "gemini:1"


def test_looking_does_not_extend_the_lease(table: Table, clock: Any) -> None:
    table.claim(table.codex)
    clock.advance(minutes=44)
    table.app.rooms.get_state(table.codex, table.room_id)
    clock.advance(minutes=2)

    assert table.state() == "stale_owner"


def test_a_waiting_member_writes_only_when_its_sign_of_life_is_due(table: Table, clock: Any) -> None:
    table.claim(table.codex)
    before = table.app.store.change_counter()
    for _ in range(7):  # not yet a quarter of the time after which it would seem stale
        clock.advance(milliseconds=30_000)
        table.wait(table.claude)

    assert table.app.store.change_counter() == before


# -- the log is the truth


def test_the_log_replays_to_the_room_after_everything_that_can_happen(table: Table, clock: Any) -> None:
    table.app.membership.set_room_policy(table.codex, table.room_id, {"claim_ttl_ms": 60_000})
    table.app.membership.reorder_members(table.codex, table.room_id, ["gemini:1", "claude:1", "codex:1"])
    table.release(table.codex, table.claim(table.codex))
    table.app.claims.give_back(table.gemini, table.wait(table.gemini).claim)
    clock.advance(minutes=2)
    table.take_over(table.claude, 2)
    table.app.membership.append_note(table.gemini, table.room_id, "I was late")
    table.pass_to(table.claude, table.claim(table.claude), "gemini:1")
    table.app.membership.leave_path(table.gemini, table.room_id)
    table.app.membership.close_room(table.codex, table.room_id, *table.claim(table.codex), "done")

    assert verify_store(table.app.store).problems == []


def test_a_refusal_leaves_no_trace_in_the_log(table: Table) -> None:
    lease = table.claim(table.codex)
    before = table.events()
    attempts: list[Callable[[], Any]] = [
        lambda: table.release(table.codex, lease, {}),
        lambda: table.pass_to(table.codex, lease, "nobody:1"),
        lambda: table.take_over(table.claude, 1),
        lambda: table.heartbeat(table.claude, lease),
        lambda: table.app.membership.reorder_members(table.codex, table.room_id, ["codex:1", "codex:1"]),
        lambda: table.app.membership.leave_path(table.codex, table.room_id),
    ]
    for attempt in attempts:
        with pytest.raises(ConchError):
            attempt()

    assert table.events() == before
