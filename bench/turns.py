"""Measure the turns: `python bench/turns.py`, about three minutes, or `--quick` to see that everything still runs.

Both sides of every comparison are measured alternately in the same run, because machines are noisy. Look at the ratio
first. Prints Markdown. Linux only: memory and processor time come from /proc.
"""

from __future__ import annotations

import sys

import calls
import handoffs
import passing
import starts
import waiting
from comparing import compare
from harness import FULL, QUICK

if __name__ == "__main__":
    sys.exit(compare("taking turns", FULL, QUICK, (handoffs, starts, calls, waiting), passing))
