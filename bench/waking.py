"""A message from one `conch mcp` process to another that waits, found by the bell and by polling."""

from __future__ import annotations

import random
import time

from bus_plan import BusPlan
from harness import Row, Scratch, Server, Spread, milliseconds, times

POLL_SECONDS = 0.250
SETTLE_SECONDS = 0.005
"""How long after its call was sent the waiter is surely asleep."""
BODY = "The parser is done; have a look at src/parser.py before you go on."


def measure(scratch: Scratch, plan: BusPlan) -> list[Row]:
    heard, polled = _run(scratch, plan)
    what = "message to a `sync` that waits in another process"
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
        Row(f"{what}, p99", milliseconds(heard.p99), poll + milliseconds(polled.p99), times(heard.p99, polled.p99)),
        Row(f"{what}, longest", milliseconds(heard.longest), poll + milliseconds(polled.longest)),
    ]


def _run(scratch: Scratch, plan: BusPlan) -> tuple[Spread, Spread]:
    heard: list[float] = []
    polled: list[float] = []
    with scratch.server("bench:left") as left, scratch.server("bench:right") as right:
        topic_id = join(left, "waking", "left")
        join(right, "waking", "right")
        pairs = [(left, right), (right, left)]
        for number in range(plan.rounds):
            sender, waiter = pairs[number % 2]
            for wake, count, seconds in ((_by_bell, plan.wakes, heard), (_by_poll, plan.polled_wakes, polled)):
                seconds += [wake(topic_id, sender, waiter) for _ in range(count // plan.rounds)]
    return Spread.of(heard), Spread.of(polled)


def join(server: Server, topic: str, name: str) -> str:
    """Take a name on a topic, creating the topic if needed; returns its id."""
    topic_id: str = server.call("topic_create", name=topic)["topic_id"]
    server.call("topic_join", topic_id=topic_id, agent_name=name)
    return topic_id


def send(server: Server, topic_id: str) -> int:
    return server.begin("sync", topic_id=topic_id, outbox=[{"content_markdown": BODY}], wait_seconds=0)


def _by_bell(topic_id: str, sender: Server, waiter: Server) -> float:
    waiting = waiter.begin("sync", topic_id=topic_id, wait_seconds=50)
    time.sleep(SETTLE_SECONDS)
    started = time.perf_counter()
    sent = send(sender, topic_id)
    found = waiter.answer(waiting)
    took = time.perf_counter() - started
    sender.answer(sent)
    assert len(found["received"]) == 1, found
    return took


def _by_poll(topic_id: str, sender: Server, waiter: Server) -> float:
    polled_at = time.perf_counter()
    waiter.call("sync", topic_id=topic_id, wait_seconds=0)
    time.sleep(random.uniform(0, POLL_SECONDS))  # a message can come at any moment of the reader's poll interval
    started = time.perf_counter()
    sender.answer(send(sender, topic_id))
    while True:
        polled_at += POLL_SECONDS
        time.sleep(max(0.0, polled_at - time.perf_counter()))
        if waiter.call("sync", topic_id=topic_id, wait_seconds=0)["received"]:
            return time.perf_counter() - started
