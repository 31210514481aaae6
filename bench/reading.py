"""`sync` of 20 new messages on a topic with few, many and very many earlier messages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

from bus_plan import BusPlan
from conch.app import App, open_app
from conch.bus.drafts import Draft
from conch.bus.peers import Peer
from conch.tools.session import Session
from harness import Row, Scratch, Server, Spread, milliseconds, times
from waking import BODY, join

NEW = 20
BATCH = 50_000


class Library(NamedTuple):
    """One store: a server that reads it, and a sender in this process."""

    size: int
    app: App
    sender: Peer
    reader: Server
    topic_id: str
    took: list[float]


def measure(scratch: Scratch, plan: BusPlan) -> list[Row]:
    with ExitStack() as stack:
        libraries = [_fill(scratch, stack, size) for size in plan.sizes]
        for _ in range(plan.reads):
            for library in libraries:
                library.took.append(_read(library))
        spreads = [Spread.of(library.took) for library in libraries]
    return [_row(size, spread, spreads[0], plan.sizes) for size, spread in zip(plan.sizes, spreads, strict=True)]


def _fill(scratch: Scratch, stack: ExitStack, size: int) -> Library:
    """A topic whose reader has read everything so far, as if it had been there from the start."""
    place = {"CONCH_DATA_DIR": str(scratch.folder / f"store-{size}")}
    app = open_app({**scratch.environ("bench:sender"), **place})
    stack.callback(app.close)
    reader = stack.enter_context(scratch.server("bench:reader", **place))
    topic_id = join(reader, "reading", "reader")
    caller = Session(app, "mcp").caller()
    sender = app.peers.join(caller, "sender", topic_id, None, None).peer
    others = [app.peers.join(caller, f"peer-{number}", topic_id, None, None).peer for number in range(7)]
    for first in range(1, size + 1, BATCH):
        last = min(first + BATCH - 1, size)
        with app.store.write(topic_id) as tx:
            tx.run("take_seqs", topic_id=topic_id, count=last - first + 1, now=tx.now)
            tx.load("messages", _messages(others, first, last, tx.now))
    reader.call("cursor_reset", topic_id=topic_id, last_seq=size)
    return Library(size, app, sender, reader, topic_id, [])


def _messages(senders: list[Peer], first: int, last: int, now: int) -> Iterator[dict[str, Any]]:
    for seq in range(first, last + 1):
        yield {
            "message_id": f"msg_{seq:012}",
            "topic_id": senders[0].topic_id,
            "seq": seq,
            "sender_id": senders[seq % len(senders)].peer_id,
            "message_type": "message",
            "content_markdown": BODY,
            "created_at": now,
        }


def _read(library: Library) -> float:
    library.app.messages.send(library.sender, [Draft(BODY)] * NEW)
    started = time.perf_counter()
    found = library.reader.call("sync", topic_id=library.topic_id, wait_seconds=0)
    took = time.perf_counter() - started
    assert len(found["received"]) == NEW, found
    return took


def _row(size: int, spread: Spread, smallest: Spread, sizes: tuple[int, ...]) -> Row:
    is_largest = size == sizes[-1]
    return Row(
        f"`sync` of {NEW} new messages among {size:,}, p50 / p99 of {spread.size}",
        f"{milliseconds(spread.p50)} / {milliseconds(spread.p99)}",
        f"among {sizes[0]:,}: {milliseconds(smallest.p50)} / {milliseconds(smallest.p99)}" if size != sizes[0] else "",
        times(spread.p50, smallest.p50) if size != sizes[0] else "",
        "p50 <= 2x" if is_largest else "",
        spread.p50 <= 2 * smallest.p50 if is_largest else None,
    )
