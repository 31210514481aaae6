"""Changes to names, reservations and protocol events, recorded for the room's timeline.

They are not part of the room's log, so that they do not wake the agents that wait for the stick.
"""

from __future__ import annotations

from conch.bells.base import activity_channel
from conch.lean import Any, Protocol, json
from conch.storage.base import Row, Transaction


class Named(Protocol):
    """Anything with an agent_id and a name: a member, a caller, the owner of a reservation."""

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
    """Append one change, and wake the processes that watch the room."""
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


def record_acceptance(tx: Transaction, room_id: str, given: Row) -> None:
    """Record that the notice of a handoff is accepted, unless it already was. Call this before the notice changes."""
    tx.run("append_acceptance", room_id=room_id, **given)
    tx.ring(activity_channel(room_id))


def _dump(details: dict[str, Any]) -> str:
    """The details as JSON. Most are plain words and numbers, which need no import of `json`."""
    parts = []
    for name, value in details.items():
        if type(value) is str and value.isascii() and value.isprintable() and not {'"', "\\"} & {*value}:
            parts.append(f'"{name}": "{value}"')
        elif type(value) is int:
            parts.append(f'"{name}": {value}')
        else:
            return json.dumps(details)
    return f"{{{', '.join(parts)}}}"
