"""People in a room: they watch, take turns only if they ask, and alone may step in between agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.callers import person as person_named
from tests.contract.conftest import Client, Enter, MovableClock, Object, in_background

from conch.agents.people import Person
from conch.agents.records import label
from conch.app import App
from conch.bells.base import seat_channel
from conch.errors import (
    InvalidArgument,
    LimitExceeded,
    ReservationNotFound,
    RoomClosed,
    TakeoverNotAvailable,
    UnknownMember,
)
from conch.notices.delivery import find_news, mark_shown
from conch.overseeing.steering import Steering
from conch.upkeep.verify import verify_store

HANDOFF = {"status": "Half of it is done", "next_action": "Do the rest"}
WHY = "The build is broken"


class Room:
    """The workspace's room with two agents and a person, eve, who watches."""

    def __init__(self, app: App, enter: Enter, workspace: str) -> None:
        self.app = app
        self.ada, self.bob = enter("ada:1"), enter("bob:2")
        self.room_id = self.ada.room_id
        self.eve = person_named(app.store, "eve")
        self.person = Person(self.eve)
        app.membership.join_path(self.eve, workspace)

    def claim(self, who: Client) -> Object:
        turn = who.data("wait_for_turn", max_wait_ms=0)
        assert turn["status"] == "your_turn"
        return {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}

    def release(self, who: Client) -> str | None:
        """Whom the stick is reserved for."""
        return who.data("release_stick", **self.claim(who), handoff=HANDOFF).get("reserved_for")

    def release_by(self, who: Client, turn: Object) -> str | None:
        lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
        return who.data("release_stick", **lease, handoff=HANDOFF).get("reserved_for")

    def release_by_eve(self) -> str | None:
        room = self.app.rooms.get_state(None, self.room_id).room
        assert room.owner == self.eve.agent_id and room.lease_id is not None
        offer = self.app.turns.release_stick(self.eve, self.room_id, room.lease_id, room.turn_id, HANDOFF)
        return offer.room.reserved_for

    def members(self) -> list[tuple[str, str]]:
        return [(m["agent_id"], m["kind"]) for m in self.ada.data("get_room_state")["members"]]

    def log(self) -> list[Object]:
        events: list[Object] = self.ada.data("get_room_events", after="0")["events"]
        return events

    def require_sound(self) -> None:
        assert verify_store(self.app.store).problems == []


@pytest.fixture
def room(app: App, enter: Enter, workspace: str) -> Any:
    room = Room(app, enter, workspace)
    yield room
    room.require_sound()


# -- observers


def test_a_person_who_joins_is_shown_as_an_observer(room: Room, workspace: str) -> None:
    joined = room.ada.data("join_path", context_path=workspace)

    expected = [("ada:1", "agent"), ("bob:2", "agent"), (room.eve.agent_id, "observer")]
    assert room.members() == [(m["agent_id"], m["kind"]) for m in joined["members"]] == expected


def test_no_release_reserves_the_stick_for_an_observer(room: Room) -> None:
    assert [room.release(who) for who in (room.ada, room.bob, room.ada)] == ["bob:2", "ada:1", "bob:2"]


def test_with_only_an_observer_beside_the_owner_the_stick_is_free(room: Room) -> None:
    room.bob.data("leave_path")

    assert room.release(room.ada) is None


def test_a_release_to_nobody_says_that_no_other_member_takes_turns(room: Room) -> None:
    room.bob.data("leave_path")

    reply = room.ada.call("release_stick", **room.claim(room.ada), handoff=HANDOFF)

    assert reply.text.startswith("Released. No other active member takes turns.")


def test_a_person_who_asks_takes_turns_from_then_on(room: Room) -> None:
    room.app.membership.take_turns(room.eve, room.room_id)
    room.app.membership.take_turns(room.eve, room.room_id)

    assert room.members()[-1] == (room.eve.agent_id, "person")
    assert [room.release(who) for who in (room.ada, room.bob)] == ["bob:2", room.eve.agent_id]
    assert [e["details"] for e in room.log() if e["event_type"] == "join"][-1]["takes_turns"] is True


