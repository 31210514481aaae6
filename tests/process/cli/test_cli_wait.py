"""`conch wait`: what ends it, what it prints meanwhile, and that no agent gets a stick without knowing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

Conch = Callable[..., Any]
Start = Callable[..., Any]
Terminal = Callable[[], Any]
Look = Callable[[str], Any]
Until = Callable[[Callable[[], Any]], Any]

DONE = ("--status", "s", "--next", "n")
OWNER = "SELECT owner FROM path_rooms"
RETURNS = "SELECT count(*) FROM room_events WHERE event_type = 'return'"
CLAIMS = "SELECT count(*) FROM room_events WHERE event_type = 'claim'"


@pytest.fixture
def held(conch: Conch) -> None:
    """A room in which ada:1 holds the stick and bob:2 is a member, too."""
    conch("join")
    conch("join", agent="bob:2")
    conch("wait")


def test_a_listener_waits_for_a_part_of_a_second_too(conch: Conch) -> None:
    conch("join")
    began = time.monotonic()

    assert conch("listen", "--timeout", "0.5").status == 3
    assert time.monotonic() - began >= 0.5


@pytest.mark.usefixtures("held")
def test_a_look_at_a_held_stick_fails_at_once_and_names_the_holder(conch: Conch) -> None:
    answer = conch("wait", "--timeout", "0", "--json", agent="bob:2")

    assert answer.status == 3
    assert (answer.error["code"], answer.error["current_owner"]) == ("not_yet", "ada:1")


@pytest.mark.usefixtures("held")
def test_a_wait_gives_up_when_its_time_is_over(conch: Conch) -> None:
    answer = conch("wait", "--timeout", "0.2", agent="bob:2")

    assert answer.status == 3
    ada = conch("whoami", "--json").data["name"]
    assert answer.err.splitlines()[-1] == f"conch wait: Not yet: ada·{ada} holds the stick. (not_yet)"


@pytest.mark.usefixtures("held")
def test_the_holder_that_waits_again_still_has_the_stick(conch: Conch) -> None:
    answer = conch("wait", "--json")

    assert (answer.status, answer.data["reason"], answer.data["turn_id"]) == (0, "already_owner", 1)


@pytest.mark.usefixtures("held")
def test_a_waiter_gets_the_stick_when_it_is_released(conch: Conch, start: Start) -> None:
    waiter = start("wait", agent="bob:2")
    assert waiter.stderr.readline().startswith("ada·")

    released = conch("release", *DONE, "--json")
    out, _ = waiter.communicate(timeout=30)

    assert released.data["recipient_status"] == "waiting"
    assert waiter.returncode == 0
    assert out.startswith("Your turn (turn 2, sequence).")


# The same command with another clock. With one that never ticks only what has to can wake it.
OTHER_CLOCK = """
import sys
from conch.bells import file, waits
from conch.main import main
file._SECONDS_BETWEEN_LOOKS = waits.RETRY_SECONDS = float(sys.argv[1])
sys.exit(main(["wait", "--json"]))
"""
NEVER = 1e6


@pytest.fixture
def wait_with_clock(env: dict[str, str], workspace: Path) -> Iterator[Any]:
    """Starts a wait of bob:2, and returns when it has said whom it waits for."""
    waiters: list[subprocess.Popen[str]] = []

    def wait(tick: float, **more: str) -> subprocess.Popen[str]:
        command, who = [sys.executable, "-c", OTHER_CLOCK, str(tick)], {**env, "CONCH_AGENT_ID": "bob:2", **more}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        waiter = subprocess.Popen(command, env=who, cwd=workspace, text=True, **pipes)  # type: ignore[call-overload]
        waiters.append(waiter)
        assert waiter.stderr.readline()
        return waiter

    yield wait
    for waiter in waiters:
        waiter.kill()
        waiter.communicate()


@pytest.mark.usefixtures("held")
def test_the_bell_alone_ends_a_wait(conch: Conch, wait_with_clock: Any) -> None:
    waiter = wait_with_clock(NEVER)

    conch("release", *DONE)
    out, _ = waiter.communicate(timeout=30)

    assert '"status": "your_turn"' in out


@pytest.mark.usefixtures("held")
def test_news_for_everybody_ends_a_wait_too(conch: Conch, wait_with_clock: Any) -> None:
    waiter = wait_with_clock(NEVER)

    conch("close", "--yes")
    out, _ = waiter.communicate(timeout=30)

    assert '"code": "closed"' in out


def test_the_death_of_the_holder_alone_ends_a_wait(
    conch: Conch, shell: Callable[[str], Any], wait_with_clock: Any
) -> None:
    claude = shell("claude")
    claude.run("join")
    claude.run("wait")
    conch("join", agent="bob:2")
    waiter = wait_with_clock(NEVER)

    claude.end()
    out, _ = waiter.communicate(timeout=30)

    assert '"reason": "owner_gone"' in out


@pytest.mark.usefixtures("held")
def test_a_waiting_agent_is_seen_waiting_at_every_moment(conch: Conch, start: Start) -> None:
    waiter = start("wait", agent="bob:2")
    assert waiter.stderr.readline()

    for number in range(20):
        conch("note", f"something happens: {number}")

    assert conch("release", *DONE, "--json").data["recipient_status"] == "waiting"


@pytest.mark.usefixtures("held")
def test_every_new_holder_is_told_once_on_standard_error(conch: Conch, start: Start) -> None:
    conch("join", agent="cyd:3")
    waiter = start("wait", "--json", agent="cyd:3")
    first = waiter.stderr.readline()

    conch("note", "this is no news of the stick")
    conch("release", *DONE)
    second = waiter.stderr.readline()
    conch("wait", agent="bob:2")
    third = waiter.stderr.readline()
    conch("release", *DONE, agent="bob:2")
    out, err = waiter.communicate(timeout=30)

    assert first.startswith("ada·") and " has held the stick for 0 min 0" in first
    assert second.startswith("bob·") and " is next but has not claimed the stick for 0 min 0" in second
    assert third.startswith("bob·") and " has held the stick for 0 min 0" in third
    assert '"status": "your_turn"' in out and out.count("\n") == 1
    assert err in ("", third) or "cyd:3" in err


@pytest.mark.usefixtures("held")
def test_on_a_terminal_one_line_tells_the_holder_and_is_cleared_in_the_end(terminal: Terminal, conch: Conch) -> None:
    window = terminal()
    window.run("join")
    window.start("wait")
    before = window.read_until(b"for 0 min 0")
    conch("pass", "human", *DONE)
    shown = before + window.read_until(b"ended: ")

    moving, _, rest = shown.rpartition(b"\r\x1b[K")
    assert moving.startswith("\r\x1b[Kada·".encode()) and b"\n" not in moving
    assert rest.startswith(b"Your turn (turn 2, direct_pass).")


@pytest.mark.usefixtures("held")
def test_the_line_on_a_terminal_moves_while_nothing_happens(terminal: Terminal) -> None:
    window = terminal()
    window.run("join")
    window.start("wait")
    window.read_until(b"has held the stick")

    shown = window.read_until(b"has held the stick") + window.read_until(b"has held the stick")

    assert shown.count("\r\x1b[Kada·".encode()) == 2


@pytest.mark.usefixtures("held")
def test_the_line_on_a_terminal_never_wraps(terminal: Terminal, conch: Conch) -> None:
    long_id = "x" * 120
    conch("join", agent=long_id)
    conch("pass", long_id, *DONE)
    window = terminal()
    window.run("join")

    shown = window.run("wait", "--timeout", "0.1")

    lines = [line for line in shown.replace("\x1b[K", "").split("\r") if line.startswith("xxx")]
    assert lines and all(len(line) < 60 for line in lines)


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_wait_says_so_and_leaves_the_stick_alone(
    start: Start, conch: Conch, look: Look, number: int
) -> None:
    waiter = start("wait", "--json", agent="bob:2")
    assert waiter.stderr.readline()

    waiter.send_signal(number)
    out, err = waiter.communicate(timeout=30)
    conch("release", *DONE)

    assert waiter.returncode == 128 + number
    assert '"code": "cancelled"' in out
    assert err == ""
    assert look(OWNER) is None


@pytest.mark.usefixtures("held")
def test_ctrl_c_on_a_terminal_ends_the_wait_without_a_trace(terminal: Terminal) -> None:
    window = terminal()
    window.run("join")
    window.start("wait")
    window.read_until(b"has held the stick")

    window.type("\x03")
    shown = window.read_until(b"ended: 130.")

    assert b"Interrupted while waiting; `conch state` shows who holds the stick. (cancelled)" in shown
    assert b"Traceback" not in shown


@pytest.mark.usefixtures("held")
def test_a_wait_in_the_background_of_a_script_ignores_ctrl_c_as_it_should(start: Start, conch: Conch) -> None:
    waiter = start("wait", agent="bob:2", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert waiter.stderr.readline()

    waiter.send_signal(signal.SIGINT)
    conch("release", *DONE)
    out, _ = waiter.communicate(timeout=30)

    assert (waiter.returncode, out.startswith("Your turn")) == (0, True)


@pytest.mark.usefixtures("held")
def test_a_claim_that_nobody_can_read_is_given_back_with_its_handoff(conch: Conch, start: Start, look: Look) -> None:
    waiter = start("wait", agent="bob:2")
    assert waiter.stderr.readline()
    waiter.stdout.close()

    conch("release", "--status", "do not lose this", "--next", "n")
    waiter.stdout = None
    _, err = waiter.communicate(timeout=30)

    assert waiter.returncode == 1 and err == ""
    assert look(RETURNS) == 1
    assert conch("wait", "--json", agent="bob:2").data["handoff"]["status"] == "do not lose this"


def test_a_claim_that_does_not_fit_on_the_disk_is_given_back(conch: Conch, start: Start, look: Look) -> None:
    conch("join")
    with open("/dev/full", "w") as full:
        waiter = start("wait", stdout=full)
        _, err = waiter.communicate(timeout=30)

    assert waiter.returncode == 1
    assert err == "conch: the output could not be written: No space left on device.\n"
    assert look(RETURNS) == 1


@pytest.mark.parametrize("blocked", [(), tuple(signal.valid_signals())], ids=["", "whatever its parent blocks"])
def test_a_signal_while_the_answer_is_stuck_in_a_full_pipe_gives_the_claim_back(
    conch: Conch, start: Start, look: Look, until: Until, blocked: tuple[int, ...]
) -> None:
    conch("join")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while True:
        try:
            os.write(writer, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writer, True)
    block = partial(signal.pthread_sigmask, signal.SIG_BLOCK, blocked)
    waiter = start("wait", stdout=writer, preexec_fn=block)
    until(lambda: look(CLAIMS) == 1)

    waiter.send_signal(signal.SIGTERM)
    waiter.communicate(timeout=30)
    os.close(reader)
    os.close(writer)

    assert waiter.returncode == 143
    assert look(RETURNS) == 1


def test_a_reader_that_leaves_after_the_first_line_has_read_enough(
    conch: Conch, env: dict[str, str], look: Look
) -> None:
    conch("join")

    pipeline = f"{sys.executable} -m conch wait --path {env['HOME']}/../workspace | head -1"
    unbuffered = {**env, "CONCH_AGENT_ID": "ada:1", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(["bash", "-c", pipeline], env=unbuffered, capture_output=True, timeout=30)

    assert done.stdout.startswith(b"Your turn")
    assert (look(RETURNS), look(OWNER)) == (0, "ada:1")


def test_a_wait_without_any_output_still_claims(conch: Conch, env: dict[str, str], look: Look) -> None:
    conch("join")

    words = f"{sys.executable} -m conch wait --path {env['HOME']}/../workspace >&- 2>&-"
    done = subprocess.run(["bash", "-c", words], env={**env, "CONCH_AGENT_ID": "ada:1"}, timeout=30)

    assert (done.returncode, look(OWNER)) == (0, "ada:1")


@pytest.mark.usefixtures("held")
def test_a_room_that_lets_nobody_block_does_not_make_a_wait_spin_or_fail(conch: Conch, start: Start) -> None:
    conch("policy", "wait_for_turn_max_wait_ms=0")
    waiter = start("wait", agent="bob:2")
    assert waiter.stderr.readline()

    conch("release", *DONE)
    out, _ = waiter.communicate(timeout=30)

    assert (waiter.returncode, out.startswith("Your turn")) == (0, True)


@pytest.mark.usefixtures("held")
def test_a_wait_outlasts_a_store_that_is_locked_for_a_while(
    conch: Conch, database: Path, wait_with_clock: Any, until: Until
) -> None:
    conch("policy", "heartbeat_interval_ms=1")
    waiter = wait_with_clock(0.05, CONCH_BUSY_TIMEOUT_MS="1")
    locker = sqlite3.connect(database, isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")
    refused = conch("note", "n", "--json", CONCH_BUSY_TIMEOUT_MS="1")  # so it is locked
    looked = switches(waiter.pid)
    until(lambda: switches(waiter.pid) > looked + 10)
    locker.execute("COMMIT")
    locker.close()

    conch("release", *DONE)
    out, _ = waiter.communicate(timeout=30)

    assert refused.error["code"] == "DB_BUSY"
    assert '"status": "your_turn"' in out


def switches(pid: int) -> int:
    """How often a process has gone to sleep."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("voluntary_ctxt_switches")).split()[1])


@pytest.mark.usefixtures("held")
def test_the_end_of_a_lease_alone_ends_the_wait_of_the_others(conch: Conch, wait_with_clock: Any) -> None:
    conch("policy", "owner_lease_ttl_ms=4000")
    conch("wait")

    waiter = wait_with_clock(NEVER)
    out, _ = waiter.communicate(timeout=30)

    assert waiter.returncode == 3
    assert '"code": "takeover_available"' in out and '"reason": "owner_timeout"' in out


def test_a_stranger_is_told_to_join_first(conch: Conch) -> None:
    conch("join")

    refused = conch("wait", "--json", agent="eve:7")

    assert (refused.status, refused.error["code"]) == (1, "unknown_member")
    assert "`conch join`" in refused.error["message"]
