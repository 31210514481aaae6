"""How matches are put in order."""

from __future__ import annotations

from conch.search.fulltext import Candidate, rank
from conch.search.queries import parse_query
from conch.search.search import fuse


def test_what_two_rankings_have_comes_before_what_one_has() -> None:
    assert fuse([1, 2, 3], [3, 4])[0] == 3


def test_one_ranking_stays_as_it_is() -> None:
    assert fuse([5, 9, 1]) == [5, 9, 1]


def test_a_short_text_about_it_beats_a_long_one_that_mentions_it() -> None:
    long, short = Candidate(2, "words " * 200 + "cache"), Candidate(1, "cache miss")

    assert rank(parse_query("cache"), [long, short]) == [1, 2]


def test_among_equals_the_newest_is_first() -> None:
    assert rank(parse_query("cache"), [Candidate(1, "a cache"), Candidate(2, "a cache")]) == [2, 1]


def test_nothing_to_rank_is_no_trouble() -> None:
    assert rank(parse_query("cache"), []) == []
