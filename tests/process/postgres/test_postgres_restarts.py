"""The server dies and comes back: nothing is lost, nothing is doubled, and waits continue."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.cli.conftest import Terminal
from tests.process.postgres.conftest import END_OTHERS

from conch.app import App
from conch.bells.base import seat_channel

HANDOFF = {"status": "done", "next_action": "go on"}
LONG_MS = 28_000
SOONER = 15.0  # seconds; a wait of LONG_MS neither ends nor polls by itself sooner


class Table:
    """A room with the stick in codex's hand, and claude waiting for it; each in a process of its own."""

    def __init__(self, agents: Callable[..., Any], app: App, workspace: str, until: Callable[..., Any]) -> None:
        self.codex, self.claude = agents("codex:1"), agents("claude:1")
        for agent in (self.codex, self.claude):
            self.room_id = agent.call("join_path", context_path=workspace)["room_id"]
        self.turn = self.codex.call("wait_for_turn", room_id=self.room_id, max_wait_ms=0)
        self.claude.begin("wait_for_turn", room_id=self.room_id, max_wait_ms=LONG_MS)
        self._app, self._until = app, until
        self.see_claude_waiting()

    def see_claude_waiting(self) -> None:
        self._until(lambda: self._app.bell.hears(seat_channel(self.room_id, "claude:1")))

    def release(self) -> Any:
        return self.codex.call(
            "release_stick",
            room_id=self.room_id,
            lease_id=self.turn["lease_id"],
            expected_turn_id=self.turn["turn_id"],
            handoff=HANDOFF,
        )


@pytest.fixture
def table(agents: Callable[..., Any], app: App, workspace: str, until: Callable[..., Any]) -> Table:
    return Table(agents, app, workspace, until)


def test_a_waiter_gets_the_stick_that_is_released_after_the_server_was_killed(table: Table, server: Any) -> None:
    server.kill()
    server.start()

    released = table.release()

    assert released["reserved_for"] == "claude:1"
    mine = table.claude.hear(SOONER)
    assert (mine["status"], mine["turn_id"], mine["handoff"]) == ("your_turn", 2, HANDOFF)


def test_a_waiter_waits_while_the_server_is_down(table: Table, server: Any) -> None:
    server.stop()
    refused = table.release()
    server.start()
    table.see_claude_waiting()  # again, by itself

    released = table.release()

    assert refused["error"] == "DB_UNAVAILABLE"
    assert released["recipient_status"] == "waiting"
    assert table.claude.hear(SOONER)["status"] == "your_turn"


def test_a_ring_that_was_missed_while_the_bell_was_away_is_made_up_for(
    table: Table, server: Any, database: str
) -> None:
    server.ask(END_OTHERS, database)

    released = table.release()

    assert released["reserved_for"] == "claude:1"
    assert table.claude.hear(SOONER)["status"] == "your_turn"


def test_watch_shows_that_the_server_is_away_and_goes_on_when_it_is_back(
    table: Table, server: Any, environ: dict[str, str], workspace: str
) -> None:
    window = Terminal(environ, Path(workspace), columns=80)
    try:
        window.start("watch")
        window.read_until(b"has the stick")
        server.stop()
        window.read_until(b"does not answer")
        server.start()
        table.release()
        window.read_until(b"released the stick")
        window.type("q")

        assert window.read_until(b"ended: 0.")
    finally:
        window.end()


def test_a_process_does_not_notice_that_the_server_was_restarted_between_two_calls(table: Table, server: Any) -> None:
    server.restart()

    state = table.codex.call("get_room_state", room_id=table.room_id)
    renewed = table.codex.call(
        "heartbeat", room_id=table.room_id, lease_id=table.turn["lease_id"], expected_turn_id=table.turn["turn_id"]
    )

    assert state["room"]["owner"] == "codex:1"
    assert renewed["turn_id"] == 1


