"""The commands for talking: read, ask, answer, questions, search. For send, see `sending.py`."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from itertools import islice

from conch.agents.records import label
from conch.bells.waits import FOREVER, Pause
from conch.bus.stream import Message, wait_on_topic
from conch.calls import Call
from conch.clock import to_seconds
from conch.doors.cli.context import Context
from conch.doors.cli.interruptions import Interruptions
from conch.doors.cli.messages import (
    MARGIN,
    Start,
    find_question,
    hit_text,
    message_texts,
    moment,
    on_topic,
    read_text,
    since,
    whole_json,
)
from conch.doors.cli.output import Report, as_report, clean, failure, give_up, warn, write
from conch.doors.cli.paging import fitting, page, rows, with_more
from conch.doors.cli.statusline import TICK_SECONDS, StatusLine
from conch.doors.cli.tables import table
from conch.errors import Cancelled, StoreError, StoreUnavailable, StoreUncertain, some_of
from conch.lean import TYPE_CHECKING
from conch.tools import bus_view
from conch.tools.fields import parse_cursor
from conch.tools.replies import Delivered, Delivery, Object
from conch.tools.text import behind_margin, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conch.bus.peers import Peer
    from conch.bus.questions import Asked
    from conch.storage.base import Row


_MOST_MESSAGES = 1_000
_DEFAULT_MESSAGES = 100
_FEW_QUESTIONS = 50
_MOST_PEERS = 100
_WINDOW_SECONDS = 3_600


# -- reading


def read(context: Context) -> Report:
    options = context.options
    limit = None if options.limit is None else context.limit(_MOST_MESSAGES)
    start = None if options.since is None else since(context, options.since)
    topic_id = context.topic_id
    peer = context.join_topic(topic_id)
    if options.follow:
        return _follow(context, peer, start, limit)
    # What is printed counts as read, and harnesses cut long output.
    context.session.is_bounded = limit is None
    limit = limit or _DEFAULT_MESSAGES
    if start is not None:
        return _history(context, peer, start, limit)
    result = context.tool("bus.sync", topic_id=topic_id, wait_seconds=0, max_items=limit, auto_advance=not options.peek)
    data = {name: result.data[name] for name in ("topic_id", "received", "cursor", "has_more")}
    lines = message_texts(context, result.shown.received, result.shown.peer) or ["Nothing new."]
    text = "\n".join(lines)
    if data["has_more"] and options.peek:
        text = with_more(text, str(result.shown.received[-1].seq + 1), "--since")
    elif data["has_more"]:
        text += "\nThere are more: run the same command again."
    delivery = Delivery(sent=lambda: _move_on(result.delivery), not_sent=result.delivery.not_sent)
    return Report(data, text, delivery=delivery)


def _move_on(delivery: Delivery) -> None:
    """Move the cursor once the messages are printed. A failure is only a warning, because the messages come again."""
    try:
        delivery.sent()
    except StoreError as refusal:
        warn(f"these messages count as unread and will come again: {refusal.message} ({refusal.code})")


def _history(context: Context, peer: Peer, start: Start, limit: int) -> Report:
    history = context.app.messages.history(peer.topic_id, start.after, start.moment)
    found = list(islice(history, limit + 1))

    def render(few: Sequence[Message]) -> Report:
        received = [bus_view.received(message, peer) for message in few]
        lines = message_texts(context, [*few], peer) or ["No messages since then."]
        return Report({"topic_id": peer.topic_id, "received": received}, "\n".join(lines))

    return page(context, found, render, lambda last: last.seq + 1, default=limit, option="--since")


def _follow(context: Context, peer: Peer, start: Start | None, limit: int | None) -> Report:
    """Print messages as they come, up to the limit. Each counts as read once it is printed."""
    follower = _Follower(context, peer, start, limit)
    call = Call()
    call.renew_with(context.session.stay_active)
    interruptions = Interruptions(call)

    def look(pause: Pause) -> bool | None:
        while not follower.is_done and follower.show():
            call.check()
        return follower.is_done or None

    try:
        wait_on_topic(context.app.bell, peer.topic_id, look, FOREVER, call, context.app.settings)
    except Cancelled:
        return Report(None, "", status=interruptions.status, is_printed=True)
    except OSError as problem:
        return Report(None, "", status=give_up(problem), is_printed=True)
    return Report(None, "", is_printed=True)


class _Follower:
    """Prints new messages of a topic. It reads from the store before it prints, so that nothing is printed twice."""

    def __init__(self, context: Context, peer: Peer, start: Start | None, limit: int | None) -> None:
        self._context = context
        self._messages = context.app.messages
        self._peer = peer
        self._start = start
        self._moves = start is None and not context.options.peek  # rereading does not change what is unread
        self._left = limit
        self._begin()
        self.is_done = False

    def _begin(self) -> None:
        self._stores = len(self._context.app.store.replacements)
        self._after, self._moment = self._start or (self._messages.standing(self._peer)[1].last_seq, 0)

    def show(self) -> bool:
        """Print new messages; False if there were none."""
        if self._stores != len(self._context.app.store.replacements):
            self._begin()  # another store has other messages under the same numbers
        new, is_closed = self._messages.following(self._peer.topic_id, self._after)
        if not new:
            self.is_done = is_closed
            return False
        self._peer, _ = self._messages.standing(self._peer)  # our peer may have a new name
        batch = [each for each in new if each.created_at >= self._moment][: self._left]
        write(sys.stdout, "".join(f"{line}\n" for line in self._lines(batch)))
        self._after = new[-1].seq
        if self._moves and not self._context.caller.has_ended:  # a resumed session must still get the messages
            with suppress(StoreUnavailable, StoreUncertain):  # the next batch moves the cursor
                self._messages.mark_read(self._peer, batch[-1].seq)
        if self._left is not None:
            self._left -= len(batch)
            self.is_done = self._left == 0
        return True

    def _lines(self, batch: list[Message]) -> list[str]:
        if self._context.options.json:
            return [whole_json(bus_view.received(each, self._peer)) for each in batch]
        return [clean(text) for text in message_texts(self._context, batch, self._peer)]


# -- asking and answering


def ask(context: Context) -> Report:
    line = StatusLine()
    call = Call(line.tick if line.moves else None, every=TICK_SECONDS)
    topic_id, text = context.topic_id, read_text(context.options.text)
    peer = context.join_topic(topic_id)
    data = context.tool("questions.ask", call, topic_id=topic_id, question=text, wait_seconds=0).data
    question = {"topic_id": topic_id, "question_id": data["question_id"]}
    later = f"`{on_topic(context, 'conch read')}` shows the answer when it comes."
    if context.options.wait == 0:
        return Report(data, f"Asked{_number(context, data['question_id'])}. {later}")
    interruptions = Interruptions(call)
    try:
        with line:
            _show_waiting(context, peer, line)
            asked = context.app.questions.wait(topic_id, data["question_id"], context.options.wait, call)
        asked = asked and _whole(context, asked)
    except Cancelled:
        message = f"Interrupted. The question was asked; {later}"
        return failure("cancelled", message, question, status=interruptions.status)
    except StoreError as trouble:
        message = f"The question was asked, but then the store failed: {trouble.message} Do not ask again; {later}"
        return failure(trouble.code, message, question)
    if asked is None:
        return failure("timeout", f"No answer yet. The question stays open; {later}", question)
    if asked.outcome == "cancelled":
        return failure(
            "cancelled", "The question was cancelled.", _answers(context, asked, len(asked.answers)).data or {}
        )
    return _answers(context, asked, fitting(context, len(asked.answers), partial(_answers, context, asked)))


def _answers(context: Context, asked: Asked, number: int) -> Report:
    """The first answers. `conch read` shows the others, which are messages."""
    from conch.tools import questions_view

    shown = asked._replace(answers=asked.answers[:number])
    data = questions_view.asked(asked.outcome, shown, context.session.budget(), limit=None).data
    text = "\n\n".join(map(_answer_text, shown.answers))
    if number == len(asked.answers):
        return Report(data, text)
    left = len(asked.answers) - number
    more = f"Not shown: {left} answer{'s' * (left != 1)}. `{on_topic(context, 'conch read')}` shows the rest."
    return Report({**data, "has_more": True, "cursor": str(shown.answers[-1].seq)}, f"{text}\n\n{more}")


def _show_waiting(context: Context, own: Peer, line: StatusLine) -> None:
    """On a terminal, show which agents may answer. Scripts read the answer, not the wait."""
    if line.moves:
        present = context.app.peers.list_present(own.topic_id, _WINDOW_SECONDS, _MOST_PEERS)
        names = some_of([peer.agent_name for peer in present if peer.peer_id != own.peer_id], most=3)
        line.show(own.topic_id, names or "any agent", 0, "Waiting for an answer from {} for {}")


def _number(context: Context, question_id: str) -> str:
    """The question's number, for people. The question is already asked, so an error here must not fail the command."""
    with suppress(StoreError):
        return f", number {context.app.messages.numbers({question_id})[question_id]}"
    return ""