def test_a_person_who_leaves_and_joins_again_watches_again(room: Room, workspace: str) -> None:
    room.app.membership.take_turns(room.eve, room.room_id)
    room.app.membership.leave_path(room.eve, room.room_id)
    room.app.membership.join_path(room.eve, workspace)

    assert room.members()[-1] == (room.eve.agent_id, "observer")


def test_an_observer_takes_part_while_it_waits_and_holds(room: Room) -> None:
    lease = room.claim(room.ada)
    room.bob.data("leave_path")
    waited = in_background(lambda: room.app.claims.wait_for_turn(room.eve, room.room_id, max_wait_ms=20_000))
    seat = seat_channel(room.room_id, room.eve.agent_id)
    while not room.app.bell.hears(seat):
        pass

    released = room.ada.data("release_stick", **lease, handoff=HANDOFF)

    assert released["reserved_for"] == room.eve.agent_id
    assert waited().status == "your_turn"
    assert room.release_by_eve() == "ada:1"
    assert room.release(room.ada) is None  # nobody else takes part any more


def offer_to_eve(room: Room) -> Any:
    """Release the stick while eve waits, after bob's turn. Eve's wait ends before she claims it."""
    room.release(room.ada)
    lease = room.claim(room.bob)
    with room.app.bell.listen("nothing", announce=seat_channel(room.room_id, room.eve.agent_id)):
        return room.bob.data("release_stick", **lease, handoff=HANDOFF)


def test_an_observer_that_stops_waiting_gives_an_offer_back_to_the_next_agent(room: Room) -> None:
    offered = offer_to_eve(room)

    given_back = room.app.turns.decline(room.eve, room.room_id, room.eve.agent_id)

    assert offered["reserved_for"] == room.eve.agent_id
    assert given_back is not None and given_back.room.reserved_for == "ada:1"
    assert [e["from_agent_id"] for e in room.log() if e["event_type"] == "decline"] == [room.eve.agent_id]
    assert room.ada.data("event_inbox")["events"][0]["payload"]["summary"] == HANDOFF["status"]
    turn = room.ada.data("wait_for_turn", max_wait_ms=0)
    assert (turn["reason"], turn["handoff"], turn["from_agent_id"]) == ("sequence", HANDOFF, "bob:2")
    assert room.release_by(room.ada, turn) == "bob:2"


def test_a_handoff_that_an_observer_was_shown_is_shown_to_the_next_agent_too(room: Room) -> None:
    offer_to_eve(room)
    mark_shown(room.app.store, find_news(room.app.store, room.eve.agent_id, 20, to_all=False))

    room.app.turns.decline(room.eve, room.room_id, room.eve.agent_id)

    (notice,) = find_news(room.app.store, room.ada.agent_id, 20, to_all=False).notices
    assert notice.payload["summary"] == HANDOFF["status"]


def test_an_observer_that_stops_waiting_with_no_agent_left_leaves_the_stick_free(room: Room) -> None:
    offer_to_eve(room)
    room.ada.data("leave_path")

    given_back = room.app.turns.decline(room.eve, room.room_id, room.eve.agent_id)

    assert given_back is not None and given_back.room.state == "idle"
    assert room.bob.data("wait_for_turn", max_wait_ms=0)["handoff"] == HANDOFF
    room.ada.data("join_path", context_path=room.app.rooms.root(room.room_id))


def test_an_observer_that_was_passed_the_stick_by_name_keeps_it(room: Room) -> None:
    room.ada.data("pass_stick", **room.claim(room.ada), to_agent_id=room.eve.name, handoff=HANDOFF)

    assert room.app.turns.decline(room.eve, room.room_id, room.eve.agent_id) is None
    assert room.app.claims.wait_for_turn(room.eve, room.room_id, max_wait_ms=0).status == "your_turn"


def test_after_a_person_took_over_from_a_late_agent_the_sequence_goes_on_after_it(
    room: Room, enter: Enter, clock: Any
) -> None:
    cyd = enter("cyd:3")
    room.ada.data("leave_path")
    turn = room.claim(room.bob)
    clock.advance(minutes=50)
    for who in (room.bob, cyd):
        who.data("get_room_state")
    room.app.claims.takeover_stick(room.eve, room.room_id, turn["expected_turn_id"], WHY)

    assert room.release_by_eve() == "cyd:3"