def test_a_store_replaces_the_connections_that_the_server_dropped(app: App, server: Any, database: str) -> None:
    with app.store.read() as one, app.store.read() as other:
        assert one.now and other.now  # from now on it keeps two
    server.ask(END_OTHERS, database)

    with app.store.write("a") as tx:
        rooms = tx.all("all_rooms")

    assert rooms == []


# -- on the command line


class Waiter:
    """`conch wait`, by claude:1."""

    def __init__(self, environ: dict[str, str], workspace: str, *words: str) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "conch", "wait", "--json", *words],
            env={**os.environ, **environ, "CONCH_AGENT_ID": "claude:1"},
            cwd=workspace,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def see_waiting(self) -> None:
        assert self._popen.stderr is not None
        assert "codex·" in self._popen.stderr.readline()

    def interrupt(self) -> None:
        """Returns once it has taken the signal."""
        self._popen.send_signal(signal.SIGTERM)
        while "ShdPnd:\t0000000000000000" not in Path(f"/proc/{self._popen.pid}/status").read_text():
            pass

    def hear(self) -> Any:
        return json.loads(self._popen.communicate(timeout=SOONER)[0])

    def end(self) -> None:
        self._popen.kill()
        self._popen.communicate()


@pytest.fixture
def wait(environ: dict[str, str], workspace: str) -> Iterator[Callable[..., Waiter]]:
    started: list[Waiter] = []

    def wait(*words: str, **variables: str) -> Waiter:
        started.append(Waiter({**environ, **variables}, workspace, *words))
        return started[-1]

    yield wait
    for each in started:
        each.end()


@pytest.fixture
def held(agents: Callable[..., Any], app: App, workspace: str, until: Callable[..., Any]) -> Table:
    """The same room, but no agent waits for the stick yet."""
    table = Table(agents, app, workspace, until)
    table.claude.end()
    until(lambda: not app.bell.hears(seat_channel(table.room_id, "claude:1")))
    return table


