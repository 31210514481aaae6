"""`conch demo`: it ends by itself, shows what really happened, and leaves nothing behind, however it is run."""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

DEMO = [sys.executable, "-m", "conch", "demo"]
SECONDS = 60
ACTS = ("Act 1: round robin", "Act 2: an explicit skip", "Act 3: a missed recipient", "Act 4: a crashed owner")
ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="finds processes through /proc")


class Place(NamedTuple):
    """Where a demo runs: its user has a home, a store, settings and a repository, and a directory for scratch."""

    home: Path
    scratch: Path

    @classmethod
    def make(cls, root: Path) -> Place:
        place = cls(root / "home", root / "scratch")
        place.home.mkdir()
        place.scratch.mkdir()
        return place

    @property
    def environ(self) -> dict[str, str]:
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("CONCH_", "COLUMNS", "NO_COL"))
        }
        mine = {
            "HOME": self.home,
            "XDG_DATA_HOME": self.home / "xdg",
            "CONCH_DATA_DIR": self.home / "mine",
            "CONCH_STORE": self.home / "mine.sqlite",
            "TALKING_STICK_DATA_DIR": self.home / "older",
            "TMPDIR": self.scratch,
        }
        odd = {"CONCH_CLAIM_TTL_MS": "nonsense", "CONCH_AGENT_ID": "human:me", "TERM": "xterm"}
        return own | odd | {name: str(path) for name, path in mine.items()}

    def running(self) -> list[int]:
        """Every process whose store is in the scratch directory."""
        mark = f"CONCH_DATA_DIR={self.scratch}".encode()
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in read(path)]

    def agent(self, client_name: str) -> int:
        (pid,) = [pid for pid in self.running() if client_name.encode() in read(Path(f"/proc/{pid}/cmdline"))]
        return pid

    def assert_untouched(self) -> None:
        assert list(self.home.iterdir()) == []

    def assert_nothing_left(self) -> None:
        assert list(self.scratch.iterdir()) == []
        assert self.running() == []


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, subprocess.CompletedProcess[str]]]:
    """One demo in a pipe, from a directory that is not a workspace; several promises are read off it."""
    place = Place.make(tmp_path_factory.mktemp("shown"))
    yield place, run_demo(place)


def run_demo(place: Place, *options: str, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*under, *DEMO, *options]
    return subprocess.run(
        command, env=place.environ, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )


@pytest.fixture
def start(place: Place) -> Iterator[Start]:
    """Starts a demo in a pipe; whatever a test leaves running is ended with it."""
    demos: list[subprocess.Popen[str]] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child inherits only that it is ignored

    def start() -> subprocess.Popen[str]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        demos.append(subprocess.Popen(DEMO, env=place.environ, cwd="/", text=True, **streams))
        return demos[-1]

    yield start
    signal.signal(signal.SIGINT, before)
    for demo in demos:
        demo.kill()
        demo.communicate()


def read_until(demo: subprocess.Popen[str], words: str) -> None:
    assert demo.stdout is not None
    assert any(words in line for line in demo.stdout), f"{words!r} was never shown"


# -- what it shows


def test_in_a_pipe_it_ends_well_and_shows_all_four_acts_in_order(shown: tuple[Place, Run]) -> None:
    _, demo = shown

    places = [demo.stdout.find(act) for act in ACTS]

    assert (demo.returncode, demo.stderr) == (0, "")
    assert -1 not in places and places == sorted(places)


def test_it_tells_what_the_servers_answered(shown: tuple[Place, Run]) -> None:
    _, demo = shown

    granted = re.findall(r"(codex|claude|gemini) +(claimed turn|took over: turn) (\d)", demo.stdout)

    assert granted == [
        ("codex", "claimed turn", "1"),
        ("claude", "claimed turn", "2"),
        ("gemini", "claimed turn", "3"),
        ("codex", "claimed turn", "4"),
        ("gemini", "claimed turn", "5"),
        ("codex", "claimed turn", "6"),
        ("gemini", "took over: turn", "7"),
        ("claude", "claimed turn", "8"),
        ("codex", "took over: turn", "9"),
    ]
    assert re.findall(r"refused, (\w+)", demo.stdout) == ["takeover_not_available", "turn_mismatch", "stale_lease"]
    assert re.findall(r"takeover_available, (\w+)", demo.stdout) == ["claim_timeout", "owner_gone", "owner_gone"]