def test_an_observer_claims_a_free_stick(room: Room) -> None:
    assert room.app.claims.wait_for_turn(room.eve, room.room_id, max_wait_ms=0).status == "your_turn"


def test_an_observer_may_be_passed_to_by_name_and_the_sequence_goes_on_after_the_agent_before(
    room: Room, enter: Enter
) -> None:
    enter("cyd:3")
    passed = room.ada.data("pass_stick", **room.claim(room.ada), to_agent_id=room.eve.name, handoff=HANDOFF)
    room.app.claims.wait_for_turn(room.eve, room.room_id, max_wait_ms=0)

    assert passed["reserved_for"] == room.eve.agent_id
    assert room.release_by_eve() == "bob:2"


def test_an_observer_blocks_no_takeover(room: Room, clock: Any) -> None:
    room.release(room.ada)  # to bob, which never claims it
    clock.advance(minutes=21)
    room.app.rooms.get_state(room.eve, room.room_id)  # the person is there

    assert room.ada.data("wait_for_turn", max_wait_ms=0)["status"] == "takeover_available"


def test_observers_may_be_left_out_of_a_new_order(room: Room) -> None:
    room.ada.data("reorder_members", order=["bob:2", "ada:1"])

    assert [agent_id for agent_id, _ in room.members()] == ["bob:2", "ada:1", room.eve.agent_id]


def test_sending_asking_answering_notices_and_marks_need_no_place_in_the_sequence(room: Room) -> None:
    blocked = {"subject": "I wait", "blocker": "the stick", "requested_action": "Hand over", "urgency": "low"}
    lease = room.claim(room.ada)
    sent = room.app.notices.send(room.eve, room.room_id, "BLOCKED", "ada:1", blocked)
    given = {"event_type": "BLOCKED", "to_agent": room.eve.name, "payload": blocked}
    received = room.ada.data("event_send", **given)["event"]
    room.app.notices.mark(room.eve, received["id"], "accepted")
    peer = room.app.peers.join_as_itself(room.eve, room.ada.home)
    room.app.messages.sync(peer, [])

    assert sent.event.to_agent_id == "ada:1"
    assert room.ada.data("release_stick", **lease, handoff=HANDOFF)["reserved_for"] == "bob:2"


# -- stepping in: the stick


def test_a_person_takes_the_stick_from_an_agent_that_has_time(room: Room) -> None:
    room.claim(room.ada)

    taken = Steering(room.app).take(room.person, room.room_id, WHY)

    assert (taken.revoked, taken.room.owner) == ("ada:1", room.eve.agent_id)
    event = room.log()[-1]
    assert (event["event_type"], event["from_agent_id"], event["to_agent_id"]) == (
        "takeover",
        "ada:1",
        room.eve.agent_id,
    )
    assert (event["reason"], event["details"]["cause"]) == (WHY, "forced")


def test_a_person_takes_the_stick_that_is_reserved_for_another(room: Room) -> None:
    room.release(room.ada)

    assert Steering(room.app).take(room.person, room.room_id, WHY).revoked == "bob:2"


@pytest.mark.parametrize("asked", [False, True])
def test_after_a_forced_take_the_sequence_goes_on_after_the_agent_it_was_taken_from(
    room: Room, enter: Enter, asked: bool
) -> None:
    enter("cyd:3")
    if asked:
        room.app.membership.take_turns(room.eve, room.room_id)
    room.release(room.ada)
    room.claim(room.bob)
    Steering(room.app).take(room.person, room.room_id, WHY)

    assert room.release_by_eve() == "cyd:3"


