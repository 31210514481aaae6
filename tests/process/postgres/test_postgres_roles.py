"""What docs/scaling.md tells an operator to type: its roles can do their work and no more, its dump can be restored."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conch.app import open_app
from conch.calls import Call
from conch.errors import OtherToolNeeded, StoreReadOnly
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session
from conch.upkeep.verify import verify_store

PAGE = (Path(__file__).parents[3] / "docs" / "scaling.md").read_text()
HANDOFF = {"status": "done", "next_action": "go on"}


def statements(number: int) -> list[str]:
    """Those of one SQL block of the page."""
    block = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[number]
    return [statement for statement in block.split(";") if statement.strip()]


@pytest.fixture
def owner_url(server: Any) -> Iterator[str]:
    """The page followed from its first SQL block to its last."""
    for statement in statements(0):
        server.ask(statement)
    url = str(server.url("conch", user="conch_owner"))
    app = open_app({**os.environ, "CONCH_STORE": url})
    app.store.migrate()
    app.close()
    for number in (1, 2):
        for statement in statements(number):
            server.ask(f"SET ROLE conch_owner; {statement}", "conch")
    yield url
    server.ask("DROP DATABASE IF EXISTS restored WITH (FORCE)")
    server.ask("DROP DATABASE conch WITH (FORCE)")
    server.ask("DROP ROLE conch_owner")
    server.ask("DROP ROLE conch_agent")


class Agent:
    """An agent in this process, with the rights of the role for agents, that has joined the workspace's room."""

    def __init__(self, app: Any, agent_id: str, workspace: str) -> None:
        self._session = Session(app, "mcp")
        self.used: set[str] = set()
        self.room_id = ""
        self.room_id = self.call("join_path", context_path=workspace, agent_id_override=agent_id)["room_id"]

    def call(self, tool: str, **arguments: Any) -> Any:
        self.used.add(tool)
        room = {"room_id": self.room_id} if "room_id" in TOOLS[tool].input_schema["properties"] else {}
        reply = call_tool(TOOLS[tool], self._session, room | arguments, Call())
        reply.delivery.sent()  # or the next call would wait a second for this
        assert not reply.is_error, reply.text
        return reply.data

    def let_go(self, turn: Any, tool: str, **arguments: Any) -> Any:
        return self.call(tool, lease_id=turn["lease_id"], expected_turn_id=turn["turn_id"], **arguments)


@pytest.fixture
def agent_app(owner_url: str) -> Iterator[Any]:
    app = open_app({**os.environ, "CONCH_STORE": owner_url.replace("conch_owner", "conch_agent")})
    yield app
    app.close()


def use_the_bus(codex: Agent, claude: Agent) -> None:
    codex.call("ping")
    topic = {"topic_id": codex.call("topic_create", name="pink")["topic_id"]}
    codex.call("topic_list")
    codex.call("topic_resolve", name="pink")
    for agent, name in ((codex, "red"), (claude, "blue")):
        agent.call("topic_join", **topic, agent_name=name)
    codex.call("sync", **topic, outbox=[{"content_markdown": "hello"}], wait_seconds=0)
    claude.call("cursor_reset", **topic)
    claude.call("topic_presence", **topic)
    claude.call("messages_search", query="hello")
    asked = {**topic, "question_id": codex.call("ask", **topic, question="Why?", wait_seconds=0)["question_id"]}
    claude.call("pending_list", **topic, wait_seconds=0)
    response = {"question_id": asked["question_id"], "answer_markdown": "So.", "suggested_followups": ["Really?"]}
    claude.call("answer", **topic, responses=[response])
    codex.call("ask_poll", **asked)
    codex.call("question_mark_answered", **asked)
    other = codex.call("ask", **topic, question="How?", wait_seconds=0)["question_id"]
    codex.call("ask_cancel", **topic, question_id=other)
    codex.call("topic_close", **topic)


def use_scopes(codex: Agent, claude: Agent) -> None:
    codex.call("agent_register", name="red-fox")
    codex.call("agent_heartbeat")
    codex.call("agent_list")
    codex.call("scope_reserve", scope="src")
    codex.call("scope_check", path="src/a.py")
    codex.call("scope_list")
    codex.call("scope_release", scope="src")
    payload = {"subject": "Parser", "summary": "It parses", "next_action": "Review it"}
    sent = codex.call("event_send", event_type="HANDOFF", to_agent="claude:1", payload=payload)["event"]
    claude.call("listen", wait_seconds=0)
    claude.call("event_inbox")
    claude.call("event_mark", event_id=sent["id"], mark="accepted")


