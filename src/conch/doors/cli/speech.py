"""Messages as people type and read them on a terminal."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any, NamedTuple

from conch.clock import SECOND
from conch.doors.cli.context import Context
from conch.doors.cli.output import indented, one_line, whole
from conch.doors.cli.wording import local_time
from conch.errors import InvalidArgument, QuestionNotFound

Object = dict[str, Any]

MARGIN = " " * 4
LONGEST_INPUT = 16 * 1024 * 1024
AGE = re.compile(r"(\d{1,9})([smhd])")
AGE_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
TIMES = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")


class Place(NamedTuple):
    """Where reading begins: after a message, and not before a moment."""

    after: int
    moment: int


def since(text: str) -> Place:
    """A message number, a local time, or an age."""
    if text.removeprefix("#").isdecimal() and text.isascii() and len(text) < 18:
        return Place(max(0, int(text.removeprefix("#")) - 1), 0)
    return Place(0, int((moment("since", text) or 0) * SECOND))


def moment(field: str, text: str | None) -> float | None:
    """A local time or an age, in seconds since the epoch."""
    if text is None:
        return None
    if age := AGE.fullmatch(text):
        return time.time() - int(age[1]) * AGE_SECONDS[age[2]]
    for form in TIMES:
        try:
            return time.mktime(time.strptime(text, form))
        except (ValueError, OverflowError):
            continue
    message = f"--{field} {text[:80]!r} is no time (2026-01-31T12:00), age (90m, 2h, 3d) or message number."
    raise InvalidArgument(message, field=field)


def read_text(given: str) -> str:
    """What was typed, or for `-` what standard input has."""
    if given != "-":
        return given
    raw = sys.stdin.buffer.read(LONGEST_INPUT)
    try:
        return raw.decode().rstrip("\n")
    except UnicodeDecodeError:
        raise InvalidArgument("Standard input is not valid UTF-8.", field="text") from None


def find_message(context: Context, topic_id: str, given: str, field: str) -> str:
    """The id of a message, also from the number that people see."""
    number = given.removeprefix("#")
    if not (number.isdecimal() and number.isascii() and len(number) < 18):
        return given
    found = next(context.app.messages.history(topic_id, int(number) - 1), None)
    if found is None or found.seq != int(number):
        raise QuestionNotFound(f"There is no message number {number} on this topic.", field=field)
    return found.message_id


def message_text(message: Object) -> str:
    """One message: who, when and what about on one line, the words below it."""
    to = (message["metadata"] or {}).get("to") or []
    names = ", ".join(to if isinstance(to, list) else [to])
    kind = "" if message["message_type"] == "message" else f" [{message['message_type']}]"
    address = (f" to {names}" + (" (you)" if message.get("addressed") else "")) if names else ""
    moment = local_time(int(message["created_at"] * SECOND))
    head = one_line(f"#{message['seq']} {moment} {message['sender']}{address}{kind}")
    return f"{head}\n{indented(message['content_markdown'], MARGIN)}"


def hit_text(hit: Object) -> str:
    """One message that was found: where it stands, and the line or the whole of it."""
    head = one_line(f"{hit['topic_name']} #{hit['seq']} {local_time(int(hit['created_at'] * SECOND))} {hit['sender']}")
    words: str = hit.get("content_markdown") or hit["snippet"]
    return f"{head}\n{indented(words, MARGIN)}"


def whole_json(message: Object) -> str:
    return json.dumps({name: whole(value) if isinstance(value, str) else value for name, value in message.items()})
