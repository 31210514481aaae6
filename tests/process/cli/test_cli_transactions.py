"""How often a command asks the store. Each question costs time, and on a server a journey over the network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.process.cli.conftest import Conch
from tests.process.forking import Forks, command_forks


@pytest.fixture(scope="module")
def counting() -> Iterator[Forks]:
    with command_forks("tests.process.cli.counting") as forks:
        yield forks


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, counting: Forks) -> Conch:
    """A room with two members; ada holds the stick, and bob has asked a question."""
    conch = Conch(tmp_path_factory.mktemp("filled"), counting)
    for agent in ("ada:1", "bob:2"):
        count(conch, "join", agent=agent)
        count(conch, "read", agent=agent)
    count(conch, "wait", "--timeout", "0")
    count(conch, "ask", "Why?", "--wait", "0", agent="bob:2")
    count(conch, "agent", "reserve", "held")
    count(conch, "agent", "send", "bob:2", "--subject", "s", "--summary", "s", "--next", "n")
    return conch


def count(conch: Conch, *words: str, **more: str) -> int:
    """How many transactions a command begins."""
    answer = conch(*words, "--json", **more)
    assert answer.status == 0, answer
    return int(answer.err)


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
def test_a_command_asks_the_store_only_what_it_needs(
    filled: Conch, tmp_path: Path, words: tuple[str, ...], most: int
) -> None:
    copy = shutil.copytree(filled.database.parent, tmp_path / "data")

    assert 0 < count(filled, *words, CONCH_DATA_DIR=str(copy)) <= most
