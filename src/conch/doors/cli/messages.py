"""Messages on the command line: what people type, and what they read."""

from __future__ import annotations

from conch.agents.records import label
from conch.clock import SECOND
from conch.doors.cli.command import parse_duration
from conch.doors.cli.context import Context, read_standard_input
from conch.doors.cli.output import moment_text, presentable
from conch.errors import InvalidArgument, QuestionNotFound
from conch.lean import TYPE_CHECKING, NamedTuple, json
from conch.tools.replies import Object
from conch.tools.text import behind_margin, one_line

if TYPE_CHECKING:
    from conch.bus.peers import Peer
    from conch.bus.stream import Message
    from conch.search.search import Hit

MARGIN = " " * 4
_TIMES = "a time (2026-01-31T12:00) or an age (90s, 5m, 2h, 3d)"


class Start(NamedTuple):
    """Where reading starts: after a message, and not before a time."""

    after: int
    moment: int


def since(context: Context, text: str) -> Start:
    """A message number, an age, or a time. A time without a zone is local."""
    if text.removeprefix("#").isdecimal() and text.isascii() and len(text) < 18:
        return Start(max(0, int(text.removeprefix("#")) - 1), 0)
    return Start(0, int((moment(context, "since", text, f"a message number, {_TIMES}") or 0) * SECOND))


def moment(context: Context, field: str, text: str | None, accepted: str = _TIMES) -> float | None:
    """An age or a time, as seconds since the epoch. A time without a zone is local."""
    if text is None:
        return None
    age = parse_duration(text)
    if age is not None:
        return max(0.0, context.now() / SECOND - age)
    from datetime import datetime  # rarely needed

    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise InvalidArgument(f"--{field} must be {accepted}, not {text[:80]!r}.", field=field) from None


def read_text(given: str) -> str:
    """The given text, or standard input for `-`."""
    if given != "-":
        return given
    try:
        text = read_standard_input("text").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidArgument("Standard input is not valid UTF-8.", field="text") from None
    if "\0" in text:
        raise InvalidArgument("Standard input contains a NUL character; remove it.", field="text")
    return text.rstrip("\n")


def on_topic(context: Context, command: str, option: str = "--topic ") -> str:
    """The command, with the topic of this one if that is not the home topic."""
    return command if context.options.topic is None else f"{command} {option}{context.topic_id}"


def find_message(context: Context, topic_id: str, given: str) -> str | None:
    """The id of a message, from its id or its number; None if no message has this number."""
    number = given.removeprefix("#")
    if not (number.isdecimal() and number.isascii() and len(number) < 18):
        return given
    found = next(context.app.messages.history(topic_id, int(number) - 1), None)
    return None if found is None or found.seq != int(number) else found.message_id


def find_question(context: Context, topic_id: str, given: str) -> str:
    """The id of a question, from its id or its number."""
    try:
        return context.app.questions.poll(topic_id, find_message(context, topic_id, given) or "").question.question_id
    except QuestionNotFound:
        listing = on_topic(context, "conch questions --all")
        message = f"There is no question {given[:80]!r} on this topic; `{listing}` lists them."
        raise QuestionNotFound(message, field="question") from None


def message_texts(context: Context, messages: list[Message], peer: Peer) -> list[str]:
    """Messages for people. A reply shows the number of the message it answers, because people do not see ids."""
    numbers = context.app.messages.numbers({message.reply_to for message in messages if message.reply_to})
    to = _addressee_labels(context, messages)
    return [_message_text(each, to[each.seq], peer, numbers.get(each.reply_to or "")) for each in messages]


def _addressee_labels(context: Context, messages: list[Message]) -> dict[int, list[str]]:
    """For each message of one topic, its addressees. An addressee that is not a peer stays as it was written."""
    wanted = {name for each in messages for name in each.addressees}
    called = context.app.peers.find_called(messages[0].topic_id, wanted) if wanted else {}
    return {each.seq: each.addressee_labels(called) for each in messages}


def _message_text(message: Message, to: list[str], peer: Peer, replied_to: int | None) -> str:
    """One message: a line with sender, time and type, and the text below it."""
    kind = "" if message.message_type == "message" else f" [{message.message_type}]"
    reply = f" re #{replied_to}" if replied_to else ""
    address = (f" to {', '.join(to)}" + (" (you)" if peer.is_meant(message.addressees) else "")) if to else ""
    head = f"#{message.seq} {moment_text(message.created_at)} {message.sender_label}{address}{kind}{reply}"
    return f"{one_line(head)}\n{behind_margin(message.content_markdown, MARGIN)}"


def hit_text(hit: Hit, with_content: bool) -> str:
    """One search result: where the message is, and a line of it or all of it."""
    who = label(hit.sender_agent_id, hit.sender)
    head = one_line(f"#{hit.seq} {moment_text(hit.created_at)} {who} in {hit.topic_name}")
    return f"{head}\n{behind_margin(hit.content_markdown if with_content else hit.snippet, MARGIN)}"


def whole_json(message: Object) -> str:
    return json.dumps(presentable(message))
