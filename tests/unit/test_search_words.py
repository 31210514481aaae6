"""What a word is, and that no text can break the index."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.search.queries import parse_query
from conch.search.snippets import MARK, WIDTH, snippet
from conch.search.words import LONGEST_WORD, MOST_BYTES, MOST_WORDS, fold, index_words, tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Fix db.py, please", ["fix", "db", "py", "please"]),
        ("snake_case", ["snake", "case"]),
        ("snäke_cäse", ["snake", "case"]),
        ("C++ and C", ["c", "cplusplus", "and", "c"]),
        ("C++17", ["c", "cplusplus", "17"]),
        ("F# or C#.", ["f", "fsharp", "or", "c", "csharp"]),
        ("a+b, see #12", ["a", "b", "see", "12"]),
        ("Ünïcödé ﬁle ½", ["unicode", "file", "1", "2"]),
        ("日本 go", ["日", "本", "go"]),
        ("がか", ["が", "か"]),
        ("हिन्दी", ["हिन्दी"]),
        ("日本+ 本++", ["日", "本", "本"]),
        ("0\u17b4ក", ["0\u17b4", "ក"]),
        ("✔️ done ☕", ["u2714", "done", "u2615"]),
        ("done🚀now", ["done", "u1f680", "now"]),
        ("👍🏽 👩\u200d💻 🇩🇪", ["u1f44d", "u1f3fd", "u1f469", "u1f4bb", "u1f1e9", "u1f1ea"]),
        ("a → b, 5 €", ["a", "u2192", "b", "5", "u20ac"]),
        ("┌──┐ █▌", []),
        ("x" * 100, ["x" * LONGEST_WORD]),
    ],
)
def test_the_words_of_a_text(text: str, words: list[str]) -> None:
    assert index_words(text) == words


@given(st.text(max_size=300))
def test_folding_twice_changes_nothing_more(text: str) -> None:
    once = index_words(text)

    assert index_words(" ".join(once)) == once


@given(st.text(min_size=1, max_size=5), st.integers(1, 40_000))
@settings(max_examples=50, deadline=None)
def test_whatever_the_text_an_index_row_can_hold_its_words(unit: str, times: int) -> None:
    words = index_words(unit * times)

    assert len(words) <= MOST_WORDS
    assert sum(len(word.encode()) + 8 for word in words) <= MOST_BYTES
    assert all(0 < len(word) <= LONGEST_WORD and word.isprintable() and " " not in word for word in words)


@given(st.text(max_size=200))
def test_any_text_is_a_query_and_finds_itself(text: str) -> None:
    query = parse_query(f"word {text}")

    words = index_words(f"word {text}")

    assert [term.phrase.words for term in query.terms if not _follow(term.phrase.words, words)] == []


def _follow(phrase: tuple[str, ...], words: list[str]) -> bool:
    return any(tuple(words[place : place + len(phrase)]) == phrase for place in range(len(words)))


@given(st.text(max_size=600), st.text(max_size=20))
def test_a_snippet_is_short_and_unmarked_it_is_a_part_of_the_text(text: str, query: str) -> None:
    line = " ".join(text.split())
    if MARK in line or "…" in line:
        return

    shown = snippet(parse_query(f"a {query}"), text).replace(MARK, "").strip("…")

    assert shown.strip() in line
    assert len(shown) <= WIDTH


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("cafe", "Das Cafe\u0301 ist zu", "Das **Cafe\u0301** ist zu"),
        ("strasse", "Die Straße da", "Die **Straße** da"),
        ("日本", "これは日本語", "これは**日本**語"),
        ("c++", "in C++17, not C", "in **C++**17, not C"),
        ("c", "in C++", "in **C**++"),
        ("depl", "the Deployment", "the **Deployment**"),
        ("don't", "I don\u2019t", "I **don\u2019t**"),
        ("✔", "it is done✔\ufe0f, ✔", "it is done**✔\ufe0f**, **✔**"),
        ("file", "the ﬁle ﬁle", "the **ﬁle** **ﬁle**"),
        ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8 x", "**\u1112\u1161\u11ab\u1100\u116e\u11a8** x"),
    ],
)
def test_what_matches_is_marked_as_it_was_written(query: str, text: str, marked: str) -> None:
    assert snippet(parse_query(query), text) == marked


@pytest.mark.parametrize(
    ("query", "phrases"),
    [
        ("how to fix the build", [("fix",), ("build",)]),
        ("the", [("the",)]),
        ('"to be" or', [("to", "be")]),
        ("“merge conflict” main", [("merge", "conflict"), ("main",)]),
        ("word word", [("word",)]),
        ('“”"', []),
    ],
)
def test_a_query_is_phrases_of_words(query: str, phrases: list[tuple[str, ...]]) -> None:
    assert [term.phrase.words for term in parse_query(query).terms] == phrases


def test_only_the_last_unquoted_word_may_be_a_beginning() -> None:
    terms = [parse_query(query).terms[-1].phrase.is_prefix for query in ("first sec", 'first "sec"', "日本", "go")]

    assert terms == [True, False, False, False]


def test_tokens_say_where_they_stand() -> None:
    folded = fold("In C++!")

    assert [folded[token.start : token.end] for token in tokens(folded)] == ["in", "c", "c++"]
