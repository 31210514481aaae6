"""Promises of `processes`, kept against real processes."""

from __future__ import annotations

import ast
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from conch.host import linux, processes
from conch.host.processes import Process

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks for /proc")

CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc")


def may_make_containers() -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    return subprocess.run([*CONTAINER, "true"], capture_output=True).returncode == 0


in_containers = pytest.mark.skipif(not may_make_containers(), reason="makes namespaces")

SLEEPER = "import sys; print('ready', flush=True); sys.stdin.read()"


Child = subprocess.Popen[str]
Start = Callable[[str], Child]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts children that have said their first word, so that their scripts have run so far."""
    children: list[Child] = []

    def start(script: str) -> Child:
        words = [sys.executable, "-c", script]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def child(start: Start) -> Child:
    return start(SLEEPER)


def run(script: str, *command: str, **options: object) -> str:
    """What a child prints."""
    return subprocess.run(
        [*command, sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30, **options
    ).stdout.strip()


def known(child: Child) -> Process:
    process = processes.look_up(child.pid)
    assert process is not None
    return process


def kill_without_reaping(child: Child) -> None:
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_a_running_process_is_alive(child: Child) -> None:
    assert processes.check(known(child)) == "alive"


def test_every_process_of_a_machine_gives_the_same_names_to_host_boot_and_process() -> None:
    script = f"from conch.host import processes; print(processes.look_up({os.getpid()}))"

    assert run(script) == str(processes.look_up(os.getpid()))


def test_the_machine_id_is_not_given_away() -> None:
    assert processes.host_id() != linux.machine_id()[: len(processes.host_id())]


def test_a_killed_process_that_nobody_has_reaped_is_gone(child: Child) -> None:
    process = known(child)

    kill_without_reaping(child)

    assert processes.check(process) == "gone"
    assert processes.look_up(child.pid) is None


def test_a_reaped_process_is_gone(child: Child) -> None:
    process = known(child)

    child.kill()
    child.wait()

    assert processes.check(process) == "gone"
    assert processes.look_up(child.pid) is None


@on_linux
def test_a_process_lives_on_when_only_its_first_thread_has_ended(start: Start) -> None:
    script = """
import ctypes, os, threading, time
def go_on():
    while ") Z" not in open(f"/proc/{os.getpid()}/stat").read():
        time.sleep(0.001)
    print("ready", flush=True)
    threading.Event().wait()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(ctypes.c_long(60 if os.uname().machine == "x86_64" else 93), 0)
"""
    child = start(script)

    process = processes.look_up(child.pid)
    life = processes.check(process)
    kill_without_reaping(child)

    assert process is not None
    assert life == "alive"
    assert processes.check(process) == "gone"


def test_a_later_process_with_the_same_pid_is_another_one(child: Child) -> None:
    earlier = known(child)._replace(started_at=known(child).started_at - 1)

    assert processes.check(earlier) == "gone"
    assert processes.open_pidfd(earlier) is None


def test_a_process_of_another_host_is_unknown_even_if_its_pid_is_free_here() -> None:
    stranger = Process("another", processes.boot_id(), 2**22 + 1, 1)

    assert processes.check(stranger) == "unknown"


def test_a_process_of_an_earlier_boot_is_gone(child: Child) -> None:
    assert processes.check(known(child)._replace(boot_id="earlier")) == "gone"


def test_a_process_without_facts_is_unknown(child: Child) -> None:
    assert processes.check(None) == "unknown"
    assert processes.check(known(child)._replace(boot_id="")) == "unknown"


@in_containers
def test_a_hidden_process_is_unknown_and_an_absent_one_is_gone(child: Child) -> None:
    hidden = known(child)
    script = f"""
import os, subprocess
from conch.host import processes
hidden = processes.Process(*{tuple(hidden)!r})
subprocess.run(["mount", "-t", "proc", "-o", "hidepid=2", "proc", "/proc"], check=True)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(processes.look_up(hidden.pid), processes.check(hidden), processes.check(hidden._replace(pid=2**22 + 1)))
"""

    assert run(script, "unshare", "--mount") == "None unknown gone"


@in_containers
def test_a_container_is_a_host_of_its_own(child: Child) -> None:
    script = f"""
