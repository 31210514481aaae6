"""How long a hook takes from start to exit, compared with bare Python: `python bench/hook.py`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median

from harness import CONCH, PYTHON, SDK_PYTHON, Row, Scratch, milliseconds, open_scratch, times
from report import figure, rows_table

# What a harness runs: at every edit, after every tool, at the end of a reply.
EVENTS = {
    "PreToolUse": {"tool_name": "Edit", "tool_input": {"file_path": "src/parser.py"}},
    "PostToolUse": {"tool_name": "Edit", "tool_input": {"file_path": "src/parser.py"}},
    "Stop": {"stop_hook_active": False},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, to see that it works")
    rounds = 1 if parser.parse_args().quick else 20
    with open_scratch(str(SDK_PYTHON)) as scratch:
        print(figure("hook", rows_table(_measure(scratch, rounds))))
    return 0


def _measure(scratch: Scratch, rounds: int) -> list[Row]:
    path = scratch.workspace("hook")
    _run(scratch, path, "SessionStart", {"source": "startup"})
    took: dict[str, list[float]] = {"python": [], **{event: [] for event in EVENTS}}
    for _ in range(rounds + 1):  # the first of each warms the caches
        began = time.perf_counter()
        subprocess.run(PYTHON, env=scratch.environ(), check=True)
        took["python"].append(time.perf_counter() - began)
        for event, given in EVENTS.items():
            took[event].append(_run(scratch, path, event, given))
    python = median(took["python"][1:])
    bare = f"`python -c pass`: {milliseconds(python)}"
    rows = []
    for event in EVENTS:
        seconds = median(took[event][1:])
        what = f"`conch hook {event}`, start to exit"
        rows.append(Row(what, milliseconds(seconds), bare, times(seconds, python), "<= 3x", seconds <= 3 * python))
    return rows


def _run(scratch: Scratch, path: str, event: str, given: dict[str, object]) -> float:
    fields = {"session_id": "bench", "cwd": path, "hook_event_name": event, **given}
    command = (*CONCH, "hook", event, "--harness", "claude-code")
    began = time.perf_counter()
    subprocess.run(
        command, env=scratch.environ(), input=json.dumps(fields).encode(), stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
