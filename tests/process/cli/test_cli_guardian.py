"""The guardian: a lease outlives the command that claimed it, and never the process that it is for."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

Conch = Callable[..., Any]
Shell = Callable[[str], Any]
Terminal = Callable[[], Any]
Guardians = Callable[[], list[int]]
Ended = Callable[[int], bool]
Look = Callable[[str], Any]
Until = Callable[[Callable[[], Any]], Any]

DONE = ("--status", "s", "--next", "n")
EXPIRY = "SELECT lease_expires_at FROM path_rooms"
LEASE = "SELECT lease_id FROM path_rooms"
LEASE_MS = 500
QUICK = (f"owner_lease_ttl_ms={LEASE_MS}", "heartbeat_interval_ms=100")


@pytest.fixture
def claude(shell: Shell, conch: Conch) -> Any:
    """A harness in a room with bob:2, with short leases."""
    harness = shell("claude")
    harness.run("join")
    harness.run("policy", *QUICK)
    conch("join", agent="bob:2")
    return harness


@pytest.fixture
def guardian(claude: Any, guardians: Guardians) -> int:
    """The guardian that a claim has left behind."""
    assert claude.run("wait").status == 0
    (pid,) = guardians()
    return pid


def test_a_lease_is_renewed_long_after_the_command_has_ended(
    guardian: int, look: Look, until: Until, conch: Conch
) -> None:
    granted = look(EXPIRY)

    until(lambda: look(EXPIRY) > granted + 3 * LEASE_MS * 1_000)

    assert conch("state", "--json", agent="bob:2").data["room"]["state"] == "owned"


def test_the_settings_of_the_command_s_environment_reach_the_guardian(
    shell: Shell, guardians: Guardians, look: Look, until: Until
) -> None:
    harness = shell("codex")
    settings = {"CONCH_OWNER_LEASE_TTL_MS": str(LEASE_MS), "TALKING_STICK_HEARTBEAT_INTERVAL_MS": "100"}
    harness.run("join", **settings)

    harness.run("wait", **settings)

    granted = look(EXPIRY)
    until(lambda: look(EXPIRY) > granted + 3 * LEASE_MS * 1_000)


def test_a_store_named_relative_to_the_working_directory_is_found_by_the_guardian(
    shell: Shell, guardians: Guardians, workspace: Path, until: Until
) -> None:
    harness = shell("claude")
    place = ("--store", "here.sqlite")
    harness.run("join", *place)
    harness.run("policy", *place, *QUICK)
    harness.run("wait", *place)

    def expiry() -> int:
        connection = sqlite3.connect(workspace / "here.sqlite")
        try:
            return int(connection.execute(EXPIRY).fetchone()[0])
        finally:
            connection.close()

    granted = expiry()
    until(lambda: expiry() > granted + 3 * LEASE_MS * 1_000)


def test_a_guardian_imports_nothing_that_lies_in_the_workspace(
    claude: Any, guardians: Guardians, workspace: Path
) -> None:
    (workspace / "json.py").write_text("raise SystemExit('this is not the json that you are looking for')")

    claude.bash(f"{sys.executable} -P -m conch wait >/dev/null")

    assert len(guardians()) == 1


def test_there_is_one_guardian_per_lease_however_often_its_holder_asks(
    guardian: int, claude: Any, guardians: Guardians
) -> None:
    for _ in range(3):
        claude.run("wait")

    assert guardians() == [guardian]


def test_two_claims_at_once_leave_one_guardian(claude: Any, guardians: Guardians, until: Until) -> None:
    twice = shlex.join([sys.executable, "-m", "conch", "wait"])

    claude.bash(f"{twice} >/dev/null & {twice} >/dev/null & wait")

    until(lambda: len(guardians()) == 1)  # the second one sees the first, and leaves


@pytest.mark.parametrize(
    "words",
    [("release", *DONE), ("pass", "bob:2", *DONE), ("close", "--yes")],
    ids=["release", "pass", "close"],
)
def test_a_guardian_leaves_when_its_holder_lets_go(
    guardian: int, claude: Any, ended: Ended, words: tuple[str, ...]
) -> None:
    assert claude.run("policy", "owner_lease_ttl_ms=", "heartbeat_interval_ms=").status == 0

    assert claude.run(*words).status == 0

    assert ended(guardian)


def test_a_guardian_leaves_when_the_stick_is_taken_over(
    guardian: int, claude: Any, conch: Conch, ended: Ended, until: Until
) -> None:
    claude.run("policy", "owner_lease_ttl_ms=1", "heartbeat_interval_ms=")  # so that each renewal lapses at once
    claude.run("wait")

    until(lambda: conch("take", "--reason", "silence", agent="bob:2").status == 0)

    assert ended(guardian)


def test_a_takeover_gets_a_guardian_too(claude: Any, conch: Conch, guardians: Guardians) -> None:
    conch("policy", "owner_lease_ttl_ms=1", "heartbeat_interval_ms=", agent="bob:2")
    conch("wait", agent="bob:2")

    assert claude.run("take", "--reason", "silence").status == 0

    assert len(guardians()) == 1


def test_when_the_harness_dies_the_guardian_leaves_and_others_see_it_at_once(
    guardian: int, claude: Any, conch: Conch, ended: Ended
) -> None:
    claude.end()

    waited = conch("wait", "--json", agent="bob:2")
    assert (waited.error["code"], waited.error["reason"]) == ("takeover_available", "owner_gone")
    assert ended(guardian)


def test_a_waiter_is_woken_by_the_death_of_the_holder_s_harness(guardian: int, claude: Any, start: Any) -> None:
    waiter = start("wait", "--json", agent="bob:2")
    assert waiter.stderr.readline()

    claude.end()
    out, _ = waiter.communicate(timeout=30)

    assert '"reason": "owner_gone"' in out


def test_a_guardian_stands_for_a_terminal_and_leaves_when_it_is_closed(
    terminal: Terminal, guardians: Guardians, ended: Ended, conch: Conch
) -> None:
    window = terminal()
    window.run("join")
    assert "ended: 0." in window.run("wait")
    (guardian,) = guardians()

    window.end()

    assert ended(guardian)
    assert conch("state", "--json").data["room"]["state"] == "owner_gone"


def test_a_holder_without_a_process_learns_when_its_lease_lapses(conch: Conch, guardians: Guardians) -> None:
    conch("join")

    answer = conch("wait")

    assert guardians() == []
    assert "Your lease lapses at " in answer.out


def test_a_guardian_has_no_terminal_no_folder_and_no_open_files_of_the_command(guardian: int, workspace: Path) -> None:
    streams = [os.readlink(f"/proc/{guardian}/fd/{number}") for number in (0, 1, 2)]
    others = set()
    for name in os.listdir(f"/proc/{guardian}/fd"):
        with suppress(FileNotFoundError):  # the guardian may close one meanwhile
            others.add(os.readlink(f"/proc/{guardian}/fd/{name}"))
    stat = Path(f"/proc/{guardian}/stat").read_text().rpartition(")")[2].split()
    group, session, terminal = stat[2:5]

    assert streams == ["/dev/null"] * 3
    assert not [place for place in others if place.startswith((str(workspace), "pipe:", "/dev/pts"))]
    assert (group, session, terminal) == (str(guardian), str(guardian), "0")
    assert os.readlink(f"/proc/{guardian}/cwd") == "/"


def test_a_descriptor_that_the_command_inherited_does_not_reach_the_guardian(
    claude: Any, guardians: Guardians, tmp_path: Path
) -> None:
    (tmp_path / "inherited").write_text("")
    claude.bash(f"exec 7<{tmp_path}/inherited")

    claude.run("wait")

    (guardian,) = guardians()
    places = []
    for name in os.listdir(f"/proc/{guardian}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it opens and closes files meanwhile
            places.append(os.readlink(f"/proc/{guardian}/fd/{name}"))
    assert f"{tmp_path}/inherited" not in places


def test_ps_does_not_show_the_lease(guardian: int, look: Look) -> None:
    shown = Path(f"/proc/{guardian}/cmdline").read_bytes() + Path(f"/proc/{guardian}/environ").read_bytes()

    assert look(LEASE).encode() not in shown


def test_a_guardian_leaves_when_it_is_asked_to(guardian: int, ended: Ended) -> None:
    os.kill(guardian, signal.SIGTERM)

    assert ended(guardian)


def test_a_guardian_that_was_killed_is_replaced_at_the_next_wait(
    guardian: int, claude: Any, guardians: Guardians, ended: Ended
) -> None:
    os.kill(guardian, signal.SIGKILL)
    assert ended(guardian)

    claude.run("wait")

    assert len(guardians()) == 1


def test_a_guardian_survives_a_store_that_is_locked_for_a_while(
    claude: Any, guardians: Guardians, database: Path, look: Look, until: Until
) -> None:
    claude.run("wait", CONCH_BUSY_TIMEOUT_MS="50")
    (guardian,) = guardians()
    locker = sqlite3.connect(database, isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")
    expiry, before = look(EXPIRY), count_sleeps(guardian)
    until(lambda: count_sleeps(guardian) > before + 20)  # in one try, SQLite sleeps six times
    locker.execute("COMMIT")
    locker.close()

    until(lambda: look(EXPIRY) > expiry)

    assert guardians() == [guardian]


def count_sleeps(pid: int) -> int:
    """How often a process has slept so far."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("voluntary_ctxt_switches")).split()[1])


def test_a_guardian_leaves_when_the_store_is_not_there_any_more(guardian: int, ended: Ended, database: Path) -> None:
    database.rename(database.with_suffix(".moved"))

    assert ended(guardian)


def test_a_guardian_leaves_when_everything_was_wiped(guardian: int, ended: Ended, conch: Conch) -> None:
    assert conch("db", "wipe", "--yes").status == 0

    assert ended(guardian)


def test_a_guardian_that_cannot_start_is_reported_and_the_claim_stands(claude: Any, database: Path) -> None:
    (database.parent / "guardians").mkdir()

    answer = claude.run("wait")

    assert answer.status == 0
    assert "no guardian process confirmed that it renews your lease" in answer.err
