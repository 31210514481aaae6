"""Changes appear without a reload, and a lost connection heals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import expect
from tests.browser.serving import Console, end, serve
from tests.callers import named

from conch.bus.drafts import Draft
from conch.clock import MINUTE, SECOND

# Counts what changes inside the rows that are there.
OBSERVE_ROWS = """() => {
  const rows = new Set(document.querySelectorAll("#timeline > li"));
  window.drawn = 0;
  new MutationObserver((found) => {
    for (const { target } of found) if (rows.has(target.parentElement?.closest("#timeline > li"))) window.drawn += 1;
  }).observe(document.querySelector("#timeline"), { subtree: true, childList: true, characterData: true });
}"""

HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_what_another_process_does_appears_at_once(console: Console, visit: Callable[..., Any]) -> None:
    page = visit(console, console.room)
    page.locator("#timeline > li").first.wait_for()

    console.scene.say("ivory-swan", "The slow tests pass.")
    console.scene.hand_over("deft-osprey", "ivory-swan", {"status": "Done.", "next_action": "Review it."})

    page.locator("#timeline").get_by_text("The slow tests pass.").wait_for()
    page.locator(".members").get_by_text("has the stick").wait_for()
    page.locator("#timeline > li", has_text="Passed to codex·ivory-swan").first.get_by_text("Accepted").wait_for()
    page.locator('.chart .turn[aria-label*="codex·ivory-swan"][aria-label*="has the stick"]').wait_for()


def test_a_change_without_an_entry_appears_while_another_room_is_busy(
    console: Console, visit: Callable[..., Any], tmp_path: Path
) -> None:
    app = console.scene.app
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy/AGENTS.md").write_text("")
    busy = named(app.store, "eve:9")
    busy_id = app.membership.join_path(busy, str(tmp_path / "busy")).snapshot.room.room_id
    page = visit(console, console.room)
    page.locator("#timeline > li").first.wait_for()

    app.membership.append_note(busy, busy_id, "before")
    app.registration.register(console.scene.who("ivory-swan"), console.scene.room_id, "black-swan")
    app.membership.append_note(busy, busy_id, "after")

    page.locator(".members").get_by_text("codex·black-swan").wait_for()


def test_a_page_of_older_messages_stays_current(console: Console, visit: Callable[..., Any]) -> None:
    app = console.scene.app
    plans = app.topics.create("plans", None, "reuse")[0]
    peer = app.peers.join(console.scene.who("ivory-swan"), "swan", plans.topic_id, None, None).peer
    app.messages.send(peer, [Draft(f"Message number {number}.") for number in range(120)])
    page = visit(console, f"/topics/{plans.topic_id}?at=30")
    page.get_by_text("Message number 29.").wait_for()

    app.topics.rename(plans.topic_id, "old plans")

    expect(page.get_by_role("heading", level=1)).to_have_text("old plans")
    expect(page.get_by_text("Message number 119.")).to_have_count(0)


def test_a_death_appears_on_every_page(console: Console, visit: Callable[..., Any]) -> None:
    rooms, room = visit(console, "/"), visit(console, console.room)
    rooms.locator("[data-room]").first.wait_for()
    room.locator("#timeline > li").first.wait_for()

    console.scene.kill("deft-osprey")

    for page in (rooms, room):
        page.get_by_text("The stick is stuck.").wait_for()
    room.locator(".members > li", has_text="deft-osprey").get_by_text("gone", exact=True).wait_for()
    room.locator('.chart .turn.lost[aria-label^="claude·deft-osprey"]').wait_for()


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


def test_what_has_run_out_leaves_the_page(console: Console, visit: Callable[..., Any]) -> None:
    console.scene.clock.behind = 5 * MINUTE - 10 * SECOND
    console.scene.reserve("ivory-swan", "tests/", 5)
    page = visit(console, console.room)
    leaf = page.locator(".tree .leaf", has_text="tests")
    leaf.wait_for()

    leaf.wait_for(state="detached")


def test_an_event_draws_its_own_row_and_no_other(console: Console, visit: Callable[..., Any]) -> None:
    page = visit(console, console.room)
    page.locator("#timeline > li").nth(12).wait_for()
    page.evaluate(OBSERVE_ROWS)

    console.scene.say("ivory-swan", "Only me.")

    page.locator("#timeline > li", has_text="Only me.").wait_for()
    page.locator(".talk").get_by_text("Only me.").wait_for()  # so the page has read its room again
    assert page.evaluate("window.drawn") == 0


def test_a_page_shows_the_store_that_was_put_in_the_place_of_its_own(
    console: Console, visit: Callable[..., Any], tmp_path: Path
) -> None:
    def conch(*words: str) -> None:
        command = [sys.executable, "-m", "conch", *words]
        subprocess.run(command, env=console.scene.environ, cwd=tmp_path, check=True, capture_output=True, timeout=60)

    conch("db", "backup", str(tmp_path / "before"))
    page = visit(console, console.room)
    page.locator("#timeline > li").first.wait_for()
    console.scene.say("ivory-swan", "Said after the backup.")
    page.locator("#timeline").get_by_text("Said after the backup.").wait_for()

    conch("db", "restore", "--yes", str(tmp_path / "before"))

    page.locator("#timeline").get_by_text("Said after the backup.").wait_for(state="detached")
    page.locator("#timeline").get_by_text("Refactoring the parser.").wait_for()


def test_a_tab_that_nobody_sees_holds_no_connection(console: Console, visit: Callable[..., Any]) -> None:
    page = visit(console, console.room)
    page.locator("#timeline > li").first.wait_for()
    streams = "fetch('/api/health').then(reply => reply.json()).then(health => health.streams)"
    page.wait_for_function(f"async () => await {streams} === 1")

    page.evaluate(HIDE, True)
    page.wait_for_function(f"async () => await {streams} === 0")
    console.scene.say("ivory-swan", "Nobody looks.")
    page.evaluate(HIDE, False)

    page.locator("#timeline").get_by_text("Nobody looks.").wait_for()


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
