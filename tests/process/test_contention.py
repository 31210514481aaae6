"""Many processes want the same stick at the same moment."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conch.agents.records import Caller
from conch.app import App
from conch.rooms.log import Event

WEEK_MS = str(7 * 24 * 3_600_000)


@pytest.fixture
def environ(environ: dict[str, str], every_engine: dict[str, str]) -> dict[str, str]:
    return environ | every_engine


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A counter that the owners increment without a lock: the stick is the lock."""
    path = tmp_path / "ledger"
    path.write_text("0")
    return path


def start_together(players: list[Any], gate: Any) -> None:
    for each in players:
        assert each.heard() == ["ready"]
    gate.open()


def check_turns(story: list[list[Any]], events: list[Event], turns: int) -> None:
    """Compare the players' reports with the log: the same turns, and every handoff arrived word for word."""
    claimed = sorted(line[1:] for line in story if line[0] == "claimed")
    written = {line[1]: line[2] for line in story if line[0] == "wrote"}
    assert [turn_id for turn_id, *_ in claimed] == list(range(1, turns + 1))
    assert len({lease_id for _, lease_id, *_ in claimed}) == turns
    assert [handoff for _, _, handoff, *_ in claimed] == [None, *(written[turn_id] for turn_id in range(1, turns))]
    logged = [event for event in events if event.event_type == "claim"]
    assert [(event.turn_id, event.from_agent_id, event.reason) for event in logged] == [
        (turn_id, author, reason) for turn_id, _, _, author, reason in claimed
    ]
    handed_on = [event for event in events if event.event_type in ("release", "pass")]
    assert [event.handoff for event in handed_on] == [written[turn_id] for turn_id in range(1, turns + 1)]


# -- joining and claiming at once


@pytest.mark.parametrize("every_engine", ["sqlite"], indirect=True)  # the stores are folders
def test_sixteen_processes_that_join_a_fresh_path_make_one_room(
    player: Callable[..., Any], gates: Callable[[int], list[Any]], workspace: str, tmp_path: Path
) -> None:
    rounds = gates(60)
    stores = [str(tmp_path / f"store-{number}") for number in range(len(rounds))]
    paths = [gate.path for gate in rounds]
    players = [
        player("join_fresh", agent_id=f"codex:{number}", stores=stores, workspace=workspace, gates=paths)
        for number in range(16)
    ]

    for gate in rounds:
        start_together(players, gate)
        joined = [each.heard()[1:] for each in players]

        assert len({room_id for room_id, _, _ in joined}) == 1
        assert sorted(ordinal for _, ordinal, _ in joined) == list(range(16))
        assert sum(created for _, _, created in joined) == 1
    assert list(tmp_path.glob("store-*/*.backup")) == []


def test_of_many_processes_that_claim_an_idle_room_exactly_one_wins(
    player: Callable[..., Any], gates: Callable[[int], list[Any]], workspaces: Callable[[int], list[str]]
) -> None:
    rounds = gates(25)
    arguments = {"workspaces": workspaces(len(rounds)), "gates": [gate.path for gate in rounds]}
    players = [player("claim_idle", agent_id=f"codex:{number}", **arguments) for number in range(8)]

    for gate in rounds:
        start_together(players, gate)

        assert sorted(each.heard()[1] for each in players) == ["not_yet"] * 7 + ["your_turn"]


