"""`conch db prune`: it says what it would delete, and a person or `--yes` decides."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from tests.process.cli.conftest import CONCH

from conch.app import App, open_app
from conch.upkeep.verify import verify_store


@pytest.fixture
def read(conch: Any) -> None:
    """Two agents have talked, and have read everything."""
    for agent in ("ada:1", "bob:2"):
        conch("join", agent=agent)
    conch("send", "one")
    conch("send", "two")
    for agent in ("ada:1", "bob:2"):
        assert conch("read", agent=agent).status == 0


@pytest.mark.usefixtures("read")
def test_a_dry_run_and_a_missing_yes_delete_nothing_and_say_what_would_go(conch: Any) -> None:
    dry = conch("db", "prune", "--older", "0s", "--dry-run", "--json")
    refused = conch("db", "prune", "--older", "0s", "--json")

    assert (dry.status, dry.data["messages"], dry.data["dry_run"]) == (0, 2, True)
    assert refused.status != 0 and refused.error["field"] == "yes"
    assert "2 messages" in refused.error["message"]
    assert conch("db", "prune", "--older", "0s", "--dry-run", "--json").data == dry.data


@pytest.mark.usefixtures("read")
def test_with_yes_it_is_deleted_and_the_next_message_is_numbered_on(conch: Any) -> None:
    young = conch("db", "prune", "--older", "1d", "--yes", "--json").data
    pruned = conch("db", "prune", "--older", "0s", "--yes", "--compact", "--json").data
    again = conch("db", "prune", "--older", "0s", "--yes").out
    conch("send", "four")

    assert (young["messages"], pruned["messages"]) == (0, 2)
    assert "Nothing" in again
    assert "#3" in conch("read", agent="bob:2").out
    assert conch("db", "verify").status == 0


def test_with_nothing_to_delete_it_says_so_in_a_sentence(conch: Any) -> None:
    conch("join")

    dry = conch("db", "prune", "--older", "1d", "--dry-run").out
    compacted = conch("db", "prune", "--older", "1d", "--compact", "--yes").out

    assert dry.startswith("Nothing would be deleted from ")
    assert compacted.startswith("Deleted nothing from ")


def test_a_time_is_required_unless_the_setting_gives_one(conch: Any) -> None:
    missing = conch("db", "prune", "--json")
    wrong = conch("db", "prune", "--older", "soon", "--json")

    assert (missing.status, missing.error["field"]) == (2, "older")
    assert (wrong.status, wrong.error["field"]) == (2, "older")
    assert conch("db", "prune", "--dry-run", CONCH_RETENTION_DAYS="30").status == 0


def test_a_prune_that_is_killed_leaves_a_sound_store_and_the_next_one_goes_on(conch: Any, environ: Any) -> None:
    conch("join")
    conch("join", agent="bob:2")
    app = open_app(environ)
    topic_id = conch("state", "--json").data["room"]["topic_id"]
    peers = {row["name"]: row["peer_id"] for row in _rows(app, "peers") if row["topic_id"] == topic_id}
    with app.store.write(topic_id) as tx:
        tx.load("messages", (_message(topic_id, seq, min(peers.values())) for seq in range(1, 20_001)))
        tx.one("take_seqs", topic_id=topic_id, count=20_000, now=2)
        tx.run("raise_cursors", topic_id=topic_id, through=20_000)
    command = [*CONCH, "db", "prune", "--older", "1d", "--yes"]
    running = subprocess.Popen(command, env=environ)
    while not (pruned := max(row["pruned_seq"] for row in _rows(app, "topic_seq"))) and running.poll() is None:
        pass
    running.kill()
    running.wait()

    problems = verify_store(app.store).problems
    app.close()

    assert pruned and problems == []
    assert conch("db", "prune", "--older", "1d", "--yes").status == 0
    assert conch("db", "prune", "--older", "1d", "--dry-run", "--json").data["messages"] == 0
    assert conch("db", "verify").status == 0


def _rows(app: App, table: str) -> list[dict[str, Any]]:
    with app.store.read() as tx:
        return list(tx.dump(table))


def _message(topic_id: str, seq: int, sender_id: int) -> dict[str, Any]:
    about = {"message_id": f"m{seq}", "topic_id": topic_id, "seq": seq, "sender_id": sender_id, "own_seq": seq}
    return {**about, "message_type": "message", "content_markdown": f"old {seq}", "created_at": 1_000_000 + seq}
