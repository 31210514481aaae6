"""Measure the bus: `python bench/bus.py`, about a minute, or `--quick` to see that everything still runs.

Both sides of every comparison are measured alternately in the same run, because machines are noisy. Look at the ratio
first. Prints Markdown. Linux only: memory comes from /proc.
"""

from __future__ import annotations

import sys

import bus_calls
import reading
import sending
import waking
from bus_plan import FULL, QUICK
from comparing import compare

if __name__ == "__main__":
    sys.exit(compare("the bus", FULL, QUICK, (waking, bus_calls, reading), sending))
