"""What every command works with: the application, its options, and who calls."""

from __future__ import annotations

import os

from conch.app import App, open_app
from conch.bus.names import present_name
from conch.bus.peers import Peer
from conch.calls import Call
from conch.errors import InvalidArgument, TopicNotFound, UnknownMember, UnknownRoom
from conch.rooms.room import Member, Snapshot
from conch.tools import TOOLS, fields
from conch.tools.registry import Result, run_tool
from conch.tools.schema import check_arguments
from conch.tools.session import Session
from conch.typed import Any

PLACE = fields.takes(path=fields.PATH, room=fields.ROOM_ID)
LONGEST_ECHO = 80


def open_named(option: str, store: str) -> App:
    """The store that an option names; whatever is wrong with it, errors speak of that option."""
    if not store.strip():
        raise InvalidArgument(f"{option} must be non-empty.", field=option)
    return open_app({**os.environ, "CONCH_STORE": store}, named=f"--{option}")


class Context:
    def __init__(self, app: App, options: Any) -> None:
        self.app = app
        self.options = options
        self.session = Session(app, "cli")

    def tool(self, tool: str, call: Call | None = None, /, **arguments: Any) -> Result:
        """The same tool that MCP offers, with the same checks."""
        return run_tool(TOOLS[tool], self.session, arguments, call or Call())

    def limit(self, most: int) -> int:
        """How many are wanted, by `--limit`."""
        given: int = self.options.limit
        if not 1 <= given <= most:
            raise InvalidArgument(f"--limit must be from 1 to {most}.", field="limit")
        return given

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
                f"path {path[:LONGEST_ECHO]!r} cannot be used: it is not valid UTF-8.", field="path"
            ) from None
        check_arguments("conch", PLACE, {"path": path})
        return path

    def room_id(self) -> str:
        """`--room`, or the room of `--path` or of the working directory."""
        if self.options.room is not None:
            check_arguments("conch", PLACE, {"room": self.options.room})
            return str(self.options.room)
        path = self.path()
        rooms = self.app.membership.list_rooms(path)
        if not rooms:
            raise UnknownRoom("There is no room here yet; `conch join` makes one.", field="room", path=path)
        return rooms[0].room.room_id

    def topic_id(self) -> str:
        """`--topic` by its id or its name, or the home topic of the room."""
        given: str | None = self.options.topic
        if given is None:
            return self.snapshot(self.room_id()).room.topic_id
        for find in (self.app.topics.find, lambda name: self.app.topics.resolve(name, allow_closed=True)):
            try:
                return find(given).topic_id
            except TopicNotFound:
                continue
        message = f"There is no topic {given[:LONGEST_ECHO]!r}; `conch topics list` shows those there are."
        raise TopicNotFound(message, field="topic")

    def present_name(self, text: str, topic_id: str) -> str:
        """What whoever had this name in a room is called now."""
        if not text.isprintable():  # nobody can be called so
            return text
        with self.app.store.read() as tx:
            return present_name(tx, topic_id, text)

    def join_topic(self, topic_id: str) -> Peer:
        """Speak there under the caller's own name."""
        peer = self.app.peers.join_as_itself(self.session.caller(), topic_id)
        self.session.take_name(peer)
        return peer

    def now(self) -> int:
        """The store's clock, by which everything in it is dated; this host's may be wrong."""
        with self.app.store.read() as tx:
            return tx.now

    def snapshot(self, room_id: str) -> Snapshot:
        return self.app.membership.get_state(self.session.caller(), room_id)


def find_member(members: list[Member], text: str, field: str) -> str:
    """An agent_id from what a person typed: the name, the id, or the beginning of either."""
    if not text.strip():
        raise InvalidArgument(f"{field} must be non-empty.", field=field)
    found = [m for m in members if m.name == text] or [m for m in members if m.agent_id == text]
    found = found or [m for m in members if m.agent_id.startswith(text) or m.name.startswith(text)]
    if len(found) == 1:
        return found[0].agent_id
    said, names = repr(text[:LONGEST_ECHO]), [f"{m.agent_id} ({m.name})" for m in found or members]
    if found:
        raise InvalidArgument(f"{said} could be {' or '.join(names)}; say more of it.", field=field)
    raise UnknownMember(f"There is no member {said} here; there are {', '.join(names) or 'none'}.", field=field)