def _whole(context: Context, asked: Asked) -> Asked:
    """The question with all its answers: the store gives them page by page."""
    answers, question = asked.answers, asked.question
    while len(answers) < asked.answers_count:
        page = context.app.questions.poll(question.topic_id, question.question_id, answers[-1].seq).answers
        if not page:
            break
        answers = [*answers, *page]
    return asked._replace(answers=answers)


def _answer_text(answer: Message) -> str:
    from conch.bus.questions import extras  # only an answer needs it

    pointers, followups = extras(answer)
    lines = [f"Answer from {one_line(answer.sender_label)}:", behind_margin(answer.content_markdown, MARGIN)]
    lines += [f"{MARGIN}see {one_line(pointer)}" for pointer in pointers]
    lines += [f"{MARGIN}ask next: {one_line(followup)}" for followup in followups]
    return "\n".join(lines)


def answer(context: Context) -> Report:
    options, topic_id = context.options, context.topic_id
    question_id = find_question(context, topic_id, options.question)
    peer = context.join_topic(topic_id)
    response = {
        "question_id": question_id,
        "answer_markdown": read_text(options.text),
        "repo_pointers": options.pointer,
        "suggested_followups": options.followup,
    }
    answered = context.app.questions.answer(peer, [response], needs_followups=False)
    data = {"question_id": question_id, **answered._asdict()}
    if not answered.saved:
        return failure(answered.warnings[0]["code"], answered.warnings[0]["message"], {**data, "field": "question"})
    return Report(data, "Answered.")


