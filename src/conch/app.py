"""The composition root: one store, one bell, and the domains that share them.

A domain is imported at its first use, because every command and every harness pays for each import.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property, partial

from conch.bells.base import Bell
from conch.clock import Clock
from conch.config import Settings
from conch.lean import TYPE_CHECKING
from conch.storage.base import Store
from conch.storage.opening import is_server, open_store

if TYPE_CHECKING:
    from conch.bus.peers import Peers
    from conch.bus.questions import Questions
    from conch.bus.sync import Messages
    from conch.bus.topics import Topics
    from conch.listening.listening import Listening
    from conch.members.adoption import Adoption
    from conch.members.membership import Membership
    from conch.members.names import Registration
    from conch.notices.events import Notices
    from conch.rooms.presence import Rooms
    from conch.scopes.guard import Guard
    from conch.scopes.overlaps import Holdings
    from conch.scopes.reservations import Reservations
    from conch.search.search import Search
    from conch.turns.stick import Turns
    from conch.turns.waiting import Claims
    from conch.waking.waking import Waking


class App:
    def __init__(self, store: Store, bell: Bell, settings: Settings) -> None:
        self.store = store
        self.bell = bell
        self.settings = settings

    @property
    def has_store(self) -> bool:
        """Whether there is a store. Looking into a file that is missing would create it."""
        return is_server(self.settings.store) or os.path.exists(self.store.describe())

    @cached_property
    def rooms(self) -> Rooms:
        from conch.rooms.presence import Rooms

        return Rooms(self.store, self.settings)

    @cached_property
    def claims(self) -> Claims:
        from conch.turns.waiting import Claims

        return Claims(self.store, self.bell, self.rooms, self.settings)

    @cached_property
    def turns(self) -> Turns:
        from conch.turns.stick import Turns

        return Turns(self.store, self.bell, self.rooms, self.settings)

    @cached_property
    def holdings(self) -> Holdings:
        from conch.scopes.overlaps import Holdings

        return Holdings()

    @cached_property
    def reservations(self) -> Reservations:
        from conch.scopes.reservations import Reservations

        return Reservations(self.rooms, self.holdings)

    @cached_property
    def guard(self) -> Guard:
        from conch.scopes.guard import Guard

        return Guard(self.store, self.rooms)

    @cached_property
    def registration(self) -> Registration:
        from conch.members.names import Registration

        return Registration(self.rooms)

    @cached_property
    def adoption(self) -> Adoption:
        from conch.members.adoption import Adoption

        return Adoption(self.rooms, self.holdings)

    @cached_property
    def notices(self) -> Notices:
        from conch.notices.events import Notices

        return Notices(self.store, self.rooms, self.settings)

    @cached_property
    def membership(self) -> Membership:
        from conch.members.membership import Membership

        return Membership(self.store, self.rooms, self.settings)

    @cached_property
    def topics(self) -> Topics:
        from conch.bus.topics import Topics

        return Topics(self.store, self.settings)

    @cached_property
    def peers(self) -> Peers:
        from conch.bus.peers import Peers

        return Peers(self.store)

    @cached_property
    def messages(self) -> Messages:
        from conch.bus.sync import Messages

        return Messages(self.store, self.bell, self.settings)

    @cached_property
    def questions(self) -> Questions:
        from conch.bus.questions import Questions

        return Questions(self.store, self.bell, self.settings)

    @cached_property
    def listening(self) -> Listening:
        from conch.listening.listening import Listening
        from conch.notices.delivery import find_news

        news = partial(find_news, self.store, to_all=True)
        return Listening(self.store, self.bell, self.claims, news, self.settings)

    @cached_property
    def waking(self) -> Waking:
        from conch.waking.waking import Waking

        return Waking(self.store)

    @cached_property
    def search(self) -> Search:
        from conch.search.search import Search

        return Search(self.store)

    def load(self) -> None:
        """Import every domain and read every statement now. A process that has no descriptor left can do neither."""
        from conch.agents import override, petnames  # noqa: F401
        from conch.bells import ears  # noqa: F401
        from conch.letters import invisible  # noqa: F401

        for name, value in vars(App).items():
            if isinstance(value, cached_property):
                getattr(self, name)
        self.store.load()

    def close(self) -> None:
        self.bell.close()
        self.store.close()


def open_app(environ: Mapping[str, str], clock: Clock | None = None, named: str = "CONCH_STORE") -> App:
    """Open the store that the environment names. Tests may pass a `clock`.

    `named` is the setting or option that gave the address of the store; error messages refer to it.
    """
    settings = Settings.load(environ)
    store, bell = open_store(settings, clock, named)
    return App(store, bell, settings)
