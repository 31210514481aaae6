"""Everything works without a mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.browser.serving import Console


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.closest('li, a, button, input, textarea, h1')?.innerText ?? ''"))


def test_a_question_is_answered_with_keys_only(console: Console, visit: Callable[..., Any]) -> None:
    page = visit(console)
    page.get_by_role("link", name="over").wait_for()

    page.get_by_role("link", name="over").focus()
    page.keyboard.press("Enter")
    page.locator("[data-answer]").wait_for()
    page.locator("h1").focus()
    page.keyboard.press("a")
    page.keyboard.type("Yes, go on.")
    page.keyboard.press("Control+Enter")

    page.locator("#timeline").get_by_text("Yes, go on.").wait_for()
    page.locator("[data-answer]").wait_for(state="detached")


def test_j_and_k_move_through_the_timeline(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, gallery.room)
    page.locator("#timeline > li").nth(3).wait_for()
    rows = page.locator("#timeline > li").all_inner_texts()

    page.keyboard.press("j")
    page.keyboard.press("j")
    assert focused(page) == rows[1]
    page.keyboard.press("k")

    assert focused(page) == rows[0]


def test_shortcuts_are_explained_and_lead_to_the_pages(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, gallery.room)
    page.locator("#timeline > li").first.wait_for()

    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("answer the first open question").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_role("heading", name="Topics").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("guess")

    page.locator("mark", has_text="guess").wait_for()


def test_the_focus_is_visible_wherever_tab_leads(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, gallery.room)
    page.locator("#timeline > li").first.wait_for()
    invisible = []

    for _ in range(30):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "(() => { const node = document.activeElement, turn = node.matches('.turn');"
            " const style = getComputedStyle(turn ? node.firstElementChild : node);"
            " return turn ? style.stroke !== 'none' : style.outlineStyle !== 'none'; })()"
        )
        if not style:
            invisible.append(page.evaluate("document.activeElement.outerHTML.slice(0, 80)"))

    assert invisible == []
