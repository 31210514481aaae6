"""What an agent must say in a protocol event, and what it may."""

from __future__ import annotations

import json

from conch.errors import InvalidArgument, LimitExceeded
from conch.typed import Any

Payload = dict[str, Any]

URGENCIES = ("low", "medium", "high")
SENDABLE = {
    "HANDOFF": ("subject", "summary", "next_action"),
    "BLOCKED": ("subject", "blocker", "requested_action", "urgency"),
}
SYSTEM_ONLY = {
    "INCURSION": "it is recorded when a reservation meets another",
    "RESUME": "it is recorded when an identity is adopted",
}


def check_payload(event_type: str, payload: Payload, max_bytes: int) -> Payload:
    """The payload with its defaults; InvalidArgument names the field that is not right."""
    if event_type in SYSTEM_ONLY:
        message = f"Agents cannot send {event_type}: {SYSTEM_ONLY[event_type]}."
        raise InvalidArgument(message, field="event_type", reason="system_only")
    if event_type not in SENDABLE:
        raise InvalidArgument(f"event_type must be one of {', '.join(SENDABLE)}.", field="event_type")
    for name in SENDABLE[event_type]:
        _check_text(event_type, payload, name)
    for name in payload:
        if name not in (*SENDABLE[event_type], "requires_ack"):
            known = ", ".join((*SENDABLE[event_type], "requires_ack"))
            message = f"payload.{name[:80]} is not known for {event_type}; there are {known}."
            raise InvalidArgument(message, field=f"payload.{name[:80]}")
    _check_urgency(event_type, payload)
    checked = {**payload, "requires_ack": payload.get("requires_ack", True)}
    _check_ack(event_type, checked["requires_ack"])
    _check_size(checked, max_bytes)
    return checked


def _check_text(event_type: str, payload: Payload, name: str) -> None:
    value = payload.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(f"payload.{name} of {event_type} must be a non-empty string.", field=f"payload.{name}")


def _check_urgency(event_type: str, payload: Payload) -> None:
    if event_type == "BLOCKED" and payload["urgency"] not in URGENCIES:
        message = f"payload.urgency must be one of {', '.join(URGENCIES)}."
        raise InvalidArgument(message, field="payload.urgency")


def _check_ack(event_type: str, requires_ack: Any) -> None:
    if not isinstance(requires_ack, bool):
        raise InvalidArgument("payload.requires_ack must be true or false.", field="payload.requires_ack")
    if event_type == "BLOCKED" and not requires_ack:
        raise InvalidArgument("payload.requires_ack of BLOCKED is always true.", field="payload.requires_ack")


def _check_size(payload: Payload, max_bytes: int) -> None:
    size = len(json.dumps(payload, ensure_ascii=False).encode())
    if size > max_bytes:
        message = f"payload is {size} bytes long; at most {max_bytes} are allowed (CONCH_MAX_HANDOFF_BYTES)."
        raise LimitExceeded(message, field="payload", limit=max_bytes, actual=size)
