"""How everything looks to the console's pages: objects with labels and sentences, ready to be shown as text."""

from __future__ import annotations

import os

from conch.agents.records import DOT, PERSON, label, process_columns
from conch.clock import to_iso
from conch.notices.events import ProtocolEvent
from conch.notices.timeline import Entry, Page
from conch.overview.survey import Question, Standing, Survey, Trouble
from conch.rooms.log import Event
from conch.rooms.room import Member, Snapshot
from conch.scopes.overlaps import Reservation
from conch.tools import overview_view, scopes_view, timeline_view
from conch.tools.replies import Object, known

_STATES = {
    "idle": "The stick is free.",
    "owned": "{who} has the stick.",
    "reserved": "{who} is next, and has not claimed the stick yet.",
    "owner_gone": "{who} has the stick and is gone.",
    "stale_owner": "{who} has the stick and has let its lease lapse.",
    "recipient_gone": "{who} was given the stick and is gone.",
    "dormant": "Nobody is here.",
    "closed": "This room is closed.",
}
_WHY = {
    "owner_gone": "{who} has the stick and is gone.",
    "owner_timeout": "{who} has the stick and has let its lease lapse.",
    "recipient_gone": "{who} was given the stick and is gone.",
    "claim_timeout": "{who} was given the stick and has not claimed it.",
}


def agent_view(agent_id: str | None, name: str | None) -> Object:
    """An agent, with what people call it."""
    shown = label(agent_id, name)
    return known(agent_id=agent_id, name=name, label=shown, kind=shown.partition(DOT)[0] if agent_id else None)


# -- a room


def room_view(survey: Survey, viewer_id: str) -> Object:
    """A room at one glance, for a page."""
    snapshot = survey.snapshot
    room = snapshot.room
    return {
        **overview_view.room(survey),
        "name": os.path.basename(room.canonical_path) or room.canonical_path,
        "topic_id": room.topic_id,
        "sentence": _STATES[snapshot.state].format(who=snapshot.who(snapshot.expected)),
        "lease_expires_at": to_iso(room.lease_expires_at),
        "claim_expires_at": to_iso(room.claim_expires_at),
        "created_at": to_iso(room.created_at),
        "updated_at": to_iso(room.updated_at),
        "troubles": [_trouble(snapshot, each, viewer_id) for each in survey.troubles],
        "members": [_standing(snapshot, each) for each in survey.standings],
        "questions": [_question(each, room.topic_id) for each in survey.questions],
        "notices": [_notice(each, viewer_id) for each in survey.notices],
        "reservations": [_reservation(each) for each in survey.reservations],
    }


def _standing(snapshot: Snapshot, standing: Standing) -> Object:
    member, left = standing.member, standing.left
    return known(
        **agent_view(member.agent_id, member.name),
        doing=standing.doing,
        since=to_iso(standing.since),
        work=standing.work or None,
        unread=standing.unread or None,
        left=left and known(evidence=left.evidence.summary, uncommitted_files=left.evidence.files or None),
        liveness=_liveness(snapshot, member),
        life=snapshot.life(member.agent_id),
        last_seen_at=to_iso(member.last_seen_at),
        joined_at=to_iso(member.joined_at),
        is_person=member.agent_id.startswith(PERSON),
    )


def _liveness(snapshot: Snapshot, member: Member) -> str:
    return snapshot.liveness({**process_columns(member.process), "last_seen_at": member.last_seen_at})


def _trouble(snapshot: Snapshot, trouble: Trouble, viewer_id: str) -> Object:
    member, question, notice = trouble.member, trouble.question, trouble.notice
    who = member.label if member else "an agent"
    sentence = ""
    if trouble.code == "takeover":
        sentence = _WHY[trouble.reason].format(who=who)
    elif question is not None:
        sentence = f"{label(question.agent_id, question.asked_by)} asked something, and nobody has answered."
    elif notice is not None:
        sentence = f"{notice.recipient or 'Nobody'} has not accepted what {notice.sender} sent."
    return known(
        code=trouble.code,
        since=to_iso(trouble.since),
        sentence=sentence,
        reason=trouble.reason or None,
        agent=agent_view(member.agent_id, member.name) if member else None,
        question=_question(question, snapshot.room.topic_id) if question else None,
        notice=_notice(notice, viewer_id) if notice else None,
    )


def _question(question: Question, topic_id: str) -> Object:
    return known(
        question_id=question.question_id,
        seq=question.seq,
        topic_id=topic_id,
        asked_by=label(question.agent_id, question.asked_by),
        agent_id=question.agent_id,
        asked_at=to_iso(question.asked_at),
        question_text=question.text,
        answers=question.answers,
    )


def _notice(notice: ProtocolEvent, viewer_id: str) -> Object:
    return {
        **scopes_view.envelope(notice),
        "label": scopes_view.LABELS[notice.event_type],
        "from": notice.sender,
        "to": notice.recipient,
        "to_agent_id": notice.to_agent_id,
        "mine": notice.to_agent_id == viewer_id,
    }


def _reservation(reservation: Reservation) -> Object:
    return {
        **scopes_view.reservation(reservation),
        **agent_view(reservation.agent_id, reservation.name),
        "spelled": reservation.spelled,
    }


# -- the timeline


def entry_key(entry: Entry) -> str:
    """The same entry has the same key in the timeline and in the stream."""
    if entry.event is not None:
        return entry.event.event_id
    return str(entry.row["message_id"]) if entry.kind == "message" else f"act_{entry.row['number']}"


def entry_view(entry: Entry) -> Object:
    """An entry with its sentence, who did it and to whom."""
    by, to = _people(entry)
    room_id = entry.event.room_id if entry.event else entry.row.get("room_id")
    return known(
        **timeline_view.entry(entry),
        **{"from": by, "to": to},
        key=entry_key(entry),
        sentence=timeline_view.sentence(entry),
        room_id=room_id,
        topic_id=entry.row.get("topic_id"),
    )


def _people(entry: Entry) -> tuple[Object | None, Object | None]:
    event, row, notice = entry.event, entry.row, entry.protocol
    if event is not None:
        return _person_of(event, event.from_agent_id), _person_of(event, event.to_agent_id)
    if entry.kind == "message":
        return agent_view(row["sender_agent_id"], row["sender"]), None
    by = agent_view(row["agent_id"], row["agent_name"]) if row["agent_id"] else None
    is_sent = entry.kind == "protocol" and notice is not None and notice.to_agent_id is not None
    return by, agent_view(notice.to_agent_id, notice.to_agent) if is_sent and notice else None


def _person_of(event: Event, agent_id: str | None) -> Object | None:
    return None if agent_id is None else agent_view(agent_id, event.names.get(agent_id))


def timeline_page(page: Page, is_forward: bool, start: object) -> Object:
    """A page of the timeline. `start` is where it begins, if it was read forward."""
    return {
        "entries": [entry_view(each) for each in page.entries],
        "start": str(start if is_forward else page.start),
        "end": str(page.place),
        "has_older": True if is_forward else page.has_older,
        "has_newer": page.has_more,
    }
