"""How many bytes a reply's text is, counted without writing it as JSON, and objects that are written only once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.doors.mcp.protocol import encode, result_reply
from conch.tools.pages import Budget, Counted, Page
from conch.tools.replies import Object
from conch.warnings import warning

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


@pytest.mark.parametrize("length", [2, 20, 21, 45])
def test_a_counted_list_is_sent_as_any_other(length: int) -> None:
    page = filled([{"place": place, "text": f'"{place}" \u00e9\n\ud800'} for place in range(length)])
    result = {"content": [], "structuredContent": {"first": None, "items": page.counted, "last": {}}, "isError": False}
    plain = {"content": [], "structuredContent": {"first": None, "items": page.objects, "last": {}}, "isError": False}

    assert isinstance(page.counted, Counted)
    assert result_reply(7, result) == encode({"jsonrpc": "2.0", "id": 7, "result": plain})


def test_a_list_that_is_cut_or_empty_is_sent_as_any_other() -> None:
    many = [{"text": "x" * 1_000} for _ in range(45)]

    assert not isinstance(filled(many, 30_000).counted, Counted)
    assert not isinstance(filled([]).counted, Counted)


def test_a_number_that_json_lacks_is_refused_in_a_counted_list_too() -> None:
    page = filled([{"number": float("nan")}, {"number": float("-inf")}])

    with pytest.raises(ValueError, match="not JSON compliant"):
        result_reply(7, {"structuredContent": {"items": page.counted}})


def filled(objects: list[Object], limit: int = 1_000_000) -> Page:
    return Budget(limit).fill(objects, lambda each: each, lambda _: "")


def test_warnings_that_do_not_fit_are_counted() -> None:
    long = [warning("LONG", "x" * 900) for _ in range(2)]

    first, counted = Budget(4_096).warn(long)

    assert first == long[0]
    assert (counted["message"], counted["context"]) == ("Warnings that do not fit: 1.", {"count": 1})
