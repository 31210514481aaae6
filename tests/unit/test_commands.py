"""Other programs that are asked."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from conch.host import commands

DEADLINE_MS = 5_000


def test_a_program_that_is_too_slow_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    poll = select.poll()
    poll.register(reading, select.POLLHUP)

    with pytest.raises(commands.TooSlow):
        commands.ask(("sh", "-c", "sleep 30 > pipe & wait"), str(tmp_path), os.environ, 0.5)

    assert poll.poll(DEADLINE_MS), "what it started still has the pipe"
    os.close(reading)
