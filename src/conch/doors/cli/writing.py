"""A handoff from the words of a command line, or from a file."""

from __future__ import annotations

import sys
from functools import lru_cache

from conch.errors import InvalidArgument, InvalidHandoff, LimitExceeded
from conch.lazy import json, re
from conch.rooms.handoffs import Handoff
from conch.typed import Any, TextIO

ARTIFACT = re.compile(r"(?P<path>.+?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?(?:=(?P<role>\w+))?")
LARGEST_FILE = 16 * 1024 * 1024  # as large as any handoff may be; nobody reads on to the end of /dev/zero


def read_handoff(options: Any) -> Handoff:
    parts = {
        "status": options.status,
        "next_action": options.next_action,
        "artifacts": [_artifact(text) for text in options.artifact],
        "open_questions": options.question,
        "do_not": options.do_not,
    }
    said = {name: value for name, value in parts.items() if value not in (None, [])}
    if options.handoff is None:
        return said
    if said:
        message = f"--handoff is the whole handoff; put {', '.join(said)} into it too."
        raise InvalidArgument(message, field="handoff")
    return _read_file(options.handoff)


def _read_file(path: str) -> Handoff:
    try:
        text = _read_text(path)
        handoff = json.loads(text)
    except (OSError, ValueError, RecursionError) as problem:
        raise InvalidHandoff(f"--handoff {path[:200]}: {problem}", field="handoff") from None
    if not isinstance(handoff, dict):
        raise InvalidHandoff("handoff must be an object with status and next_action.", field="handoff")
    return handoff


def _read_text(path: str) -> str:
    if path != "-":
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
    elif sys.stdin is None:
        raise ValueError("there is no standard input")
    else:
        content = read_input(sys.stdin)
    if len(content) > LARGEST_FILE:
        message = f"--handoff {path[:200]} is larger than {LARGEST_FILE} bytes."
        raise LimitExceeded(message, field="handoff", limit=LARGEST_FILE)
    return content.decode("utf-8-sig")


@lru_cache(maxsize=1)
def read_input(stream: TextIO) -> bytes:
    """All of standard input, once: a command that runs again after an interruption needs it again."""
    return stream.buffer.read(LARGEST_FILE + 1)


def _artifact(text: str) -> dict[str, Any]:
    """`PATH`, `PATH:10-42`, `PATH=review` or `PATH:10-42=review`."""
    match = ARTIFACT.fullmatch(text)
    if match is None:
        raise InvalidHandoff(f"--artifact {text[:80]!r} must look like PATH[:A-B][=ROLE].", field="artifacts")
    artifact: dict[str, Any] = {"path": match["path"], "role": match["role"] or "examine"}
    if match["first"]:
        artifact["lines"] = [int(match["first"]), int(match["last"] or match["first"])]
    return artifact