def turn_away(port: int, times: int) -> None:
    """Listen in the server's place and close so many connections that the waiter looks at the store meanwhile."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(SOONER)
        for _ in range(times):
            listener.accept()[0].close()


def test_a_command_that_waits_outlasts_a_server_that_is_down(
    held: Table, wait: Callable[..., Waiter], server: Any, database: str
) -> None:
    often = {"heartbeat_interval_ms": 1}  # so that it looks while the server is down
    held.codex.call("set_room_policy", room_id=held.room_id, policy=often)
    waiter = wait(CONCH_STORE=server.tcp_url(database))
    waiter.see_waiting()

    server.kill()
    turn_away(server.port, times=7)
    server.start()
    held.see_claude_waiting()  # again, by itself
    held.release()

    mine = waiter.hear()["data"]
    assert (mine["status"], mine["turn_id"], mine["handoff"]) == ("your_turn", 2, HANDOFF)


def test_a_command_that_waits_finds_the_claim_whose_commit_was_not_confirmed(
    held: Table, wait: Callable[..., Waiter], proxy: Any, database: str
) -> None:
    def lose_the_answer(link: Any, data: bytes) -> None:
        link.deafen()
        link.forward(data)

    waiter = wait(CONCH_STORE=proxy.url(database))
    waiter.see_waiting()
    proxy.at_commit(lose_the_answer)

    held.release()

    mine = waiter.hear()["data"]
    assert (mine["status"], mine["turn_id"], mine["handoff"]) == ("your_turn", 2, HANDOFF)


def test_a_command_does_not_wait_for_a_server_that_was_never_there(
    held: Table, wait: Callable[..., Waiter], server: Any
) -> None:
    server.stop()

    assert wait().hear()["error"]["code"] == "DB_UNAVAILABLE"


@pytest.mark.usefixtures("held")
def test_a_command_that_waits_asks_the_server_nothing_while_nothing_happens(
    wait: Callable[..., Waiter], proxy: Any, database: str
) -> None:
    looks: list[bytes] = []

    def count(link: Any, data: bytes) -> None:
        looks.append(data)
        proxy.at_words(b"FROM path_rooms", count)
        link.forward(data)

    waiter = wait("--timeout", "5", CONCH_STORE=proxy.url(database))
    waiter.see_waiting()
    proxy.at_words(b"FROM path_rooms", count)
    answer = waiter.hear()

    assert answer["error"]["code"] == "not_yet"
    assert len(looks) == 1  # when its time was over


@pytest.mark.usefixtures("held")
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc whether a signal was taken")
def test_a_command_whose_last_look_is_lost_does_not_forget_a_signal(
    wait: Callable[..., Waiter], proxy: Any, database: str
) -> None:
    def interrupt_and_cut(link: Any, _: bytes) -> None:
        waiter.interrupt()
        link.cut()

    waiter = wait("--timeout", "1", CONCH_STORE=proxy.url(database))
    waiter.see_waiting()
    proxy.at_words(b"FROM path_rooms", interrupt_and_cut)

    assert waiter.hear()["error"]["code"] == "cancelled"


def test_following_the_events_of_a_room_outlasts_a_server_that_is_killed(
    held: Table, server: Any, environ: dict[str, str], workspace: str
) -> None:
    command = [sys.executable, "-m", "conch", "events", "--follow", "--json", "--limit", "1"]
    who = {**os.environ, **environ, "CONCH_AGENT_ID": "claude:1"}
    with subprocess.Popen(command, env=who, cwd=workspace, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        before = json.loads(follower.stdout.readline())
        server.kill()
        server.start()

        held.codex.call("append_note", room_id=held.room_id, note="we are back")

        after = json.loads(follower.stdout.readline())
        follower.kill()
    assert (before["event_type"], after["event_type"]) == ("claim", "note")


# -- in the middle of the traffic


class Witness:
    """Hears one player out, in a thread of its own."""

    def __init__(self, player: Any) -> None:
        self.player = player
        self.room_id = player.hear()[1]
        self.lines: list[list[Any]] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        self.player.go()
        self._thread.start()

    def _listen(self) -> None:
        while ["done"] not in self.lines:
            self.lines.append(self.player.hear())

    def finish(self) -> None:
        self._thread.join(60)
        assert self.lines[-1] == ["done"]

    def said(self, word: str) -> list[list[Any]]:
        return [line[1:] for line in self.lines if line[0] == word]


def make_workspace(root: Path) -> str:
    root.mkdir()
    (root / "AGENTS.md").write_text("")
    return str(root)


def test_a_server_killed_in_the_middle_of_the_traffic_loses_and_doubles_nothing(
    agents: Callable[..., Any], server: Any, referee: Any, tmp_path: Path, until: Callable[..., Any]
) -> None:
    workspaces = [make_workspace(tmp_path / f"w{number}") for number in range(2)]
    witnesses = [Witness(agents(f"codex:{n}", "play", workspaces[n % 2], "25")) for n in range(6)]

    for witness in witnesses:
        witness.start()
    for enough in (20, 60, 100):
        until(lambda enough=enough: sum(len(w.said("released")) for w in witnesses) >= enough)
        server.kill()
        server.start()
    for witness in witnesses:
        witness.finish()

    assert {code for w in witnesses for _, code in w.said("unsure")} <= {"DB_UNCERTAIN"}
    for mine in (witnesses[0::2], witnesses[1::2]):
        log = referee.check(mine[0].room_id)
        written = [event.handoff["status"] for event in log if event.event_type == "release"]
        confirmed = [mark for w in mine for _, mark in w.said("released")]
        attempted = [mark for w in mine for _, mark in w.said("writes")]
        assert len(written) == len(set(written))
        assert set(confirmed) <= set(written) <= set(attempted)
        claims = {(e.to_agent_id, e.turn_id) for e in log if e.event_type == "claim"}
        assert claims == {(w.player.agent_id, claimed[0]) for w in mine for claimed in w.said("claimed")}
