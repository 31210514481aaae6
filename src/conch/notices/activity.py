"""What happens to names, reservations and protocol events, kept for the room's timeline.

It is not part of the room's log: an agent that waits for the stick need not wake for it.
"""

from __future__ import annotations

from conch.bells.base import activity_channel
from conch.lean import Any, Protocol, json
from conch.storage.base import Transaction


class Named(Protocol):
    """A member, a caller, the owner of a reservation."""

    @property
    def agent_id(self) -> str: ...

    @property
    def name(self) -> str: ...


def record(
    tx: Transaction,
    room_id: str,
    kind: str,
    by: Named,
    subject_id: str | None = None,
    details: dict[str, Any] | None = None,
) -> None:
    """Those who watch the room hear of it."""
    tx.run(
        "append_activity",
        room_id=room_id,
        kind=kind,
        agent_id=by.agent_id,
        agent_name=by.name,
        subject_id=subject_id,
        details_json=_dump(details) if details else None,
        now=tx.now,
    )
    tx.ring(activity_channel(room_id))


def _dump(details: dict[str, Any]) -> str:
    """As JSON. Plain words and numbers, which most details are, need no import of `json`."""
    parts = []
    for name, value in details.items():
        if type(value) is str and value.isascii() and value.isprintable() and not {'"', "\\"} & {*value}:
            parts.append(f'"{name}": "{value}"')
        elif type(value) is int:
            parts.append(f'"{name}": {value}')
        else:
            return json.dumps(details)
    return f"{{{', '.join(parts)}}}"
