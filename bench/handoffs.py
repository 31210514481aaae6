"""A stick handed from one `conch mcp` process to another: heard on the bell, and found by polling."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from harness import HANDOFF, Object, Plan, Row, Scratch, Server, Spread, milliseconds, times

POLL_SECONDS = 0.250
SETTLE_SECONDS = 0.005
"""How long after the waiter's first progress report it is surely asleep."""

Hand = Callable[[str, Server, Object, Server], tuple[float, Object]]


def measure(scratch: Scratch, plan: Plan) -> list[Row]:
    heard, polled = _run(scratch, plan)
    what = "stick handed to a process that waits"
    poll = f"poll every 250 ms ({polled.size}): "
    return [
        Row(
            f"{what}, p50 of {heard.size}",
            milliseconds(heard.p50),
            poll + milliseconds(polled.p50),
            times(heard.p50, polled.p50),
            "<= 2 ms",
            heard.p50 <= 0.002,
        ),
        Row(
            f"{what}, p99",
            milliseconds(heard.p99),
            poll + milliseconds(polled.p99),
            times(heard.p99, polled.p99),
            "<= 15 ms",
            heard.p99 <= 0.015,
        ),
        Row(f"{what}, longest", milliseconds(heard.longest), poll + milliseconds(polled.longest)),
    ]


def _run(scratch: Scratch, plan: Plan) -> tuple[Spread, Spread]:
    path = scratch.workspace("handoff")
    heard: list[float] = []
    polled: list[float] = []
    with scratch.server("bench:left") as left, scratch.server("bench:right") as right:
        players = [left, right]
        for player in players:
            room_id = player.call("join_path", context_path=path)["room_id"]
        turn = left.call("wait_for_turn", room_id=room_id)
        for _ in range(plan.rounds):
            for hand, count, seconds in (
                (_hand_by_bell, plan.handoffs, heard),
                (_hand_by_poll, plan.polled_handoffs, polled),
            ):
                turn = _repeat(hand, count // plan.rounds, seconds, players, turn)
    return Spread.of(heard), Spread.of(polled)


def _repeat(hand: Hand, count: int, seconds: list[float], players: list[Server], turn: Object) -> Object:
    """Hand the stick back and forth; the owner is always the first player."""
    for _ in range(count):
        owner, waiter = players
        took, turn = hand(turn["room_id"], owner, turn, waiter)
        seconds.append(took)
        players.reverse()
    return turn


def _hand_by_bell(room_id: str, owner: Server, turn: Object, waiter: Server) -> tuple[float, Object]:
    waiting = waiter.begin_wait(room_id)
    time.sleep(SETTLE_SECONDS)
    started = time.perf_counter()
    released = _begin_release(owner, turn)
    claimed = waiter.answer(waiting)
    took = time.perf_counter() - started
    owner.answer(released)
    return took, claimed


def _hand_by_poll(room_id: str, owner: Server, turn: Object, waiter: Server) -> tuple[float, Object]:
    polled_at = time.perf_counter()
    waiter.call("wait_for_turn", room_id=room_id, max_wait_ms=0)
    time.sleep(random.uniform(0, POLL_SECONDS))  # a release can come at any moment of the other's poll interval
    started = time.perf_counter()
    owner.answer(_begin_release(owner, turn))
    claimed: Object = {}
    while claimed.get("status") != "your_turn":
        polled_at += POLL_SECONDS
        time.sleep(max(0.0, polled_at - time.perf_counter()))
        claimed = waiter.call("wait_for_turn", room_id=room_id, max_wait_ms=0)
    return time.perf_counter() - started, claimed


def _begin_release(owner: Server, turn: Object) -> int:
    return owner.begin(
        "release_stick",
        room_id=turn["room_id"],
        lease_id=turn["lease_id"],
        expected_turn_id=turn["turn_id"],
        handoff=HANDOFF,
    )
