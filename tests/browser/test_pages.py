"""What a person sees on each page, wide and on a phone, light and dark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.scene import BEAD
from tests.browser.serving import Console

PAGES = ("/", "ROOM", f"ROOM?item={BEAD}", "/items", "/topics", "TOPIC", "/search?q=section", "/health")


def address(console: Console, path: str) -> str:
    return path.replace("ROOM", console.room).replace("TOPIC", f"/topics/{console.scene.topic_id}")


@pytest.fixture(scope="module")
def rows(gallery: Console, chromium: Any) -> list[tuple[str, str]]:
    """The kind and the text of each row of the room's timeline."""
    page = chromium.new_page()
    page.goto(gallery.enter(gallery.room))
    page.locator("#timeline > li").first.wait_for()
    found = page.evaluate(
        "[...document.querySelectorAll('#timeline > li')].map(li => [li.dataset.type, li.textContent])"
    )
    page.close()
    return [(kind, " ".join(text.split())) for kind, text in found]


def test_the_rooms_show_their_state_members_and_what_is_wrong(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery)

    row = page.locator("[data-room]")
    row.wait_for()
    said = row.inner_text()

    assert "over" in said
    assert "claude·deft-osprey has the stick" in said
    assert "needs an answer" in said
    assert "cursor·tall-reed gone" in said.replace("\n", " ")
    assert "1 open question" in said
    assert "unaccepted notice" in said


@pytest.mark.parametrize("path", ["/nowhere", "/rooms/a/b", "/%E0%A4%A"])
def test_an_unknown_address_is_a_page_with_a_way_back(gallery: Console, visit: Callable[..., Any], path: str) -> None:
    page = visit(gallery, path)

    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")
    page.get_by_role("link", name="Go to the rooms").click()

    page.locator("[data-room]").wait_for()


def test_a_room_says_who_does_what_in_plain_words(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, gallery.room)

    members = page.locator(".members > li")
    members.first.wait_for()
    said = [each.replace("\n", " ") for each in members.all_inner_texts()]

    assert any("claude·deft-osprey" in each and "has the stick" in each for each in said)
    assert any("gemini·noble-birch" in each and "needs an answer" in each for each in said)
    assert any("cursor·tall-reed" in each and "gone" in each for each in said)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pass", ["Passed to", "cursor·tall-reed", "src/lexer.py:1-80", "Do not", "README.md"]),
        ("BLOCKED", ["Needs input", "from claude·deft-osprey", "Which token for a tab?", BEAD]),
        ("INCURSION", ["Ran into", "src/parser.py", "reserved by claude·deft-osprey", "owner active"]),
        ("RESUME", ["Resumed", "deft-osprey"]),
        ("takeover", ["took over", "cursor·tall-reed", "tall-reed has crashed"]),
        ("note", ["Noted", "Refactoring the parser."]),
        ("reserved", ["Reserved", "src/lexer.py"]),
        ("message", ["Needs input", "from anyone", "render()"]),
    ],
)
def test_the_timeline_has_a_row_with_plain_words_for(kind: str, words: list[str], rows: list[tuple[str, str]]) -> None:
    said = [text for found, text in rows if found == kind]

    assert any(all(word in each for word in words) for each in said), said


def test_a_claimed_handoff_shows_as_accepted(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, gallery.room)

    page.locator('#timeline > li[data-type="pass"]').first.get_by_text("Accepted").wait_for()


def test_the_lanes_show_turns_handoffs_the_takeover_and_the_death(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, gallery.room)

    page.locator(".chart .turn").first.wait_for()

    assert page.locator(".chart .turn").count() == 7
    assert page.locator(".chart .arrow.taken").count() == 1
    assert page.locator(".chart .arrow:not(.taken)").count() == 5
    assert page.locator(".chart .died").count() == 1
    assert page.locator(".chart .who").count() == 4


