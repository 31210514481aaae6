"""Compare the models for search by meaning: `python bench/meaning.py`, about a minute, or `--quick`.

How often each finds the right message, how fast it embeds, and what it needs. Each model is measured in its own
process, in processor seconds, because other work on the machine should not count. The better model is found in
`.models`, where `make oracle` puts it. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: the rates are those of one core

from conch.app import open_app
from conch.search.embedders import Embedder, find_model, load_embedder
from harness import HERE
from paraphrases import PAIRS, around
from report import figure, table
from search import fill, scratch

MODELS = {"wordllama-256": "`wordllama`", "all-minilm-l6-v2": "the better model"}
HEADINGS = {"recall": "share of right messages among the first five", "embedding": "one core"}
WORDS = "the build of the release branch failed again, so I looked at what the parser does with an empty line "
LENGTHS = (120, 2_000)
LIMIT_SECONDS = 300


class Plan(NamedTuple):
    questions: int
    among: int
    """Messages in the store."""
    batch: int
    """Texts that are embedded at once."""
    seconds: float


FULL = Plan(questions=len(PAIRS), among=1_000, batch=32, seconds=5.0)
QUICK = Plan(questions=5, among=100, batch=2, seconds=0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the models for search by meaning.")
    parser.add_argument("--quick", action="store_true", help="only check that every row can be measured")
    parser.add_argument("--model", choices=MODELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    signal.alarm(LIMIT_SECONDS)
    if options.model:
        print(json.dumps(_measure(options.model, QUICK if options.quick else FULL)))
        return 0
    found = {model: _ask(model, options.quick) for model in MODELS}
    for name, heading in HEADINGS.items():
        rows = [[what, *(each[name][what] for each in found.values())] for what in found["wordllama-256"][name]]
        print(figure(f"meaning-{name}", table((heading, *MODELS.values()), rows)), flush=True)
    return 0


def _ask(model: str, quick: bool) -> dict[str, dict[str, str]]:
    """What a process of its own measures, which also finds the models in `.models`."""
    print(f"measuring {model} ...", file=sys.stderr, flush=True)
    environ = {**os.environ, "PYTHONPATH": str(HERE.parent / ".models")}
    command = [sys.executable, __file__, "--model", model, *(["--quick"] if quick else [])]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS, check=True)
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


def _measure(name: str, plan: Plan) -> dict[str, dict[str, str]]:
    before, began = _memory(), time.process_time()
    embedder = load_embedder(find_model(name))
    loading = time.process_time() - began
    rates = {f"messages of {length:,} characters embedded in a second": _rate(embedder, length, plan)
             for length in LENGTHS}  # fmt: skip
    needs = {"seconds to load the model": f"{loading:.2f}", "memory that it adds": f"{_memory() - before:,.0f} MB"}
    return {"recall": _recall(name, plan), "embedding": {**rates, **needs}}


def _rate(embedder: Embedder, length: int, plan: Plan) -> str:
    """Texts per processor second, in batches as the index makes them."""
    batch = [(f"{number} " + WORDS * (length // len(WORDS) + 1))[:length] for number in range(plan.batch)]
    embedder.embed(batch)
    count, began = 0, time.process_time()
    while (spent := time.process_time() - began) < plan.seconds:
        embedder.embed(batch)
        count += len(batch)
    rate = count / spent
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024 / 1e6


def _recall(model: str, plan: Plan) -> dict[str, str]:
    """How often the message that a paraphrase means is among the first five."""
    with scratch() as environ:
        app = open_app(environ)
        messages = [message for message, _ in PAIRS] + around(plan.among - len(PAIRS))
        fill(app, iter(random.Random(1).sample(messages, len(messages))))
        pairs, found = PAIRS[: plan.questions], {}
        for what, mode in {"by words": "fts", "by meaning": "semantic", "hybrid": "hybrid"}.items():
            given = {} if mode == "fts" else {"model": model}
            while app.search.search("warm", mode=mode, **given).warnings:  # INDEX_BEHIND: a slow model needs several
                pass
            hits = [app.search.search(question, mode=mode, limit=5, **given).hits for _, question in pairs]
            right = [
                text in [hit.content_markdown for hit in each] for (text, _), each in zip(pairs, hits, strict=True)
            ]
            found[f"{what}, {len(pairs)} questions among {len(messages):,} messages"] = f"{sum(right) / len(right):.2f}"
        app.close()
    return found


if __name__ == "__main__":
    sys.exit(main())
