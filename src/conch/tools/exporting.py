"""A whole topic for people and programs: as Markdown, or as objects. It is read page by page, whatever its size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from conch.bus.questions import Question
from conch.bus.stream import Message
from conch.calls import retry_interrupted
from conch.clock import to_iso, to_local
from conch.lean import TYPE_CHECKING, Any, json, re
from conch.tools import bus_view
from conch.tools.replies import Object
from conch.tools.text import behind_margin, one_line

if TYPE_CHECKING:
    from conch.app import App

_QUOTE = "> "
_TAG = r"<(?=[A-Za-z/!?])"
# The beginning of a definition, which would make links of brackets anywhere in the document.
_DEFINITION = r"(?m)^((?:[ \t>*+-]|\d{1,9}[.)])*)\[(?=(?:[^\[\]\\]|\\.)+\]:)"
_MARKUP = r"[`*<>&~|\[\]\\]|^[#>+=-]|^\d+[.)]|(?<!\w)_|_(?!\w)"
_LISTS = {"repo_pointers": "See", "suggested_followups": "Ask next"}


def export_objects(app: App, topic_id: str) -> Iterator[Object]:
    """The topic, then each message; a question with its status. Moments are in ISO form."""
    topic = app.topics.find(topic_id)
    moments = {"created_at": to_iso(topic.created_at), "closed_at": to_iso(topic.closed_at)}
    yield {"kind": "topic", **bus_view.topic(topic), **{name: each for name, each in moments.items() if each}}
    for message, question in _history(app, topic_id):
        facts = {"question_status": question.status, "cancel_reason": question.cancel_reason} if question else {}
        yield {"kind": "message", **bus_view.message(message), "created_at": to_iso(message.created_at), **facts}


def export_markdown(app: App, topic_id: str) -> Iterator[str]:
    topic = app.topics.find(topic_id)
    facts = f"`{topic.topic_id}`, {topic.status}, since {to_local(topic.created_at)}"
    if topic.closed_at is not None:
        facts += f", closed {to_local(topic.closed_at)}"
    lines = [f"# {_literal(topic.name)}", facts]
    lines += [f"Closed: {_literal(topic.close_reason)}"] if topic.close_reason else []
    lines += _metadata_lines(topic.metadata)
    yield "\n\n".join(lines) + "\n"
    for message, question in _history(app, topic_id):
        yield _section(message, question, _addressees(app, message))


def _addressees(app: App, message: Message) -> list[str]:
    wanted = set(message.addressees)
    return message.addressee_labels(app.peers.find_called(message.topic_id, wanted) if wanted else {})


def _history(app: App, topic_id: str) -> Iterator[tuple[Message, Question | None]]:
    """Every message; if it is a question, with its status."""
    after = 0
    while page := retry_interrupted(partial(_page, app, topic_id, after)):
        yield from page
        after = page[-1][0].seq


def _page(app: App, topic_id: str, after: int) -> list[tuple[Message, Question | None]]:
    messages = app.messages.history_page(topic_id, after)
    asked = [message.message_id for message in messages if message.message_type == "question"]
    questions = app.questions.find(asked)
    return [(message, questions.get(message.message_id)) for message in messages]


def _section(message: Message, question: Question | None, addressees: list[str]) -> str:
    """One message as Markdown. Its text is a quotation, so that no line of it looks like a heading of ours."""
    to = f" to {', '.join(map(_literal, addressees))}" if addressees else ""
    kind = "" if message.message_type == "message" else f" ({_literal(message.message_type)})"
    head = f"{message.seq}. {_literal(message.sender_label)}{to}{kind}"
    reply = f"in reply to `{message.reply_to}`, " if message.reply_to else ""
    status = f", {_status(question)}" if question else ""
    facts = f"*{reply}{to_local(message.created_at)}, `{message.message_id}`{status}*"
    lines = [f"\n## {head}", facts, behind_margin(_tamed(message.content_markdown), _QUOTE)]
    return "\n\n".join([*lines, *_metadata_lines(message.metadata)]) + "\n"


def _tamed(body: str) -> str:
    """The text without markup that works beyond its quotation. A tag could end it, or hide what follows."""
    text = re.sub(_TAG, "&lt;", "\n".join(body.splitlines()))
    return re.sub(_DEFINITION, r"\1\\[", text)


def _status(question: Question) -> str:
    reason = _literal(question.cancel_reason or "")
    return f"{question.status}: {reason}" if reason else question.status


def _metadata_lines(metadata: dict[str, Any] | None) -> list[str]:
    """Pointers and follow-ups as lists, the rest as JSON. The heading already has `to`."""
    rest = {name: value for name, value in (metadata or {}).items() if name != "to" and value != []}
    lines = []
    for name, title in _LISTS.items():
        if isinstance(rest.get(name), list):
            lines.append("\n".join([f"{title}:", "", *(f"- {_literal(str(item))}" for item in rest.pop(name))]))
    return lines + ([f"Metadata: {_code(json.dumps(rest, ensure_ascii=False))}"] if rest else [])


def _literal(text: str) -> str:
    """Text of an agent on one line of ours. If any of it is markup, it becomes code, which shows it as it is."""
    shown = one_line(text)
    return _code(shown) if re.search(_MARKUP, shown) else shown


def _code(text: str) -> str:
    """The text as code, between more backticks than it has in a row."""
    shown = one_line(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{space}{shown}{space}{ticks}"