@pytest.mark.parametrize("tool", ["heartbeat", "release_stick", "pass_stick", "close_room"])
def test_a_fenced_holder_learns_who_did_it_and_why(room: Room, tool: str) -> None:
    more = {"handoff": HANDOFF} if "stick" in tool else {}
    more |= {"to_agent_id": "bob:2"} if tool == "pass_stick" else {}
    lease = room.claim(room.ada)
    Steering(room.app).take(room.person, room.room_id, WHY)

    refused = room.ada.refused(tool, **lease, **more)

    assert refused["error"] == "turn_mismatch"
    assert f"{room.eve.label} took the stick from you: {WHY}" in refused["message"]
    assert (refused["taken_by"], refused["reason"]) == (room.eve.agent_id, WHY)


def test_an_agent_that_gave_the_stick_away_itself_is_told_of_no_loss(room: Room) -> None:
    lease = room.claim(room.ada)
    room.ada.data("release_stick", **lease, handoff=HANDOFF)

    assert "taken_by" not in room.ada.refused("heartbeat", **lease)


def test_a_person_cannot_take_what_no_agent_has(room: Room) -> None:
    with pytest.raises(TakeoverNotAvailable) as free:
        Steering(room.app).take(room.person, room.room_id, WHY)
    room.app.claims.wait_for_turn(room.eve, room.room_id, max_wait_ms=0)
    with pytest.raises(TakeoverNotAvailable) as own:
        Steering(room.app).take(room.person, room.room_id, WHY)

    assert (free.value.details["reason"], own.value.details["reason"]) == ("not_owned", "your_own_turn")


def test_a_person_who_steps_in_joins_as_an_observer(room: Room, app: App) -> None:
    stranger = person_named(app.store, "mia")
    room.claim(room.ada)

    Steering(app).take(Person(stranger), room.room_id, WHY)

    assert (stranger.agent_id, "observer") in room.members()


@pytest.mark.parametrize(("reason", "error"), [(" ", InvalidArgument), ("x" * 3_000, LimitExceeded)])
def test_stepping_in_needs_a_reason_of_a_reasonable_length(room: Room, reason: str, error: type[Exception]) -> None:
    room.claim(room.ada)
    steering, given = Steering(room.app), (room.person, room.room_id)
    acts: list[Callable[[], Any]] = [
        lambda: steering.take(*given, reason),
        lambda: steering.pass_for(*given, "ada:1", "bob:2", reason),
        lambda: steering.unreserve(*given, "ada:1", "src", reason),
        lambda: steering.kick(*given, "ada:1", reason),
    ]

    for act in acts:
        with pytest.raises(error):
            act()
    assert room.ada.data("get_room_state")["room"]["owner"] == "ada:1"


def test_nobody_steps_in_where_the_room_is_closed(room: Room) -> None:
    room.ada.data("close_room", **room.claim(room.ada))

    with pytest.raises(RoomClosed):
        Steering(room.app).kick(room.person, room.room_id, "ada:1", WHY)


def test_a_person_passes_the_stick_on_for_its_holder(room: Room) -> None:
    lease = room.claim(room.ada)

    passed = Steering(room.app).pass_for(room.person, room.room_id, "ada:1", "bob:2", WHY)

    turn = room.bob.data("wait_for_turn", max_wait_ms=0)
    assert passed.offer.room.reserved_for == "bob:2"
    assert (turn["from_agent_id"], turn["reason"]) == (room.eve.agent_id, "direct_pass")
    assert WHY in turn["handoff"]["status"]
    assert room.ada.refused("heartbeat", **lease)["taken_by"] == room.eve.agent_id


def test_a_person_who_passes_on_can_write_the_handoff(room: Room) -> None:
    room.claim(room.ada)
    Steering(room.app).pass_for(room.person, room.room_id, "ada:1", "bob:2", WHY, HANDOFF)

    assert room.bob.data("wait_for_turn", max_wait_ms=0)["handoff"] == HANDOFF


@pytest.mark.parametrize(
    ("agent_id", "to", "error"),
    [("bob:2", "ada:1", InvalidArgument), ("ada:1", "ada:1", InvalidArgument), ("ada:1", "nobody", UnknownMember)],
)
def test_only_the_holder_s_stick_is_passed_on_and_to_another_member(
    room: Room, agent_id: str, to: str, error: type[Exception]
) -> None:
    lease = room.claim(room.ada)

    with pytest.raises(error):
        Steering(room.app).pass_for(room.person, room.room_id, agent_id, to, WHY)

    assert room.ada.data("heartbeat", **lease)


