"""`python -m tests.torture.soak`: eight agents at work for half an hour. Does anything grow that should not?

Prints memory, descriptors, threads, write-ahead log and latency of the last minute beside the second one. In a shorter
run, a sixth of it takes the place of a minute. Exits with 1 if a call was not answered or failed by a defect.

Other work on the machine slows every call. So a small process without conch commits a row at every look, and two rows
of the table compare a call with such a commit.

With `--verify`, `conch db verify` looks at the store again and again while they work, and must find nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.torture.engines import base_environ, open_engine, run_conch
from tests.torture.history import Call, Object, read_calls
from tests.torture.pids import FINISHED, Pids, end_children
from tests.torture.player import Setting, fork_player
from tests.torture.workspaces import make_workspaces

AGENTS = 8
WRITES, READS = ("append_note", "heartbeat"), ("get_room_state", "scope_list")
BARE = """
import sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("PRAGMA journal_mode = WAL")
store.execute("PRAGMA synchronous = NORMAL")
store.execute("CREATE TABLE bare (text TEXT)")
for line in sys.stdin:
    store.execute("INSERT INTO bare VALUES (?)", (line,))
    print(flush=True)
"""


class Sample(NamedTuple):
    """One look at all servers."""

    at: float
    memory: float
    """Megabytes of one server, on average."""
    most_memory: float
    descriptors: int
    """Of the server that has the most; so are the threads."""
    threads: int
    log: float
    """Megabytes of SQLite's write-ahead log."""
    bare_commit: float
    """Milliseconds of one commit in the process without conch."""


class Yardstick:
    """What a round trip to another process and a commit there cost at this moment."""

    def __init__(self, bare: subprocess.Popen[str]) -> None:
        assert bare.stdin is not None and bare.stdout is not None
        self._asks, self._answers = bare.stdin, bare.stdout

    def measure(self) -> float:
        began = time.monotonic()
        self._asks.write("x" * 100 + "\n")
        self._asks.flush()
        self._answers.readline()
        return 1_000 * (time.monotonic() - began)


@contextmanager
def _yardstick(folder: Path) -> Iterator[Yardstick]:
    command = [sys.executable, "-c", BARE, str(folder / "bare.sqlite")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bare:
        yardstick = Yardstick(bare)
        yardstick.measure()  # the first answer waits for the start of the process
        yield yardstick


class Window(NamedTuple):
    began: float
    ended: float

    def holds(self, at: float) -> bool:
        return self.began <= at < self.ended


def main() -> int:
    options = _parse()
    folder = Path(tempfile.mkdtemp(prefix="conch-soak-"))
    try:
        with open_engine(options.engine, folder, base_environ(folder)) as engine, _yardstick(folder) as yardstick:
            began, pids = time.monotonic(), Pids(AGENTS)
            until = began + options.seconds
            setting = Setting(folder, engine.environ, make_workspaces(folder), options.seed, until, pids, options.pause)
            samples, verified = _soak(setting, yardstick, options.verify)
        minute = min(60.0, options.seconds / 6)
        windows = Window(began + minute, began + 2 * minute), Window(until - minute, until)
        return _report(folder, samples, *windows) | _judge(verified)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.soak", description=__doc__)
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seconds", type=float, default=1_800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--pause", type=float, default=0.05, help="average rest of an agent after each deed, in seconds"
    )
    parser.add_argument("--verify", action="store_true", help="verify the store all the time")
    return parser.parse_args()


def _soak(setting: Setting, yardstick: Yardstick, verifies: bool) -> tuple[list[Sample], list[Object]]:
    samples: list[Sample] = []
    verified: list[Object] = []
    try:
        for index in range(AGENTS):
            fork_player(setting, index, 0)
        while any(setting.pids.of(index) != FINISHED for index in range(AGENTS)):
            assert time.monotonic() < setting.until + 90, "an agent did not finish"
            time.sleep(0.5)
            samples += _look(setting, yardstick)
            verified += [run_conch(setting.environ, "db", "verify")] if verifies else []
    finally:
        end_children()
    return samples, verified


def _judge(verified: list[Object]) -> int:
    wrong = [report for report in verified if not report["ok"]]
    print("".join(f"\n{report}" for report in wrong[:5]) or f"{len(verified)} verifications found nothing")
    return 1 if wrong else 0


def _look(setting: Setting, yardstick: Yardstick) -> Iterator[Sample]:
    found = [facts for index in range(AGENTS) if (facts := _facts(setting.pids.of(index)))]
    if found:
        memory, descriptors, threads = zip(*found, strict=True)
        log = Path(setting.environ.get("CONCH_DATA_DIR", "/nowhere")) / "rooms.sqlite-wal"
        size = log.stat().st_size / 1e6 if log.exists() else 0.0
        facts = statistics.mean(memory), max(memory), max(descriptors), max(threads), size
        yield Sample(time.monotonic(), *facts, yardstick.measure())


def _facts(pid: int) -> tuple[float, int, int] | None:
    """Megabytes, descriptors and threads of a process, if it is a server that runs."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if pid <= 0 or status["State"].split()[0] == "Z" or b"mcp" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return None
        return int(status["VmRSS"].split()[0]) / 1e3, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])
    except (FileNotFoundError, ProcessLookupError, KeyError):
        return None


def _report(folder: Path, samples: list[Sample], second: Window, last: Window) -> int:
    calls = [call for path in folder.glob("player-*.jsonl") for call in read_calls(path, {})]
    windows = second, last
    looks = {
        name: _both(
            0.5, [[getattr(sample, name) for sample in samples if window.holds(sample.at)] for window in windows]
        )
        for name in Sample._fields[1:]
    }
    rows = [_row(name.replace("_", " "), *both) for name, both in looks.items()]
    for name, tools in (("write", WRITES), ("read", READS)):
        times = [_milliseconds(calls, tools, window) for window in windows]
        typical = _both(0.5, times)
        rows.append(_row(f"{name}, p50 in ms", *typical))
        rows.append(_row(f"{name}, p99 in ms", *_both(0.99, times)))
        rows.append(_row(f"{name}, p50 in bare commits", *map(_ratio, typical, looks["bare_commit"])))
    answered = sum(call.is_ok for call in calls)
    print(f"{len(calls)} calls by {AGENTS} agents, {answered} succeeded\n")
    print("| | second minute | last minute | ratio |\n|---|---:|---:|---:|")
    print("\n".join(rows))
    bad = [call for call in calls if call.outcome == "unanswered" or call.code == "internal_error"]
    print("".join(f"\n{call}" for call in bad[:5]))
    return 1 if bad else 0


def _milliseconds(calls: Iterable[Call], tools: tuple[str, ...], window: Window) -> list[float]:
    kept = [call for call in calls if call.tool in tools and call.is_ok and window.holds(call.began)]
    return [1_000 * (call.ended - call.began) for call in kept]


def _both(share: float, windows: list[list[float]]) -> tuple[float, float]:
    second, last = windows
    return _at(share, second), _at(share, last)


def _at(share: float, values: list[float]) -> float:
    """The value that this share of the values does not exceed."""
    return sorted(values)[int(share * (len(values) - 1))] if values else 0.0


def _row(name: str, early: float, late: float) -> str:
    return f"| {name} | {early:.2f} | {late:.2f} | {_ratio(late, early):.2f} |"


def _ratio(one: float, other: float) -> float:
    return one / other if other else 0.0


if __name__ == "__main__":
    sys.exit(main())
