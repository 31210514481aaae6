"""How questions and answers look: as objects for programs, and as text for models."""

from __future__ import annotations

from conch.bus.questions import MOST_ANSWERS, Asked, Pending, Question, extras
from conch.bus.stream import Message
from conch.clock import to_seconds
from conch.errors import StoreError
from conch.tools.facts import tell, tell_item
from conch.tools.pages import Budget
from conch.tools.replies import Delivered, Object, Reply, known
from conch.tools.text import behind_margin, one_line
from conch.warnings import warning

# In short what the text says at length, for a model that sees only the object.
_FOLLOW_UP = (
    "Ask ONE follow-up question. If you fully understand, reply instead with NO_FOLLOWUP_NEEDED and a 3-5 bullet "
    "summary of what you learned."
)


def _answer(each: Message) -> Object:
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
    trouble: StoreError | None = None,
    limit: int | None = MOST_ANSWERS,
) -> Reply:
    """A question, and as many of its answers as fit into the reply. After `trouble` it is shown as it was asked."""
    if trouble is not None:
        message = f"The question was asked. Then the store failed, so its present state is not known: {trouble.message}"
        unknown = warning(trouble.code, message)
        reply = asked(status, found, budget)
        return reply._replace(data={**reply.data, "warnings": [unknown]})
    budget.spend(found.question.cancel_reason, found.question.cancel_reason or "")
    page = budget.fill(found.answers, _answer, _whole_text, limit)
    cursor = page.cursor([each.seq for each in found.answers])
    shown = found._replace(answers=found.answers[: page.length])
    data = known(**_asked(status, shown, page.objects), has_more=page.has_more, cursor=cursor)
    # The specification of the question tools prescribes how the text ends, so all facts come before that.
    reason = shown.question.cancel_reason
    head = f"Question {shown.question.question_id}: {status}" + (f" ({one_line(reason)})." if reason else ".")
    facts = tell({name: value for name, value in data.items() if name != "topic_id"}, head)
    delivered = Delivered(shown.question.topic_id, seqs=tuple(each.seq for each in shown.answers))
    following = ""
    if page.has_more:
        following = f'There are more answers: call `ask_poll` with after="{cursor}".'
    elif shown.answers:
        following = _FOLLOW_UP
        facts += f"\nNext: {following}"
    elif shown.question.status == "pending":
        following = "Go on with other work. `ask_poll` or `sync` returns the answers later."
    return Reply(
        data, f"{facts}\n\n{_answers_text(shown)}" if shown.answers else facts, next=following, delivered=delivered
    )


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


def _answer_text(each: Message) -> str:
    text = f"Answer from {one_line(each.sender_label)}:\n\n{behind_margin(each.content_markdown)}"
    # The follow-ups of all answers are listed together, below.
    return tell_item({name: value for name, value in _answer(each).items() if name != "suggested_followups"}, text)


def _whole_text(each: Message) -> str:
    """All that an answer adds to the text."""
    return "\n".join([_answer_text(each), *map(one_line, extras(each)[1])])


def _answers_text(found: Asked) -> str:
    """The answers, and an invitation to ask a follow-up question."""
    followups = dict.fromkeys(one_line(followup) for each in found.answers for followup in extras(each)[1])
    numbered = [f"{number}) {text}" for number, text in enumerate(followups, start=1)]
    return "\n".join(
        [
            "\n\n".join(map(_answer_text, found.answers)),
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
    return f"{question.question_id} from {one_line(question.asker)}:\n{behind_margin(question.question_text)}"
