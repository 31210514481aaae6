"""Handoffs on the command line: read from options or a file, and shown on a terminal."""

from __future__ import annotations

import sys
from errno import EBADF

from conch.doors.cli.context import LARGEST_INPUT, read_standard_input
from conch.errors import InvalidArgument, InvalidHandoff, LimitExceeded
from conch.lean import TYPE_CHECKING, Any, json, re
from conch.rooms.handoffs import Handoff, check_handoff
from conch.tools.text import behind_margin
from conch.tools.turns_view import artifact_text

if TYPE_CHECKING:
    from conch.rooms.log import Event

_ARTIFACT = r"(?P<path>.+?)(?::(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9}))?)?(?:=(?P<role>\w+))?"
MARGIN = " " * 8
_LABEL = 10


def read_handoff(options: Any) -> Handoff:
    parts = {
        "status": options.status,
        "next_action": options.next_action,
        "artifacts": [_artifact(text) for text in options.artifact],
        "open_questions": options.question,
        "do_not": options.do_not,
    }
    given = {name: value for name, value in parts.items() if value not in (None, [])}
    if options.handoff is None:
        return given
    if given:
        message = f"--handoff replaces the other options. Put {', '.join(given)} into its JSON."
        raise InvalidArgument(message, field="handoff")
    return _read_file(options.handoff)


def _read_file(path: str) -> Handoff:
    try:
        text = _read_text(path)
        handoff: Handoff = json.loads(text)
    except OSError as problem:
        raise InvalidHandoff(f"--handoff {path[:200]} cannot be read: {problem.strerror}.", field="handoff") from None
    except (ValueError, RecursionError) as problem:
        raise InvalidHandoff(f"--handoff {path[:200]} is not JSON: {problem}.", field="handoff") from None
    try:
        check_handoff(handoff)  # checked here, so that an error names the file and not an option
    except InvalidHandoff as refusal:
        raise InvalidHandoff(f"--handoff {path[:200]}: {refusal.message}", field="handoff") from None
    return handoff


def _read_text(path: str) -> str:
    if path != "-":
        with open(path, "rb") as file:
            content = file.read(LARGEST_INPUT + 1)
    elif sys.stdin is None:
        raise OSError(EBADF, "there is no standard input")
    else:
        content = read_standard_input("handoff")
    if len(content) > LARGEST_INPUT:
        message = f"--handoff {path[:200]} is larger than {LARGEST_INPUT} bytes."
        raise LimitExceeded(message, field="handoff", limit=LARGEST_INPUT)
    return content.decode("utf-8-sig")


def _artifact(text: str) -> dict[str, Any]:
    """`PATH`, `PATH:10-42`, `PATH=review` or `PATH:10-42=review`."""
    match = re.fullmatch(_ARTIFACT, text)
    if match is None:
        raise InvalidHandoff(f"--artifact {text[:80]!r} must look like PATH[:A-B][=ROLE].", field="artifacts")
    artifact: dict[str, Any] = {"path": match["path"], "role": match["role"] or "examine"}
    if match["first"]:
        artifact["lines"] = [int(match["first"]), int(match["last"] or match["first"])]
    return artifact


# -- showing one


def handoff_text(handoff: Handoff | None, author: str) -> str:
    if handoff is None:
        return "There is no handoff for you."
    return f"Handoff from {author}:\n{handoff_lines(handoff)}"


def last_handoff_text(last: Event | None) -> str:
    """What the agent can continue from after a takeover."""
    if last is None or last.handoff is None:
        return "No agent has handed over before: `conch events` shows what happened."
    return f"The last handoff, from {last.who(last.from_agent_id)}:\n{handoff_lines(last.handoff)}"


def handoff_lines(handoff: Handoff) -> str:
    """One part per line, after its label. Further lines of a part have the same margin."""
    parts = [("status", handoff["status"]), ("next", handoff["next_action"])]
    parts += [("artifact", artifact_text(artifact)) for artifact in handoff.get("artifacts", ())]
    parts += [("question", question) for question in handoff.get("open_questions", ())]
    parts += [("do not", rule) for rule in handoff.get("do_not", ())]
    return "\n".join(labelled(label, text) for label, text in parts)


def labelled(label: str, text: str) -> str:
    width = max(_LABEL, len(label) + 1)
    return behind_margin(text.strip(), MARGIN + " " * width, first=f"{MARGIN}{label:<{width}}")
