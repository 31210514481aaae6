"""What a person can do in a room: write, hand over, and step in between agents."""

from __future__ import annotations

from conch.config import check_length
from conch.doors.web.requests import ID, REASON, TEXT, Action, Desk
from conch.doors.web.views import notice_view, reservation_view
from conch.errors import StickHeld
from conch.notices.events import SENDABLE
from conch.overseeing.steering import Steering
from conch.rooms.room import Room
from conch.scopes.reservations import LONGEST_TTL, SHORTEST_TTL, TTL_MINUTES
from conch.tools import bus_view, fields
from conch.tools.replies import Object

_NOTICE: Object = {"type": "string", "enum": list(SENDABLE)}
_MINUTES: Object = {"type": "integer", "minimum": SHORTEST_TTL, "maximum": LONGEST_TTL}


class RoomActions:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._app = desk.app
        self._steering = Steering(desk.app)

    def known(self) -> dict[str, Action]:
        steps, member = {"room_id": ID, "reason": TEXT}, {"room_id": ID, "agent_id": ID}
        return {
            "note": Action(self._note, fields.takes({"room_id": ID, "note": TEXT})),
            "notify": Action(
                self._notify,
                fields.takes(
                    {**member, "event_type": _NOTICE, "payload": {"type": "object"}},
                    bead_id=fields.BEAD_ID,
                ),
            ),
            "claim": Action(self._claim, fields.takes({"room_id": ID})),
            "reorder": Action(self._reorder, fields.takes({"room_id": ID, "order": {"type": "array", "items": ID}})),
            "set_policy": Action(self._set_policy, fields.takes({"room_id": ID, "policy": {"type": "object"}})),
            "leave": Action(self._leave, fields.takes({"room_id": ID})),
            "reserve": Action(
                self._reserve,
                fields.takes({"room_id": ID, "scope": fields.SCOPE}, ttl_minutes=_MINUTES, bead_id=fields.BEAD_ID),
            ),
            "adopt": Action(
                self._adopt,
                fields.takes(member),
                "You get the name, the reservations and the notices of the agent that is gone.",
            ),
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
                "The agent may be changing these files right now. It gets a message that its reservation has ended.",
            ),
            "kick": Action(
                self._kick,
                fields.takes({**steps, **member}),
                "The agent is no longer a member. Its reservations end, and any member may take its stick.",
            ),
            "close_room": Action(
                self._close_room,
                fields.takes({"room_id": ID}, reason=REASON),
                "The room is closed for all its members. The log stays readable.",
            ),
        }

    def _note(self, given: Object) -> Object:
        caller = self._desk.caller()
        self._app.membership.enter(caller, given["room_id"])
        return {"event_seq": self._app.membership.append_note(caller, given["room_id"], given["note"]).event_seq}

    def _notify(self, given: Object) -> Object:
        """Send a notice, as `conch agent send` does."""
        caller, room_id = self._desk.caller(), given["room_id"]
        self._app.membership.enter(caller, room_id)
        about = (given["event_type"], given["agent_id"], given["payload"], given.get("bead_id"))
        sent = self._app.notices.send(caller, room_id, *about)
        return {"notice": notice_view(sent.event, caller.agent_id), "warnings": sent.warnings}

    def _claim(self, given: Object) -> Object:
        room = self._claimed(given["room_id"])
        return {"room_id": room.room_id, "turn_id": room.turn_id}

    def _claimed(self, room_id: str) -> Room:
        """The room, once the person has its stick. A stick that an agent has stays where it is."""
        caller = self._desk.caller()
        self._app.membership.enter(caller, room_id)
        snapshot = self._app.claims.wait_for_turn(caller, room_id, max_wait_ms=0).snapshot
        if snapshot.room.owner != caller.agent_id or snapshot.room.lease_id is None:
            has = "has the stick" if snapshot.room.owner else "is next and has not claimed the stick yet"
            message = f"{snapshot.who(snapshot.expected)} {has}. Take it first, or let it finish."
            raise StickHeld(message, room_id=room_id)
        return snapshot.room

    def _reorder(self, given: Object) -> Object:
        caller, room_id = self._desk.caller(), given["room_id"]
        self._app.membership.enter(caller, room_id)
        after = self._app.membership.reorder_members(caller, room_id, given["order"])
        return {"order": [member.agent_id for member in after.members]}

    def _set_policy(self, given: Object) -> Object:
        caller, room_id = self._desk.caller(), given["room_id"]
        self._app.membership.enter(caller, room_id)
        return {"policy": self._app.membership.set_room_policy(caller, room_id, given["policy"]).policy._asdict()}

    def _leave(self, given: Object) -> Object:
        self._app.membership.leave_path(self._desk.caller(), given["room_id"])
        return {"room_id": given["room_id"]}

    def _reserve(self, given: Object) -> Object:
        caller, room_id = self._desk.caller(), given["room_id"]
        self._app.membership.enter(caller, room_id)
        minutes, bead_id = given.get("ttl_minutes", TTL_MINUTES), given.get("bead_id")
        reserved = self._app.reservations.reserve(caller, room_id, given["scope"], minutes, bead_id=bead_id)
        return {"reservation": reservation_view(reserved.reservation)}

    def _adopt(self, given: Object) -> Object:
        """Resume an agent that is gone, as `conch init --adopt` does. A person needs no evidence."""
        caller, room_id = self._desk.caller(), given["room_id"]
        self._app.membership.enter(caller, room_id)
        adopted = self._app.adoption.adopt(caller, room_id, given["agent_id"], ".", confirmed=True)
        return {"name": adopted.agent.name, "evidence": adopted.evidence.summary}

    def _hand_over(self, given: Object) -> Object:
        """Hand over the person's own stick: to one member, or to the next in the sequence."""
        app, caller, room_id = self._app, self._desk.caller(), given["room_id"]
        room = app.rooms.get_state(caller, room_id).room
        fence = (caller, room_id, room.lease_id or "" if room.owner == caller.agent_id else "", room.turn_id)
        if "to" in given:
            offer = app.turns.pass_stick(*fence, given["to"], given["handoff"])
        else:
            offer = app.turns.release_stick(*fence, given["handoff"])
        return {"event_seq": offer.event_seq, "recipient": offer.recipient}

    def _nudge(self, given: Object) -> Object:
        sent = self._steering.nudge(self._desk.person(), given["room_id"], given["agent_id"], given.get("text"))
        return {"message": bus_view.message(sent)}

    def _force_take(self, given: Object) -> Object:
        taken = self._steering.take(self._desk.person(), given["room_id"], given["reason"])
        return {"room_id": given["room_id"], "turn_id": taken.room.turn_id, "revoked": taken.revoked}

    def _pass_for(self, given: Object) -> Object:
        passed = self._steering.pass_for(
            self._desk.person(), given["room_id"], given["agent_id"], given["to"], given["reason"], given.get("handoff")
        )
        facts = {"recipient": passed.offer.recipient, "recipient_status": passed.offer.recipient_status}
        return {"revoked": passed.revoked.agent_id, "event_seq": passed.offer.event_seq, **facts}

    def _unreserve(self, given: Object) -> Object:
        caller, room_id, scope = self._desk.caller(), given["room_id"], given["scope"]
        if given["agent_id"] == caller.agent_id:
            [ended] = self._app.reservations.release(caller, room_id, scope)
        else:
            ended = self._steering.unreserve(self._desk.person(), room_id, given["agent_id"], scope, given["reason"])
        return {"reservation": reservation_view(ended)}

    def _kick(self, given: Object) -> Object:
        kicked = self._steering.kick(self._desk.person(), given["room_id"], given["agent_id"], given["reason"])
        return {"agent_id": kicked.member.agent_id, "opens_stick": kicked.opens_stick}

    def _close_room(self, given: Object) -> Object:
        """Close a room as the holder of its stick. A free stick is claimed first."""
        caller, reason = self._desk.caller(), given.get("reason")
        check_length("reason", reason or "", self._app.settings.max_reason_chars, "max_reason_chars")
        room = self._claimed(given["room_id"])
        closed = self._app.membership.close_room(caller, room.room_id, room.lease_id or "", room.turn_id, reason)
        return {"room_id": room.room_id, "state": closed.state}
