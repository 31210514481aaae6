"""Promises of the file bell inside one process. What goes on between processes is in tests/process."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.bells.file import CounterWatcher, FileBell, file_name, open_watcher
from conch.bells.sleepers import Sleeper
from conch.bells.waits import Pause, wait_for
from conch.calls import Call
from conch.host import processes

SOON = 10.0  # a deadline for what must happen
NEVER = 0.05  # how long to look for what must not

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks for /proc or inotify")


def no_counter() -> int:
    raise AssertionError("the kernel can watch files; nothing should count")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "bells"


@pytest.fixture
def bell(directory: Path) -> Iterator[FileBell]:
    bell = FileBell(str(directory), no_counter)
    yield bell
    bell.close()


# -- rings


def test_a_ring_wakes_its_listener_once(bell: FileBell) -> None:
    with bell.listen("room-a") as ear:
        bell.ring(["room-a"])

        assert ear.wait(SOON) is True
        assert ear.wait(NEVER) is False


def test_a_ring_from_before_the_listening_is_not_heard(bell: FileBell) -> None:
    with bell.listen("room-a"):
        bell.ring(["room-a"])
    with bell.listen("room-a") as ear:
        assert ear.wait(NEVER) is False


def test_a_ring_is_heard_on_its_own_channel_only(bell: FileBell) -> None:
    with bell.listen("room-a") as one, bell.listen("room-b") as other:
        bell.ring(["room-b"])

        assert other.wait(SOON) is True
        assert one.wait(NEVER) is False


def test_an_ear_hears_all_of_its_channels_and_the_one_it_announces(bell: FileBell) -> None:
    with bell.listen("room-a", "room-b", announce="seat-a") as ear:
        heard = []
        for channel in ("room-a", "room-b", "seat-a"):
            bell.ring([channel])
            heard.append(ear.wait(SOON))

    assert heard == [True, True, True]


def test_everybody_on_a_channel_is_woken(bell: FileBell) -> None:
    with bell.listen("room-a") as one, bell.listen("room-a") as other:
        bell.ring(["room-a"])

        assert one.wait(SOON) is True
        assert other.wait(SOON) is True


def test_one_listener_who_leaves_does_not_deafen_the_others(bell: FileBell) -> None:
    with bell.listen("room-a") as staying:
        with bell.listen("room-a"):
            pass
        bell.ring(["room-a"])

        assert staying.wait(SOON) is True


def test_naming_a_channel_twice_is_the_same_as_once(bell: FileBell) -> None:
    with bell.listen("room-a", "room-a", announce="room-a") as ear:
        bell.ring(["room-a"])

        assert ear.wait(SOON) is True
        assert bell.hears("room-a") is True


def test_an_ear_can_be_woken_before_it_waits(bell: FileBell) -> None:
    with bell.listen("room-a") as ear:
        ear.wake()

        assert ear.wait(SOON) is True
        assert ear.wait(NEVER) is False


def test_an_ear_can_be_woken_from_another_thread(bell: FileBell) -> None:
    with bell.listen("room-a") as ear:
        waker = threading.Thread(target=ear.wake)
        waker.start()

        assert ear.wait(SOON) is True
        waker.join()


# -- lingering

FOREVER = 600.0


def linger_in_background(ear: Any) -> tuple[threading.Thread, list[bool]]:
    heard: list[bool] = []

    def wait_and_linger() -> None:
        rung = ear.wait(FOREVER)
        ear.linger(FOREVER)
        heard.append(rung)

    thread = threading.Thread(target=wait_and_linger, daemon=True)
    thread.start()
    return thread, heard


def test_a_ring_on_a_shared_channel_lingers(bell: FileBell) -> None:
    with bell.listen("room-a", announce="seat-a") as ear:
        thread, heard = linger_in_background(ear)
        bell.ring(["room-a"])
        thread.join(NEVER)
        early = list(heard)
        ear.wake()
        thread.join(SOON)

    assert (early, heard) == ([], [True])


def test_a_ring_on_the_own_channel_ends_the_lingering(bell: FileBell) -> None:
    with bell.listen("room-a", announce="seat-a") as ear:
        thread, heard = linger_in_background(ear)
        bell.ring(["room-a"])
        bell.ring(["seat-a"])
        thread.join(SOON)

        assert heard == [True]
        assert ear.called


def test_the_end_of_the_watched_process_ends_the_lingering(bell: FileBell) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with bell.listen("room-a", announce="seat-a") as ear:
        ear.watch(processes.look_up(child.pid))
        thread, heard = linger_in_background(ear)
        bell.ring(["room-a"])
        child.kill()
        child.communicate()
        thread.join(SOON)

    assert heard == [True]


def test_an_ear_without_its_own_channel_does_not_linger_for_long(bell: FileBell) -> None:
    with bell.listen("room-a") as ear:
        thread, heard = linger_in_background(ear)
        bell.ring(["room-a"])
        thread.join(SOON)

    assert heard == [True]


def test_waiting_no_time_at_all_tells_whether_there_was_a_ring(bell: FileBell) -> None:
    with bell.listen("room-a") as ear:
        assert ear.wait(0) is False
        ear.wake()
        assert ear.wait(0) is True
        assert ear.wait(-1) is False


def test_many_threads_may_listen_to_one_channel_at_once(bell: FileBell) -> None:
    heard: list[bool] = []
    listening = threading.Barrier(9)

    def listen_for_one_ring() -> None:
        for _ in range(20):
            with bell.listen("room-a"):
                pass
        with bell.listen("room-a") as ear:
            listening.wait(SOON)
            heard.append(ear.wait(SOON))

    threads = [threading.Thread(target=listen_for_one_ring) for _ in range(8)]
    for thread in threads:
        thread.start()
    listening.wait(SOON)
    bell.ring(["room-a"])
    for thread in threads:
        thread.join()

    assert heard == [True] * 8


# -- the end of a wait


def wait_for_a_ring(bell: FileBell, call: Call) -> bool | None:
    was_rung = iter([False, True])

    def look(pause: Pause) -> bool | None:
        if next(was_rung):
            return True
        bell.ring(["seat-a"])
        return None

    return wait_for(bell, ["room-a"], look, SOON, call, announce="seat-a")


def test_a_wait_that_has_ended_announces_nothing(bell: FileBell) -> None:
    assert wait_for_a_ring(bell, Call())
    assert bell.hears("seat-a") is False


# -- files


def test_ringing_where_nobody_ever_listened_makes_nothing(bell: FileBell, directory: Path) -> None:
    bell.ring(["room-a"])

    assert not directory.exists()


def test_ringing_never_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    FileBell(str(tmp_path / "file"), no_counter).ring(["room-a", "", "..", "\0", "\ud800", "x" * 10_000])
    FileBell(str(tmp_path / "missing"), no_counter).ring(["room-a"])


def test_only_the_owner_can_reach_the_files(bell: FileBell, directory: Path) -> None:
    with bell.listen("room-a", announce="seat-a"):
        modes = {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}

        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert modes == {0o600}


@pytest.mark.parametrize(
    "channel", ["", ".", "..", "../up", "a/b", "\0", "seat-r-claude:1", "ü", "\ud800", "x" * 9_999]
)
def test_any_text_is_a_channel(bell: FileBell, directory: Path, channel: str) -> None:
    with bell.listen(announce=channel) as ear:
        bell.ring([channel])

        assert ear.wait(SOON) is True
        assert bell.hears(channel) is True
    assert [path.parent for path in directory.iterdir()] == [directory]


@given(st.text(), st.text())
def test_two_channels_never_share_a_file(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


@given(st.text(max_size=300))
def test_the_name_of_a_file_is_plain_and_short(channel: str) -> None:
    name = file_name(channel)

    assert 0 < len(name) <= 120
    assert not name.startswith(".")
    assert all(character.isascii() and (character.isalnum() or character in "._-%~") for character in name)


def test_long_channels_with_the_same_beginning_differ() -> None:
    assert file_name("x" * 200) != file_name("x" * 201)
    assert file_name("%" + "x" * 10) != file_name("%25" + "x" * 10)


@pytest.mark.parametrize("announce", [None, "room-a"])
def test_a_file_deleted_under_a_listener_is_made_again_for_the_next(
    bell: FileBell, directory: Path, announce: str | None
) -> None:
    with bell.listen("room-a", announce=announce) as deaf:
        (directory / "room-a").unlink()
        with bell.listen("room-a", announce=announce) as ear:
            bell.ring(["room-a"])

            assert ear.wait(SOON) is True
            assert bell.hears("room-a") is (announce is not None)
        deaf.wake()
        assert deaf.wait(SOON) is True


def test_a_pipe_in_place_of_a_file_makes_nobody_wait_and_rings(bell: FileBell, directory: Path) -> None:
    directory.mkdir()
    for name in ("room-a", "seat-a"):
        os.mkfifo(directory / name)

    with bell.listen("room-a", announce="seat-a") as ear:
        heard = bell.hears("seat-a")
        bell.ring(["room-a"])

        assert (ear.wait(SOON), heard) == (True, True)


# -- announcements


def test_a_channel_is_heard_exactly_while_somebody_announces_it(bell: FileBell) -> None:
    before = bell.hears("seat-a")
    with bell.listen("room-a", announce="seat-a"):
        during = bell.hears("seat-a"), bell.hears("seat-a"), bell.hears("room-a")
    after = bell.hears("seat-a")

    assert (before, during, after) == (False, (True, True, False), False)


def test_a_channel_is_heard_until_the_last_one_has_left(bell: FileBell) -> None:
    with bell.listen(announce="seat-a"):
        with bell.listen(announce="seat-a"):
            pass

        assert bell.hears("seat-a") is True
    assert bell.hears("seat-a") is False


def test_a_process_that_is_held_up_while_it_asks_hides_no_listener(
    bell: FileBell, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bell.listen(announce="seat-a"), open_folder(directory) as asking:
        fcntl.flock(asking, fcntl.LOCK_EX)
        looks = iter([*[lambda: None] * 100, lambda: fcntl.flock(asking, fcntl.LOCK_UN)])
        monkeypatch.setattr(time, "sleep", lambda seconds: next(looks)())

        assert bell.hears("seat-a") is True


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_asking_who_hears_rings_nobody(bell: FileBell) -> None:
    with bell.listen("room-a", announce="seat-a") as ear:
        bell.hears("seat-a")
        bell.hears("room-a")

        assert ear.wait(NEVER) is False


# -- watched processes


def start_child() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    child = start_child()
    yield child
    child.kill()
    child.communicate()


def test_the_end_of_the_watched_process_wakes_once(bell: FileBell, child: subprocess.Popen[bytes]) -> None:
    process = processes.look_up(child.pid)
    with bell.listen("room-a") as ear:
        ear.watch(process)
        alive = ear.wait(NEVER)
        child.kill()
        ended = ear.wait(SOON)
        ear.watch(process)

        assert (alive, ended, ear.wait(NEVER)) == (False, True, False)
        assert processes.check(process) == "gone"


def test_one_ear_may_watch_many_processes(bell: FileBell, child: subprocess.Popen[bytes]) -> None:
    other = start_child()
    first, second = processes.look_up(child.pid), processes.look_up(other.pid)
    with bell.listen("room-a") as ear:
        ear.watch(first, second)
        other.kill()
        other.communicate()
        woken, ear.ended = ear.wait(SOON) and ear.ended, False
        ear.watch(first, second)
        again = ear.wait(NEVER)
        child.kill()

        assert (woken, again) == (True, False)
        assert (ear.wait(SOON), ear.ended) == (True, True)


def test_two_ears_may_watch_one_process(bell: FileBell, child: subprocess.Popen[bytes]) -> None:
    process = processes.look_up(child.pid)
    with bell.listen("room-a") as one, bell.listen("room-a") as other:
        one.watch(process)
        other.watch(process)
        child.kill()

        assert one.wait(SOON) is True
        assert other.wait(SOON) is True


def test_a_process_that_has_already_ended_wakes_at_once(bell: FileBell, child: subprocess.Popen[bytes]) -> None:
    process = processes.look_up(child.pid)
    child.kill()
    child.wait()
    with bell.listen("room-a") as ear:
        ear.watch(process)

        assert ear.wait(SOON) is True
        assert ear.wait(NEVER) is False


def test_a_process_watched_no_more_wakes_nobody(bell: FileBell, child: subprocess.Popen[bytes]) -> None:
    with bell.listen("room-a") as ear:
        ear.watch(processes.look_up(child.pid))
        ear.watch(None)
        child.kill()
        child.wait()

        assert ear.wait(NEVER) is False


def test_watching_another_process_forgets_the_first(bell: FileBell, child: subprocess.Popen[bytes]) -> None:
    with bell.listen("room-a") as ear:
        ear.watch(processes.look_up(child.pid))
        ear.watch(processes.look_up(os.getpid()))
        child.kill()
        child.wait()

        assert ear.wait(NEVER) is False


def test_a_process_of_another_host_wakes_nobody(bell: FileBell) -> None:
    with bell.listen("room-a") as ear:
        ear.watch(processes.Process("another", "boot", 2**22 + 1, 1))

        assert ear.wait(NEVER) is False


@on_linux
def test_without_descriptors_for_processes_the_end_is_still_noticed(
    bell: FileBell, child: subprocess.Popen[bytes]
) -> None:
    import resource

    process = processes.look_up(child.pid)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with bell.listen("room-a") as ear:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            ear.watch(process)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        alive = ear.wait(NEVER)
        child.kill()

        assert (alive, ear.wait(SOON), ear.wait(NEVER)) == (False, True, False)


# -- closing


def open_descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


@on_linux
def test_everything_is_closed_when_the_bell_is(directory: Path, child: subprocess.Popen[bytes]) -> None:
    before = open_descriptors(), threading.active_count()
    bell = FileBell(str(directory), no_counter)

    for channel in ("room-a", "room-b"):
        with bell.listen(channel, announce="seat-a") as ear:
            ear.watch(processes.look_up(child.pid))
            ear.watch(processes.look_up(os.getpid()))
            bell.ring([channel])
            bell.hears("seat-a")
            bell.hears("nobody")
            assert ear.wait(SOON) is True
    bell.close()

    assert (open_descriptors(), threading.active_count()) == before


@on_linux
def test_an_ear_that_has_left_leaves_no_watch_behind(bell: FileBell) -> None:
    def watches() -> list[str]:
        details = [Path(f"/proc/self/fdinfo/{descriptor}") for descriptor in open_descriptors()]
        lines = [line for file in details if file.exists() for line in file.read_text().splitlines()]
        return [line for line in lines if line.startswith("inotify wd")]

    with bell.listen("room-a", "room-b", announce="seat-a"), bell.listen("room-a"):
        during = len(watches())

    assert (during, watches()) == (3, [])


@on_linux
def test_an_ear_that_outlives_its_bell_does_not_deafen_the_next_bell(directory: Path, bell: FileBell) -> None:
    earlier = FileBell(str(directory), no_counter)
    with earlier.listen("room-a"):
        earlier.close()
        ear = bell.listen("room-a")  # most likely with the same descriptor numbers

    with ear:
        assert ear.wait(NEVER) is False
        bell.ring(["room-a"])
        assert ear.wait(SOON) is True


@on_linux
def test_an_ear_may_outlive_its_bell(directory: Path, child: subprocess.Popen[bytes]) -> None:
    before = open_descriptors()
    bell = FileBell(str(directory), no_counter)

    with bell.listen("room-a", announce="seat-a") as ear:
        ear.watch(processes.look_up(child.pid))
        bell.close()
        bell.close()
        ear.watch(processes.look_up(os.getpid()))
        assert ear.wait(NEVER) is False

    assert open_descriptors() == before


# -- without the kernel's help


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[tuple[FileBell, list[int]]]:
    """A bell whose directory cannot be made, so that it has to count; and what it counts."""
    (tmp_path / "file").touch()
    count = [0]
    bell = FileBell(str(tmp_path / "file" / "bells"), lambda: count[0])
    yield bell, count
    bell.close()


def test_a_bell_that_cannot_hear_rings_hears_the_counter(counted: tuple[FileBell, list[int]]) -> None:
    bell, count = counted
    with bell.listen("room-a", announce="seat-a") as ear:
        assert ear.wait(SOON) is True  # the first count is news to it
        assert ear.wait(NEVER) is False
        count[0] += 1

        assert ear.wait(SOON) is True
        assert ear.wait(NEVER) is False
        assert bell.hears("seat-a") is False


def test_a_change_while_nobody_listens_is_not_missed(counted: tuple[FileBell, list[int]]) -> None:
    bell, count = counted
    with bell.listen("room-a") as ear:
        assert ear.wait(SOON) is True
    count[0] += 1
    with bell.listen("room-a") as ear:
        assert ear.wait(SOON) is True


def test_waiters_look_again_sooner_when_rings_cannot_be_heard(
    bell: FileBell, counted: tuple[FileBell, list[int]]
) -> None:
    with bell.listen("room-a"), counted[0].listen("room-a"):
        assert bell.recheck_seconds(0.25) == 5.0
        assert counted[0].recheck_seconds(0.25) == 0.25


def test_a_bell_that_can_hear_rings_again_does(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    bell = FileBell(str(tmp_path / "file"), lambda: 0)
    with bell.listen("room-a"):
        pass
    (tmp_path / "file").unlink()

    with bell.listen("room-a") as ear:
        bell.ring(["room-a"])
        assert ear.wait(SOON) is True
        assert bell.recheck_seconds(0.25) == 5.0
    bell.close()


def test_the_end_of_a_process_is_noticed_while_counting(
    counted: tuple[FileBell, list[int]], child: subprocess.Popen[bytes]
) -> None:
    with counted[0].listen("room-a") as ear:
        assert ear.wait(SOON) is True
        ear.watch(processes.look_up(child.pid))
        child.kill()

        assert ear.wait(SOON) is True


class Counter:
    """Counts how often and where it is asked; can fail; says when it has been asked again."""

    def __init__(self) -> None:
        self.value = 0
        self.fails = False
        self.threads: set[int] = set()
        self.asked = threading.Semaphore(0)

    def __call__(self) -> int:
        self.threads.add(threading.get_ident())
        self.asked.release()
        if self.fails:
            raise RuntimeError("the store is in trouble")
        return self.value

    def wait_until_asked(self, times: int) -> bool:
        return all(self.asked.acquire(timeout=SOON) for _ in range(times))

    def forget(self) -> None:
        while self.asked.acquire(blocking=False):
            pass


@pytest.fixture
def counter() -> Iterator[Counter]:
    yield Counter()


@pytest.fixture
def watcher(counter: Counter) -> Iterator[CounterWatcher]:
    watcher = CounterWatcher(counter)
    yield watcher
    watcher.close()


def watch(watcher: CounterWatcher, wake: Callable[[], None]) -> Callable[[], None]:
    return watcher.watch_channel("any", wake)


def test_a_counter_in_trouble_wakes_nobody_and_recovers(watcher: CounterWatcher, counter: Counter) -> None:
    woken = threading.Semaphore(0)
    counter.fails = True
    watch(watcher, woken.release)
    asked = counter.wait_until_asked(3)
    silent = not woken.acquire(blocking=False)
    counter.fails = False

    assert (asked, silent) == (True, True)
    assert woken.acquire(timeout=SOON)


def test_the_counter_is_asked_from_one_thread(watcher: CounterWatcher, counter: Counter) -> None:
    def listen_a_little() -> None:
        stop = watch(watcher, lambda: None)
        counter.wait_until_asked(2)
        stop()

    threads = [threading.Thread(target=listen_a_little) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(counter.threads) == 1


def test_nobody_counts_while_nobody_listens(watcher: CounterWatcher, counter: Counter) -> None:
    stop = watch(watcher, lambda: None)
    assert counter.wait_until_asked(1)
    stop()
    counter.forget()

    assert sum(counter.asked.acquire(timeout=NEVER) for _ in range(4)) <= 1  # the one that was under way


# -- too many rings


@on_linux
def test_rings_that_the_kernel_had_to_drop_wake_everybody(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    paths = [tmp_path / name for name in ("one", "two", "dropped")]
    for path in paths:
        path.touch()
    watcher = open_watcher()
    blocked, go_on, woken = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        go_on.wait(SOON)

    watcher.watch_channel(str(paths[0]), block)
    watcher.watch_channel(str(paths[1]), block)
    watcher.watch_channel(str(paths[2]), woken.set)
    os.utime(paths[0])
    assert blocked.wait(SOON)
    for n in range(limit + 10):
        os.utime(paths[n % 2])  # in turns, because the kernel merges equal events
    os.utime(paths[2])
    go_on.set()

    assert woken.wait(SOON)
    watcher.close()


# -- which thread reads the kernel's events


@on_linux
def test_a_waiter_that_sleeps_alone_wakes_no_other_thread(tmp_path: Path) -> None:
    path, sleeper, woken_by = tmp_path / "one", Sleeper(), []
    path.touch()
    watcher = open_watcher()
    watcher.watch_channel(str(path), lambda: woken_by.append(threading.get_ident()))
    watcher.sleep(sleeper, 0)
    for _ in range(20):
        os.utime(path)
        watcher.sleep(sleeper, SOON)

    assert woken_by == [threading.get_ident()] * 20
    watcher.close()


def wait_in_background(ear: Any) -> tuple[threading.Thread, list[bool]]:
    heard: list[bool] = []
    waiter = threading.Thread(target=lambda: heard.append(ear.wait(SOON)))
    waiter.start()
    return waiter, heard


def test_the_waiters_still_hear_when_the_one_that_reads_has_left(bell: FileBell) -> None:
    for _ in range(50):
        with bell.listen("room-a") as first, bell.listen("room-b") as second:
            one, heard_by_one = wait_in_background(first)
            other, heard_by_other = wait_in_background(second)
            bell.ring(["room-a"])
            one.join()
            bell.ring(["room-b"])
            other.join()

        assert (heard_by_one, heard_by_other) == ([True], [True])


def test_only_the_last_task_waits_until_the_reply_was_sent() -> None:
    call, done = Call(), list[str]()
    call.postpone_tidying()

    for name in ("first", "second"):
        call.tidy(partial(done.append, name))
    before = list(done)
    for task in call.postponed():
        task()
    call.tidy(partial(done.append, "third"))

    assert before == ["first"]
    assert done == ["first", "second", "third"]


def test_nobody_seems_to_wait_any_more_although_the_ear_closes_after_the_reply(bell: FileBell) -> None:
    call, heard = Call(), list[bool]()
    call.postpone_tidying()

    def look(pause: Pause) -> str:
        heard.append(bell.hears("seat"))
        return "found"

    wait_for(bell, ["room-a"], look, 1.0, call, announce="seat")
    heard.append(bell.hears("seat"))
    for task in call.postponed():
        task()

    assert heard == [True, False]


def test_a_waiter_outlasts_the_end_of_its_bell_until_it_is_woken(bell: FileBell) -> None:
    with bell.listen("room-a") as ear:
        waiter, heard = wait_in_background(ear)
        bell.close()
        ear.wake()
        waiter.join()

    assert heard == [True]
