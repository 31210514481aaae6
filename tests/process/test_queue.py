"""The writers' queue: every writer gets through, and a writer that hangs does not block the others forever."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.upkeep.verify import verify_store

BUSY_TIMEOUT_SECONDS = 5
LONGEST = "600000"


def test_thirty_two_processes_write_at_once_and_nobody_is_refused(
    player: Callable[..., Any],
    gates: Callable[[int], list[Any]],
    app: App,
    workspace: str,
    referee: Any,
    record_property: Callable[[str, object], None],
) -> None:
    [gate] = gates(1)
    players = [
        player("take_notes", agent_id=f"codex:{number}", workspace=workspace, notes=100, gate=gate.path)
        for number in range(32)
    ]
    for each in players:
        assert each.heard() == ["ready"]
    gate.open()

    longest = max(each.heard_until("done")[-1][1] for each in players)

    record_property("longest_write_seconds", longest)
    assert longest < BUSY_TIMEOUT_SECONDS
    [room] = app.rooms.list_rooms(workspace)
    notes = [event.details["note"] for event in referee.check(room.room.room_id) if event.event_type == "note"]
    assert sorted(notes) == sorted(f"codex:{number} {note}" for number in range(32) for note in range(100))


# -- a writer that hangs in the queue


@pytest.fixture
def writer(player: Callable[..., Any], environ: dict[str, str], workspace: str) -> Any:
    """A member that writes a note on demand."""
    environ.setdefault("CONCH_BUSY_TIMEOUT_MS", "1500")
    writer = player("note_when_told", agent_id="gemini:1", workspace=workspace)
    assert writer.heard() == ["joined"]
    return writer


def test_a_stopped_process_at_the_head_of_the_queue_delays_others_but_shuts_nobody_out(
    player: Callable[..., Any], writer: Any, app: App, workspace: str, referee: Any
) -> None:
    first = player("stand_first_in_queue")
    assert first.heard() == ["first"]
    first.popen.send_signal(signal.SIGSTOP)

    writer.tell("while it is stopped")
    assert writer.heard()[0] == "noted"

    first.popen.send_signal(signal.SIGCONT)
    first.tell("go")
    assert first.heard() == ["gone"]
    writer.tell("afterwards")
    assert writer.heard()[0] == "noted"
    [room] = app.rooms.list_rooms(workspace)
    notes = [event.details["note"] for event in referee.check(room.room.room_id) if event.event_type == "note"]
    assert notes == ["while it is stopped", "afterwards"]


def test_exactly_one_claim_wins_even_while_nobody_gets_through_the_queue(
    player: Callable[..., Any],
    gates: Callable[[int], list[Any]],
    environ: dict[str, str],
    workspaces: Callable[[int], list[str]],
    app: App,
) -> None:
    environ["CONCH_BUSY_TIMEOUT_MS"] = "1500"
    rounds = gates(3)
    arguments = {"workspaces": workspaces(len(rounds)), "gates": [gate.path for gate in rounds]}
    players = [player("claim_idle", agent_id=f"codex:{number}", **arguments) for number in range(8)]
    for each in players:
        assert each.heard() == ["ready"]
    first = player("stand_first_in_queue")
    assert first.heard() == ["first"]
    first.popen.send_signal(signal.SIGSTOP)

    for gate in rounds:
        gate.open()
        asked = [each.heard()[1] for each in players]
        if gate is not rounds[-1]:
            assert [each.heard() for each in players] == [["ready"]] * 8

        assert asked.count("your_turn") == 1
        assert set(asked) <= {"your_turn", "not_yet", "DB_BUSY"}

    first.popen.send_signal(signal.SIGCONT)
    assert verify_store(app.store).problems == []


def test_a_process_stopped_inside_a_transaction_makes_others_busy_and_breaks_nothing(
    player: Callable[..., Any], writer: Any, app: App, workspace: str, referee: Any
) -> None:
    inside = player("stay_inside", agent_id="codex:1", workspace=workspace)
    assert inside.heard() == ["inside"]
    inside.popen.send_signal(signal.SIGSTOP)

    writer.tell("never written")
    assert writer.heard()[0] == "DB_BUSY"
    [room] = app.rooms.list_rooms(workspace)
    assert [member.agent_id for member in room.members] == ["gemini:1", "codex:1"]

    inside.popen.send_signal(signal.SIGCONT)
    inside.tell("go on")
    assert inside.heard() == ["outside"]
    writer.tell("afterwards")
    assert writer.heard()[0] == "noted"
    notes = [event.details["note"] for event in referee.check(room.room.room_id) if event.event_type == "note"]
    assert notes == ["in two halves", "afterwards"]


def test_a_writer_is_told_that_the_store_is_busy_within_the_busy_timeout(
    player: Callable[..., Any], environ: dict[str, str], workspace: str
) -> None:
    environ["CONCH_BUSY_TIMEOUT_MS"] = "2000"
    writer = player("note_when_told", agent_id="gemini:1", workspace=workspace)
    assert writer.heard() == ["joined"]
    assert player("stay_inside", agent_id="codex:1", workspace=workspace).heard() == ["inside"]

    writer.tell("never written")

    outcome, seconds = writer.heard()
    assert outcome == "DB_BUSY"
    assert seconds < 2 * 2, "it waited once for the queue and once more for SQLite"


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the threads of this process")


@LINUX
def test_those_who_gave_up_in_the_queue_leave_no_thread_and_no_descriptor_there(
    player: Callable[..., Any],
    environ: dict[str, str],
    agent: Callable[..., Caller],
    workspace: str,
    until: Callable[..., Any],
) -> None:
    codex = agent("codex:1")
    with closing(open_app({**environ, "CONCH_BUSY_TIMEOUT_MS": "50"})) as hasty:
        room_id = hasty.membership.join_path(codex, workspace).snapshot.room.room_id
        first = player("stand_first_in_queue")
        assert first.heard() == ["first"]
        before = threads_and_files()
        for number in range(5):
            hasty.membership.append_note(codex, room_id, f"note {number}")

        first.tell("go")

        until(lambda: threads_and_files() == before)


def threads_and_files() -> tuple[int, int]:
    """How many threads this process has, as the system counts them, and how many descriptors of the queue's file."""
    found = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return len(os.listdir("/proc/self/task")), sum(path.endswith(".queue") for path in found)