# -- nudging


def test_a_nudge_is_in_the_holder_s_mail_at_once(room: Room) -> None:
    lease = room.claim(room.ada)

    sent = Steering(room.app).nudge(room.person, room.room_id, "ada:1", "Lunch is over.\nHand over.")
    reply = room.ada.call("heartbeat", **lease)

    assert (sent.message_type, sent.topic_id) == ("nudge", room.ada.home)
    mail = reply.data["mail"]
    assert mail["asked_to_hand_over"] == {
        "room_id": room.room_id,
        "message_id": sent.message_id,
        "event_type": "nudge",
        "from": room.eve.name,
        "line": "Lunch is over.",
    }
    assert mail["to_you"] == {"count": 1, "topic_id": room.ada.home}
    assert "A person asks you to HAND OVER the stick" in reply.text


def test_a_nudge_without_words_asks_to_hand_over(room: Room) -> None:
    room.claim(room.ada)

    assert (
        Steering(room.app).nudge(room.person, room.room_id, "ada:1").content_markdown == "Please hand over the stick."
    )


def test_a_nudge_of_an_earlier_turn_no_longer_stands_out(room: Room, clock: MovableClock) -> None:
    lease = room.claim(room.ada)
    Steering(room.app).nudge(room.person, room.room_id, "ada:1")
    room.ada.data("release_stick", **lease, handoff=HANDOFF)
    clock.advance(minutes=1)
    room.release(room.bob)
    room.claim(room.ada)

    mail = room.ada.data("get_room_state")["mail"]

    assert "asked_to_hand_over" not in mail and mail["to_you"]["count"] == 1


def test_a_nudge_stands_out_until_it_is_read_or_the_stick_is_handed_over(room: Room) -> None:
    lease = room.claim(room.ada)
    Steering(room.app).nudge(room.person, room.room_id, "ada:1")
    room.bob.send(room.bob.home, "something newer", metadata={"to": room.ada.name})

    assert "asked_to_hand_over" in room.ada.data("get_room_state")["mail"]
    room.ada.data("release_stick", **lease, handoff=HANDOFF)
    assert "asked_to_hand_over" not in room.ada.data("get_room_state")["mail"]
    room.ada.read(room.ada.home)
    assert "mail" not in room.ada.data("get_room_state")


def test_only_an_agent_with_the_stick_is_nudged(room: Room) -> None:
    lease = room.claim(room.ada)

    with pytest.raises(InvalidArgument, match=f"does not have the stick: .*{room.ada.name} does"):
        Steering(room.app).nudge(room.person, room.room_id, "bob:2")

    room.ada.data("release_stick", **lease, handoff=HANDOFF)
    with pytest.raises(InvalidArgument, match=f"does not have the stick: .*{room.bob.name} is next"):
        Steering(room.app).nudge(room.person, room.room_id, "ada:1")


def test_an_agent_cannot_send_a_nudge(room: Room) -> None:
    outbox = [{"content_markdown": "Hand over!", "message_type": "nudge"}]

    refused = room.bob.refused("sync", topic_id=room.bob.home, outbox=outbox)

    assert refused["error"] == "person_required"


# -- reservations and membership


def test_a_person_ends_a_reservation_and_its_owner_is_told(room: Room) -> None:
    room.ada.reserve("src")

    ended = Steering(room.app).unreserve(room.person, room.room_id, "ada:1", "src", WHY)

    assert (ended.agent_id, ended.state) == ("ada:1", "released")
    assert room.bob.reserve("src")
    assert WHY in room.ada.data("get_room_state")["mail"]["to_you"]["line"]
    assert f"{room.eve.label} ended your reservation" in room.ada.refused("scope_release", scope="src")["message"]
    shown = [e for e in room.ada.data("get_room_events", after="0", all=True)["events"] if e["kind"] == "reservation"]
    assert (shown[1]["event_type"], shown[1]["agent_id"]) == ("released", room.eve.agent_id)
    assert shown[1]["details"]["reason"] == WHY


