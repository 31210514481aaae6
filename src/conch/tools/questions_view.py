"""How questions and answers look: as objects for programs, and as text for models."""

from __future__ import annotations

from conch.bus.questions import MOST_ANSWERS, Asked, Pending, Question, extras
from conch.bus.stream import Message
from conch.clock import to_seconds
from conch.errors import StoreError
from conch.tools.pages import Budget
from conch.tools.replies import Object, Reply
from conch.tools.text import behind_margin, one_line
from conch.warnings import warning


def answer(each: Message) -> Object:
    pointers, followups = extras(each)
    return {
        "answer_id": each.message_id,
        "answered_by": each.sender,
        "answered_at": to_seconds(each.created_at),
        "answer_markdown": each.content_markdown,
        "repo_pointers": pointers,
        "suggested_followups": followups,
    }


def pending(question: Pending) -> Object:
    return {
        "question_id": question.question_id,
        "asked_by": question.asked_by,
        "asked_at": to_seconds(question.asked_at),
        "question_text": question.question_text,
    }


def asked(
    status: str,
    found: Asked,
    budget: Budget,
    after: str | None = None,
    trouble: StoreError | None = None,
    limit: int | None = MOST_ANSWERS,
) -> Reply:
    """A question, and as many of its answers as fit into the reply. After `trouble` it is shown as it was asked."""
    if trouble is not None:
        message = f"The question was asked. Then the store failed, so its present state is not known: {trouble.message}"
        unknown = warning(trouble.code, message)
        reply = asked(status, found, budget, after)
        text = f"{reply.text}\n{behind_margin(message, first=f'{trouble.code}: ')}"
        return Reply({**reply.data, "warnings": [unknown]}, text)
    budget.spend(found.question.cancel_reason, found.question.cancel_reason or "")
    page = budget.fill(found.answers, answer, _whole_text, limit)
    cursor = page.cursor([each.seq for each in found.answers], after)
    shown = found._replace(answers=found.answers[: page.length])
    data = {**_asked(status, shown, page.objects), "has_more": page.has_more, "cursor": cursor}
    more = f'\nThere are more answers: call ask_poll with after="{cursor}".' if page.has_more else ""
    return Reply(data, _asked_text(status, shown) + more)


def _asked(status: str, found: Asked, answers: list[Object]) -> Object:
    question = found.question
    data = {
        "topic_id": question.topic_id,
        "question_id": question.question_id,
        "status": status,
        "question_status": question.status,
        "accepting_answers": question.status == "pending",
        "answers_count": found.answers_count,
        "answers": answers,
        "warnings": [],
    }
    return data | ({"cancel_reason": question.cancel_reason} if question.cancel_reason is not None else {})


def closed(question: Question) -> Object:
    return {"topic_id": question.topic_id, "question_id": question.question_id, "status": question.status}


# -- as text for models


def _asked_text(status: str, found: Asked) -> str:
    if found.answers and status != "cancelled":
        return _answers_text(found)
    reason = found.question.cancel_reason
    head = f"Question {found.question.question_id}: {status}" + (f" ({one_line(reason)})." if reason else ".")
    if found.answers:
        return f"{head}\n\n{_answers_text(found)}"
    is_pending = found.question.status == "pending"
    return f"{head} Call ask_poll to get its answers." if is_pending else head


def _answer_text(each: Message) -> str:
    return f"Answer from {one_line(each.sender)}:\n\n{behind_margin(each.content_markdown)}"


def _whole_text(each: Message) -> str:
    """All that an answer adds to the text."""
    pointers, followups = extras(each)
    return "\n".join([_answer_text(each), *map(one_line, pointers), *map(one_line, followups)])


def _answers_text(found: Asked) -> str:
    """The answers, and an invitation to ask a follow-up question."""
    bodies = [_answer_text(each) for each in found.answers]
    pointers = dict.fromkeys(pointer for each in found.answers for pointer in extras(each)[0])
    if pointers:
        bodies.append("See: " + ", ".join(map(one_line, pointers)))
    followups = dict.fromkeys(one_line(followup) for each in found.answers for followup in extras(each)[1])
    numbered = [f"{number}) {text}" for number, text in enumerate(followups, start=1)]
    # The specification of the question tools prescribes these lines.
    return "\n".join(
        [
            "\n\n".join(bodies),
            "",
            "---",
            "FOLLOW_UP_REQUIRED",
            "Choose ONE follow-up question and call:",
            f'ask(topic_id="{found.question.topic_id}", question="<your question>")',
            "",
            "Suggested follow-ups:",
            *(numbered or ["(none)"]),
            "",
            "If you fully understand, reply with:",
            "NO_FOLLOWUP_NEEDED",
            "and provide a 3-5 bullet summary of what you learned.",
        ]
    )


def pending_text(question: Pending) -> str:
    return f"{question.question_id} from {one_line(question.asked_by)}:\n{behind_margin(question.question_text)}"
