"""Translates PostgreSQL's errors into ours, each with what to do next.

`place` is the address without its password, and the server's messages never contain one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Error
from psycopg.errors import OperationalError

from conch.errors import (
    ConchError,
    InvalidSetting,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreInterrupted,
    StoreReadOnly,
    StoreUnavailable,
    StoreUncertain,
)
from conch.storage.postgres.connection import Silence

_BUSY = (StoreBusy, "The store at {place} is busy: another writer held a lock for too long. Try again.")
_CANCELLED = (StoreBusy, "The server at {place} ended a statement early: {reason}. Try again.")
_FULL = (
    StoreFull,
    "The disk of the server at {place} is full. Free some space there and try again.",
)
_READ_ONLY = (StoreReadOnly, "The store at {place} is not writable: {reason}. Use the primary "
              "server, and a database and role that are not set to read only.")  # fmt: skip
_FORBIDDEN = (StoreReadOnly, "The role in {place} is not allowed to do this: {reason}. Grant it "
              "the rights listed in `docs/scaling.md`, or use another role.")  # fmt: skip
_CORRUPT = (StoreCorrupt, "The server at {place} reports damaged data: {reason}. Restore a dump.")
_DROPPED = (StoreInterrupted, "The tables of the store at {place} were dropped or replaced: {reason}. Try again. "
            "If it still fails, `conch db verify` says what is missing.")  # fmt: skip
_CONFLICT = (StoreInterrupted, "Two writers collided in the store at {place}. Try again.")
_LOST = (StoreInterrupted, "The connection to {place} was lost. Try again.")
_SILENT = (StoreInterrupted, "The server at {place} stopped answering ({reason}). Try again, and "
           "check the server if it stays silent.")  # fmt: skip
_UNUSABLE = (StoreUnavailable, "The store at {place} cannot be used: {reason}.")
_UNCERTAIN = (StoreUncertain, "The connection to {place} was lost before the server confirmed the change, which may "
              "or may not have been made. Look at the room or topic before you try again.")  # fmt: skip

_BY_STATE = {
    "42P01": _DROPPED,  # undefined table
    "40001": _CONFLICT,  # serialization failure
    "40P01": _CONFLICT,  # deadlock
    "55P03": _BUSY,  # lock timeout
    "57014": _CANCELLED,  # statement timeout
    "53100": _FULL,  # disk full
    "25006": _READ_ONLY,  # read-only transaction
    "42501": _FORBIDDEN,  # insufficient privilege
    "25P03": _LOST,  # idle inside a transaction for too long
    "XX001": _CORRUPT,  # damaged table
    "XX002": _CORRUPT,  # damaged index
}
# Failed connections, and interventions by the operator, such as a shutdown.
_BY_CLASS = {"08": _LOST, "57": _LOST}

_CROWDED = (StoreUnavailable, "The server at {place} has no connection left ({reason}). Close some, or raise its "
            "max_connections or the role's CONNECTION LIMIT.")  # fmt: skip
_RESTARTING = (StoreUnavailable, "The server at {place} is not ready: {reason}. Try again in a moment.")
_NO_DATABASE = (StoreUnavailable, "The server at {place} answers, but {reason}. Create it (`createdb`), or choose "
                "another database in {named}.")  # fmt: skip
_NO_LOGIN = (StoreUnavailable, "The server at {place} refused the login: {reason}. Check the user and the password in "
             "{named}.")  # fmt: skip
_NO_TLS = (StoreUnavailable, "The TLS connection to {place} that {named} requires failed: {reason}. Check sslmode, "
           "sslrootcert and the server's certificate.")  # fmt: skip
_STRANGER = (StoreUnavailable, "The server at {place} does not seem to be PostgreSQL: {reason}. Check the host "
             "and the port in {named}.")  # fmt: skip
_UNREACHABLE = (StoreUnavailable, "The store at {place} cannot be reached: {reason}. Check that the server is running "
                "and that the address in {named} is right.")  # fmt: skip

_REFUSED_OPTION = (InvalidSetting, "PostgreSQL refuses an option in {named} or in one of its own environment "
                   "variables: {reason}.")  # fmt: skip

# A refused connection has no error code, only a message. If that is not in English, only the last pattern matches.
# Options are here because the client library checks some of their values only when it connects.
_BY_WORDS = (
    (r'^invalid "?\w+"? value: |^invalid integer value|^bad value for|^invalid port number|^could not match \d|'
     r"^could not parse network address|^definition of service|^service file|^unrecognized configuration parameter|"
     r'^invalid value for parameter|^parameter ".*" cannot be changed|^invalid command-line argument', _REFUSED_OPTION),
    ("too many clients|too many connections|connection slots", _CROWDED),
    ("starting up|shutting down|in recovery|not yet accepting|not accepting", _RESTARTING),
    ("^database .* does not exist", _NO_DATABASE),
    ("invalid response to .* negotiation|^expected authentication request from server", _STRANGER),
    ("password|authentication|pg_hba|^role |privilege|permission", _NO_LOGIN),
    ("SSL|TLS|certificate", _NO_TLS),
    ("", _UNREACHABLE),
)  # fmt: skip
_PREAMBLE = re.compile(r"^connection (failed|is bad): (connection to server .*? failed: )?(FATAL:\s+)?")


def translate(error: Error, place: str) -> StoreError:
    """Our error for a failure before the commit."""
    state = error.sqlstate
    if state is not None:
        kind, text = _BY_STATE.get(state) or _BY_CLASS.get(state[:2]) or _UNUSABLE
    else:
        kind, text = _UNUSABLE
        if isinstance(error, OperationalError):
            kind, text = _SILENT if isinstance(error, Silence) else _LOST
    return _tell(kind, text, error, place)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise our own errors instead of the driver's."""
    try:
        yield
    except Error as error:
        raise translate(error, place) from error


def translate_refusal(error: Error, place: str, named: str) -> ConchError:
    """Our error for a refused connection. Nothing was begun, and trying again at once would not help.

    `named` is the setting or option that gave the address.
    """
    reason = _reason(error)
    kind, text = next(found for words, found in _BY_WORDS if re.search(words, reason))
    message = text.format(place=place, reason=reason, named=named)
    return InvalidSetting(message, setting=named) if kind is InvalidSetting else kind(message, store=place)


def translate_commit(error: Error, place: str, answered: bool) -> StoreError:
    """Our error for a failed commit. Nothing was changed if the server `answered` or had ended the session before."""
    if answered or error.sqlstate == "25P03":
        return translate(error, place)
    return _tell(*_UNCERTAIN, error, place)


def _tell(kind: type[StoreError], text: str, error: Error, place: str) -> StoreError:
    return kind(text.format(place=place, reason=_reason(error)), store=place)


def _reason(error: Error) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _PREAMBLE.sub("", lines[0])