def questions(context: Context) -> Report:
    options, topic_id = context.options, context.topic_id
    if options.done is not None or options.cancel is not None:
        return _end_question(context, topic_id)
    statuses = ["pending", "answered", "cancelled"] if options.all else ["pending"]
    most, before = rows(context, _FEW_QUESTIONS, _MOST_MESSAGES), parse_cursor("after", options.after)
    found = context.app.questions.list_all(topic_id, statuses, most, before)
    empty = "No questions yet." if options.all else "No open questions."

    def render(few: Sequence[Row]) -> Report:
        context.delivered = Delivered(topic_id, ids=tuple(row["question_id"] for row in few))
        return _questions(topic_id, few, empty)

    return page(context, found, render, lambda row: int(row["seq"]), default=_FEW_QUESTIONS, most=_MOST_MESSAGES)


def _questions(topic_id: str, found: Sequence[Row], empty: str) -> Report:
    hidden = ("asked_by_agent_id",)
    shown = [{name: value for name, value in row.items() if name not in hidden} for row in found]
    data = {"topic_id": topic_id, "questions": [{**row, "asked_at": to_seconds(row["asked_at"])} for row in shown]}
    cells = [
        (str(row["seq"]), row["status"], str(row["answers_count"]), label(row["asked_by_agent_id"], row["asked_by"]))
        for row in found
    ]
    headings = ("NUMBER", "STATUS", "ANSWERS", "ASKED BY")
    text = table(headings, cells, below=[row["question_text"] for row in found]) if found else empty
    return Report(data, text)


def _end_question(context: Context, topic_id: str) -> Report:
    done = context.options.done
    tool = "questions.ask_cancel" if done is None else "questions.question_mark_answered"
    question_id = find_question(context, topic_id, context.options.cancel if done is None else done)
    context.join_topic(topic_id)
    return as_report(context.tool(tool, topic_id=topic_id, question_id=question_id))


# -- searching


def search(context: Context) -> Report:
    options = context.options
    context.session.is_bounded = options.limit is None
    given: Object = {
        "query": " ".join(options.query),
        "mode": options.mode,
        "limit": options.limit,
        "after": options.after,
        "model": options.model,
        "topic_id": None if options.topic is None else context.topic_id,
        "sender": options.sender,
        "message_type": options.type,
        "since": moment(context, "since", options.since),
        "until": moment(context, "until", options.until),
        "include_content": options.content,
    }
    found = context.tool("search.messages_search", None, **given)
    lines = [hit_text(hit, options.content) for hit in found.shown] or ["Nothing found."]
    lines += [f"Note: {one_line(warning['message'])}" for warning in found.data["warnings"]]
    return Report(found.data, with_more("\n".join(lines), found.data.get("cursor")))
