"""What every command works with: the application, its options, the caller and the room."""

from __future__ import annotations

import os
import sys
from functools import cached_property, lru_cache

from conch.agents.records import read_label
from conch.app import App, open_app
from conch.calls import Call
from conch.errors import InvalidArgument, LimitExceeded, TopicNotFound, UnknownMember, UnknownRoom, some_of
from conch.lean import TYPE_CHECKING, Any, TextIO, import_module
from conch.tools import fields
from conch.tools.replies import Delivered, Reply
from conch.tools.schema import check_arguments
from conch.tools.session import Session

if TYPE_CHECKING:
    from conch.agents.records import Caller
    from conch.bus.peers import Peer
    from conch.rooms.room import Member, Snapshot

_PLACE = fields.takes(path=fields.PATH, room=fields.ROOM_ID)
LARGEST_INPUT = 16 * 1024 * 1024  # no handoff may be larger, and /dev/zero has no end
_LONGEST_ECHO = 80


def open_named(option: str, store: str) -> App:
    """Open the store that an option names. Errors name that option."""
    if not store.strip():
        raise InvalidArgument(f"{option} must be non-empty.", field=option)
    return open_app({**os.environ, "CONCH_STORE": store}, named=f"--{option}")


class Context:
    """One run of a command. It looks up the caller once and the room once."""

    def __init__(self, app: App, options: Any) -> None:
        self.app = app
        self.options = options
        self.session = Session(app, "cli")
        self._speaks_for: str | None = getattr(options, "agent", None)
        self.delivered = Delivered()
        """What the command shows itself, so that the mail leaves it out."""

    # -- caller and room

    @property
    def caller(self) -> Caller:
        """The agent that runs the command, or the agent of `--agent`."""
        if self._speaks_for is not None:
            self._speak_for(self._speaks_for)
            self._speaks_for = None
        return self.session.caller()

    def _speak_for(self, named: str) -> None:
        from conch.agents.identity import load_caller, require_itself
        from conch.agents.signals import gather_signals

        caller = load_caller(self.app.store, self.name_here(named), self._home_topic())
        active_ms = self.app.settings.policy.presence_ttl_ms
        require_itself(self.app.store, caller, gather_signals("cli", os.environ, None), active_ms)
        self.session.speak_as(caller)

    @cached_property
    def room(self) -> Snapshot:
        """The room of `--room`, of `--path` or of the working directory. This counts as activity."""
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
            raise UnknownRoom("There is no open room here; `conch join` creates one.", field="room", path=path)
        return found[0]

    @property
    def room_id(self) -> str:
        """The id of that room. If `--room` gives it, the store is not read."""
        return self.room.room.room_id if self.options.room is None else self._given_room()

    def _given_room(self) -> str:
        check_arguments("conch", _PLACE, {"room": self.options.room})
        return str(self.options.room)

    def _home_topic(self) -> str | None:
        """The home topic of the room here, where names are looked up; None without a room."""
        try:
            return self._room.room.topic_id
        except UnknownRoom:
            return None

    def path(self) -> str:
        """The given path, or the working directory."""
        given: str | None = self.options.path
        try:
            path = os.getcwd() if given is None else given
            path.encode()
        except OSError:
            raise InvalidArgument(
                "The working directory no longer exists; change to another one or give a path.", field="path"
            ) from None
        except UnicodeEncodeError:
            raise InvalidArgument(
                f"path {path[:_LONGEST_ECHO]!r} cannot be used: it is not valid UTF-8.", field="path"
            ) from None
        check_arguments("conch", _PLACE, {"path": path})
        return path

    @cached_property
    def topic_id(self) -> str:
        """`--topic` by its id or its name, or the home topic of the room."""
        given: str | None = self.options.topic
        if given is None:
            return self.room.room.topic_id
        # An id comes first: a topic's name may look like the id of another.
        for find in (self.app.topics.find, lambda name: self.app.topics.resolve(name, allow_closed=True)):
            try:
                return find(given).topic_id
            except TopicNotFound:
                continue
        message = f"There is no topic {given[:_LONGEST_ECHO]!r}; `conch topics list` shows all topics."
        raise TopicNotFound(message, field="topic")

    # -- what commands do with it

    def tool(self, address: str, call: Call | None = None, /, **arguments: Any) -> Reply:
        """Run a tool of the MCP server, with the same checks. An address is `turns.join_path`, for example."""
        from conch.tools.registry import run_tool  # not every command needs it

        group, _, name = address.partition(".")
        tool = next(tool for tool in import_module(f"conch.tools.{group}").TOOLS if tool.name == name)
        if self._speaks_for is not None:
            _ = self.caller  # the tool asks the session, which must know about `--agent` by then
        reply = run_tool(tool, self.session, arguments, call or Call())
        if reply.delivered.topic_id or reply.delivered.ids:
            self.delivered = reply.delivered
        return reply

    def limit(self, most: int) -> int:
        """The value of `--limit`, checked."""
        given: int = self.options.limit
        if not 1 <= given <= most:
            raise InvalidArgument(f"--limit must be from 1 to {most}.", field="limit")
        return given

    def room_tool(self, address: str, /, **arguments: Any) -> Reply:
        """Run a tool in the room here."""
        return self.tool(address, room_id=self.room_id, **arguments)

    def name_here(self, text: str) -> str:
        """The current name of the agent that has or had this name in the room here."""
        topic_id = self._home_topic()
        return text if topic_id is None else self.present_name(text, topic_id)

    def present_name(self, text: str, topic_id: str) -> str:
        """The current name of the agent that has or had this name in a room."""
        from conch.bus.peers import present_name

        if not text.isprintable():  # no agent has such a name
            return text
        with self.app.store.read() as tx:
            return present_name(tx, topic_id, text)

    def join_topic(self, topic_id: str) -> Peer:
        """Join a topic under the caller's own name."""
        peer = self.app.peers.join_as_itself(self.caller, topic_id)
        self.session.take_name(peer)
        return peer

    def now(self) -> int:
        """The time of the store's clock, which dates everything in it. This host's clock may be wrong."""
        with self.app.store.read() as tx:
            return tx.now


