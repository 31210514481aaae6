"""How a room at a glance looks to programs."""

from __future__ import annotations

from conch.clock import to_iso
from conch.overseeing.survey import Question, Standing, Survey, Trouble
from conch.tools.replies import Object, known
from conch.tools.scopes_view import envelope


def room(survey: Survey) -> Object:
    """A room with what is wrong, what each member does, and what is reserved."""
    snapshot, stored = survey.snapshot, survey.snapshot.room
    return {
        "room_id": stored.room_id,
        "canonical_path": stored.canonical_path,
        "state": snapshot.state,
        "turn_id": stored.turn_id,
        "turn_since": to_iso(survey.turn_since),
        "owner": stored.owner,
        "reserved_for": stored.reserved_for,
        "next": survey.next.agent_id if survey.next else None,
        "troubles": [_trouble(each) for each in survey.troubles],
        "members": [_standing(each) for each in survey.standings],
        "gone": survey.gone,
        "reservations": [
            {
                **each.place,
                "agent_id": each.agent_id,
                "name": each.name,
                "liveness": each.liveness,
                "expires_at": to_iso(each.expires_at),
            }
            for each in survey.reservations
        ],
        "has_more": bool(survey.left_out),
        **({"left_out": survey.left_out} if survey.left_out else {}),
    }


def _standing(standing: Standing) -> Object:
    member, left = standing.member, standing.left
    return known(
        agent_id=member.agent_id,
        name=member.name,
        kind=member.kind,
        doing=standing.doing,
        since=to_iso(standing.since),
        work=standing.work or None,
        questions=[_question(each) for each in standing.questions] or None,
        unread=standing.unread or None,
        left=left and known(evidence=left.evidence.summary, uncommitted_files=left.evidence.files or None),
    )


def _question(question: Question) -> Object:
    return {
        "question_id": question.question_id,
        "seq": question.seq,
        "asked_by": question.asked_by,
        "asked_at": to_iso(question.asked_at),
        "question_text": question.text,
    }


def _trouble(trouble: Trouble) -> Object:
    return known(
        code=trouble.code,
        since=to_iso(trouble.since),
        reason=trouble.reason or None,
        agent_id=trouble.member.agent_id if trouble.member else None,
        question=_question(trouble.question) if trouble.question else None,
        notice=envelope(trouble.notice) if trouble.notice else None,
    )