from conch.host import processes
print(processes.host_id(), processes.check(processes.Process(*{tuple(known(child))!r})))
"""

    host, life = run(script, *CONTAINER).split()

    assert host != processes.host_id()
    assert life == "unknown"


@on_linux
@pytest.mark.parametrize("name", ["plain", "two words", "a) Z 1 (b", "((", "))"])
def test_a_process_is_the_same_whatever_it_calls_itself(start: Start, name: str) -> None:
    script = f"open('/proc/self/comm', 'w').write({name!r}); {SLEEPER}"
    child = start(script)

    _, parent, _, told, ended = linux.facts(child.pid)

    assert (told, parent, ended) == (name, os.getpid(), False)
    assert processes.check(processes.look_up(child.pid)) == "alive"


@on_linux
def test_a_pidfd_tells_the_end_of_its_process(child: Child) -> None:
    descriptor = processes.open_pidfd(known(child))
    assert descriptor is not None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)

    before = poll.poll(0)
    child.kill()
    after = poll.poll(10_000)

    os.close(descriptor)
    assert before == []
    assert after == [(descriptor, select.POLLIN)]


def test_no_pidfd_is_given_for_a_process_that_has_ended(child: Child) -> None:
    process = known(child)
    kill_without_reaping(child)
    descriptors = os.listdir("/dev/fd")

    assert processes.open_pidfd(process) is None
    assert os.listdir("/dev/fd") == descriptors


def test_ancestors_come_nearest_first_with_their_programs_and_arguments() -> None:
    script = (
        "from conch.host import processes as p; print([(a.name, a.arguments, a.process.pid) for a in p.ancestors()])"
    )
    middle = f"""
import os, subprocess, sys
print(os.getpid(), flush=True)
subprocess.run([sys.executable, "-c", {script!r}], check=True)
"""

    middle_pid, answer = run(middle).splitlines()
    (name, arguments, parent), (_, _, grandparent), *_ = ast.literal_eval(answer)

    assert (parent, grandparent) == (int(middle_pid), os.getpid())
    assert name == os.path.basename(os.path.realpath(sys.executable))
    assert arguments == (sys.executable, "-c", middle)


def test_ancestors_go_from_the_parent_up_to_the_first_process(child: Child) -> None:
    found = list(processes.ancestors(child.pid))

    last = found[-1].process.pid
    assert found[0].process == processes.look_up(os.getpid())
    assert last == 1 or os.getsid(last) != last  # the tests may run below an orphan, which has no parent


def test_a_process_that_has_gone_has_no_ancestors(child: Child) -> None:
    child.kill()
    child.wait()

    assert list(processes.ancestors(child.pid)) == []


def test_the_process_that_began_the_session_is_its_leader() -> None:
    script = "from conch.host import processes as p; import os; print(p.session_leader() == p.look_up(os.getpid()))"

    assert run(script, start_new_session=True) == "True"
    assert processes.session_leader() == processes.look_up(os.getsid(0))


TTY = "from conch.host import processes; print(processes.controlling_tty())"


def test_the_terminal_is_known_even_when_no_stream_leads_to_it() -> None:
    ours, theirs = os.openpty()
    take_it = f"import fcntl, termios; fcntl.ioctl({theirs}, termios.TIOCSCTTY, 0); "

    tty = run(take_it + TTY, stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=[theirs])

    assert f"/dev/{tty}" == os.ttyname(theirs)
    os.close(theirs)
    os.close(ours)


def test_a_stream_that_leads_to_a_terminal_of_others_does_not_count() -> None:
    ours, theirs = os.openpty()

    assert run(TTY, stdin=theirs, start_new_session=True) == "None"
    os.close(theirs)
    os.close(ours)


def test_a_process_without_a_terminal_has_none() -> None:
    assert run(TTY, stdin=subprocess.DEVNULL, start_new_session=True) == "None"


def test_a_stopped_process_is_alive(child: Child) -> None:
    child.send_signal(signal.SIGSTOP)

    assert processes.check(known(child)) == "alive"
