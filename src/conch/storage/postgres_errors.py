"""PostgreSQL's errors, translated once into ours, each with what to do next. Never with a password in it."""

from __future__ import annotations

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import OperationalError

from conch.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreInterrupted,
    StoreReadOnly,
    StoreUnavailable,
)

BUSY = (StoreBusy, "The store at {place} is busy: another process has held a lock too long. Try again.")
FULL = (StoreFull, "The server of {place} is out of disk; nothing was changed. Free some space there and try again.")
CROWDED = (StoreUnavailable, "The server of {place} has no connection left. Raise its max_connections, or close some.")
READ_ONLY = (StoreReadOnly, "The store at {place} cannot be written: {reason}. Nothing was changed. Use the primary "
             "server, and a role with the privileges that `docs/scaling.md` lists.")  # fmt: skip
CORRUPT = (StoreCorrupt, "The server of {place} reports damaged data: {reason}. Restore a dump.")
CONFLICT = (StoreInterrupted, "Two writers met in the store at {place}; nothing was changed. Try again.")
LOST = (StoreInterrupted, "The connection to {place} was lost; nothing was changed. Try again.")
UNAVAILABLE = (StoreUnavailable, "The store at {place} cannot be used: {reason}. Is the server running, and does "
               "CONCH_STORE name it?")  # fmt: skip

BY_STATE = {
    "40001": CONFLICT,  # serialization failure
    "40P01": CONFLICT,  # deadlock
    "55P03": BUSY,  # lock timeout
    "57014": BUSY,  # statement timeout
    "53100": FULL,
    "53300": CROWDED,
    "25006": READ_ONLY,
    "42501": READ_ONLY,  # the role may not
}
BY_CLASS = {"08": LOST, "57": LOST, "53": FULL, "XX": CORRUPT}


def place_of(url: str) -> str:
    """A store's address for people and logs: everything but the password."""
    parts = conninfo_to_dict(url)
    host, port = parts.get("host") or "localhost", parts.get("port")
    where = f"{host}:{port}" if port else str(host)
    return f"postgresql://{parts.get('user') or ''}@{where}/{parts.get('dbname') or parts.get('user') or ''}"


def translate(error: Error, url: str) -> StoreError:
    """What went wrong before a commit was tried: nothing was changed."""
    state = error.sqlstate
    if state is not None:
        kind, text = BY_STATE.get(state) or BY_CLASS.get(state[:2]) or UNAVAILABLE
    else:
        kind, text = LOST if isinstance(error, OperationalError) else UNAVAILABLE
    return kind(text.format(place=place_of(url), reason=_reason(error, url)), store=place_of(url))


def _reason(error: Error, url: str) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    password = conninfo_to_dict(url).get("password")
    return lines[0].replace(str(password), "***") if password else lines[0]
