"""The composition root: one store, one bell, and the domains that share them."""

from __future__ import annotations

from collections.abc import Mapping

from conch.bells.base import Bell
from conch.bus.peers import Peers
from conch.bus.questions import Questions
from conch.bus.sync import Messages
from conch.bus.topics import Topics
from conch.clock import Clock
from conch.config import Settings
from conch.members.membership import Membership
from conch.members.registration import Registration
from conch.notices.events import Protocol
from conch.rooms.presence import Rooms
from conch.scopes.reservations import Reservations
from conch.search.search import Search
from conch.storage.base import Store
from conch.storage.opening import open_store
from conch.turns.stick import Turns
from conch.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from conch.members.adoption import Adoption


class App:
    def __init__(self, store: Store, bell: Bell, settings: Settings) -> None:
        self.store = store
        self.bell = bell
        self.settings = settings
        self.rooms = Rooms(store, settings)
        self.turns = Turns(store, bell, self.rooms, settings)
        self.reservations = Reservations(self.rooms)
        self.registration = Registration(self.rooms)
        self.protocol = Protocol(store, self.rooms, settings)
        self.membership = Membership(store, self.rooms, settings)
        self.topics = Topics(store, settings)
        self.peers = Peers(store)
        self.messages = Messages(store, bell, settings)
        self.questions = Questions(store, bell, settings)
        self.search = Search(store)

    @property
    def adoption(self) -> Adoption:
        from conch.members.adoption import Adoption  # seldom needed, and every harness pays for what is imported

        return Adoption(self.rooms)

    def close(self) -> None:
        self.bell.close()
        self.store.close()


def open_app(environ: Mapping[str, str], clock: Clock | None = None, named: str = "CONCH_STORE") -> App:
    """`clock` stands in for the store's own, in tests; `named` is what errors say when the store's name is wrong."""
    settings = Settings.load(environ)
    store, bell = open_store(settings, clock, named)
    return App(store, bell, settings)
