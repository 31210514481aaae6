"""Real `conch` processes: from nowhere in particular, under a harness, or in a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.patience import look_until
from tests.process.forking import Forks

SOON = 30.0
CONCH = (sys.executable, "-m", "conch")

Object = dict[str, Any]
Env = dict[str, str]


class Answer(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def envelope(self) -> Object:
        envelope: Object = json.loads(self.out)
        assert set(envelope) == {"ok", "command", "data", "error"}
        assert envelope["ok"] == (self.status == 0) == (envelope["error"] is None)
        return envelope

    @property
    def data(self) -> Object:
        data: Object = self.envelope["data"]
        return data

    @property
    def error(self) -> Object:
        envelope = self.envelope
        assert envelope["data"] is None
        error: Object = envelope["error"]
        return error


class Conch:
    """Runs a command to its end, as an agent of some name, in a place of its own."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self._forks = forks
        self.workspace = (folder / "workspace").resolve()
        self.database = folder / "data" / "rooms.sqlite"
        self.env = {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "HOME": str(folder / "home"),
            "USER": "ada",
            "LANG": "C.UTF-8",
            "CONCH_DATA_DIR": str(self.database.parent),
        }
        for place in (self.workspace, folder / "home"):
            place.mkdir()
        (self.workspace / "AGENTS.md").write_text("")

    def __call__(
        self, *words: str | bytes, agent: str = "ada:1", stdin: str = "", folder: str = "", **more: str
    ) -> Answer:
        """In a process that is forked from one that has imported conch already."""
        env = {**self.env, "CONCH_AGENT_ID": agent, **more}
        given = stdin.encode("utf-8", "surrogateescape")
        ended = self._forks.run([os.fsdecode(word) for word in words], env, self.workspace / folder, given, SOON)
        return Answer(ended.status, ended.out.decode(), ended.err.decode())

    def contents(self) -> list[Any]:
        """All rows of rooms and messages, without the times at which agents were last seen."""
        columns = dict.fromkeys(("path_rooms", "room_members", "room_events", "topics", "messages"), "*")
        columns |= dict.fromkeys(("questions", "answers", "peers", "agent_name_reservations"), "*")
        columns["cursors"] = "topic_id, peer_id, last_seq"
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        rows = [
            row for name in columns for row in connection.execute(f"SELECT {columns[name]} FROM {name} ORDER BY 1, 2")
        ]
        connection.close()
        return rows

    def afresh(self, *words: str | bytes, agent: str = "ada:1", stdin: str = "", **more: str) -> Answer:
        """In a new interpreter, as a shell starts it."""
        done = subprocess.run(
            [*CONCH, *words],
            env={**self.env, "CONCH_AGENT_ID": agent, **more},
            cwd=self.workspace,
            input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=SOON,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def typed(words: tuple[str | bytes, ...]) -> str:
    """The id of a test of bad input: the start of each typed word."""
    shown = [word.decode("latin-1") if isinstance(word, bytes) else word for word in words]
    return ascii(" ".join(word[:12] for word in shown))


@pytest.fixture
def new_conch(tmp_path: Path, forks: Forks) -> Conch:
    """Without a store, until a command creates one."""
    return Conch(tmp_path, forks)


@pytest.fixture
def conch(new_conch: Conch, put_store: Callable[[Path], None]) -> Conch:
    put_store(new_conch.database.parent)
    return new_conch


@pytest.fixture(scope="module")
def shared_conch(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Conch:
    """For tests that change nothing."""
    return Conch(tmp_path_factory.mktemp("shared"), forks)


@pytest.fixture
def env(conch: Conch) -> Env:
    """The environment of every process of a test: its own store, and nothing of the shell that runs the tests."""
    return conch.env


@pytest.fixture
def workspace(conch: Conch) -> Path:
    return conch.workspace


@pytest.fixture
def database(conch: Conch) -> Path:
    return conch.database


Child = subprocess.Popen[str]
Start = Callable[..., Child]


@pytest.fixture
def start(env: Env, workspace: Path) -> Iterator[Start]:
    """Start a command and go on; its output can be read line by line."""
    children: list[Child] = []

    def start(*words: str, agent: str = "ada:1", **options: Any) -> Child:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        who = {**env, "CONCH_AGENT_ID": agent}
        child = subprocess.Popen([*CONCH, *words], env=who, cwd=workspace, text=True, **options)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


# -- a harness, or anything else that runs commands


class Shell:
    """A running bash under another name, for example `claude`, that runs the commands it is given."""

    def __init__(self, name: str, env: Env, cwd: Path) -> None:
        self._process = subprocess.Popen(
            [name], executable="/bin/bash", env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        self._files = cwd.parent

    def run(self, *words: str, through: tuple[str, ...] = (), **env: str) -> Answer:
        """Run a command, perhaps through a program of ours that starts it."""
        out, err = self._files / f"{self.pid}.out", self._files / f"{self.pid}.err"
        exports = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
        command = " ".join([*exports, shlex.join([*through, *CONCH, *words])])
        status = self.bash(f"{command} >{out} 2>{err} </dev/null")
        return Answer(status, out.read_text(), err.read_text())

    def bash(self, line: str) -> int:
        """The exit status of a line of bash."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{line}\necho $?\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def become(self, command: str) -> None:
        """Go on as another shell, for example one in a namespace of its own."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"exec {command}\n")
        assert self.bash("true") == 0

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def shell(env: Env, workspace: Path) -> Iterator[Callable[[str], Shell]]:
    shells: list[Shell] = []

    def start(name: str) -> Shell:
        shells.append(Shell(name, env, workspace))
        return shells[-1]

    yield start
    for each in shells:
        each.end()


# -- a terminal

# `tmux` is the parent of a terminal's shell. It hides any harness that runs these tests.
TERMINAL = """
import os, sys
os.login_tty(0)
os.execvp("bash", ["bash", "/dev/tty"])
"""


class Terminal:
    """A bash in a terminal of its own, with no prompt; its screen is read as raw bytes."""

    def __init__(self, env: Env, cwd: Path, columns: int) -> None:
        self._master, slave = pty.openpty()
        self._set_up(slave, columns)
        starter = shlex.join([sys.executable, "-c", TERMINAL])
        self._process = subprocess.Popen(
            ["tmux", "-c", f"{starter}; exit"],
            executable="/bin/bash",
            env={"TERM": "xterm", **env},
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.screen = b""

    def _set_up(self, slave: int, columns: int) -> None:
        mode = termios.tcgetattr(slave)
        mode[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, mode)
        termios.tcsetwinsize(slave, (24, columns))

    def resize(self, columns: int, lines: int = 24) -> None:
        """Change the size of the window. The kernel tells the program in it."""
        termios.tcsetwinsize(self._master, (lines, columns))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def run(self, *words: str) -> str:
        """What a command shows, once it has ended."""
        self.start(*words)
        return self.read_until(b"ended: ").decode()

    def start(self, *words: str) -> None:
        self.type(shlex.join([*CONCH, *words]) + "; echo ended: $?.\n")

    def read_until(self, mark: bytes) -> bytes:
        deadline, begun = time.monotonic() + SOON, len(self.screen)
        while mark not in self.screen[begun:]:
            readable, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
            assert readable, f"{mark!r} has not come: {self.screen[begun:]!r}"
            self.screen += os.read(self._master, 65536)
        return self.screen[begun:]

    def end(self) -> None:
        """Close the window: the kernel hangs up."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1
            self._process.wait(SOON)


@pytest.fixture
def terminal(env: Env, workspace: Path) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def open_terminal(columns: int = 60, **more: str) -> Terminal:
        terminals.append(Terminal({**env, **more}, workspace, columns))
        return terminals[-1]

    yield open_terminal
    for each in terminals:
        each.end()


# -- what goes on behind the scenes


@pytest.fixture
def guardians(tmp_path: Path) -> Iterator[Callable[[], list[int]]]:
    """The pids of the guardians that run in this test."""
    mark = f"CONCH_DATA_DIR={tmp_path}/".encode()

    def find() -> list[int]:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_guardian(pid, mark)]

    yield find
    for pid in find():
        os.kill(pid, signal.SIGKILL)


def _is_guardian(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as arguments, open(f"/proc/{pid}/environ", "rb") as environ:
            return b"conch.doors.cli.guardian" in arguments.read() and mark in environ.read()
    except OSError:
        return False


@pytest.fixture
def ended() -> Callable[[int], bool]:
    """Whether a process that is not our child ends, soon enough."""

    def wait(pid: int) -> bool:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        readable, _, _ = select.select([descriptor], [], [], SOON)
        os.close(descriptor)
        return bool(readable)

    return wait


@pytest.fixture
def look(database: Path) -> Callable[[str], Any]:
    """One value from the store, seen from outside."""

    def ask(query: str) -> Any:
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=SOON)
        try:
            return connection.execute(query).fetchone()[0]
        finally:
            connection.close()

    return ask


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Wait for something that can only be seen by polling the store or /proc."""
    return lambda look: look_until(look, SOON)
