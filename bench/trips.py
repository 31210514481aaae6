"""Count the round trips to PostgreSQL that a call takes: `python bench/trips.py`, a few seconds.

The proxy of the tests counts them. They are exact, so `--quick` changes nothing. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from harness import Scratch, open_scratch
from report import MET, figure, give_up, table
from scale_stores import Engine, open_engines

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.process.postgres.counted import KINDS, Caller, Clock, make_presence_due, post_from
from tests.process.postgres.flights import Flights

from conch.app import App, open_app

LIMIT_SECONDS = 120
MOST = {
    "`sync` with one message": 3,
    "`sync` with nothing new": 1,
    "`sync` that receives, with its cursor": 4,
    "a claim": 4,
    "`heartbeat`": 2,
    "`release_stick`": 3,
    "`join_path` of a known room": 4,
    "`scope_check`": 1,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the round trips to PostgreSQL.")
    parser.add_argument("--quick", action="store_true", help="the same")
    parser.parse_args()
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT_SECONDS)
    with open_scratch(None) as scratch, open_engines(scratch) as engines:
        found = {kind: _count(scratch, engines[-1], kind) for kind in KINDS}
    rows = [
        [what, *map(str, counts), f"<= {most}", MET[max(counts) <= most]]
        for what, most in MOST.items()
        for counts in [[each[what] for each in found.values()]]
    ]
    print(figure("trips", table(("what", *KINDS, "budget", "met"), rows)))
    return 0


def _count(scratch: Scratch, engine: Engine, kind: str) -> dict[str, int]:
    """The round trips of every call, in a store of its own, after each was called once to warm up."""
    with _opened(scratch, engine, kind) as (app, clock, flights):
        ada, bob, eve = (
            Caller(app, agent_id, os.path.realpath(scratch.workspace(f"{kind} {place}")))
            for agent_id, place in (("codex:ada", "here"), ("claude:bob", "here"), ("gemini:eve", "there"))
        )
        post = post_from(eve, ada, bob)
        bob.call("scope_reserve", scope="src")
        if kind == "mail":
            post()
        calls: dict[str, Callable[[], object]] = {
            "`sync` with one message": lambda: ada.sync("hello"),
            "`sync` that receives, with its cursor": bob.sync,
            "`sync` with nothing new": bob.sync,
            "a claim": ada.claim,
            "`heartbeat`": lambda: ada.call("heartbeat"),
            "`release_stick`": ada.release,
            "`join_path` of a known room": ada.join,
            "`scope_check`": lambda: ada.call("scope_check", scope="src/a.py"),
        }
        for call in calls.values():
            call()
        bob.claim()
        bob.release()
        return {what: _trips(app, clock, flights, kind, post, call) for what, call in calls.items()}


def _trips(
    app: App, clock: Clock, flights: Flights, kind: str, post: Callable[[], None], call: Callable[[], object]
) -> int:
    if "new mail" in kind:
        post()
    if "presence" in kind:
        make_presence_due(app, clock)
    return len(flights.during(call))


@contextmanager
def _opened(scratch: Scratch, engine: Engine, kind: str) -> Iterator[tuple[App, Clock, Flights]]:
    """A store behind the counting proxy."""
    parts = urlsplit(engine.make(kind.replace(" ", "-")))
    flights, clock = Flights(f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"), Clock()
    address = f"postgresql://{parts.username}@127.0.0.1:{flights.port}{parts.path}?gssencmode=disable&sslmode=disable"
    app = open_app({**scratch.environ(), "CONCH_STORE": address}, clock)
    try:
        yield app, clock, flights
    finally:
        app.close()
        flights.close()


if __name__ == "__main__":
    sys.exit(main())