@LINUX
def test_a_stuck_queue_costs_a_process_one_thread_however_much_it_writes(
    player: Callable[..., Any],
    environ: dict[str, str],
    agent: Callable[..., Caller],
    workspace: str,
    until: Callable[..., Any],
) -> None:
    codex = agent("codex:1")
    with closing(open_app({**environ, "CONCH_BUSY_TIMEOUT_MS": "2000"})) as busy:
        room_id = busy.membership.join_path(codex, workspace).snapshot.room.room_id
        first = player("stand_first_in_queue")
        assert first.heard() == ["first"]
        first.popen.send_signal(signal.SIGSTOP)
        threads, files = threads_and_files()

        def write() -> None:
            for number in range(5):
                busy.membership.append_note(codex, room_id, f"note {number}")

        writers = [threading.Thread(target=write) for _ in range(6)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()

        until(lambda: threads_and_files() == (threads + 1, files + 1))  # those of the first writer that gave up
        first.popen.send_signal(signal.SIGCONT)


def test_after_one_writer_gave_up_nobody_waits_for_a_stuck_queue_until_it_moves(
    player: Callable[..., Any],
    environ: dict[str, str],
    workspace: str,
    until: Callable[..., Any],
    is_queueing: Callable[[Any], bool],
) -> None:
    environ["CONCH_BUSY_TIMEOUT_MS"] = LONGEST
    writer = player("note_when_told", agent_id="codex:1", workspace=workspace)
    assert writer.heard() == ["joined"]
    first = player("stand_first_in_queue")
    assert first.heard() == ["first"]
    writer.tell("given up")
    until(lambda: is_queueing(writer))
    writer.popen.send_signal(signal.SIGINT)
    assert writer.heard()[0] == "interrupted"

    writer.tell("written past the queue")  # waiting would take minutes
    assert writer.heard()[0] == "noted"

    first.tell("go")
    assert first.heard() == ["gone"]
    until(lambda: not is_queueing(writer))
    writer.tell("written in the queue")
    assert writer.heard()[0] == "noted"


def test_a_queue_that_cannot_be_opened_fails_no_write(
    app: App, environ: dict[str, str], agent: Callable[..., Caller], workspace: str
) -> None:
    codex = agent("codex:1")
    queue = f"{app.store.describe()}.queue"
    os.unlink(queue)
    os.mkdir(queue)

    with closing(open_app(environ)) as another:
        assert another.membership.join_path(codex, workspace).created


def test_a_writer_that_is_interrupted_in_the_queue_does_not_keep_its_place(
    player: Callable[..., Any],
    environ: dict[str, str],
    workspace: str,
    until: Callable[..., Any],
    is_queueing: Callable[[Any], bool],
) -> None:
    environ["CONCH_BUSY_TIMEOUT_MS"] = LONGEST
    hasty, writer = (
        player("note_when_told", agent_id=agent_id, workspace=workspace) for agent_id in ("codex:1", "gemini:1")
    )
    for each in (hasty, writer):
        assert each.heard() == ["joined"]
    first = player("stand_first_in_queue")
    assert first.heard() == ["first"]
    hasty.tell("never written")
    until(lambda: is_queueing(hasty))

    hasty.popen.send_signal(signal.SIGINT)
    assert hasty.heard()[0] == "interrupted"
    first.tell("go")
    assert first.heard() == ["gone"]

    writer.tell("written")
    assert writer.heard()[0] == "noted"
