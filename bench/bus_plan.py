"""How much of the bus is measured."""

from __future__ import annotations

from typing import NamedTuple


class BusPlan(NamedTuple):
    """Everything is bounded, so a run ends by itself."""

    rounds: int
    wakes: int
    polled_wakes: int
    calls: int
    sizes: tuple[int, ...]
    reads: int
    crowds: tuple[int, ...]
    """How many processes send."""
    sending_rounds: int
    sending_seconds: float
    limit_seconds: int


FULL = BusPlan(
    rounds=10,
    wakes=600,
    polled_wakes=80,
    calls=2_000,
    sizes=(10_000, 100_000, 1_000_000),
    reads=200,
    crowds=(1, 2, 8, 32),
    sending_rounds=3,
    sending_seconds=2,
    limit_seconds=600,
)
QUICK = BusPlan(
    rounds=2,
    wakes=20,
    polled_wakes=4,
    calls=40,
    sizes=(100, 200, 400),
    reads=4,
    crowds=(1, 2),
    sending_rounds=1,
    sending_seconds=0.2,
    limit_seconds=300,
)
