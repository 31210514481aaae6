"""Agents whose round trips are counted: in this process, with mail of every kind, and with a clock of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.arguments import NOTICE

from conch.agents.identity import Signal, Signals
from conch.app import App
from conch.calls import Call
from conch.clock import SECOND, system_clock
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session

Object = dict[str, Any]
LATER = 6 * 60 * SECOND  # a sign of life is due once it is five minutes old
HANDOFF = {"status": "done", "next_action": "go on"}
KINDS = ("nothing else", "presence", "mail", "new mail", "presence and new mail")
"""What a call may have to do besides its own work."""


class Clock:
    """Says the system's time, and later."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return system_clock() + self.ahead


class Caller:
    """A connection that shows who it is at every join, as a real one does."""

    def __init__(self, app: App, agent_id: str, workspace: str) -> None:
        signal = Signal("explicit", agent_id, "CONCH_AGENT_ID")
        signals = Signals((signal,), "agent", None, None, "mcp_harness", "")
        self.session = Session(app, "mcp", signals=lambda called_in: signals)
        self._workspace = workspace
        self.joined = self.join()

    def call(self, tool: str, **arguments: Any) -> Object:
        """Call a tool, and report that its reply has arrived, as a door does."""
        reply = call_tool(TOOLS[tool], self.session, arguments, Call())
        assert not reply.is_error, reply.text
        reply.delivery.sent()
        return reply.data

    def join(self) -> Object:
        return self.call("join_path", context_path=self._workspace)

    def sync(self, *texts: str) -> Object:
        outbox = [{"content_markdown": text} for text in texts]
        return self.call("sync", topic_id=self.joined["topic_id"], outbox=outbox, wait_seconds=0)

    def claim(self) -> Object:
        return self.call("wait_for_turn", max_wait_ms=0)

    def release(self) -> Object:
        return self.call("release_stick", handoff=HANDOFF)


def post_from(eve: Caller, ada: Caller, bob: Caller) -> Callable[[], None]:
    """Let an agent in another room write and ask on a topic that ada and bob have joined, but do not read.

    Each of them also gets a notice from the other.
    """
    topic_id = eve.call("topic_create", name="elsewhere")["topic_id"]
    for caller in (eve, ada, bob):
        caller.call("topic_join", topic_id=topic_id, agent_name=caller.joined["agent_id"].replace(":", "-"))

    def write() -> None:
        eve.call("sync", topic_id=topic_id, outbox=[{"content_markdown": "Look at this."}], wait_seconds=0)
        eve.call("ask", topic_id=topic_id, question="Did you?", wait_seconds=0)
        for sender, recipient in ((ada, bob), (bob, ada)):
            sender.call("event_send", event_type="HANDOFF", to_agent=recipient.joined["agent_id"], payload=NOTICE)

    return write


def make_presence_due(app: App, clock: Clock) -> None:
    """The next call has to record that its caller is there."""
    clock.ahead += LATER
    app.rooms._active_until.clear()
