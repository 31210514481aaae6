"""The group `questions`: tools to ask other agents and to answer them."""

from __future__ import annotations

from conch.calls import Call
from conch.errors import StoreError
from conch.tools import bus_view, fields
from conch.tools import questions_view as view
from conch.tools.registry import Tool, grouped
from conch.tools.replies import Delivered, Object, Reply, known
from conch.tools.session import Session
from conch.warnings import warning

_MOST_QUESTIONS = 200
_FEW_QUESTIONS = 20


def ask(session: Session, given: Object, call: Call) -> Reply:
    questions, seconds = session.app.questions, session.patience(call).wait_seconds(given.get("wait_seconds", 60))
    asked = questions.ask(session.peer(given["topic_id"]), given["question"], call)
    if seconds <= 0:
        return view.asked("queued", asked, session.budget())
    try:
        settled = questions.wait(asked.question.topic_id, asked.question.question_id, seconds, call)
    except StoreError as trouble:  # an error would make the caller ask again
        return view.asked("timeout", asked, session.budget(), trouble=trouble)
    reply = view.asked(settled.outcome if settled else "timeout", settled or asked, session.budget())
    return session.remembering(reply)


def ask_poll(session: Session, given: Object, call: Call) -> Reply:
    after = fields.parse_cursor("after", given.get("after"))
    asked = session.app.questions.poll(given["topic_id"], given["question_id"], after or 0)
    stored = asked.question.status  # stays pending after an answer, so that more can follow
    status = "answered" if asked.answers_count and stored == "pending" else stored
    return session.remembering(view.asked(status, asked, session.budget()))


def ask_cancel(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    peer = session.peer(given["topic_id"])
    question, changed = session.app.questions.cancel(peer, given["question_id"], given.get("reason"))
    warnings = [] if changed else [warning("ALREADY_CANCELLED", "The question was already cancelled; nothing changed.")]
    data = known(**view.closed(question), cancel_reason=question.cancel_reason, warnings=warnings)
    return Reply(data, f"Question {question.question_id} is cancelled.")


def question_mark_answered(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    peer = session.peer(given["topic_id"])
    question, changed = session.app.questions.mark_answered(peer, given["question_id"])
    warnings = [] if changed else [warning("ALREADY_ANSWERED", "The question was already closed; nothing changed.")]
    data = {**view.closed(question), "warnings": warnings}
    return Reply(data, f"Question {question.question_id} is closed as answered.")


def pending_list(session: Session, given: Object, call: Call) -> Reply:
    peer = session.peer(given["topic_id"])
    wait_seconds = session.patience(call).wait_seconds(given.get("wait_seconds", 60))
    limit, after = given.get("limit", _FEW_QUESTIONS), fields.parse_cursor("after", given.get("after"))
    answerable = session.app.questions.list_pending(peer, limit + 1, wait_seconds, call, after or 0)
    found = answerable.questions
    waited = wait_seconds and not answerable.is_closed  # a closed topic ends a wait at once
    status = "ready" if found else "timeout" if waited else "empty"
    page = session.budget().fill(found, view.pending, view.pending_text, limit)
    cursor = page.cursor([each.seq for each in found])
    warnings = [bus_view.topic_closed()] if answerable.is_closed else []
    data = known(
        topic_id=peer.topic_id,
        status=status,
        questions=page.counted,
        has_more=page.has_more,
        cursor=cursor,
        warnings=warnings,
    )
    following = page.next(cursor, "Call `answer` with the question_id of those you can answer." if found else "")
    shown = found[: page.length]
    seqs, ids = tuple(each.seq for each in shown), tuple(each.question_id for each in shown)
    delivered = Delivered(peer.topic_id, seqs=seqs, ids=ids)
    reply = Reply(data, page.text("No question is waiting for you."), next=following, delivered=delivered)
    return session.remembering(reply)


def answer(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    answered = session.app.questions.answer(session.peer(given["topic_id"]), given["responses"])
    warnings = session.budget().warn(answered.warnings)
    data = {"saved": answered.saved, "skipped": answered.skipped, "warnings": warnings}
    return Reply(data, f"saved={answered.saved} skipped={answered.skipped}")


_QUESTION_ID: Object = {"type": "string", "minLength": 1, "maxLength": fields.LONGEST_ID}
_RESPONSE: Object = {
    "type": "object",
    "properties": {
        "question_id": {"type": "string", "description": "The question's message_id."},
        "answer_markdown": {"type": "string"},
        "repo_pointers": {"type": "array", "items": {"type": "string"}, "description": "Places in the code."},
        "suggested_followups": {
            "type": "array",
            "items": {"type": "string"},
            "description": "1 to 5 follow-up questions.",
        },
    },
    "required": ["question_id", "answer_markdown", "suggested_followups"],
}

TOOLS = grouped(
    "questions",
    Tool(
        ask,
        "Ask the others",
        "Ask the peers of a topic a question and wait for the first answer. After a timeout the question stays "
        "open: `ask_poll` or `sync` returns its answers.",
        fields.takes({"question": fields.TEXT}, topic_id=fields.TOPIC_ID, wait_seconds=fields.WAIT_SECONDS),
        fields.WRITES,
    ),
    Tool(
        ask_poll,
        "Look at a question",
        "Get a question's status and all its answers so far.",
        fields.takes({"question_id": _QUESTION_ID}, topic_id=fields.TOPIC_ID, after=fields.AFTER),
        fields.READS,
    ),
    Tool(
        ask_cancel,
        "Cancel a question",
        "Cancel your own pending question.",
        fields.takes({"question_id": _QUESTION_ID}, topic_id=fields.TOPIC_ID, reason={"type": "string"}),
        {**fields.DESTROYS, "idempotentHint": True},
    ),
    Tool(
        question_mark_answered,
        "Close a question",
        "Close your own question as answered. `pending_list` stops offering it.",
        fields.takes({"question_id": _QUESTION_ID}, topic_id=fields.TOPIC_ID),
        fields.REPEATABLE,
    ),
    Tool(
        pending_list,
        "Questions for you",
        "List questions from others that you have not answered yet, oldest first. Waits if there are none.",
        fields.takes(
            topic_id=fields.TOPIC_ID,
            limit=fields.limit(_MOST_QUESTIONS, _FEW_QUESTIONS),
            wait_seconds=fields.WAIT_SECONDS,
            after=fields.AFTER,
        ),
        fields.READS,
    ),
    Tool(
        answer,
        "Answer questions",
        "Answer questions from others, each once.",
        fields.takes({"responses": {"type": "array", "items": _RESPONSE}}, topic_id=fields.TOPIC_ID),
        fields.WRITES,
    ),
)