def test_the_role_for_agents_can_use_every_tool(agent_app: Any, workspace: str) -> None:
    codex, claude = (Agent(agent_app, agent_id, workspace) for agent_id in ("codex:1", "claude:1"))
    codex.call("list_rooms", context_path=workspace)
    codex.call("set_room_policy", policy={"claim_ttl_ms": 1})
    codex.call("reorder_members", order=["claude:1", "codex:1"])
    codex.call("append_note", note="so far so good")
    use_the_bus(codex, claude)
    use_scopes(codex, claude)
    turn = codex.call("wait_for_turn", max_wait_ms=0)
    codex.let_go(turn, "heartbeat")
    codex.let_go(turn, "pass_stick", to_agent_id="claude:1", handoff=HANDOFF)
    taken = codex.call("takeover_stick", expected_turn_id=1, reason="claude is late")
    codex.let_go(taken, "release_stick", handoff=HANDOFF)
    turn = claude.call("wait_for_turn", max_wait_ms=0)
    claude.let_go(turn, "release_stick", handoff=HANDOFF)
    claude.call("leave_path")
    turn = codex.call("wait_for_turn", max_wait_ms=0)
    codex.call("get_room_state")
    codex.call("get_room_events")
    codex.let_go(turn, "close_room")

    # Adoption needs an agent that is gone; it writes only what other tools write too.
    assert set(TOOLS) - codex.used - claude.used == {"agent_adopt"}
    assert verify_store(agent_app.store).problems == []


@pytest.mark.parametrize(
    "deed",
    [
        "CREATE TABLE conch.pearls (id int)",
        "CREATE TEMPORARY TABLE pearls (id int)",
        "CREATE SCHEMA pearls",
        "DROP TABLE conch.room_events",
        "TRUNCATE conch.room_members",
        "UPDATE conch.room_events SET reason = 'another story'",
        "DELETE FROM conch.room_events",
        "UPDATE conch.meta SET value = '99'",
        "ALTER TABLE conch.agents ADD COLUMN pearls int",
    ],
)
def test_the_role_for_agents_can_do_nothing_else(agent_app: Any, deed: str) -> None:
    with pytest.raises(StoreReadOnly, match="is not allowed to do this"), agent_app.store.write("a") as tx:
        tx.connection.execute(deed)


def test_wiping_and_migrating_are_the_owners_business(agent_app: Any) -> None:
    with pytest.raises(StoreReadOnly, match="is not allowed to do this"):
        agent_app.store.wipe()
    with pytest.raises(StoreReadOnly, match="is not allowed to do this"):
        agent_app.store.migrate()


def test_what_pg_dump_wrote_pg_restore_brings_back(
    owner_url: str, agent_app: Any, server: Any, programs: Any, workspace: str, tmp_path: Path
) -> None:
    room_id = Agent(agent_app, "codex:1", workspace).room_id
    restored = owner_url.replace("/conch?", "/restored?")
    server.ask("CREATE DATABASE restored OWNER conch_owner")

    for program, arguments in re.findall(r"^(pg_dump|pg_restore) (.*)$", PAGE, re.MULTILINE):
        given = arguments.replace("postgresql://conch_owner@db.example/conch", owner_url)
        given = given.replace("postgresql://conch_owner@db.example/restored", restored)
        subprocess.run([programs.folder / program, *given.split()], cwd=tmp_path, check=True, capture_output=True)

    app = open_app({**os.environ, "CONCH_STORE": restored.replace("conch_owner", "conch_agent")})
    snapshot = app.rooms.get_state(None, room_id)
    problems = verify_store(app.store).problems
    app.close()
    assert [member.agent_id for member in snapshot.members] == ["codex:1"]
    assert problems == []


def test_the_line_that_backup_prints_always_names_the_owner(owner_url: str, agent_app: Any) -> None:
    with pytest.raises(OtherToolNeeded) as told:
        agent_app.store.backup(None)

    assert owner_url.partition("?")[0] in told.value.details["command"]
    assert "conch_agent" not in told.value.details["command"]
