"""Chooses the engine and its bell by the address of the store."""

from __future__ import annotations

import os

from conch.bells.base import Bell
from conch.clock import Clock, system_clock
from conch.config import Settings
from conch.errors import InvalidSetting, how_to_add
from conch.storage.base import Store

_POSTGRES_SCHEMES = ("postgresql://", "postgres://")
_SQLITE_SCHEME = "sqlite://"


def open_store(settings: Settings, clock: Clock | None = None, named: str = "CONCH_STORE") -> tuple[Store, Bell]:
    """The store and its bell. Nothing is opened before the first use, so that errors reach that caller.

    `named` is the setting or option that gave the address; error messages refer to it.
    """
    if is_server(settings.store):
        return _open_postgres(settings, clock, named)
    if not _is_file(settings.store):
        # The message does not repeat the address, because a mistyped one may hold a password.
        message = (
            f"{named} must be a file, or postgresql://USER@HOST:PORT/DATABASE, or sqlite:///FOLDER/FILE. If the file "
            "name contains : or =, give the full path."
        )
        raise InvalidSetting(message, setting=named)
    if not settings.store and _begins_as_address(settings.data_dir):
        message = "CONCH_DATA_DIR must be a folder. Put the address of a server in CONCH_STORE."
        raise InvalidSetting(message, setting="CONCH_DATA_DIR")
    return _open_sqlite(settings, clock, named if settings.store else "CONCH_DATA_DIR")


def is_server(store: str) -> bool:
    """Whether the address names a server rather than a file."""
    return store.startswith(_POSTGRES_SCHEMES)


def _is_file(store: str) -> bool:
    """Whether the address names a file. A mistyped URL and `host=... password=...` do not."""
    if not store or store.startswith(_SQLITE_SCHEME + "/"):
        return True
    file = store.removeprefix(_SQLITE_SCHEME)
    has_login = ":" in file.rpartition("@")[0]
    return file != "" and not has_login and not _begins_as_address(file)


def _begins_as_address(place: str) -> bool:
    beginning = os.path.splitdrive(place)[1].partition("/")[0]
    return ":" in beginning or "=" in beginning


def _open_sqlite(settings: Settings, clock: Clock | None, named: str) -> tuple[Store, Bell]:
    from conch.bells.file import FileBell
    from conch.storage.sqlite.store import SqliteStore

    given, path = _given_path(settings), sqlite_path(settings)
    # A lambda, because the store that has the counter is made after the bell it rings.
    bell = FileBell(_bells(path), lambda: store.change_counter())
    store = SqliteStore(
        path,
        given=given,
        named=named,
        ring=bell.ring,
        hears=bell.hears,
        moved=lambda path: bell.move(_bells(path)),
        clock=clock or system_clock,
        busy_timeout_ms=settings.busy_timeout_ms,
        synchronous=settings.synchronous,
    )
    return store, bell


def sqlite_path(settings: Settings) -> str:
    """Where the store's file is.

    Links are followed, because every process must use the same bells, the same queue and the same name of the file.
    """
    return os.path.realpath(_given_path(settings))


def _bells(path: str) -> str:
    return os.path.join(os.path.dirname(path), "bells")


def _given_path(settings: Settings) -> str:
    """`CONCH_STORE` when it names a file, else `rooms.sqlite` in the data directory."""
    named = settings.store.removeprefix(_SQLITE_SCHEME) or os.path.join(settings.data_dir, "rooms.sqlite")
    return os.path.abspath(os.path.expanduser(named))


def _open_postgres(settings: Settings, clock: Clock | None, named: str) -> tuple[Store, Bell]:
    try:
        from conch.bells.file import open_watcher
        from conch.bells.postgres import PostgresBell
        from conch.storage.postgres.store import PostgresStore
    except ImportError:
        message = f"A PostgreSQL store needs the extra `postgres`. {how_to_add('postgres')}"
        raise InvalidSetting(message, setting=named) from None
    store = PostgresStore(settings.store, named=named, clock=clock, busy_timeout_ms=settings.busy_timeout_ms)
    return store, PostgresBell(store.connect, store.is_locked, open_watcher)
