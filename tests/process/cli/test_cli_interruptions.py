"""Signals at every moment between a wait and its answer."""

from __future__ import annotations

import subprocess
import sys

PREAMBLE = """
import os, signal, threading, time
from conch.calls import Call
from conch.doors.cli.interruptions import Interruptions
from conch.doors.exits import Interrupted

call, woken = Call(), threading.Event()
call.wake_with(woken.set)
interruptions = Interruptions(call)

def send(number):
    os.kill(os.getpid(), number)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PREAMBLE + script], capture_output=True, text=True, timeout=30)


def test_a_signal_cancels_the_call_and_the_process_goes_on() -> None:
    done = run("send(signal.SIGTERM); woken.wait(20); print(call.cancelled, interruptions.number == signal.SIGTERM)")

    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")


def test_a_signal_that_came_too_late_for_the_wait_stops_the_answer() -> None:
    done = run("""
send(signal.SIGHUP)
woken.wait(20)
try:
    with interruptions.raised():
        print("the answer")
except Interrupted as interruption:
    print("stopped by", interruption.number)
""")

    assert done.stdout == "stopped by 1\n"


def test_a_signal_stops_an_answer_that_nobody_takes() -> None:
    done = run("""
reader, writer = os.pipe()
threading.Timer(0.1, send, [signal.SIGTERM]).start()
try:
    with interruptions.raised():
        os.write(writer, b"x" * 10_000_000)
except Interrupted as interruption:
    print("stopped by", interruption.number)
""")

    assert done.stdout == "stopped by 15\n"


def test_an_answer_is_stopped_only_once_so_that_the_stick_can_be_given_back() -> None:
    done = run("""
try:
    with interruptions.raised():
        send(signal.SIGTERM)
        time.sleep(20)
except Interrupted:
    send(signal.SIGTERM)
    woken.wait(20)
    print("given back")
""")

    assert (done.returncode, done.stdout) == (0, "given back\n")


def test_a_second_signal_ends_the_process() -> None:
    done = run("send(signal.SIGINT); woken.wait(20); send(signal.SIGTERM); time.sleep(20)")

    assert (done.returncode, done.stderr) == (143, "")
