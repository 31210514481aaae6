"""Handoffs: what an owner writes down when it releases or passes the stick."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conch.errors import InvalidHandoff, LimitExceeded
from conch.lean import Any, json

Handoff = dict[str, Any]

ROLES = ("examine", "review", "edit", "context", "output")

# `join_path` returns this, so that an agent knows what to write before it first hands over.
TEMPLATE: Handoff = {
    "status": "What I did:\nWhat I learned:\nOpen risks:",
    "next_action": "What to do next.",
    "artifacts": [{"path": "src/a.py", "lines": [10, 42], "role": "review"}],
    "open_questions": ["..."],
    "do_not": ["..."],
}


def dump_handoff(handoff: Any, max_bytes: int) -> str:
    """Check a handoff and return it as JSON, unchanged. InvalidHandoff names the wrong field."""
    check_handoff(handoff)
    text = json.dumps(handoff, ensure_ascii=False)
    size = len(text.encode())
    if size > max_bytes:
        message = (
            f"The handoff is {size} bytes long; at most {max_bytes} are allowed (CONCH_MAX_HANDOFF_BYTES). "
            "List files as artifacts instead of pasting them."
        )
        raise LimitExceeded(message, field="handoff", limit=max_bytes, actual=size)
    return text


def load_handoff(text: str | None) -> Handoff | None:
    return None if text is None else json.loads(text)


def check_handoff(handoff: Any) -> None:
    """InvalidHandoff names the first field that is wrong."""
    if not isinstance(handoff, dict):
        raise InvalidHandoff("The handoff must be an object with status and next_action.", field="handoff")
    _check_fields(handoff, _FIELDS, "")
    for name in ("status", "next_action"):
        if name not in handoff:
            raise InvalidHandoff(f"handoff.{name} is required.", field=name)


def _check_fields(value: dict[str, Any], fields: Mapping[str, Callable[[Any, str], None]], prefix: str) -> None:
    for name, item in value.items():
        if name not in fields:
            known = ", ".join(fields)
            raise InvalidHandoff(
                f"handoff.{prefix}{name} is not a known field. Known fields: {known}.", field=prefix + name
            )
        fields[name](item, prefix + name)


def _check_text(value: Any, field: str) -> None:
    if not isinstance(value, str):
        raise InvalidHandoff(f"handoff.{field} must be a string.", field=field)
    if not value.strip():
        raise InvalidHandoff(f"handoff.{field} must be non-empty.", field=field)


def _check_texts(value: Any, field: str) -> None:
    if not isinstance(value, list):
        raise InvalidHandoff(f"handoff.{field} must be a list of strings.", field=field)
    for index, item in enumerate(value):
        _check_text(item, f"{field}[{index}]")


def _check_artifacts(value: Any, field: str) -> None:
    if not isinstance(value, list):
        raise InvalidHandoff(f"handoff.{field} must be a list of objects.", field=field)
    for index, item in enumerate(value):
        place = f"{field}[{index}]"
        if not isinstance(item, dict):
            raise InvalidHandoff(f"handoff.{place} must be an object with path and role.", field=place)
        _check_fields(item, _ARTIFACT_FIELDS, place + ".")
        for name in ("path", "role"):
            if name not in item:
                raise InvalidHandoff(f"handoff.{place}.{name} is required.", field=f"{place}.{name}")


def _check_role(value: Any, field: str) -> None:
    if value not in ROLES:
        raise InvalidHandoff(f"handoff.{field} must be one of {', '.join(ROLES)}.", field=field)


def _check_lines(value: Any, field: str) -> None:
    # Not isinstance: True is an int in Python, but not a line number.
    numbers = isinstance(value, list) and len(value) == 2 and all(type(number) is int for number in value)
    if not numbers or not 1 <= value[0] <= value[1]:
        raise InvalidHandoff(f"handoff.{field} must be [first, last]: line numbers from 1, both included.", field=field)


_ARTIFACT_FIELDS = {"path": _check_text, "lines": _check_lines, "role": _check_role, "note": _check_text}
_FIELDS = {
    "status": _check_text,
    "next_action": _check_text,
    "artifacts": _check_artifacts,
    "open_questions": _check_texts,
    "do_not": _check_texts,
}
