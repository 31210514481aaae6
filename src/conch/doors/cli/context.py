"""What every command works with: the application, its options, and who calls where, found once."""

from __future__ import annotations

import os
from functools import cached_property
from importlib import import_module

from conch.app import App, open_app
from conch.calls import Call
from conch.errors import InvalidArgument, TopicNotFound, UnknownMember, UnknownRoom
from conch.lean import TYPE_CHECKING, Any
from conch.tools import fields
from conch.tools.registry import run_tool
from conch.tools.replies import Reply
from conch.tools.schema import check_arguments
from conch.tools.session import Session

if TYPE_CHECKING:
    from conch.agents.identity import Caller
    from conch.bus.peers import Peer
    from conch.rooms.room import Member, Snapshot

PLACE = fields.takes(path=fields.PATH, room=fields.ROOM_ID)
_LONGEST_ECHO = 80


def open_named(option: str, store: str) -> App:
    """The store that an option names; whatever is wrong with it, errors speak of that option."""
    if not store.strip():
        raise InvalidArgument(f"{option} must be non-empty.", field=option)
    return open_app({**os.environ, "CONCH_STORE": store}, named=f"--{option}")


class Context:
    """One command. It asks the store once who is calling and once which room is meant, and everything shares that."""

    def __init__(self, app: App, options: Any) -> None:
        self.app = app
        self.options = options
        self.session = Session(app, "cli")
        self._speaks_for: str | None = getattr(options, "agent", None)

    # -- who and where

    @property
    def caller(self) -> Caller:
        """The agent that runs the command, or the one that `--agent` names."""
        if self._speaks_for is not None:
            self._speak_for(self._speaks_for)
            self._speaks_for = None
        return self.session.caller()

    def _speak_for(self, named: str) -> None:
        from conch.agents.identity import load_caller

        self.session.speak_as(load_caller(self.app.store, self.name_here(named), self._home_topic()))

    @cached_property
    def room(self) -> Snapshot:
        """The room of `--room`, of `--path` or of the working directory; that the caller looked at it is noted."""
        snapshot = self._room
        self.app.rooms.touch_if_due(snapshot, self.caller)
        return snapshot

    @cached_property
    def _room(self) -> Snapshot:
        if self.options.room is not None:
            return self.app.rooms.get_state(None, self._given_room())
        path = self.path()
        found = self.app.rooms.list_rooms(path)
        if not found:
            raise UnknownRoom("There is no room here yet; `conch join` makes one.", field="room", path=path)
        return found[0]

    @property
    def room_id(self) -> str:
        """The id of the same room; one that is given is taken as it is."""
        return self.room.room.room_id if self.options.room is None else self._given_room()

    def _given_room(self) -> str:
        check_arguments("conch", PLACE, {"room": self.options.room})
        return str(self.options.room)

    def _home_topic(self) -> str | None:
        """The topic of the room here, whose names are meant; None where no room is."""
        try:
            return self._room.room.topic_id
        except UnknownRoom:
            return None

    def path(self) -> str:
        """The path that was given, else the working directory."""
        given: str | None = self.options.path
        try:
            path = os.getcwd() if given is None else given
            path.encode()
        except OSError:
            raise InvalidArgument("The working directory is gone; go elsewhere or name a path.", field="path") from None
        except UnicodeEncodeError:
            raise InvalidArgument(
                f"path {path[:_LONGEST_ECHO]!r} cannot be used: it is not valid UTF-8.", field="path"
            ) from None
        check_arguments("conch", PLACE, {"path": path})
        return path

    @cached_property
    def topic_id(self) -> str:
        """`--topic` by its id or its name, or the home topic of the room."""
        given: str | None = self.options.topic
        if given is None:
            return self.room.room.topic_id
        for find in (self.app.topics.find, lambda name: self.app.topics.resolve(name, allow_closed=True)):
            try:
                return find(given).topic_id
            except TopicNotFound:
                continue
        message = f"There is no topic {given[:_LONGEST_ECHO]!r}; `conch topics list` shows those there are."
        raise TopicNotFound(message, field="topic")

    # -- what commands do with it

    def tool(self, address: str, call: Call | None = None, /, **arguments: Any) -> Reply:
        """Run a tool that MCP offers too, with the same checks: `turns.join_path`."""
        group, _, name = address.partition(".")
        tool = next(tool for tool in import_module(f"conch.tools.{group}").TOOLS if tool.name == name)
        if self._speaks_for is not None:
            _ = self.caller  # tools ask the session
        return run_tool(tool, self.session, arguments, call or Call())

    def limit(self, most: int) -> int:
        """How many are wanted, by `--limit`."""
        given: int = self.options.limit
        if not 1 <= given <= most:
            raise InvalidArgument(f"--limit must be from 1 to {most}.", field="limit")
        return given

    def room_tool(self, address: str, /, **arguments: Any) -> Reply:
        """The same in the room here."""
        return self.tool(address, room_id=self.room_id, **arguments)

    def name_here(self, text: str) -> str:
        """What the agent that had this name in the room here is called now."""
        topic_id = self._home_topic()
        return text if topic_id is None else self.present_name(text, topic_id)

    def present_name(self, text: str, topic_id: str) -> str:
        """What the agent that had this name in a room is called now."""
        from conch.bus.peers import present_name

        if not text.isprintable():  # no agent can be called so
            return text
        with self.app.store.read() as tx:
            return present_name(tx, topic_id, text)

    def join_topic(self, topic_id: str) -> Peer:
        """Speak there under the caller's own name."""
        peer = self.app.peers.join_as_itself(self.caller, topic_id)
        self.session.take_name(peer)
        return peer

    def now(self) -> int:
        """The store's clock, by which everything in it is dated; this host's may be wrong."""
        with self.app.store.read() as tx:
            return tx.now


def find_member(members: list[Member], text: str, field: str) -> str:
    """An agent_id from what a person typed: the name, the id, or the beginning of either."""
    if not text.strip():
        raise InvalidArgument(f"{field} must be non-empty.", field=field)
    found = [m for m in members if m.name == text] or [m for m in members if m.agent_id == text]
    found = found or [m for m in members if m.agent_id.startswith(text) or m.name.startswith(text)]
    if len(found) == 1:
        return found[0].agent_id
    said, names = repr(text[:_LONGEST_ECHO]), [f"{m.agent_id} ({m.name})" for m in found or members]
    if found:
        raise InvalidArgument(f"{said} could be {' or '.join(names)}; say more of it.", field=field)
    raise UnknownMember(f"There is no member {said} here; there are {', '.join(names) or 'none'}.", field=field)
