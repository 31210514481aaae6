"""What every command works with: the application, its words, and who calls."""

from __future__ import annotations

from typing import Any

from conch.app import App
from conch.calls import Call
from conch.errors import InvalidArgument, UnknownRoom
from conch.rooms import Snapshot
from conch.tools import TOOLS
from conch.tools.registry import Result, run_tool
from conch.tools.session import Session


class Context:
    def __init__(self, app: App, options: Any) -> None:
        self.app = app
        self.options = options
        self.session = Session(app, "cli")

    def tool(self, name: str, call: Call | None = None, **arguments: Any) -> Result:
        """The same tool that MCP offers, with the same checks."""
        return run_tool(TOOLS[name], self.session, arguments, call or Call())

    def room_id(self) -> str:
        """`--room`, or the room of `--path` or of the working directory."""
        if self.options.room:
            return str(self.options.room)
        rooms = self.app.membership.list_rooms(self.session.path(self.options.path))
        if not rooms:
            raise UnknownRoom("There is no room here yet; `conch join` makes one.", field="room")
        return rooms[0].room.room_id

    def snapshot(self, room_id: str) -> Snapshot:
        return self.app.membership.get_state(self.session.caller(), room_id)

    def member_id(self, snapshot: Snapshot, text: str) -> str:
        """An agent_id from what a person typed: the id, the name, or the beginning of either."""
        exact = [m.agent_id for m in snapshot.members if text in (m.agent_id, m.name)]
        begun = [m.agent_id for m in snapshot.members if m.agent_id.startswith(text) or m.name.startswith(text)]
        found = exact or begun
        if len(found) > 1:
            raise InvalidArgument(f"{text!r} could be {' or '.join(found)}; say more of it.", field="to_agent_id")
        return found[0] if found else text
