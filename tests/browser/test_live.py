"""Changes appear without a reload, and a lost connection heals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import expect
from tests.browser.serving import Console, end, serve


def test_what_another_process_does_appears_at_once(console: Console, visit: Callable[..., Any]) -> None:
    page = visit(console, console.room)
    page.locator("#timeline > li").first.wait_for()

    console.scene.say("ivory-swan", "The slow tests pass.")
    console.scene.hand_over("deft-osprey", "ivory-swan", {"status": "Done.", "next_action": "Review it."})

    page.locator("#timeline").get_by_text("The slow tests pass.").wait_for()
    page.locator(".members").get_by_text("has the stick").wait_for()
    page.locator("#timeline > li", has_text="Passed to codex·ivory-swan").first.get_by_text("Accepted").wait_for()
    page.locator('.chart .turn[aria-label*="codex·ivory-swan"][aria-label*="has the stick"]').wait_for()


def test_two_browsers_see_each_others_changes(console: Console, visit: Callable[..., Any]) -> None:
    one, other = visit(console, console.room), visit(console, console.room)
    for page in (one, other):
        page.locator("#timeline > li").first.wait_for()

    one.get_by_label("Message", exact=True).fill("From the first browser")
    one.get_by_role("button", name="Send").click()
    other.locator("#timeline").get_by_text("From the first browser").wait_for()
    other.get_by_label("Message", exact=True).fill("From the second browser")
    other.get_by_role("button", name="Send").click()

    one.locator("#timeline").get_by_text("From the second browser").wait_for()


def test_a_lost_connection_is_shown_and_healed(console: Console, visit: Callable[..., Any]) -> None:
    page = visit(console, console.room)
    page.locator("#timeline > li").first.wait_for()
    port = urlsplit(console.address).port
    assert port is not None

    end(console)
    page.get_by_text("The connection to conch serve is lost").wait_for()
    console.scene.say("ivory-swan", "Nobody watches.")
    again = serve(console.scene, port)

    page.get_by_text("The connection to conch serve is lost").wait_for(state="detached", timeout=30_000)
    page.locator("#timeline").get_by_text("Nobody watches.").wait_for()
    end(again)


def test_countdowns_move(console: Console, visit: Callable[..., Any]) -> None:
    console.scene.reserve("ivory-swan", "tests/", 1)
    page = visit(console, console.room)
    left = page.locator(".tree .leaf", has_text="tests").locator("time-span")
    left.wait_for()

    before = left.inner_text()

    expect(left).not_to_have_text(before)


def test_new_rows_wait_while_the_reader_is_further_down(console: Console, visit: Callable[..., Any]) -> None:
    page = visit(console, console.room, viewport={"width": 1280, "height": 500})
    page.locator("#timeline > li").nth(12).wait_for()
    page.locator("#timeline > li").nth(12).scroll_into_view_if_needed()
    page.mouse.wheel(0, 200)

    console.scene.say("ivory-swan", "One more.")

    page.get_by_role("button", name="1 new").click()
    page.locator("#timeline > li").first.get_by_text("One more.").wait_for()


def test_a_long_room_shows_a_page_and_reads_older_rows_on_the_way_down(
    console: Console, visit: Callable[..., Any]
) -> None:
    for number in range(150):
        console.scene.say("ivory-swan", f"Message number {number}.")
    page = visit(console, console.room)
    page.locator("#timeline > li").first.wait_for()
    assert page.locator("#timeline > li").count() <= 100

    for _ in range(6):
        page.mouse.wheel(0, 20_000)
        page.wait_for_timeout(100)

    page.locator("#timeline").get_by_text("Message number 0.").wait_for()


def test_a_filter_finds_old_rows_behind_many_others(console: Console, visit: Callable[..., Any]) -> None:
    for number in range(120):
        console.scene.say("ivory-swan", f"Message number {number}.")
    page = visit(console, console.room)
    page.locator("#timeline > li").first.wait_for()

    page.get_by_role("button", name="Notices").click()

    page.locator("#timeline > li", has_text="Ran into").wait_for()
    assert page.locator('#timeline > li[data-type="message"]').count() == 0
