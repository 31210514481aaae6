"""What goes over the wire: the seed's objects, made from ours."""

from __future__ import annotations

from conch.clock import to_iso
from conch.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conch.rooms.log import Event, EventPage
    from conch.rooms.room import Member, Room, Snapshot

Object = dict[str, Any]


def path_room(snapshot: Snapshot, caller_id: str | None) -> Object:
    """The seed's PathRoom. The lease is a key to the stick: only its owner is shown it."""
    room = snapshot.room
    return {
        "room_id": room.room_id,
        "canonical_path": room.canonical_path,
        "topic_id": room.topic_id,
        "members": [member.agent_id for member in snapshot.members],
        "sequence_index": room.sequence_index,
        "owner": room.owner,
        "reserved_for": room.reserved_for,
        "pending_handoff_event_seq": room.pending_handoff_event_seq,
        "turn_id": room.turn_id,
        "lease_id": room.lease_id if room.owner == caller_id else None,
        "lease_expires_at": to_iso(room.lease_expires_at),
        "claim_expires_at": to_iso(room.claim_expires_at),
        "state": snapshot.state,
        "updated_at": to_iso(room.updated_at),
    }


def room_state(snapshot: Snapshot, caller_id: str, can_take_over: bool) -> Object:
    return {
        "room": path_room(snapshot, caller_id),
        "members": room_members(snapshot),
        "takeover": {"available": can_take_over, "reason": snapshot.takeover_reason},
    }


def room_member(snapshot: Snapshot, member: Member) -> Object:
    process = member.process
    return {
        "agent_id": member.agent_id,
        "name": member.name,
        "ordinal": member.ordinal,
        "joined_at": to_iso(member.joined_at),
        "last_seen_at": to_iso(member.last_seen_at),
        "status": "active" if snapshot.is_active(member) else "inactive",
        "process": snapshot.life(member.agent_id),
        "host_id": process.host_id if process else None,
        "pid": process.pid if process else None,
        "process_started_at": process.started_at if process else None,
        "session_kind": member.session_kind,
        "display_name": member.display_name,
    }


def room_members(snapshot: Snapshot) -> list[Object]:
    return [room_member(snapshot, member) for member in snapshot.members]


def room_event(event: Event) -> Object:
    return {
        "event_seq": event.event_seq,
        "event_id": event.event_id,
        "room_id": event.room_id,
        "turn_id": event.turn_id,
        "event_type": event.event_type,
        "from_agent_id": event.from_agent_id,
        "to_agent_id": event.to_agent_id,
        "handoff": event.handoff,
        "reason": event.reason,
        "details": event.details,
        "created_at": to_iso(event.created_at),
    }


def event_page(page: EventPage) -> Object:
    return {
        "events": [room_event(event) for event in page.events],
        "cursor": str(page.cursor),
        "has_more": page.has_more,
    }


def expectation(room: Room) -> Object:
    """Whose move it is, and until when."""
    return {
        "current_owner": room.owner,
        "reserved_for": room.reserved_for,
        "lease_expires_at": to_iso(room.lease_expires_at),
        "claim_expires_at": to_iso(room.claim_expires_at),
    }
