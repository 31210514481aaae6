"""Messages as people type and read them on a terminal."""

from __future__ import annotations

import sys

from conch.clock import SECOND
from conch.doors.cli.context import Context
from conch.doors.cli.output import local_time
from conch.errors import InvalidArgument, QuestionNotFound
from conch.lean import Any, NamedTuple, json, re
from conch.tools.text import behind_margin, one_line, whole

Object = dict[str, Any]

MARGIN = " " * 4
_AGE = r"(\d{1,9})([smhd])"
_AGE_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Place(NamedTuple):
    """Where reading begins: after a message, and not before a moment."""

    after: int
    moment: int


def since(context: Context, text: str) -> Place:
    """A message number, an age, or a time: a local one, unless it says otherwise."""
    if text.removeprefix("#").isdecimal() and text.isascii() and len(text) < 18:
        return Place(max(0, int(text.removeprefix("#")) - 1), 0)
    return Place(0, int((moment(context, "since", text) or 0) * SECOND))


def moment(context: Context, field: str, text: str | None) -> float | None:
    """An age, or a time that is local unless it says otherwise, in seconds since the epoch."""
    if text is None:
        return None
    if age := re.fullmatch(_AGE, text):
        return max(0.0, context.now() / SECOND - int(age[1]) * _AGE_SECONDS[age[2]])
    from datetime import datetime  # few ask for a time

    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        message = f"--{field} {text[:80]!r} is no message number, time (2026-01-31T12:00) or age (90m, 2h, 3d)."
        raise InvalidArgument(message, field=field) from None


def read_text(given: str) -> str:
    """What was typed, or for `-` what standard input has."""
    if given != "-":
        return given
    from conch.doors.cli.handoffs import LARGEST_FILE, read_input

    if sys.stdin is None:
        raise InvalidArgument("There is no standard input to read.", field="text")
    try:
        text = read_input(sys.stdin)[:LARGEST_FILE].decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidArgument("Standard input is not valid UTF-8.", field="text") from None
    if "\0" in text:
        raise InvalidArgument("Standard input contains a NUL character; remove it.", field="text")
    return text.rstrip("\n")


def find_message(context: Context, topic_id: str, given: str) -> str | None:
    """The id of a message, also from the number that people see; None if there is no such number."""
    number = given.removeprefix("#")
    if not (number.isdecimal() and number.isascii() and len(number) < 18):
        return given
    found = next(context.app.messages.history(topic_id, int(number) - 1), None)
    return None if found is None or found.seq != int(number) else found.message_id


def find_question(context: Context, topic_id: str, given: str) -> str:
    """The same for a question."""
    try:
        return context.app.questions.poll(topic_id, find_message(context, topic_id, given) or "").question.question_id
    except QuestionNotFound:
        message = f"There is no question {given[:80]!r} on this topic; `conch questions` shows those there are."
        raise QuestionNotFound(message, field="question") from None


def message_texts(context: Context, messages: list[Object]) -> list[str]:
    """Messages for people. What they reply to is told by its number, which is all that people see of it."""
    numbers = context.app.messages.numbers({message["reply_to"] for message in messages if message["reply_to"]})
    return [_message_text(message, numbers.get(message["reply_to"])) for message in messages]


def _message_text(message: Object, replied_to: int | None) -> str:
    """One message: who, when and what about on one line, the words below it."""
    to = (message["metadata"] or {}).get("to") or []
    names = ", ".join(to if isinstance(to, list) else [to])
    kind = "" if message["message_type"] == "message" else f" [{message['message_type']}]"
    reply = f" re #{replied_to}" if replied_to else ""
    address = (f" to {names}" + (" (you)" if message.get("addressed") else "")) if names else ""
    moment = local_time(int(message["created_at"] * SECOND))
    head = one_line(f"#{message['seq']} {moment} {message['sender']}{address}{kind}{reply}")
    return f"{head}\n{behind_margin(message['content_markdown'], MARGIN)}"


def hit_text(hit: Object) -> str:
    """One message that was found: where it stands, and the line or the whole of it."""
    head = one_line(f"{hit['topic_name']} #{hit['seq']} {local_time(int(hit['created_at'] * SECOND))} {hit['sender']}")
    words: str = hit.get("content_markdown") or hit["snippet"]
    return f"{head}\n{behind_margin(words, MARGIN)}"


def whole_json(message: Object) -> str:
    return json.dumps({name: whole(value) if isinstance(value, str) else value for name, value in message.items()})