def nameable(snapshot: Snapshot, text: str) -> list[Member]:
    """The members that a person may mean with a text. One that is long gone must be named exactly."""
    exact, members = snapshot.called(text), snapshot.members
    return members if exact is None or exact in members else [*members, exact]


def find_member(members: list[Member], text: str, field: str) -> str:
    """An agent_id from what a person typed: the label, the name, the id, or the beginning of one."""
    if not text.strip():
        raise InvalidArgument(f"{field} must be non-empty.", field=field)
    found = [m for m in members if m.name == text] or [m for m in members if m.agent_id == text]
    typed = read_label(text)
    if typed is not None and not found:
        found = [m for m in members if typed.fits(m.agent_id) and m.name.startswith(typed.name)]
        found = [m for m in found if m.name == typed.name] or found
    found = found or [m for m in members if any(each.startswith(text) for each in (m.agent_id, m.name, m.label))]
    if len(found) == 1:
        return found[0].agent_id
    shown, names = repr(text[:_LONGEST_ECHO]), [member.label for member in found or members]
    if found:
        raise InvalidArgument(f"{shown} could be {' or '.join(names)}; type more of the name.", field=field)
    listed = some_of(names) or "none"
    raise UnknownMember(f"No member that you can name here matches {shown}. You can name: {listed}.", field=field)


def read_standard_input(field: str | None = None) -> bytes:
    """All of standard input, read once: a command that runs again after a lost connection needs it again."""
    if sys.stdin is None:  # our parent process closed it
        raise InvalidArgument("There is no standard input to read.", field=field)
    content = _read_once(sys.stdin)
    if len(content) > LARGEST_INPUT:
        message = f"Standard input is larger than {LARGEST_INPUT} bytes, so it was not used."
        raise LimitExceeded(message, field=field, limit=LARGEST_INPUT)
    return content


@lru_cache(maxsize=1)
def _read_once(stream: TextIO) -> bytes:
    return stream.buffer.read(LARGEST_INPUT + 1)
