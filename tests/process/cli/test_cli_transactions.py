"""How often a command asks the store. Each question costs time, and on a server a journey over the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.process.cli.conftest import Conch
from tests.process.forking import Forks, command_forks

Count = Callable[..., int]


@pytest.fixture(scope="module")
def counting() -> Iterator[Forks]:
    with command_forks("tests.process.cli.counting") as forks:
        yield forks


@pytest.fixture
def count(tmp_path: Path, counting: Forks) -> Count:
    """How many transactions a command begins."""
    conch = Conch(tmp_path, counting)

    def run(*words: str, agent: str = "ada:1") -> int:
        answer = conch(*words, "--json", agent=agent)
        assert answer.status == 0, answer
        return int(answer.err)

    return run


@pytest.fixture
def room(count: Count) -> Count:
    """A room with two members; ada holds the stick, and bob has asked a question."""
    for agent in ("ada:1", "bob:2"):
        count("join", agent=agent)
        count("read", agent=agent)
    count("wait", "--timeout", "0")
    count("ask", "Why?", "--wait", "0", agent="bob:2")
    count("agent", "reserve", "held")
    count("agent", "send", "bob:2", "--subject", "s", "--summary", "s", "--next", "n")
    return count


DONE = ("--status", "s", "--next", "n")


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("state",), 2),
        (("rooms",), 2),
        (("events",), 3),
        (("note", "n"), 3),
        (("policy",), 2),
        (("whoami",), 2),
        (("release", *DONE), 4),
        (("pass", "bob:2", *DONE), 5),
        (("wait", "--timeout", "0"), 4),
        (("join",), 4),
        (("send", "hello"), 4),
        (("send", "hello", "--to", "bob:2"), 6),
        (("read",), 5),
        (("ask", "What?", "--wait", "0"), 5),
        (("answer", "1", "Because."), 6),
        (("questions",), 3),
        (("topics", "list"), 2),
        (("topics", "show"), 4),
        (("agent", "list"), 3),
        (("agent", "show"), 4),
        (("agent", "register", "swift-otter"), 3),
        (("agent", "heartbeat"), 3),
        (("agent", "reserve", "src/x"), 3),
        (("agent", "reserve", "held"), 3),
        (("agent", "release", "held"), 3),
        (("agent", "status"), 3),
        (("agent", "status", "held"), 3),
        (("agent", "inbox"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_asks_the_store_only_what_it_needs(room: Count, words: tuple[str, ...], most: int) -> None:
    assert 0 < room(*words) <= most
