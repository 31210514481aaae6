"""The bell between real processes: rings, announcements, deaths, and a kernel that has no watches left."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conch.bells.file import FileBell
from conch.host import processes

SOON = 30.0

PREAMBLE = """
import os, sqlite3, sys, threading
from conch.host import processes
from conch.bells.file import FileBell

def say(*words):
    print(*words, flush=True)

def no_counter():
    raise AssertionError("the kernel can watch files; nothing should count")

directory = sys.argv[1]
bell = FileBell(os.path.join(directory, "bells"), no_counter)
"""

Child = subprocess.Popen[str]
Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts children that share a directory; their scripts end when their input does."""
    children: list[Child] = []

    def start(script: str, *command: str) -> Child:
        words = [*command, sys.executable, "-c", PREAMBLE + script, str(tmp_path)]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def said(child: Child) -> str:
    """The child's next line; the child itself must have a deadline."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[FileBell]:
    def no_counter() -> int:
        raise AssertionError("the kernel can watch files; nothing should count")

    bell = FileBell(str(tmp_path / "bells"), no_counter)
    yield bell
    bell.close()


LISTENER = """
with bell.listen("room-a", announce="seat-a") as ear:
    say("listening")
    while True:
        say(ear.wait(30))
"""


def test_a_ring_in_one_process_wakes_a_listener_in_another(start: Start, bell: FileBell) -> None:
    listener = start(LISTENER)
    assert said(listener) == "listening"

    bell.ring(["room-a"])

    assert said(listener) == "True"


def test_no_ring_is_lost_between_the_look_and_the_sleep(start: Start, tmp_path: Path) -> None:
    player = """
me, rounds = sys.argv[2], 150
path = os.path.join(directory, "turn")
other = {"ping": "pong", "pong": "ping"}[me]
for _ in range(rounds):
    with bell.listen(me) as ear:
        while open(path).read() != me:
            if not ear.wait(20):
                say("a ring was lost")
                sys.exit()
    with open(path + me, "w") as file:
        file.write(other)
    os.replace(path + me, path)
    bell.ring([other])
say("all heard")
"""
    (tmp_path / "turn").write_text("ping")

    players = [start(player.replace("sys.argv[2]", repr(me))) for me in ("ping", "pong")]

    assert [said(player) for player in players] == ["all heard", "all heard"]


def test_a_listener_is_heard_until_it_is_killed(start: Start, bell: FileBell) -> None:
    listener = start(LISTENER)
    assert said(listener) == "listening"

    waiting = bell.hears("seat-a"), bell.hears("room-a")
    listener.kill()
    listener.wait()

    assert waiting == (True, False)
    assert bell.hears("seat-a") is False


def test_probers_never_take_each_other_for_a_listener(start: Start, bell: FileBell) -> None:
    with bell.listen(announce="seat-a"):
        pass
    prober = "say('ready'); input(); say(sum(bell.hears('seat-a') for _ in range(2_000)))"

    probers = [start(prober) for _ in range(3)]
    ready = [said(prober) for prober in probers]
    for prober in probers:
        assert prober.stdin is not None
        prober.stdin.write("\n")
        prober.stdin.flush()

    assert ready == ["ready"] * 3
    assert [said(prober) for prober in probers] == ["0", "0", "0"]


def test_every_prober_sees_a_listener(start: Start, bell: FileBell) -> None:
    prober = "say(sum(bell.hears('seat-a') for _ in range(500)))"
    with bell.listen(announce="seat-a"):
        probers = [start(prober) for _ in range(2)]

        assert [said(prober) for prober in probers] == ["500", "500"]


def test_a_program_started_by_a_listener_does_not_announce_in_its_place(start: Start, bell: FileBell) -> None:
    listener = start("""
import subprocess
with bell.listen("room-a", announce="seat-a"):
    heir = subprocess.Popen(["sleep", "60"])
    say(heir.pid)
    input()
""")
    heir = int(said(listener))
    listener.kill()
    listener.wait()

    try:
        assert bell.hears("seat-a") is False
        assert processes.look_up(heir) is not None
    finally:
        os.kill(heir, 9)


def test_the_death_of_a_watched_process_wakes_a_waiter_in_another(start: Start) -> None:
    owner = start("say('working'); input()")
    assert said(owner) == "working"
    waiter = start(f"""
owner = processes.look_up({owner.pid})
with bell.listen("room-a") as ear:
    ear.watch(owner)
    say("waiting")
    say(ear.wait(30), processes.check(owner))
""")
    assert said(waiter) == "waiting"

    owner.kill()

    assert said(waiter) == "True gone"


# -- a kernel that has no watches left

COUNTING = """
def rows():
    return connection.execute("SELECT count(*) FROM messages").fetchone()[0]

def data_version():
    global counter
    counter = counter or sqlite3.connect(path)
    return counter.execute("PRAGMA data_version").fetchone()[0]

path = os.path.join(directory, "store.db")
counter = None
connection = sqlite3.connect(path)
bell = FileBell(os.path.join(directory, "bells"), data_version)
with bell.listen("room-a", announce="seat-a") as ear:
    say("listening", bell.recheck_seconds(0.25))
    while not rows():
        if not ear.wait(20):
            say("deaf")
            sys.exit()
    say("heard")
    input()
"""

# In a user namespace of its own: the other tests, which run at the same time, keep theirs.
NO_INSTANCES = """
import ctypes, errno
with open("/proc/sys/user/max_inotify_instances", "w") as limit:
    limit.write("0")
libc = ctypes.CDLL(None, use_errno=True)
assert libc.inotify_init1(0) < 0 and ctypes.get_errno() == errno.EMFILE
"""
NO_WATCHES = """
with open("/proc/sys/user/max_inotify_watches", "w") as limit:
    limit.write("0")
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    store = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("CREATE TABLE messages (text)")
    yield store
    store.close()


def check_that_changes_are_heard(listener: Child, store: sqlite3.Connection, bell: FileBell) -> None:
    assert said(listener) == "listening 0.25"
    assert bell.hears("seat-a") is True

    store.execute("INSERT INTO messages VALUES ('hello')")
    bell.ring(["room-a"])

    assert said(listener) == "heard"


def may_make_namespaces() -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not may_make_namespaces(), reason="makes a user namespace")
@pytest.mark.parametrize("limited", [NO_INSTANCES, NO_WATCHES], ids=["instance", "watch"])
def test_when_the_user_has_no_more_of_inotify_left_changes_still_arrive(
    start: Start, store: sqlite3.Connection, bell: FileBell, limited: str
) -> None:
    listener = start(limited + COUNTING, "unshare", "--user", "--map-root-user")

    check_that_changes_are_heard(listener, store, bell)
