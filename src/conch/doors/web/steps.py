"""What a person can do in a room: write, hand over, and step in between agents."""

from __future__ import annotations

from conch.agents.people import Person
from conch.config import check_length
from conch.doors.web.views import reservation_view
from conch.doors.web.work import ID, REASON, TEXT, Action, Desk
from conch.errors import StickHeld
from conch.overseeing.steering import Steering
from conch.tools import bus_view, fields
from conch.tools.replies import Object


class RoomActions:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._app = desk.app
        self._steering = Steering(desk.app)

    def known(self) -> dict[str, Action]:
        steps, member = {"room_id": ID, "reason": TEXT}, {"room_id": ID, "agent_id": ID}
        return {
            "note": Action(self._note, fields.takes({"room_id": ID, "note": TEXT})),
            "hand_over": Action(self._hand_over, fields.takes({"room_id": ID, "handoff": fields.HANDOFF}, to=ID)),
            "nudge": Action(self._nudge, fields.takes(member, text=TEXT)),
            "force_take": Action(
                self._force_take,
                fields.takes(steps),
                "The agent that has the stick loses it at once, even in the middle of its work. You get the stick.",
            ),
            "pass_for": Action(
                self._pass_for,
                fields.takes({**steps, **member, "to": ID}, handoff=fields.HANDOFF),
                "The agent that has the stick loses it at once, even in the middle of its work.",
            ),
            "unreserve": Action(
                self._unreserve,
                fields.takes({**steps, **member, "scope": fields.SCOPE}),
                "The agent may be changing these files right now. It is told that its reservation has ended.",
            ),
            "kick": Action(
                self._kick,
                fields.takes({**steps, **member}),
                "The agent is no longer a member. Its stick and its reservations are open to the others.",
            ),
            "close_room": Action(
                self._close_room,
                fields.takes({"room_id": ID}, reason=REASON),
                "The room is closed for all its members. The log stays readable.",
            ),
        }

    @property
    def _person(self) -> Person:
        """The token proves that a person acts here."""
        return Person(self._desk.person.caller())

    def _note(self, given: Object) -> Object:
        caller = self._desk.person.caller()
        self._app.membership.enter(caller, given["room_id"])
        return {"event_seq": self._app.membership.append_note(caller, given["room_id"], given["note"]).event_seq}

    def _hand_over(self, given: Object) -> Object:
        """Hand over the person's own stick: to one member, or to the next in the sequence."""
        app, caller, room_id = self._app, self._desk.person.caller(), given["room_id"]
        room = app.rooms.get_state(caller, room_id).room
        fence = (caller, room_id, room.lease_id or "" if room.owner == caller.agent_id else "", room.turn_id)
        if "to" in given:
            offer = app.turns.pass_stick(*fence, given["to"], given["handoff"])
        else:
            offer = app.turns.release_stick(*fence, given["handoff"])
        return {"event_seq": offer.event_seq, "recipient": offer.recipient}

    def _nudge(self, given: Object) -> Object:
        sent = self._steering.nudge(self._person, given["room_id"], given["agent_id"], given.get("text"))
        return {"message": bus_view.message(sent)}

    def _force_take(self, given: Object) -> Object:
        taken = self._steering.take(self._person, given["room_id"], given["reason"])
        return {"room_id": given["room_id"], "turn_id": taken.room.turn_id, "revoked": taken.revoked}

    def _pass_for(self, given: Object) -> Object:
        passed = self._steering.pass_for(
            self._person, given["room_id"], given["agent_id"], given["to"], given["reason"], given.get("handoff")
        )
        facts = {"recipient": passed.offer.recipient, "recipient_status": passed.offer.recipient_status}
        return {"revoked": passed.revoked.agent_id, "event_seq": passed.offer.event_seq, **facts}

    def _unreserve(self, given: Object) -> Object:
        ended = self._steering.unreserve(
            self._person, given["room_id"], given["agent_id"], given["scope"], given["reason"]
        )
        return {"reservation": reservation_view(ended)}

    def _kick(self, given: Object) -> Object:
        kicked = self._steering.kick(self._person, given["room_id"], given["agent_id"], given["reason"])
        return {"agent_id": kicked.member.agent_id, "opens_stick": kicked.opens_stick}

    def _close_room(self, given: Object) -> Object:
        """Close a room as the holder of its stick. A free stick is claimed first."""
        app, caller, room_id = self._app, self._desk.person.caller(), given["room_id"]
        check_length("reason", given.get("reason", ""), app.settings.max_reason_chars, "max_reason_chars")
        app.membership.enter(caller, room_id)
        wait = app.claims.wait_for_turn(caller, room_id, max_wait_ms=0)
        room = wait.snapshot.room
        if room.owner != caller.agent_id or room.lease_id is None:
            message = f"{wait.snapshot.who(wait.snapshot.expected)} has the stick. Take it first, or let it finish."
            raise StickHeld(message, room_id=room_id)
        closed = app.membership.close_room(caller, room_id, room.lease_id, room.turn_id, given.get("reason"))
        return {"room_id": room_id, "state": closed.state}