@pytest.mark.parametrize(("agent_id", "scope"), [("bob:2", "src"), ("ada:1", "docs"), ("ada:1", "src/a.py")])
def test_only_exactly_what_the_agent_has_reserved_is_ended(room: Room, agent_id: str, scope: str) -> None:
    room.ada.reserve("src")

    with pytest.raises(ReservationNotFound):
        Steering(room.app).unreserve(room.person, room.room_id, agent_id, scope, WHY)

    assert room.bob.refused("scope_reserve", scope="src")["error"] == "RESERVATION_CONFLICT"


def test_a_person_ends_a_membership_and_what_was_held_is_open(room: Room) -> None:
    room.release(room.ada)
    lease = room.claim(room.bob)
    room.bob.reserve("src")

    kicked = Steering(room.app).kick(room.person, room.room_id, "bob:2", WHY)

    assert (kicked.member.agent_id, kicked.opens_stick, [r.scope for r in kicked.released]) == ("bob:2", True, ["src"])
    assert ("bob:2", "agent") not in room.members()
    assert room.ada.reserve("src")
    turn = room.ada.data("wait_for_turn", max_wait_ms=0)
    assert (turn["status"], turn["handoff"], turn["from_agent_id"]) == ("your_turn", HANDOFF, "ada:1")
    refused = room.bob.refused("heartbeat", **lease)
    assert f"ended your membership: {WHY}" in refused["message"]
    event = next(e for e in room.log() if e["event_type"] == "kick")
    assert (event["from_agent_id"], event["to_agent_id"], event["reason"]) == (room.eve.agent_id, "bob:2", WHY)


def test_a_stick_that_is_reserved_for_a_removed_agent_is_open(room: Room) -> None:
    room.release(room.ada)

    Steering(room.app).kick(room.person, room.room_id, "bob:2", WHY)

    assert room.ada.data("wait_for_turn", max_wait_ms=0)["handoff"] == HANDOFF


def test_a_removed_agent_that_holds_nothing_learns_who_did_it_and_why(room: Room) -> None:
    lease = room.claim(room.ada)
    Steering(room.app).kick(room.person, room.room_id, "bob:2", WHY)

    refused = room.bob.refused("wait_for_turn", max_wait_ms=0)

    assert refused["error"] == "unknown_member"
    assert f"{room.eve.label} ended your membership: {WHY}" in refused["message"]
    assert "join_path" not in refused["message"]
    assert room.ada.data("heartbeat", **lease)


def test_an_agent_that_waits_learns_at_once_that_it_was_removed(room: Room) -> None:
    room.claim(room.ada)
    waited = in_background(lambda: room.bob.call("wait_for_turn", max_wait_ms=20_000))
    while not room.app.bell.hears(seat_channel(room.room_id, "bob:2")):
        pass

    Steering(room.app).kick(room.person, room.room_id, "bob:2", WHY)

    assert WHY in waited().data["message"]


def test_a_removed_agent_may_join_again_behind_the_others(room: Room, workspace: str) -> None:
    Steering(room.app).kick(room.person, room.room_id, "ada:1", WHY)

    room.ada.data("join_path", context_path=workspace)

    assert [agent_id for agent_id, _ in room.members()] == ["bob:2", room.eve.agent_id, "ada:1"]


def test_a_person_does_not_remove_itself(room: Room) -> None:
    with pytest.raises(InvalidArgument):
        Steering(room.app).kick(room.person, room.room_id, room.eve.agent_id, WHY)


def test_the_timeline_says_who_stepped_in(room: Room) -> None:
    room.claim(room.ada)
    Steering(room.app).take(room.person, room.room_id, WHY)
    Steering(room.app).kick(room.person, room.room_id, "ada:1", WHY)

    shown = room.bob.call("get_room_events", after="0", all=True).text

    ada = label("ada:1", room.ada.name)
    assert f"{room.eve.label} took by force turn 2 from {ada}: {WHY}" in shown
    assert f"{room.eve.label} ended the membership of {ada}: {WHY}" in shown
