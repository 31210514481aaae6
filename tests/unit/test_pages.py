"""How many bytes a reply's text is, counted without writing it as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.tools.pages import Budget

NOTHING = 2 + 1  # an empty text as JSON, and the comma after it


@given(st.text())
def test_a_text_is_counted_as_json_writes_it(text: str) -> None:
    assert counted(text) == written(text)


@pytest.mark.parametrize(
    "sign", ['"', "\\", "\n", "\t", "\r", "\b", "\f", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\ud800", "\U0001f600"]
)
def test_every_kind_of_sign_is_counted_as_json_writes_it(sign: str) -> None:
    assert counted(f"a{sign}b{sign}") == written(f"a{sign}b{sign}")


def counted(text: str) -> int:
    budget = Budget(1_000_000)
    before = budget.chars
    budget.spend("", text)
    return before - budget.chars - NOTHING


def written(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass")) + 1