def test_the_timeline_runs_forward(shown: tuple[Place, Run]) -> None:
    _, demo = shown

    moments = [float(moment) for moment in re.findall(r"^ +([\d.]+) ms  ", demo.stdout, re.MULTILINE)]

    assert len(moments) > 30
    assert moments == sorted(moments)


def test_it_ends_with_a_verdict_and_what_to_do_next(shown: tuple[Place, Run]) -> None:
    _, demo = shown

    verdict = demo.stdout.splitlines()[-4:]

    assert verdict[0] == "9 turns granted, 2 of them by takeover."
    assert re.fullmatch(r"6 handoffs delivered word for word; median [\d.]+ ms from call to your_turn\.", verdict[1])
    assert verdict[2].startswith("No problems found: 1 room replayed, ")
    assert "`conch join`" in verdict[3] and "`conch mcp`" in verdict[3]


def test_without_a_terminal_there_is_no_colour_and_no_line_is_too_long(shown: tuple[Place, Run]) -> None:
    _, demo = shown

    lines = [line for line in demo.stdout.splitlines() if not line.startswith("Scratch directory")]

    assert "\x1b" not in demo.stdout
    assert max(map(len, lines)) <= 80


# -- what it leaves


@needs_proc
def test_it_leaves_no_process_and_no_directory_behind(shown: tuple[Place, Run]) -> None:
    place, _ = shown

    place.assert_nothing_left()


def test_the_users_own_store_settings_and_repository_are_not_touched(shown: tuple[Place, Run]) -> None:
    place, _ = shown

    place.assert_untouched()


def test_it_imports_nothing_that_lies_in_the_workspace(place: Place) -> None:
    package = place.home / "conch"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("raise SystemExit('from the workspace')")
    demo = [os.path.join(os.path.dirname(sys.executable), "conch"), "demo"]

    ended = subprocess.run(demo, env=place.environ, cwd=place.home, capture_output=True, text=True, timeout=SECONDS)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_with_keep_it_says_where_the_store_is_and_the_store_is_sound(place: Place) -> None:
    demo = run_demo(place, "--keep")

    (kept,) = place.scratch.iterdir()
    verify = [sys.executable, "-m", "conch", "db", "verify", "--store", str(kept / "data" / "rooms.sqlite")]
    environ = {**place.environ, "CONCH_CLAIM_TTL_MS": ""}
    assert f"kept: {kept}" in demo.stdout and f"CONCH_DATA_DIR={kept / 'data'} conch events" in demo.stdout
    assert subprocess.run(verify, env=environ, capture_output=True, timeout=SECONDS).returncode == 0


# -- where it is run


@pytest.mark.parametrize("harness", ["claude", "codex", "gemini"])
def test_inside_a_harness_the_agents_are_still_three_and_a_crash_is_still_seen(
    place: Place, tmp_path: Path, harness: str
) -> None:
    program = tmp_path / harness
    program.write_text('#!/bin/sh\nexport CLAUDECODE=1 CLAUDE_CODE_SESSION_ID=s1 CODEX_THREAD_ID=t1\n"$@"\nexit $?\n')
    program.chmod(0o755)

    demo = run_demo(place, under=(str(program),))

    assert (demo.returncode, demo.stderr) == (0, "")
    assert demo.stdout.count("owner_gone") == 2


# -- how it may be ended


@needs_proc
@pytest.mark.parametrize("moment", ["Scratch directory", ACTS[2]])
def test_ctrl_c_cleans_up(place: Place, start: Start, moment: str) -> None:
    demo = start()
    read_until(demo, moment)

    demo.send_signal(signal.SIGINT)

    assert demo.wait(SECONDS) == 130
    place.assert_nothing_left()


@needs_proc
def test_neither_a_hanging_agent_nor_a_second_ctrl_c_stops_the_cleaning_up(place: Place, start: Start) -> None:
    demo = start()
    read_until(demo, ACTS[2])
    os.kill(place.agent("codex-mcp-client"), signal.SIGSTOP)
    other_left = os.pidfd_open(place.agent("gemini-cli-mcp-client"))

    demo.send_signal(signal.SIGINT)
    assert select.select([other_left], [], [], SECONDS)[0], "the cleaning up never began"
    demo.send_signal(signal.SIGINT)

    assert demo.wait(SECONDS) == 130
    place.assert_nothing_left()
    os.close(other_left)


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_cleans_up(place: Place, start: Start, number: signal.Signals) -> None:
    demo = start()
    read_until(demo, ACTS[2])

    demo.send_signal(number)

    assert demo.wait(SECONDS) == 128 + number
    place.assert_nothing_left()


