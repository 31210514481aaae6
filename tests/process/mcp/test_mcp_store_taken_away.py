"""The store's files are deleted or replaced under running servers. Every server notices at its next call."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from tests.process.forking import Forks

from conch.bells.base import notification, seat_channel

Object = dict[str, Any]
Take = Callable[[Path], None]
HANDOFF = {"status": "done", "next_action": "go on"}


class Agent:
    """A server, and the room that its agent has joined."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.room_id: str = self.join()["room_id"]
        self.turn: Object = {}

    def ask(self, tool: str, **arguments: Any) -> Object:
        return self.client.call(tool, **arguments)

    def call(self, tool: str, **arguments: Any) -> Object:
        result = self.ask(tool, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]

    def join(self) -> Object:
        return self.call("join_path")

    def take_stick(self) -> Object:
        turn = self.call("wait_for_turn", room_id=self.room_id, max_wait_ms=0)
        assert turn["status"] == "your_turn", turn
        self.turn = {"room_id": self.room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
        return turn

    def heartbeat(self) -> Object:
        return self.ask("heartbeat", **self.turn)

    def errors(self) -> str:
        return self.client.errors.read_text()

    def end(self) -> None:
        self.client.process.stdin.close()
        self.client.process.wait(timeout=20)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "data" / "rooms.sqlite"


@pytest.fixture
def agent(conch: Callable[..., Any]) -> Callable[[str], Agent]:
    return lambda agent_id: Agent(conch(agent_id))


@pytest.fixture
def command(tmp_path: Path, server_forks: Forks) -> Callable[..., Object]:
    def run(*words: str, folder: str = "data") -> Object:
        environ = {**os.environ, "CONCH_DATA_DIR": str(tmp_path / folder), "CONCH_AGENT_ID": "ada:1"}
        return json.loads(server_forks.run([*words, "--json"], environ, tmp_path, b"", 60).out)

    return run


def sides(store: Path) -> list[Path]:
    return [store.with_name(f"{store.name}-wal"), store.with_name(f"{store.name}-shm")]


def delete_store(store: Path) -> None:
    store.unlink()


def delete_all_files(store: Path) -> None:
    for path in store.parent.glob("rooms.sqlite*"):
        path.unlink()


def delete_folder(store: Path) -> None:
    shutil.rmtree(store.parent)


def move_backup_over(store: Path) -> None:
    os.replace(store.parent.parent / "backup", store)


def move_backup_over_and_delete_sides(store: Path) -> None:
    move_backup_over(store)
    for path in sides(store):
        path.unlink()


def copy_backup_over(store: Path) -> None:
    shutil.copyfile(store.parent.parent / "backup", store)


def move_store_away(store: Path) -> None:
    store.rename(store.with_name("elsewhere"))


def delete_wal(store: Path) -> None:
    sides(store)[0].unlink()


def delete_shm(store: Path) -> None:
    sides(store)[1].unlink()


def delete_both(store: Path) -> None:
    delete_wal(store)
    delete_shm(store)


def empty_wal(store: Path) -> None:
    os.truncate(sides(store)[0], 0)


def cut_wal(store: Path) -> None:
    wal = sides(store)[0]
    os.truncate(wal, wal.stat().st_size // 2)


def overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


def overwrite_wal_start(store: Path) -> None:
    overwrite(sides(store)[0], 0, os.urandom(64))


def overwrite_wal_middle(store: Path) -> None:
    wal = sides(store)[0]
    overwrite(wal, wal.stat().st_size // 2, os.urandom(64))


def overwrite_wal_end(store: Path) -> None:
    wal = sides(store)[0]
    overwrite(wal, wal.stat().st_size - 64, os.urandom(64))


def put_older_wal(store: Path) -> None:
    shutil.copyfile(store.parent.parent / "older-wal", sides(store)[0])


def replace_shm(store: Path) -> None:
    shm = sides(store)[1]
    shutil.copy(shm, f"{shm}.new")
    os.replace(f"{shm}.new", shm)


def with_another_shm(take: Take) -> Take:
    """Do this to `-wal`, and put a copy of `-shm` in place of `-shm`."""

    def take_both(store: Path) -> None:
        take(store)
        replace_shm(store)

    return take_both


def and_delete_it(take: Take) -> Take:
    """Do this to `-wal`, and delete it, as a program does that overwrites what it deletes."""

    def take_both(store: Path) -> None:
        take(store)
        delete_wal(store)

    return take_both


def touch_wal(store: Path) -> None:
    os.utime(sides(store)[0])


def write_with_sqlite(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("UPDATE meta SET value = value")
        connection.commit()


def move_into_file(store: Path) -> None:
    """Move what is in `-wal` into the store's file, as SQLite does now and then."""
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def cut_shm(store: Path) -> None:
    os.truncate(sides(store)[1], 16_384)


def empty_shm(store: Path) -> None:
    os.truncate(sides(store)[1], 0)


def put_older_shm(store: Path) -> None:
    shutil.copyfile(store.parent.parent / "older-shm", sides(store)[1])


def lose_half_of_shm(store: Path) -> None:
    overwrite(sides(store)[1], 16_384, bytes(16_384))


def replace_by_link(store: Path) -> None:
    store.unlink()
    store.symlink_to(store.with_name("another.sqlite"))


DELETED: list[Take] = [delete_store, delete_all_files, delete_folder, move_store_away]
REPLACED: list[Take] = [move_backup_over, move_backup_over_and_delete_sides]
COPIED: list[Take] = [copy_backup_over]
ONLY_SIDES: list[Take] = [delete_wal, delete_shm, delete_both]


def backed_up(command: Callable[..., Object], store: Path) -> None:
    assert command("db", "backup", str(store.parent.parent / "backup"))["ok"]


@pytest.mark.parametrize("take", [*DELETED, *REPLACED, *COPIED])
def test_nobody_holds_a_stick_that_the_store_does_not_know(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take
) -> None:
    first = agent("codex:1")
    backed_up(command, store)  # it knows the room, but not the turn
    first.take_stick()
    take(store)

    refused = first.heartbeat()

    assert refused["isError"]
    assert refused["structuredContent"]["error"] in ("unknown_room", "turn_mismatch", "unknown_member")
    assert refused["structuredContent"]["store_replaced"]["path"] == str(store)
    assert str(store) in refused["content"][0]["text"]
    assert first.errors().count("\n") == 1
    second = agent("gemini:2")
    first.room_id = first.join()["room_id"]
    assert first.room_id == second.room_id
    second.take_stick()
    assert first.call("wait_for_turn", room_id=first.room_id, max_wait_ms=0)["status"] == "not_yet"
    assert command("db", "verify")["ok"]


DAMAGED_WALS: list[Take] = [
    empty_wal,
    cut_wal,
    overwrite_wal_start,
    overwrite_wal_middle,
    overwrite_wal_end,
    put_older_wal,
]


@pytest.mark.parametrize(
    "take",
    [
        *DAMAGED_WALS,
        *(pytest.param(with_another_shm(take), id=f"{take.__name__} and -shm") for take in DAMAGED_WALS),
        *(pytest.param(and_delete_it(take), id=f"{take.__name__} and delete it") for take in DAMAGED_WALS),
    ],
)
def test_a_damaged_wal_is_noticed_by_every_server_and_nothing_is_lost_after_that(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take
) -> None:
    first, second = agent("codex:1"), agent("gemini:2")
    shutil.copyfile(sides(store)[0], store.parent.parent / "older-wal")
    first.take_stick()
    take(store)

    told = [each.ask("get_room_state", room_id=each.room_id)["structuredContent"] for each in (first, second)]
    late = first.heartbeat()
    room_id = first.join()["room_id"]
    newcomer = agent("kimi:3")
    newcomer.call("append_note", room_id=room_id, note="written afterwards")
    second.join()
    events = json.dumps(second.call("get_room_events", room_id=room_id)["events"])

    assert [f"{store}-wal was emptied" in json.dumps(reply) for reply in told] == [True, True]
    assert late["isError"]
    assert "written afterwards" in events
    assert "are missing" in command("db", "verify")["error"]["problems"][0]["problem"]
    for each in (first, second, newcomer):
        each.end()
    assert "written afterwards" in json.dumps(command("events"))
    backed_up(command, store)
    assert command("db", "restore", str(store.parent.parent / "backup"), "--yes")["ok"]
    assert command("db", "verify")["ok"]


@pytest.mark.parametrize("take", [touch_wal, write_with_sqlite, move_into_file])
def test_a_wal_that_others_changed_but_is_whole_is_no_damage(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take
) -> None:
    first, second = agent("codex:1"), agent("gemini:2")
    first.take_stick()
    take(store)

    kept, waited = first.heartbeat(), second.call("wait_for_turn", room_id=second.room_id, max_wait_ms=0)

    assert not kept["isError"], kept
    assert waited["status"] == "not_yet"
    assert first.errors() == ""
    assert command("db", "verify")["ok"]
    assert list(store.parent.glob("*.damaged-*")) == []


@pytest.mark.parametrize("take", [cut_shm, empty_shm, put_older_shm, lose_half_of_shm])
def test_nothing_is_lost_with_a_damaged_shm(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take
) -> None:
    first, second = agent("codex:1"), agent("gemini:2")
    shutil.copyfile(sides(store)[1], store.parent.parent / "older-shm")
    first.take_stick()
    take(store)

    kept = first.heartbeat()
    waited = second.call("wait_for_turn", room_id=second.room_id, max_wait_ms=0)
    newcomer = agent("kimi:3").call("get_room_state", room_id=first.room_id)

    assert not kept["isError"], kept
    assert waited["status"] == "not_yet"
    assert newcomer["room"]["owner"] == "codex:1"
    assert first.errors() + second.errors() == ""
    assert command("db", "verify")["ok"]


@pytest.mark.parametrize("take", [cut_shm, lose_half_of_shm])
def test_a_newcomer_that_reads_a_damaged_shm_changes_nothing(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take
) -> None:
    first = agent("codex:1")
    first.take_stick()
    take(store)

    early = command("state")  # it sees a store without tables
    kept = first.heartbeat()

    assert early["error"]["code"] == "DB_UNAVAILABLE"
    assert first.client.process.pid in [each["pid"] for each in early["error"]["processes"]]
    assert not kept["isError"], kept
    first.client.kill()
    first.client.process.wait()
    assert [each["room_id"] for each in command("rooms")["data"]["rooms"]] == [first.room_id]
    assert command("db", "verify")["ok"]


def test_a_backup_is_restored_although_the_wal_is_cut_off(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path
) -> None:
    first = agent("codex:1")
    first.take_stick()
    backed_up(command, store)
    empty_wal(store)

    restored = command("db", "restore", str(store.parent.parent / "backup"), "--yes")

    assert restored["ok"], restored
    assert not first.heartbeat()["isError"]
    assert command("db", "verify")["ok"]


def test_processes_that_keep_an_emptied_file_locked_are_named(
    agent: Callable[[str], Agent], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCH_BUSY_TIMEOUT_MS", "100")  # the time for which it waits for them
    first, idle = agent("codex:1"), agent("gemini:2")
    os.truncate(store, 0)

    refused = first.ask("list_rooms")["structuredContent"]

    assert refused["error"] == "DB_BUSY"
    assert f"{store} is empty" in refused["message"] and str(idle.client.process.pid) in refused["message"]
    idle.join()
    assert [warning["code"] for warning in first.join()["warnings"]] == ["STORE_REPLACED"]


@pytest.mark.parametrize(("take", "lacking"), [(delete_all_files, "room_id"), (move_backup_over, "lease_id")])
def test_no_default_comes_from_the_store_before(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take, lacking: str
) -> None:
    first = agent("codex:1")
    first.take_stick()
    backed_up(command, store)  # it knows the turn
    take(store)

    late = first.ask("release_stick", handoff=HANDOFF)["structuredContent"]

    assert (late["error"], late["field"]) == ("invalid_argument", lacking)
    assert late["store_replaced"]["path"] == str(store)
    first.call("join_path")
    assert first.ask("heartbeat")["structuredContent"]["field"] == "lease_id"
    assert first.call("wait_for_turn")["status"] == "your_turn"
    assert not first.ask("heartbeat")["isError"]


@pytest.mark.parametrize("take", [*DELETED, *REPLACED])
def test_a_call_that_needs_nothing_lost_succeeds_with_a_warning_and_what_was_lost_is_saved(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take
) -> None:
    first, second = agent("codex:1"), agent("gemini:2")
    backed_up(command, store)
    first.take_stick()
    first.call("append_note", room_id=first.room_id, note="a note to keep")
    take(store)

    found = [each.join()["warnings"] for each in (first, second)]

    assert [[warning["code"] for warning in warnings] for warnings in found] == [["STORE_REPLACED"]] * 2
    rescued = {warning["context"]["rescued"] for warnings in found for warning in warnings}
    assert len(rescued) == 1
    assert first.join()["warnings"] == []
    restored = command("db", "restore", rescued.pop(), "--yes")
    assert restored["ok"], restored
    assert [warning["code"] for warning in first.join()["warnings"]] == ["STORE_REPLACED"]
    assert not first.heartbeat()["isError"]
    events = second.call("get_room_events", room_id=second.room_id)["events"]
    assert "a note to keep" in json.dumps(events)


def test_a_link_in_place_of_the_file_is_noticed_and_what_was_lost_is_saved(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path
) -> None:
    first, second = agent("codex:1"), agent("gemini:2")
    first.take_stick()
    replace_by_link(store)

    refused, warned = first.heartbeat()["structuredContent"], second.join()["warnings"]

    assert refused["error"] == "unknown_room"
    rescued = {refused["store_replaced"]["rescued"], *(warning["context"]["rescued"] for warning in warned)}
    assert len(rescued) == 1
    assert command("db", "restore", rescued.pop(), "--yes")["ok"]
    assert not first.heartbeat()["isError"]


def test_a_store_that_is_moved_behind_a_link_goes_on_with_all_that_it_held(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path
) -> None:
    first, second = agent("codex:1"), agent("gemini:2")
    first.take_stick()
    store.rename(store.with_name("moved.sqlite"))
    store.symlink_to("moved.sqlite")

    early = command("state")  # it cannot see what the servers have
    kept = first.heartbeat()
    waited = agent("late:3").call("wait_for_turn", room_id=first.room_id, max_wait_ms=0)
    release = first.call("release_stick", handoff=HANDOFF, **first.turn)

    assert early["error"]["code"] == "DB_UNAVAILABLE"
    assert first.client.process.pid in [each["pid"] for each in early["error"]["processes"]]
    assert not kept["isError"], kept
    assert waited["status"] == "not_yet"
    assert release["reserved_for"] == "gemini:2"
    assert second.take_stick()["handoff"] == HANDOFF
    assert command("db", "verify")["ok"]


def test_one_file_under_two_names_is_not_used_as_two_stores(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, tmp_path: Path
) -> None:
    first = agent("codex:1")
    first.take_stick()
    other = tmp_path / "other" / store.name
    other.parent.mkdir(mode=0o700)
    os.link(store, other)
    sides(other)[1].touch()  # as a process that was killed leaves it

    refused = command("join", folder="other")["error"]

    assert refused["code"] == "DB_UNAVAILABLE"
    assert "under another name" in refused["message"]
    assert first.client.process.pid in [each["pid"] for each in refused["processes"]]
    assert not first.heartbeat()["isError"]


def test_a_pipe_in_place_of_the_store_makes_nobody_wait(agent: Callable[[str], Agent], store: Path) -> None:
    first = agent("codex:1")
    store.unlink()
    os.mkfifo(store)

    assert first.ask("list_rooms")["structuredContent"]["error"] == "DB_UNAVAILABLE"


def take_in_file(first: Agent, store: Path) -> None:
    first.take_stick()
    move_into_file(store)


def take_in_file_and_write_more(first: Agent, store: Path) -> None:
    take_in_file(first, store)
    first.call("append_note", room_id=first.room_id, note="in -wal, so that it hides a part of the copy")


def take_after_others(first: Agent, store: Path) -> None:
    for number in range(3):
        first.call("append_note", room_id=first.room_id, note=f"note {number}")
        move_into_file(store)
    first.take_stick()


@pytest.mark.parametrize("go_on", [take_in_file, take_in_file_and_write_more, take_after_others])
def test_an_older_copy_of_the_same_file_is_noticed_by_everyone(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, go_on: Callable[[Agent, Path], None]
) -> None:
    first, second, idle = agent("codex:1"), agent("gemini:2"), agent("kimi:3")
    move_into_file(store)
    older = store.read_bytes()  # a plain copy: the same file, mark and epoch
    go_on(first, store)
    store.write_bytes(older)

    kept = first.heartbeat()["structuredContent"]
    taken = second.take_stick()

    assert kept["error"] == "turn_mismatch"
    assert "an older copy was put over the store" in kept["message"]
    for warnings in (taken["warnings"], idle.join()["warnings"]):
        assert [warning["code"] for warning in warnings] == ["STORE_REPLACED"]
    assert first.call("wait_for_turn", room_id=first.room_id, max_wait_ms=0)["status"] == "not_yet"
    assert agent("late:4").call("get_room_state", room_id=first.room_id)["room"]["owner"] == "gemini:2"
    assert command("db", "verify")["ok"]


def copy_plainly(store: Path, target: Path) -> None:
    move_into_file(store)
    shutil.copyfile(store, target)


def copy_with_sqlite(store: Path, target: Path) -> None:
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


@pytest.mark.parametrize("copy", [copy_plainly, copy_with_sqlite])
def test_rows_that_only_changed_show_an_older_copy_too(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, copy: Callable[[Path, Path], None]
) -> None:
    first = agent("codex:1")
    first.take_stick()
    copy(store, store.parent.parent / "backup")
    first.heartbeat()
    move_into_file(store)
    first.heartbeat()  # in -wal
    copy_backup_over(store)

    state = first.call("get_room_state", room_id=first.room_id)

    assert [warning["code"] for warning in state["warnings"]] == ["STORE_REPLACED"]
    assert command("db", "verify")["ok"]


def test_a_copy_of_the_file_as_it_is_changes_nothing(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path
) -> None:
    first, second = agent("codex:1"), agent("gemini:2")
    move_into_file(store)
    same = store.read_bytes()
    first.take_stick()  # in -wal, which everyone still reads
    store.write_bytes(same)

    kept = first.heartbeat()
    waited = second.call("wait_for_turn", room_id=second.room_id, max_wait_ms=0)

    assert not kept["isError"]
    assert waited["status"] == "not_yet"
    assert "warnings" not in waited
    assert command("db", "verify")["ok"]


@pytest.mark.parametrize("take", ONLY_SIDES)
def test_nothing_is_lost_with_the_files_beside_the_store(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take
) -> None:
    first, second = agent("codex:1"), agent("gemini:2")
    first.take_stick()
    take(store)

    early = command("db", "verify")  # it cannot see what the servers have
    kept = first.heartbeat()
    late = command("db", "verify")

    assert early["error"]["code"] == "DB_UNAVAILABLE"
    assert first.client.process.pid in [each["pid"] for each in early["error"]["processes"]]
    assert not kept["isError"], kept
    assert late["ok"] and late["data"]["rooms"] == 1
    assert second.call("get_room_state", room_id=first.room_id)["room"]["owner"] == "codex:1"
    assert second.call("wait_for_turn", room_id=first.room_id, max_wait_ms=0)["status"] == "not_yet"


@pytest.mark.parametrize("first_gone", [delete_shm, replace_shm])
@pytest.mark.parametrize("next_to_call", ["idle", "second", "newcomer"])
@pytest.mark.parametrize("is_record_gone", [False, True])
def test_a_server_that_missed_one_loss_does_not_harm_the_store_after_the_next(
    agent: Callable[[str], Agent],
    command: Callable[..., Object],
    store: Path,
    first_gone: Take,
    next_to_call: str,
    is_record_gone: bool,
) -> None:
    """The idle server still has the first -shm, which does not describe what the second one wrote since."""
    idle, second = agent("codex:1"), agent("gemini:2")
    idle.take_stick()
    first_gone(store)
    for number in range(5):
        second.call("append_note", room_id=second.room_id, note=f"note {number}")
    delete_wal(store)
    if is_record_gone:
        store.with_name(f"{store.name}.users").unlink()

    if next_to_call == "newcomer":
        command("rooms")
    (idle if next_to_call == "idle" else second).ask("get_room_state", room_id=second.room_id)
    second.call("append_note", room_id=second.room_id, note="the last one")

    assert not idle.heartbeat()["isError"]
    events = idle.call("get_room_events", room_id=idle.room_id)["events"]
    notes = [event["details"]["note"] for event in events if event["event_type"] == "note"]
    assert notes == [*(f"note {number}" for number in range(5)), "the last one"]
    assert command("db", "verify")["ok"]


@pytest.mark.parametrize("take", [delete_folder, move_backup_over, copy_backup_over, delete_both])
@pytest.mark.parametrize("end", ["notice", "exit"])
def test_what_a_newcomer_wrote_survives_the_old_servers(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take, end: str
) -> None:
    idle, first = agent("codex:1"), agent("gemini:2")
    backed_up(command, store)
    take(store)
    first.join()  # it notices, and opens what is there now
    newcomer = agent("kimi:3")
    newcomer.call("append_note", room_id=newcomer.room_id, note="written by the newcomer")
    for each in (newcomer, first):  # they leave what they wrote in -wal, and nobody holds a lock on the store
        each.client.process.send_signal(signal.SIGKILL)
        each.client.process.wait()

    if end == "notice":
        idle.call("list_rooms")
    idle.end()

    late = agent("late:4")
    events = late.call("get_room_events", room_id=late.room_id)["events"]
    assert "written by the newcomer" in json.dumps(events)
    assert command("db", "verify")["ok"]


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_wal_that_belongs_to_a_replaced_store_is_moved_aside(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, is_plain: bool
) -> None:
    first = agent("codex:1")
    move_into_file(store)
    older = store.read_bytes()
    backed_up(command, store)
    take_in_file_and_write_more(first, store)
    first.client.process.send_signal(signal.SIGKILL)
    first.client.process.wait()
    assert sides(store)[0].stat().st_size > 0
    store.write_bytes(older) if is_plain else copy_backup_over(store)

    state = command("state")
    verified = command("db", "verify")

    assert state["data"]["room"]["owner"] is None
    assert verified["ok"]
    assert [path.name for path in store.parent.glob("*.set-aside-*-wal")] != []


@pytest.mark.parametrize("take", [delete_all_files, delete_folder, copy_backup_over])
def test_every_waiter_notices_by_itself(
    agent: Callable[[str], Agent], command: Callable[..., Object], store: Path, take: Take, tmp_path: Path
) -> None:
    assert command("rooms")["ok"]
    backed_up(command, store)  # before there was a room
    owner, waiter, reader = agent("codex:1"), agent("gemini:2"), agent("kimi:3")
    topic = reader.call("topic_create", name="pink")["topic_id"]
    reader.call("topic_join", topic_id=topic, agent_name="amber")
    owner.take_stick()
    waiter.client.start_call("wait_for_turn", room_id=waiter.room_id, max_wait_ms=30_000)
    reader.client.start_call("sync", topic_id=topic, wait_seconds=30)
    asked = start_command(tmp_path, "late:4", "wait", "--timeout", "60")
    assert asked.stderr.readline()  # it has joined and waits
    take(store)

    replies = [each.client.receive()["result"]["structuredContent"] for each in (waiter, reader)]
    asked.communicate(timeout=20)

    assert [reply["error"] for reply in replies] == ["unknown_room", "TOPIC_NOT_FOUND"]
    assert all("store_replaced" in reply for reply in replies)
    assert asked.returncode == 1


def start_command(tmp_path: Path, agent_id: str, *words: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "CONCH_DATA_DIR": str(tmp_path / "data"), "CONCH_AGENT_ID": agent_id}
    joined = subprocess.run([sys.executable, "-m", "conch", "join"], env=environ, cwd=tmp_path, capture_output=True)
    assert joined.returncode == 0
    command = [sys.executable, "-m", "conch", *words]
    return subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True)


def link(path: Path, target: Path) -> None:
    """Make a link, or change it in one step."""
    target.parent.mkdir(exist_ok=True, mode=0o700)
    fresh = path.with_name("fresh")
    fresh.symlink_to(target)
    fresh.rename(path)


def test_a_folder_that_becomes_a_link_is_followed_by_a_process_that_could_not_open_the_store(
    agent: Callable[[str], Agent], conch: Callable[..., Any], store: Path, tmp_path: Path
) -> None:
    first, newcomer = agent("codex:1"), conch("gemini:2")
    delete_wal(store)
    assert newcomer.call("join_path")["structuredContent"]["error"] == "DB_UNAVAILABLE"
    store.parent.rename(tmp_path / "elsewhere")
    store.parent.symlink_to(tmp_path / "elsewhere")
    first.join()

    assert newcomer.call("join_path")["structuredContent"]["room_id"] == first.room_id


@pytest.mark.parametrize("linked", ["data", "data/rooms.sqlite"])
def test_a_link_that_is_changed_leads_every_server_to_the_other_store(
    agent: Callable[[str], Agent], command: Callable[..., Object], tmp_path: Path, linked: str
) -> None:
    (tmp_path / linked).parent.mkdir(exist_ok=True, mode=0o700)
    for place in ("one", "two"):
        (tmp_path / place / "data").mkdir(parents=True, mode=0o700)
    link(tmp_path / linked, tmp_path / "one" / linked)
    first, second = agent("codex:1"), agent("gemini:2")
    first.take_stick()
    second.client.start_call("wait_for_turn", room_id=second.room_id, max_wait_ms=30_000)

    link(tmp_path / linked, tmp_path / "two" / linked)
    newcomer = agent("kimi:3")
    newcomer.take_stick()
    refused, woken = first.heartbeat(), second.client.receive()["result"]

    for reply in (refused, woken):
        assert reply["structuredContent"]["error"] == "unknown_room"
        assert reply["structuredContent"]["store_replaced"]["before"].startswith(str(tmp_path / "one"))
    assert first.errors().count("\n") == 1
    first.room_id = first.join()["room_id"]
    assert first.room_id == newcomer.room_id
    assert first.call("wait_for_turn", room_id=first.room_id, max_wait_ms=0)["status"] == "not_yet"
    first.client.start_call("wait_for_turn", room_id=first.room_id, max_wait_ms=20_000)
    newcomer.call("release_stick", handoff=HANDOFF, **newcomer.turn)  # its bell is heard in the new place
    assert first.client.receive()["result"]["structuredContent"]["status"] == "your_turn"
    assert command("db", "verify")["ok"]


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process of a test is on one empty store."""
    if request.param == "postgres":
        monkeypatch.setenv("CONCH_STORE", request.getfixturevalue("postgres_url"))


@pytest.mark.usefixtures("engine")
def test_a_server_goes_on_after_a_wipe(agent: Callable[[str], Agent], command: Callable[..., Object]) -> None:
    first = agent("codex:1")
    topic = first.call("topic_create", name="pink")["topic_id"]
    first.call("topic_join", topic_id=topic, agent_name="amber")
    first.take_stick()
    assert command("db", "wipe", "--yes")["ok"]

    refused = first.heartbeat()["structuredContent"]
    created = first.call("topic_create", name="pink")
    joined = first.join()

    assert refused["error"] == "unknown_room"
    assert "wiped" in refused["message"]
    assert created["topic_id"] != topic
    assert first.call("topic_join", topic_id=created["topic_id"], agent_name="amber")["agent_name"] == "amber"
    assert joined["created"] and joined["warnings"] == []


def until_it_listens(connection: Any) -> None:
    """Until a waiter sleeps: it holds a lock on its seat, and no transaction that could get in the way of a change."""
    asleep = """SELECT 1 FROM pg_locks AS seat JOIN pg_stat_activity USING (pid)
        WHERE seat.locktype = 'advisory' AND state = 'idle'
        AND NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'conch' AND state <> 'idle')"""
    deadline = time.monotonic() + 20
    while connection.execute(asleep).fetchone() is None:
        assert time.monotonic() < deadline, "nobody listens"
        time.sleep(0.01)


def test_a_schema_that_is_dropped_under_running_servers_is_noticed(
    agent: Callable[[str], Agent], command: Callable[..., Object], postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setenv("CONCH_STORE", postgres_url)
    first, second = agent("codex:1"), agent("gemini:2")
    first.take_stick()
    for _ in range(6):  # until the driver prepares what it sends
        first.heartbeat()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        second.client.start_call("wait_for_turn", room_id=second.room_id, max_wait_ms=30_000)
        until_it_listens(connection)
        # Like a restore, it locks first what every transaction reads first. Otherwise the two could deadlock.
        connection.execute("BEGIN; LOCK TABLE conch.meta; DROP SCHEMA conch CASCADE; COMMIT")
        newcomer = agent("kimi:3")
        newcomer.take_stick()
        # It looks now: without a ring it would look when its time is up, perhaps before there is a new store.
        connection.execute(f"NOTIFY {notification(seat_channel(second.room_id, 'gemini:2'))}")
    refused, woken = first.heartbeat(), second.client.receive()["result"]

    for reply in (refused, woken):
        assert reply["structuredContent"]["error"] == "unknown_room", reply["content"][0]["text"]
        assert "store_replaced" in reply["structuredContent"]
    assert first.join()["room_id"] == newcomer.room_id
    assert first.call("wait_for_turn", room_id=newcomer.room_id, max_wait_ms=0)["status"] == "not_yet"
    assert command("db", "verify")["ok"]
