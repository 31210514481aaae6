"""How everything looks to the console's pages: objects with labels and sentences, ready to be shown as text."""

from __future__ import annotations

import os

from conch.agents.records import DOT, PERSON, label, process_columns
from conch.clock import to_iso
from conch.doors.web.sizes import Texts
from conch.host.workspaces import below_home
from conch.notices.events import ProtocolEvent
from conch.notices.timeline import Entry, Page, Place
from conch.overseeing.items import Item
from conch.overseeing.survey import Question, Standing, Survey, Trouble
from conch.overseeing.talk import Asked
from conch.overseeing.turns import Turn
from conch.rooms.log import Event
from conch.rooms.room import Member, Snapshot
from conch.scopes.overlaps import Reservation
from conch.storage.base import Row
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


def room_view(survey: Survey, viewer_id: str, texts: Texts) -> Object:
    """A room at a glance, for a page."""
    snapshot = survey.snapshot
    room = snapshot.room
    return {
        **overview_view.room(survey),
        "name": os.path.basename(room.canonical_path) or room.canonical_path,
        "shown_path": below_home(room.canonical_path),
        "topic_id": room.topic_id,
        "sentence": _STATES[snapshot.state].format(who=snapshot.who(snapshot.expected)),
        "lease_expires_at": to_iso(room.lease_expires_at),
        "claim_expires_at": to_iso(room.claim_expires_at),
        "created_at": to_iso(room.created_at),
        "updated_at": to_iso(room.updated_at),
        "members": [_standing(snapshot, each, texts) for each in survey.standings],
        "questions": [_question(each, room.topic_id, texts) for each in survey.questions],
        "notices": [notice_view(each, viewer_id, texts) for each in survey.notices],
        "troubles": [_trouble(snapshot, each, viewer_id, texts) for each in survey.troubles],
        "reservations": [_held(snapshot, each) for each in survey.reservations],
    }


def _held(snapshot: Snapshot, reservation: Reservation) -> Object:
    """A reservation, and whether its holder's process runs."""
    return {**reservation_view(reservation), "life": snapshot.life(reservation.agent_id)}


def _standing(snapshot: Snapshot, standing: Standing, texts: Texts) -> Object:
    member, left = standing.member, standing.left
    return known(
        **agent_view(member.agent_id, member.name),
        doing=standing.doing,
        since=to_iso(standing.since),
        is_last_seen=standing.is_last_seen or None,
        work=texts.cut(standing.work) or None,
        unread=standing.unread or None,
        left=left and known(evidence=texts.cut(left.evidence.summary), uncommitted_files=left.evidence.files or None),
        liveness=_liveness(snapshot, member),
        life=snapshot.life(member.agent_id),
        last_seen_at=to_iso(member.last_seen_at),
        joined_at=to_iso(member.joined_at),
        is_person=member.agent_id.startswith(PERSON),
        takes_turns=member.takes_turns,
    )


def _liveness(snapshot: Snapshot, member: Member) -> str:
    return snapshot.liveness({**process_columns(member.process), "last_seen_at": member.last_seen_at})


def _trouble(snapshot: Snapshot, trouble: Trouble, viewer_id: str, texts: Texts) -> Object:
    member, question, notice = trouble.member, trouble.question, trouble.notice
    who = member.label if member else "an agent"
    sentence = ""
    if trouble.code == "takeover":
        sentence = _WHY[trouble.reason].format(who=who)
    elif question is not None:
        sentence = f"{label(question.agent_id, question.asked_by)} asked something, and nobody has answered."
    elif notice is not None:
        sentence = f"{notice.recipient or 'The recipient'} has not accepted what {notice.sender} sent."
    return known(
        code=trouble.code,
        since=to_iso(trouble.since),
        is_last_seen=trouble.is_last_seen or None,
        sentence=sentence,
        reason=trouble.reason or None,
        agent=agent_view(member.agent_id, member.name) if member else None,
        question=_question(question, snapshot.room.topic_id, texts) if question else None,
        notice=notice_view(notice, viewer_id, texts) if notice else None,
    )


def _question(question: Question, topic_id: str, texts: Texts) -> Object:
    return known(
        question_id=question.question_id,
        seq=question.seq,
        topic_id=topic_id,
        asked_by=label(question.agent_id, question.asked_by),
        agent_id=question.agent_id,
        asked_at=to_iso(question.asked_at),
        question_text=texts.cut(question.text),
        answers=question.answers,
    )


def asked_view(row: Row, texts: Texts) -> Object:
    """An open question of a topic."""
    facts = (row["question_id"], row["seq"], row["asked_by_agent_id"], row["asked_by"] or "conch", row["asked_at"])
    return _question(Question(*facts, row["question_text"], row["answers_count"]), row["topic_id"], texts)


def notice_view(notice: ProtocolEvent, viewer_id: str, texts: Texts | None = None) -> Object:
    """A notice, with its whole payload unless it is one of many `texts`."""
    return {
        **scopes_view.envelope(notice),
        "payload": notice.payload if texts is None else texts.cut(notice.payload),
        "label": scopes_view.LABELS[notice.event_type],
        "from": notice.sender,
        "to": notice.recipient,
        "to_agent_id": notice.to_agent_id,
        "mine": notice.to_agent_id == viewer_id,
    }


def reservation_view(reservation: Reservation) -> Object:
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


def timeline_page(page: Page, questions: dict[str, Asked], after: Place | None) -> Object:
    """A page of the timeline, with what became of its questions. `after` is where it begins, if it was read forward."""
    entries = [entry_view(each) for each in page.entries]
    for entry in entries:
        asked = questions.get(entry["key"])
        if asked is not None:
            entry["question"] = known(question_id=entry["key"], **asked._asdict())
    return {
        "entries": entries,
        "start": str(page.start if after is None else after),
        "end": str(page.place),
        "has_older": page.has_older if after is None else any(after),
        "has_newer": page.has_more,
    }


# -- lanes and work items


def turn_view(turn: Turn, is_gone: bool) -> Object:
    begin, end = turn.begin, turn.end
    is_handed = end is not None and end.to_agent_id is not None and end.event_type in ("release", "pass", "takeover")
    return {
        "turn_id": begin.turn_id,
        "agent": _person_of(begin, begin.to_agent_id),
        "from": to_iso(begin.created_at),
        "to": to_iso(end.created_at) if end else None,
        "started_by": begin.event_type,
        "ended_by": turn.ending,
        "event_seq": begin.event_seq,
        "end_event_seq": end.event_seq if end else None,
        "handoff_to": _person_of(end, end.to_agent_id) if end and is_handed else None,
        "is_gone": is_gone,
    }


def item_view(item: Item) -> Object:
    return {
        "bead_id": item.bead_id,
        "room_id": item.room_id,
        "room_name": os.path.basename(item.canonical_path) or item.canonical_path,
        "latest_at": to_iso(item.latest_at),
        "reservations": item.reservations,
        "notices": item.notices,
        "open_notices": item.open_notices,
        "is_active": item.active > 0,
        "agents": [agent_view(*each) for each in item.agents],
    }
