"""Files of other programs, made as their specifications say."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_TOPICS = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE topics (topic_id TEXT PRIMARY KEY, name TEXT, created_at REAL, status TEXT, closed_at REAL,
  close_reason TEXT, metadata_json TEXT);
"""
_BUS_5 = """
CREATE TABLE questions (question_id TEXT PRIMARY KEY, topic_id TEXT, asked_by TEXT, question_text TEXT, asked_at REAL,
  status TEXT, cancel_reason TEXT);
CREATE TABLE answers (answer_id TEXT PRIMARY KEY, topic_id TEXT, question_id TEXT, answered_by TEXT, answered_at REAL,
  payload_json TEXT);
"""
_BUS_6 = """
CREATE TABLE topic_seq (topic_id TEXT PRIMARY KEY, next_seq INTEGER, updated_at REAL);
CREATE TABLE messages (message_id TEXT PRIMARY KEY, topic_id TEXT, seq INTEGER, sender TEXT, message_type TEXT,
  reply_to TEXT, content_markdown TEXT, metadata_json TEXT, client_message_id TEXT, created_at REAL);
CREATE UNIQUE INDEX messages_seq ON messages (topic_id, seq);
CREATE TABLE cursors (topic_id TEXT, agent_name TEXT, last_seq INTEGER, updated_at REAL,
  PRIMARY KEY (topic_id, agent_name));
CREATE TABLE agent_name_reservations (topic_id TEXT, agent_name TEXT, reclaim_token TEXT, created_at REAL,
  last_claimed_at REAL, PRIMARY KEY (topic_id, agent_name));
"""
_STICK = """
CREATE TABLE path_rooms (room_id TEXT PRIMARY KEY, canonical_path TEXT NOT NULL,
  sequence_index INTEGER NOT NULL DEFAULT 0, owner TEXT,
  reserved_for TEXT, pending_handoff_event_seq INTEGER, turn_id INTEGER NOT NULL DEFAULT 0, lease_id TEXT,
  lease_expires_at TEXT, claim_expires_at TEXT, state TEXT NOT NULL, updated_at TEXT NOT NULL, UNIQUE (canonical_path));
CREATE TABLE room_members (room_id TEXT NOT NULL, agent_id TEXT NOT NULL, ordinal INTEGER NOT NULL,
  joined_at TEXT NOT NULL, last_seen_at TEXT NOT NULL, status TEXT NOT NULL, host_id TEXT, pid INTEGER,
  process_started_at TEXT, session_kind TEXT NOT NULL, display_name TEXT, PRIMARY KEY (room_id, agent_id));
CREATE TABLE room_events (event_seq INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL UNIQUE,
  room_id TEXT NOT NULL, turn_id INTEGER NOT NULL, event_type TEXT NOT NULL, from_agent_id TEXT, to_agent_id TEXT,
  handoff_json TEXT, reason TEXT, created_at TEXT NOT NULL);
"""
NOON = 1_750_000_000.25  # the time of everything that happened elsewhere


class ForeignFile:
    """A database file of another program. Every change is committed at once, and the file stays in WAL mode."""

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        self._schema = schema
        self.run(lambda connection: connection.executescript(f"PRAGMA journal_mode = WAL; {schema}"))

    def run(self, act: Any) -> None:
        connection = sqlite3.connect(self.path)
        with connection:
            act(connection)
        connection.close()

    def insert(self, table: str, *rows: dict[str, Any]) -> None:
        def act(connection: sqlite3.Connection) -> None:
            for row in rows:
                places = ", ".join(f":{name}" for name in row)
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", row)

        self.run(act)


def bus_file(path: Path, version: int = 6, topic: str = "pink") -> ForeignFile:
    """A bus with one open topic."""
    file = ForeignFile(path, _TOPICS + (_BUS_6 if version == 6 else _BUS_5))
    file.insert("meta", {"key": "schema_version", "value": str(version)})
    file.insert("topics", {"topic_id": "t1", "name": topic, "created_at": NOON, "status": "open"})
    return file


def message(seq: int, sender: str, text: str, **more: Any) -> dict[str, Any]:
    row = {"message_id": f"m{seq}", "topic_id": "t1", "seq": seq, "sender": sender, "content_markdown": text}
    return {**row, "message_type": "message", "created_at": NOON + seq, **more}


def stick_file(path: Path, workspace: str, agents: Iterable[str]) -> ForeignFile:
    """A talking stick with one idle room."""
    file = ForeignFile(path, _STICK)
    times = {"joined_at": "2025-06-15T12:00:00Z", "last_seen_at": "2025-06-15T12:30:00Z"}
    room = {"room_id": "r1", "canonical_path": workspace, "state": "idle", "updated_at": "2025-06-15T12:30:00Z"}
    file.insert("path_rooms", room)
    for ordinal, agent_id in enumerate(agents):
        member = {"room_id": "r1", "agent_id": agent_id, "ordinal": ordinal, "status": "active"}
        file.insert("room_members", {**member, **times, "session_kind": "mcp_harness"})
    return file


def event(number: int, kind: str, turn_id: int, by: str | None, to: str | None, **more: Any) -> dict[str, Any]:
    handoff = (
        {"status": f"did {number}", "next_action": f"go on after {number}"} if kind in ("release", "pass") else None
    )
    row = {"event_id": f"e{number}", "room_id": "r1", "turn_id": turn_id, "event_type": kind, "from_agent_id": by}
    row |= {"to_agent_id": to, "handoff_json": json.dumps(handoff) if handoff else None}
    return {**row, "created_at": f"2025-06-15T12:{number:02d}:00.000Z", **more}
