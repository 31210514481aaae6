"""Which engine a store's address means, and the bell that goes with it."""

from __future__ import annotations

import os

from conch.bells.base import Bell
from conch.clock import Clock, system_clock
from conch.config import Settings
from conch.errors import InvalidSetting
from conch.storage.base import Store

_POSTGRES_SCHEMES = ("postgresql://", "postgres://")
_SQLITE_SCHEME = "sqlite://"


def open_store(settings: Settings, clock: Clock | None = None, named: str = "CONCH_STORE") -> tuple[Store, Bell]:
    """Nothing is touched yet: a store opens at its first use, so that its errors reach the caller.

    `named` is what names `settings.store`, the setting itself or an option of a command: errors speak of that.
    """
    if settings.store.startswith(_POSTGRES_SCHEMES):
        return _open_postgres(settings, clock, named)
    if not _is_file(settings.store):
        # Not shown: a mistyped address may hold a password.
        message = (
            f"{named} must be a file, or postgresql://USER@HOST:PORT/DATABASE, or sqlite:///FOLDER/FILE. A file whose "
            "name has a : or = in it is written with all its folders."
        )
        raise InvalidSetting(message, setting=named)
    if not settings.store and _begins_as_address(settings.data_dir):
        message = "CONCH_DATA_DIR must be a folder; CONCH_STORE takes the address of a server."
        raise InvalidSetting(message, setting="CONCH_DATA_DIR")
    return _open_sqlite(settings, clock, named if settings.store else "CONCH_DATA_DIR")


def _is_file(store: str) -> bool:
    """Whether it can only be meant as one: not a URL, whole or not, nor PostgreSQL's `host=... password=...`."""
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

    path = sqlite_path(settings)
    bell = FileBell(os.path.join(os.path.dirname(path), "bells"), lambda: store.change_counter())
    store = SqliteStore(
        path,
        named=named,
        ring=bell.ring,
        clock=clock or system_clock,
        busy_timeout_ms=settings.busy_timeout_ms,
        synchronous=settings.synchronous,
    )
    return store, bell


def sqlite_path(settings: Settings) -> str:
    """`CONCH_STORE` when it names a file, else `rooms.sqlite` in the data directory."""
    if settings.store:
        return os.path.abspath(os.path.expanduser(settings.store.removeprefix(_SQLITE_SCHEME)))
    return os.path.join(os.path.abspath(os.path.expanduser(settings.data_dir)), "rooms.sqlite")


def _open_postgres(settings: Settings, clock: Clock | None, named: str) -> tuple[Store, Bell]:
    try:
        from conch.bells.file import open_watcher
        from conch.bells.postgres import PostgresBell
        from conch.storage.postgres.store import PostgresStore
    except ImportError:
        message = "A PostgreSQL store needs the extra `postgres`: pip install 'conch[postgres]'."
        raise InvalidSetting(message, setting=named) from None
    store = PostgresStore(settings.store, named=named, clock=clock, busy_timeout_ms=settings.busy_timeout_ms)
    return store, PostgresBell(store.connect, store.is_locked, open_watcher)