@needs_proc
def test_a_reader_that_goes_away_ends_it_quietly(place: Place, start: Start) -> None:
    demo = start()
    read_until(demo, ACTS[0])
    assert demo.stdout is not None and demo.stderr is not None

    demo.stdout.close()

    assert demo.wait(SECONDS) == 1
    assert demo.stderr.read() == ""
    place.assert_nothing_left()


def test_a_disk_that_is_full_ends_it_with_a_sentence(place: Place) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")

    with open("/dev/full", "w") as full:
        demo = subprocess.run(DEMO, env=place.environ, stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS)

    assert demo.returncode == 1
    assert demo.stderr == f"conch demo: [Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}\n"
    assert list(place.scratch.iterdir()) == []


@needs_proc
def test_when_it_is_killed_its_agents_and_their_servers_end_by_themselves(place: Place, start: Start) -> None:
    demo = start()
    read_until(demo, ACTS[1])
    demo.send_signal(signal.SIGSTOP)
    ends = [os.pidfd_open(pid) for pid in place.running()]

    demo.kill()

    assert len(ends) == 6
    for end in ends:
        assert select.select([end], [], [], SECONDS)[0], "still running"
        os.close(end)


@needs_proc
def test_when_an_agent_fails_it_says_what_was_expected(place: Place, start: Start) -> None:
    demo = start()
    read_until(demo, ACTS[1])
    demo.send_signal(signal.SIGSTOP)  # nothing more is asked of the agents while one of them is killed

    os.killpg(place.agent("gemini-cli-mcp-client"), signal.SIGKILL)  # with its server
    demo.send_signal(signal.SIGCONT)

    assert demo.wait(SECONDS) == 1
    assert demo.stderr is not None
    # The next step may be gemini's own, or one that hands the stick to it.
    wanted = r"conch demo: \w+ should .*, but the reply was .*gemini.*\."
    assert re.match(wanted, demo.stderr.read())
    place.assert_nothing_left()


# -- on a terminal


class Terminal:
    """A demo in the foreground of a terminal of its own."""

    def __init__(self, place: Place, **environ: str) -> None:
        self._keyboard, screen = os.openpty()
        self._seen = b""
        command = [sys.executable, "-c", ON_A_TERMINAL, *DEMO]
        self.process = subprocess.Popen(
            command,
            stdin=screen,
            stdout=screen,
            stderr=screen,
            cwd="/",
            env={**place.environ, **environ},
            start_new_session=True,
        )
        os.close(screen)

    def read_until(self, words: str) -> str:
        """Everything shown so far, once the words are among it."""
        deadline = time.monotonic() + SECONDS
        while words.encode() not in self._seen:
            readable, _, _ = select.select([self._keyboard], [], [], deadline - time.monotonic())
            assert readable, f"{words!r} was never shown: {self._seen!r}"
            self._seen += os.read(self._keyboard, 65_536)
        return self._seen.decode()

    def type(self, keys: bytes) -> None:
        os.write(self._keyboard, keys)

    def read_to_the_end(self) -> str:
        try:
            while chunk := os.read(self._keyboard, 65_536):
                self._seen += chunk
        except OSError as end:
            assert end.errno == errno.EIO  # Linux's error when no process has the terminal open any more
        return self._seen.decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._keyboard)


@pytest.fixture
def terminal(place: Place) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def open_terminal(**environ: str) -> Terminal:
        terminals.append(Terminal(place, **environ))
        return terminals[-1]

    yield open_terminal
    for each in terminals:
        each.close()


@needs_proc
def test_ctrl_c_on_a_terminal_cleans_up(place: Place, terminal: Callable[..., Terminal]) -> None:
    demo = terminal()
    demo.read_until(ACTS[0])

    demo.type(b"\x03")

    assert "Traceback" not in demo.read_to_the_end()
    assert demo.process.wait(SECONDS) == 130
    place.assert_nothing_left()


def test_a_terminal_gets_colour(terminal: Callable[..., Terminal]) -> None:
    demo = terminal()

    assert "\x1b[36mcodex \x1b[0m" in demo.read_until("claimed turn 1")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_colour_gets_none(terminal: Callable[..., Terminal], environ: dict[str, str]) -> None:
    demo = terminal(**environ)

    assert "\x1b" not in demo.read_until("claimed turn 1")
