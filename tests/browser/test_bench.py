"""The benchmark of the console runs to its end. Its results are for people to read: no test asserts a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.process.figures import require_figures

BENCH = Path(__file__).parents[2] / "bench" / "console.py"
ROWS = (
    "message sent to its pixels, a room of 50 events",
    "requests per second, a room",
    "memory of `conch serve`, RSS",
    "open streams",
    "message sent to its pixels, a room of 1,000 events",
)


def test_every_row_of_the_console_can_be_measured(chromium: Any) -> None:
    done = subprocess.run([sys.executable, str(BENCH), "--quick"], capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stderr
    assert [row for row in ROWS if row not in done.stdout] == []
    require_figures("console.py", done.stdout)
