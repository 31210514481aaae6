"""The bus between real processes, on both engines: nothing is lost or out of order, whichever process is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bus.drafts import Draft
from conch.bus.topics import Topic
from conch.calls import retry_interrupted

WRITERS = 8
READERS = 4
EACH = {"sqlite": 1_000, "postgres": 100}

Said = tuple[int, str]


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def environ(engine: str, environ: dict[str, str], request: pytest.FixtureRequest) -> dict[str, str]:
    """The same for every engine: an empty store."""
    if engine == "postgres":
        environ["CONCH_STORE"] = request.getfixturevalue("postgres_url")
    return environ


@pytest.fixture
def topic(app: App) -> Topic:
    return app.topics.create("pink", None, "reuse")[0]


class Reader:
    """A peer that reads a topic to its end in several processes. `lives` has what each process has read."""

    def __init__(self, player: Callable[..., Any], name: str, topic_id: str, through: int) -> None:
        self._start = lambda token: player("read_messages", name=name, topic_id=topic_id, through=through, token=token)
        self._process = self._start(None)
        self._token = self._process.heard()[1]
        self.lives: list[list[Said]] = [[]]

    def read_through(self, deaths: list[int]) -> None:
        """Kill the reader after each of these numbers of messages, then let it read to the end."""
        for seq in deaths:
            while not self.lives[-1] or self.lives[-1][-1][0] < seq:
                self._hear(self._process.heard())
            self._process.kill()
            for words in self._process.last_words():
                self._hear(words)
            self._process = self._start(self._token)
            assert self._process.heard() == ["joined", self._token]
            self.lives.append([])
        for words in self._process.heard_until("done"):
            self._hear(words)

    def _hear(self, words: list[Any]) -> None:
        if words[0] == "read":
            self.lives[-1] += [(seq, text) for seq, text in words[1]]


def test_every_reader_gets_every_message_in_order_however_often_it_is_killed(
    app: App, engine: str, topic: Topic, player: Callable[..., Any], gates: Callable[[int], list[Any]]
) -> None:
    total = WRITERS * EACH[engine]
    gate = gates(1)[0]
    readers = [Reader(player, f"reader-{number}", topic.topic_id, total) for number in range(READERS)]
    given = {"topic_id": topic.topic_id, "count": EACH[engine], "gate": gate.path}
    writers = [player("write_messages", name=f"writer-{number}", **given) for number in range(WRITERS)]
    for writer in writers:
        assert writer.heard() == ["ready"]

    gate.open()
    with ThreadPoolExecutor(READERS) as pool:
        deaths = [[total * (number + 1) // 8, total * (number + 3) // 8] for number in range(READERS)]
        list(pool.map(Reader.read_through, readers, deaths))

    assert [writer.heard() for writer in writers] == [["done"]] * WRITERS
    log = [(message.seq, message.content_markdown) for message in app.messages.history(topic.topic_id)]
    assert [seq for seq, _ in log] == [*range(1, total + 1)]
    for number in range(WRITERS):
        said = [text for _, text in log if text.startswith(f"writer-{number} ")]
        assert said == [f"writer-{number} {count}" for count in range(EACH[engine])]
    for reader in readers:
        assert len(reader.lives) == 3
        read = 0
        for life in reader.lives:
            first = life[0][0] if life else read + 1
            assert first <= read + 1, "something was lost"
            assert life == log[first - 1 : first - 1 + len(life)]
            read = max(read, first - 1 + len(life))
        assert read == total


def test_many_processes_that_make_one_topic_at_once_make_one(
    player: Callable[..., Any], gates: Callable[[int], list[Any]]
) -> None:
    rounds = gates(5)
    names = [f"topic {number}" for number in range(len(rounds))]
    makers = [player("make_topics", names=names, gates=[gate.path for gate in rounds]) for _ in range(8)]

    for gate in rounds:
        assert [maker.heard() for maker in makers] == [["ready"]] * len(makers)
        gate.open()
        made = [maker.heard() for maker in makers]

        assert len({topic_id for _, topic_id, _ in made}) == 1
        assert [created for _, _, created in made].count(True) == 1


# -- the store's own commands, with messages in it


@pytest.fixture
def conch(environ: dict[str, str]) -> Callable[..., Any]:
    """Run a command on a store, this test's own unless another is named; returns its data."""

    def run(*words: str, store: str | None = None) -> Any:
        place = environ if store is None else {**environ, "CONCH_STORE": store}
        ended = subprocess.run(
            [sys.executable, "-m", "conch", *words, "--json"], env=place, capture_output=True, text=True, timeout=60
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)["data"]

    return run


class Talk:
    """Two peers, some messages, a question and its answer; one of the peers has read only the beginning."""

    def __init__(self, app: App, agent: Callable[..., Caller], topic: Topic) -> None:
        self.topic_id = topic.topic_id
        red, self.blue = (app.peers.join(agent(f"test:{n}"), n, topic.topic_id, None, None) for n in ("red", "blue"))
        app.messages.send(red.peer, [Draft("one 🦀\n", metadata_json='{"to": "blue"}', client_message_id="key")])
        app.messages.settle(app.messages.sync(self.blue.peer, []), advance=True)
        question_id = app.questions.ask(red.peer, "why?").question.question_id
        answer = {"question_id": question_id, "answer_markdown": "because", "suggested_followups": ["really?"]}
        app.questions.answer(self.blue.peer, [answer])
        self.rest = [2]
        self.question_id = question_id


@pytest.fixture
def talk(app: App, agent: Callable[..., Caller], topic: Topic) -> Talk:
    return Talk(app, agent, topic)


def test_a_store_with_messages_is_verified(conch: Callable[..., Any], talk: Talk) -> None:
    found = conch("db", "verify")

    assert found["problems"] == []


def test_a_copy_on_the_other_engine_goes_on_where_the_original_stopped(
    app: App, engine: str, conch: Callable[..., Any], talk: Talk, agent: Callable[..., Caller],
    environ: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    place = request.getfixturevalue("postgres_url") if engine == "sqlite" else str(tmp_path / "copy.sqlite3")

    tables = conch("db", "copy", "--to", place)["tables"]

    assert {name: tables[name] for name in ("topics", "messages", "questions", "answers", "cursors")} == {
        "topics": 1,
        "messages": 3,
        "questions": 1,
        "answers": 1,
        "cursors": 2,
    }
    other = open_app({**environ, "CONCH_STORE": place})
    try:
        assert [*other.messages.history(talk.topic_id)] == [*app.messages.history(talk.topic_id)]
        assert other.questions.poll(talk.topic_id, talk.question_id) == app.questions.poll(
            talk.topic_id, talk.question_id
        )
        blue = other.peers.join(agent("test:blue"), "blue", talk.topic_id, None, talk.blue.reclaim_token).peer
        assert [message.seq for message in other.messages.sync(blue, []).page.received] == talk.rest
        assert other.messages.send(blue, [Draft("here now")])[0].message.seq == 4
    finally:
        other.close()


def test_after_a_wipe_nothing_of_the_talk_is_left_and_a_new_one_begins(
    app: App, conch: Callable[..., Any], talk: Talk, agent: Callable[..., Caller]
) -> None:
    conch("db", "wipe", "--yes")

    assert retry_interrupted(lambda: app.topics.list(["open", "closed"], 10)) == []  # as every door does
    topic = app.topics.create("pink", None, "reuse")[0]
    assert topic.topic_id != talk.topic_id
    red = app.peers.join(agent("test:red"), "red", topic.topic_id, None, None).peer
    assert app.messages.send(red, [Draft("hello?")])[0].message.seq == 1