def test_of_many_threads_that_claim_an_idle_room_exactly_one_wins(
    app: App, agent: Callable[..., Caller], workspace: str, referee: Any
) -> None:
    callers = [agent(f"codex:{number}") for number in range(16)]
    start = threading.Barrier(len(callers))

    def join_and_claim(caller: Caller, found: list[tuple[str, int, str]]) -> None:
        start.wait()
        room = app.membership.join_path(caller, workspace).snapshot
        start.wait()
        wait = app.claims.wait_for_turn(caller, room.room.room_id, max_wait_ms=0)
        found.append((room.room.room_id, room.member(caller.agent_id).ordinal, wait.status))

    found: list[tuple[str, int, str]] = []
    threads = [threading.Thread(target=join_and_claim, args=(caller, found)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({room_id for room_id, _, _ in found}) == 1
    assert sorted(ordinal for _, ordinal, _ in found) == list(range(16))
    assert sorted(status for _, _, status in found) == ["not_yet"] * 15 + ["your_turn"]
    referee.check(found[0][0])


# -- taking turns


@pytest.mark.parametrize("skews", [(0,), (0, 3600, -3600)], ids=["one clock", "clocks an hour apart"])
def test_eight_processes_take_turns_and_no_handoff_is_lost(
    player: Callable[..., Any],
    gates: Callable[[int], list[Any]],
    environ: dict[str, str],
    workspace: str,
    ledger: Path,
    app: App,
    referee: Any,
    skews: tuple[int, ...],
) -> None:
    environ |= {"CONCH_OWNER_LEASE_TTL_MS": WEEK_MS, "CONCH_CLAIM_TTL_MS": WEEK_MS}
    [gate] = gates(1)
    arguments = {"workspace": workspace, "turns": 25, "gate": gate.path, "ledger": str(ledger)}
    players = [
        player("take_turns", agent_id=f"codex:{number}", skew_seconds=skews[number % len(skews)], **arguments)
        for number in range(8)
    ]

    start_together(players, gate)
    story = [line for each in players for line in each.heard_until("done")]

    [room] = app.rooms.list_rooms(workspace)
    assert ledger.read_text() == "200"
    check_turns(story, referee.check(room.room.room_id), 200)


def test_nobody_acts_on_a_lost_lease_however_wildly_the_stick_is_grabbed(
    player: Callable[..., Any],
    gates: Callable[[int], list[Any]],
    environ: dict[str, str],
    workspace: str,
    app: App,
    referee: Any,
) -> None:
    environ |= {"CONCH_OWNER_LEASE_TTL_MS": "1", "CONCH_CLAIM_TTL_MS": "1"}
    [gate] = gates(1)
    players = {
        f"codex:{number}": player("grab", agent_id=f"codex:{number}", workspace=workspace, tries=150, gate=gate.path)
        for number in range(8)
    }

    start_together(list(players.values()), gate)
    story = {agent_id: each.heard_until("done") for agent_id, each in players.items()}

    [room] = app.rooms.list_rooms(workspace)
    events = referee.check(room.room.room_id)
    granted = {line[1]: (who, line[2]) for who, lines in story.items() for line in lines if line[0] == "granted"}
    released = {line[1]: who for who, lines in story.items() for line in lines if line[0] == "released"}
    grants = [event for event in events if event.event_type in ("claim", "takeover")]
    releases = [event for event in events if event.event_type == "release"]
    assert {turn_id: who for turn_id, (who, _) in granted.items()} == {e.turn_id: e.to_agent_id for e in grants}
    assert {event.turn_id: event.from_agent_id for event in releases} == released
    assert len({lease_id for _, lease_id in granted.values()}) == len(granted)
    codes = {line[1] for lines in story.values() for line in lines if line[0] == "refused"}
    assert {"turn_mismatch"} <= codes <= {"turn_mismatch", "stale_lease", "takeover_not_available"}


# -- over MCP


CLAIM = ("turn_id", "lease_id", "handoff", "from_agent_id", "reason")


class Server:
    """A real `conch mcp`, called by one thread that waits for every answer."""

    def __init__(self, agent_id: str, environ: dict[str, str], workspace: str) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "conch", "mcp"],
            env={**environ, "CONCH_AGENT_ID": agent_id},
            cwd=workspace,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.agent_id = agent_id
        self.story: list[list[Any]] = []
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self._ask("initialize", client)

    def _read(self) -> None:
        for line in self._popen.stdout or ():
            self._lines.put(line)

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self._popen.stdin is not None
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._popen.stdin.write(json.dumps(request).encode() + b"\n")
        self._popen.stdin.flush()
        return json.loads(self._lines.get(timeout=60))["result"]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        assert not result["isError"], result
        return dict(result["structuredContent"])

    def take_turns(self, turns: int, ledger: Path) -> None:
        room_id = self.call("join_path")["room_id"]
        for _ in range(turns):
            mine = self.call("wait_for_turn", room_id=room_id, max_wait_ms=30_000)
            assert mine["status"] == "your_turn", mine
            ledger.write_text(str(int(ledger.read_text()) + 1))
            self.story.append(["claimed", *(mine[name] for name in CLAIM)])
            handoff = {"status": f"{self.agent_id} made turn {mine['turn_id']}\n“ä”", "next_action": "go on"}
            self.story.append(["wrote", mine["turn_id"], handoff])
            fence = {"lease_id": mine["lease_id"], "expected_turn_id": mine["turn_id"]}
            self.call("release_stick", room_id=room_id, handoff=handoff, **fence)
        self.call("leave_path", room_id=room_id)

    def end(self) -> None:
        self._popen.kill()
        self._popen.wait()
        self._reader.join()
        for stream in (self._popen.stdin, self._popen.stdout):
            stream.close()  # type: ignore[union-attr]


@pytest.fixture
def servers(environ: dict[str, str], workspace: str) -> Iterator[list[Server]]:
    servers = [Server(f"codex:{number}", environ, workspace) for number in range(4)]
    yield servers
    for server in servers:
        server.end()


def test_four_mcp_servers_take_turns_and_no_handoff_is_lost(
    servers: list[Server], ledger: Path, app: App, workspace: str, referee: Any
) -> None:
    threads = [threading.Thread(target=server.take_turns, args=(25, ledger)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    [room] = app.rooms.list_rooms(workspace)
    assert ledger.read_text() == "100"
    check_turns([line for server in servers for line in server.story], referee.check(room.room.room_id), 100)
