"""The composition root: one store, one bell, and the domains that share them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from conch.bells.base import Bell
from conch.bells.file import FileBell
from conch.clock import Clock, system_clock
from conch.config import Settings
from conch.membership import Membership
from conch.storage.base import Store
from conch.storage.sqlite import SqliteStore
from conch.turns import Turns


class App:
    def __init__(self, store: Store, bell: Bell, settings: Settings) -> None:
        self.store = store
        self.bell = bell
        self.settings = settings
        self.turns = Turns(store, bell, settings)
        self.membership = Membership(store, self.turns, settings)

    def close(self) -> None:
        self.bell.close()
        self.store.close()


def open_app(environ: Mapping[str, str], clock: Clock = system_clock) -> App:
    """Nothing is touched yet: the store opens at its first use, so that its errors reach whoever asks."""
    settings = Settings.load(environ)
    path = settings.database
    bell = FileBell(os.path.join(os.path.dirname(path), "bells"), lambda: store.change_counter())
    store = SqliteStore(
        path,
        ring=bell.ring,
        clock=clock,
        busy_timeout_ms=settings.busy_timeout_ms,
        synchronous=settings.synchronous,
    )
    return App(store, bell, settings)
