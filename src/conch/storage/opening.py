"""Which engine a store's address means, and the bell that goes with it."""

from __future__ import annotations

import os

from conch.bells.base import Bell
from conch.clock import Clock, system_clock
from conch.config import Settings
from conch.errors import InvalidSetting
from conch.storage.base import Store

POSTGRES_SCHEMES = ("postgresql://", "postgres://")


def open_store(settings: Settings, clock: Clock | None = None) -> tuple[Store, Bell]:
    """Nothing is touched yet: a store opens at its first use, so that its errors reach whoever asks."""
    if settings.store.startswith(POSTGRES_SCHEMES):
        return _open_postgres(settings, clock)
    if "://" in settings.store and not settings.store.startswith("sqlite://"):
        # Not shown: a mistyped address may hold a password.
        message = "CONCH_STORE must be a file, or a URL that begins with postgresql:// or sqlite://."
        raise InvalidSetting(message, setting="CONCH_STORE")
    return _open_sqlite(settings, clock)


def _open_sqlite(settings: Settings, clock: Clock | None) -> tuple[Store, Bell]:
    from conch.bells.file import FileBell
    from conch.storage.sqlite import SqliteStore

    path = sqlite_path(settings)
    bell = FileBell(os.path.join(os.path.dirname(path), "bells"), lambda: store.change_counter())
    store = SqliteStore(
        path,
        ring=bell.ring,
        clock=clock or system_clock,
        busy_timeout_ms=settings.busy_timeout_ms,
        synchronous=settings.synchronous,
    )
    return store, bell


def sqlite_path(settings: Settings) -> str:
    """`CONCH_STORE` when it names a file, else `rooms.sqlite` in the data directory."""
    if settings.store:
        return os.path.abspath(os.path.expanduser(settings.store.removeprefix("sqlite://")))
    return os.path.join(os.path.abspath(os.path.expanduser(settings.data_dir)), "rooms.sqlite")


def _open_postgres(settings: Settings, clock: Clock | None) -> tuple[Store, Bell]:
    try:
        from conch.bells.postgres import PostgresBell
        from conch.storage.postgres import PostgresStore
    except ImportError:
        message = "A PostgreSQL store needs the extra `postgres`: pip install 'conch[postgres]'."
        raise InvalidSetting(message, setting="CONCH_STORE") from None
    store = PostgresStore(settings.store, clock=clock, busy_timeout_ms=settings.busy_timeout_ms)
    return store, PostgresBell(store.connect, store.is_locked)
