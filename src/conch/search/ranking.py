"""Which of the matches come first; the same on every engine, because it is computed from the texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from conch.search.queries import Query
from conch.search.words import fold

SATURATION = 1.2  # how soon it matters less that a word occurs once more
LENGTH_WEIGHT = 0.75  # how much longer texts must say it oftener
FUSION = 60  # how little the first places differ when two rankings are fused


class Candidate(NamedTuple):
    """A match: its message's number, and the beginning of its text."""

    number: int
    text: str


def rank(query: Query, candidates: Iterable[Candidate]) -> list[int]:
    """Numbers, best first: those that say literally what was typed, then by how much they speak of it, then newest."""
    folded = [(number, fold(text)) for number, text in candidates]
    average = sum(len(text) for _, text in folded) / max(len(folded), 1) or 1
    scored = []
    for number, text in folded:
        norm = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * len(text) / average)
        counts = [len(term.pattern.findall(text)) for term in query.terms]
        is_literal = query.literal in " ".join(text.split())
        scored.append((is_literal, sum(count / (count + norm) for count in counts), number))
    return [number for _, _, number in sorted(scored, reverse=True)]


def fuse(*rankings: Sequence[int]) -> list[int]:
    """Reciprocal rank fusion: what several rankings have near the top comes first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, number in enumerate(ranking, start=1):
            scores[number] = scores.get(number, 0.0) + 1 / (FUSION + place)
    return sorted(scores, key=lambda number: (-scores[number], -number))
