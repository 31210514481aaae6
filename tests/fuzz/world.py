"""A small world to call into: one server that gets the bad calls, one living neighbour, and rows to compare."""

from __future__ import annotations

import json
import os
import select
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.arguments import HANDOFF
from tests.process.forking import Ended, Forks

from conch.app import open_app

Object = dict[str, Any]
SECONDS = 60
# Notices of high urgency have no rate limit.
URGENT = {"subject": "CI", "blocker": "no token", "requested_action": "add one", "urgency": "high"}
# A refused call is still a sign of life. A notice is noted as shown after the reply of an earlier call.
PRESENCE = {"agents": {"last_seen_at"}, "cursors": {"updated_at"}, "protocol_events": {"shown_at"}}


class Server:
    """`conch mcp` for one agent."""

    def __init__(self, environ: dict[str, str], agent_id: str, folder: Path) -> None:
        self._errors = (folder / f"{agent_id}.stderr").open("w+b")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "conch", "mcp"],
            env={**environ, "CONCH_AGENT_ID": agent_id}, cwd=folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        self.agent_id = agent_id
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}
        self.request("initialize", hello)

    def request(self, method: str, params: Object) -> tuple[Object, int]:
        """The reply to a request, and its length."""
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], SECONDS)[0], f"no reply: {line[:300]!r}"
        reply = self._process.stdout.readline()
        assert reply, f"the server ended after {line[:300]!r}: {self.errors()}"
        return json.loads(reply), len(reply)

    def data(self, tool: str, **arguments: Any) -> Object:
        """What a call that must succeed returns."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})[0]["result"]
        assert not result["isError"], result["structuredContent"]
        data: Object = result["structuredContent"]
        return data

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


class World:
    """A store with two rooms, and everything that a call can name."""

    def __init__(self, folder: Path, store: str = "") -> None:
        (folder / "home").mkdir()
        self._folder = folder
        self.environ = {
            "HOME": str(folder / "home"),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "LANG": "C.UTF-8",
            "CONCH_DATA_DIR": str(folder / "data"),
            **({"CONCH_STORE": store} if store else {}),
        }
        self.ada = Server(self.environ, "ada:1", folder)
        self.bob = Server(self.environ, "bob:2", folder)
        self._app = open_app(self.environ)
        self._number = 0
        self.elsewhere = self.bob.data("join_path", context_path=self._workspace())
        self._changes = _watch(store, folder / "data" / "rooms.sqlite")
        self.renew()

    def renew(self) -> None:
        """A new room in which ada holds the stick, with a question, a notice and a reservation of each."""
        self.workspace = self._workspace()
        room = self.ada.data("join_path", context_path=self.workspace)
        self.bob.data("join_path", context_path=self.workspace)
        room_id, home = room["room_id"], room["topic_id"]
        turn = self.ada.data("wait_for_turn", room_id=room_id, max_wait_ms=0)
        asked = [who.data("ask", topic_id=home, question="Why?", wait_seconds=0) for who in (self.ada, self.bob)]
        notice = {"room_id": room_id, "event_type": "BLOCKED", "to_agent": room["agent_id"], "payload": URGENT}
        event = self.bob.data("event_send", **notice)["event"]
        self.free_topic = self.ada.data("topic_create", mode="new")["topic_id"]
        self.ada.data("scope_reserve", room_id=room_id, scope="docs")
        self.bob.data("scope_reserve", room_id=room_id, scope="tests")
        response = {"question_id": asked[1]["question_id"], "answer_markdown": "a", "suggested_followups": ["f"]}
        self.valid: Object = {
            "room_id": room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"], "handoff": HANDOFF,
            "to_agent_id": "bob:2", "to_agent": "bob:2", "order": [room["agent_id"], "bob:2"], "topic_id": home,
            "scope": "docs", "question_id": asked[0]["question_id"], "event_id": event["id"],
            "context_path": self.workspace, "responses": [response],
            "policy": {"claim_ttl_ms": 1_000}, "outbox": [{"content_markdown": "hello"}],
        }  # fmt: skip
        self.ids = [
            *(value for value in self.valid.values() if isinstance(value, str)),
            *(str(self.elsewhere[name]) for name in ("room_id", "topic_id", "canonical_path")),
            room["agent_id"], room["name"], asked[1]["question_id"], self.free_topic, "docs", "tests",
        ]  # fmt: skip
        self._last, self._known = next(self._changes), self._rows()

    def _workspace(self) -> str:
        self._number += 1
        place = self._folder / f"workspace-{self._number}"
        place.mkdir()
        (place / "AGENTS.md").write_text("")
        return str(place.resolve())

    def changes(self) -> dict[str, list[str]]:
        """The rows that were removed (-) and added (+) since the last look, without signs of life."""
        seen, self._last = self._last, next(self._changes)
        if seen == self._last:
            return {}
        before, self._known = self._known, self._rows()
        return {name: _compare(before[name], now) for name, now in self._known.items() if before[name] != now}

    def _rows(self) -> dict[str, set[str]]:
        with self._app.store.read() as tx:
            return {table: {_without_presence(table, row) for row in tx.dump(table)} for table in tx.tables()}

    def settle(self, synced: Object) -> None:
        """Wait until the cursor is where the reply of a `sync` says. It moves after the reply."""
        deadline, look = time.monotonic() + SECONDS, {"wait_seconds": 0, "auto_advance": False}
        while self.ada.data("sync", topic_id=synced["topic_id"], **look)["cursor"] < synced["cursor"]:
            assert time.monotonic() < deadline, f"the cursor did not move: {synced}"

    def type(self, forks: Forks, words: list[str]) -> Ended:
        """Run a command as bob, whose server lives."""
        environ = {**self.environ, "CONCH_AGENT_ID": "bob:2"}
        return forks.run(words, environ, Path(self.workspace), b"", SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._changes.close()
        self._app.close()
        self.ada.end()
        self.bob.end()


def _compare(before: set[str], now: set[str]) -> list[str]:
    return [*(f"- {row}" for row in sorted(before - now)), *(f"+ {row}" for row in sorted(now - before))]


def _without_presence(table: str, row: Object) -> str:
    if table == "meta" and row["key"] == "mark":  # where SQLite's file was when a sign of life was written
        return ""
    return repr([value for name, value in row.items() if name not in PRESENCE.get(table, ())])


def _watch(store: str, file: Path) -> Any:
    """Yields a number that changes whenever a process commits a change. Comparing all rows each time would be slow."""
    if store:
        import psycopg

        with psycopg.connect(store, autocommit=True) as connection:
            while True:
                yield connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
    reader = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        while True:
            yield reader.execute("PRAGMA data_version").fetchone()
    finally:
        reader.close()