def test_a_click_on_a_turn_opens_its_handoff_beside_the_page(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, gallery.room)

    page.locator('.chart .turn[aria-label*="ivory-swan"]').last.click()

    page.locator(".panel").get_by_text("Wire it into the parser").wait_for()
    assert page.locator("main .members").is_visible()
    page.keyboard.press("Escape")
    page.locator(".panel").wait_for(state="detached")


def test_the_lanes_zoom_by_time(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, gallery.room)
    chart = page.locator(".chart")
    chart.wait_for()
    before = chart.get_attribute("aria-label")

    box = chart.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + box["height"] - 6)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + box["height"] - 6)
    page.mouse.up()

    expect(chart).not_to_have_attribute("aria-label", before)
    assert page.locator(".chart .turn").count() < 7
    page.get_by_role("button", name="Now").click()
    expect(page.locator(".chart .turn")).to_have_count(7)


def test_reservations_are_a_tree_with_holders_and_time_left(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, gallery.room)

    tree = page.locator(".tree").first
    tree.wait_for()
    said = " ".join(tree.inner_text().split())

    assert re.search(r"api.* tall-reed (gone|evicted) .*\d+ min", said), said
    assert "docs/guide noble-birch 1 h" in said or "docs/guide/ noble-birch 1 h" in said, said
    assert said.index("src/") < said.index("lexer.py") < said.index("parser.py")


def test_a_work_item_opens_in_a_panel_that_keeps_the_page(gallery: Console, visit: Callable[..., Any]) -> None:
    gallery.scene.say("ivory-swan", f"{BEAD} is nearly done.")
    page = visit(gallery, gallery.room)

    page.locator(".tree").get_by_text(BEAD).click()

    panel = page.locator(".panel")
    panel.get_by_role("heading", name=f"Work item {BEAD}").wait_for()
    panel.get_by_text("Which token for a tab?").wait_for()
    panel.get_by_text("src/lexer.py").first.wait_for()
    panel.get_by_text("is nearly done.").wait_for()
    assert page.locator("main .members").is_visible()
    page.go_back()
    panel.wait_for(state="detached")


def test_the_feed_lists_work_items(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, "/items")

    page.get_by_role("link", name=BEAD).click()

    page.locator(".panel").get_by_text("Which token for a tab?").wait_for()


def test_search_marks_what_matches_while_typing(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery)

    page.get_by_role("searchbox").press_sequentially("guess")

    page.locator("mark", has_text="guess").wait_for()
    page.get_by_role("link", name=re.compile(r"#1$")).click()
    page.locator(".message.at").get_by_text("Section 3 is a guess").wait_for()


def test_a_topic_is_exported(gallery: Console, visit: Callable[..., Any], tmp_path: Path) -> None:
    page = visit(gallery, address(gallery, "TOPIC"))

    with page.expect_download() as download:
        page.get_by_role("link", name="as JSON lines").click()

    download.value.save_as(tmp_path / "export")
    lines = [json.loads(line) for line in (tmp_path / "export").read_text().splitlines()]
    assert any("Section 3 is a guess" in json.dumps(line) for line in lines)


def test_health_names_the_store_the_bell_and_the_processes(gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, "/health")

    page.get_by_text("Processes").wait_for()
    said = page.locator("main").inner_text()

    assert gallery.scene.environ["CONCH_DATA_DIR"] in said
    assert "sqlite" in said.lower()
    assert "claude·deft-osprey" in said
    assert "gone" in said


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_phone(path: str, gallery: Console, visit: Callable[..., Any]) -> None:
    page = visit(gallery, address(gallery, path), viewport={"width": 360, "height": 740})

    page.locator("main .card").first.wait_for()
    sizes = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")

    assert sizes[0] <= sizes[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_no_page_has_a_serious_accessibility_problem(
    scheme: str, width: int, gallery: Console, visit: Callable[..., Any], find_problems: Callable[[Any], list[str]]
) -> None:
    page = visit(gallery, bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 900})
    found = {}

    for path in PAGES:
        page.goto(gallery.address + address(gallery, path))
        page.locator("main .card").first.wait_for()
        found[path] = find_problems(page)

    assert found == {path: [] for path in PAGES}
