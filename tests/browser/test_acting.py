"""A person steps in: each action from its button to the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.serving import Console


@pytest.fixture
def room(console: Console, visit: Callable[..., Any]) -> Any:
    page = visit(console, console.room)
    page.locator("#timeline > li").first.wait_for()
    return page


def timeline(page: Any, text: str) -> None:
    """Wait for a row of the timeline that contains this."""
    page.locator("#timeline > li", has_text=text).first.wait_for()


def menu(page: Any, name: str, action: str) -> None:
    page.locator(f'summary[aria-label*="{name}"]').click()
    page.locator("details[open]").get_by_role("button", name=action).click()


def confirm(page: Any, button: str, **fields: str) -> None:
    dialog = page.get_by_role("dialog")
    for name, value in fields.items():
        dialog.locator(f'[name="{name}"]').fill(value)
    dialog.get_by_role("button", name=button).click()


def person(console: Console) -> str:
    """The agent_id of the person at the console, who has become a member by acting."""
    members = console.scene.app.rooms.get_state(None, console.scene.room_id).members
    return next(member.agent_id for member in members if member.agent_id.startswith("human:"))


def test_answer_in_the_row_of_the_question(room: Any) -> None:
    box = room.locator("#timeline form.reply").first

    box.get_by_label("Answer").fill("Yes, and adapt the tests.")
    box.get_by_role("button", name="Answer").click()

    timeline(room, "Yes, and adapt the tests.")
    room.locator("#timeline > li", has_text="May I change").get_by_text("Answered").wait_for()
    assert room.locator("#timeline > li", has_text="Yes, and adapt the tests.").get_by_text("human").count()


def test_ask_the_room(room: Any) -> None:
    room.get_by_label("Message", exact=True).fill("Who reviews?")
    room.get_by_role("button", name="Ask", exact=True).click()

    room.locator("#timeline > li", has_text="Who reviews?").get_by_text("Needs input").wait_for()


def test_end_ones_own_question_and_every_browser_sees_it(
    room: Any, console: Console, visit: Callable[..., Any]
) -> None:
    other = visit(console, console.room)
    for text in ("Who reviews?", "Who publishes?"):
        room.get_by_label("Message", exact=True).fill(text)
        room.get_by_role("button", name="Ask", exact=True).click()
        timeline(room, text)

    room.locator("#timeline > li", has_text="Who reviews?").get_by_role("button", name="Cancel the question").click()
    room.locator("#timeline > li", has_text="Who publishes?").get_by_role("button", name="Mark as answered").click()

    other.locator("#timeline > li", has_text="Who reviews?").get_by_text("Cancelled").wait_for()
    other.locator("#timeline > li", has_text="Who publishes?").get_by_text("Answered").wait_for()


def test_change_the_order_and_the_rules(room: Any) -> None:
    menu(room, "Actions for codex·ivory-swan", "Move up")
    room.locator(".members > li").first.get_by_text("ivory-swan").wait_for()

    menu(room, "More actions", "Rules of this room")
    confirm(room, "Save", owner_lease_ttl_ms="10m")

    room.locator('#timeline > li[data-type="reorder"]').wait_for()
    room.locator('#timeline > li[data-type="policy"]', has_text="owner_lease_ttl_ms").wait_for()


def test_give_an_agent_work_and_ask_it_for_help(room: Any) -> None:
    menu(room, "Actions for codex·ivory-swan", "Give it work")
    confirm(room, "Send", subject="Parser", summary="It parses.", next_action="Review the parser.")
    room.locator('#timeline > li[data-type="HANDOFF"]', has_text="Review the parser.").wait_for()

    menu(room, "Actions for codex·ivory-swan", "Ask it for help")
    confirm(room, "Send", subject="CI", blocker="There is no token.", requested_action="Add a token.")

    room.locator('#timeline > li[data-type="BLOCKED"]', has_text="Add a token.").wait_for()


def test_a_redacted_secret_leaves_every_page(room: Any, console: Console, visit: Callable[..., Any]) -> None:
    console.scene.say("ivory-swan", "The password is hunter2-horse.")
    timeline(room, "hunter2-horse")
    page = visit(console, f"/topics/{console.scene.topic_id}")
    message = page.locator(".message", has_text="hunter2-horse")
    found = visit(console, "/search?q=password")
    found.get_by_text("hunter2-horse").wait_for()

    message.hover()
    message.get_by_role("button", name="Redact").click()
    confirm(page, "Redact", reason="It was pasted.", secret="hunter2-horse")

    for shown in (page, room):
        shown.get_by_text("redacted this message: It was pasted.").first.wait_for()
    for shown in (page, room, found):
        expect(shown.locator("body")).not_to_contain_text("hunter2", timeout=15_000)


def test_write_to_one_agent(room: Any) -> None:
    menu(room, "Actions for codex·ivory-swan", "Write to it")
    confirm(room, "Send", content_markdown="Please look at the parser.")

    timeline(room, "Please look at the parser.")


def test_add_a_note(room: Any) -> None:
    menu(room, "More actions", "Add a note")
    confirm(room, "Add", note="The release is on Friday.")

    timeline(room, "The release is on Friday.")


def test_mark_a_notice_seen_and_accept_it(room: Any, console: Console) -> None:
    menu(room, "More actions", "Add a note")
    confirm(room, "Add", note="I am here.")
    timeline(room, "I am here.")
    console.scene.block("ivory-swan", person(console), "May I publish?")
    notice = room.locator('#timeline > li[data-type="BLOCKED"]', has_text="May I publish?")

    notice.get_by_role("button", name="Seen").click()
    notice.locator(".pill", has_text="Seen").wait_for()
    notice.get_by_role("button", name="Accept").click()

    notice.locator(".pill", has_text="Accepted").wait_for()


def test_ask_for_the_stick(room: Any) -> None:
    room.get_by_role("button", name="Ask for the stick").click()
    confirm(room, "Ask", text="Please let codex go on.")

    timeline(room, "Please let codex go on.")


def test_take_over_asks_once_and_needs_a_reason(room: Any) -> None:
    room.get_by_role("button", name="Take over…").first.click()
    confirm(room, "Cancel")
    assert room.locator("#timeline > li", has_text="human·").count() == 0
    room.get_by_role("button", name="Take over…").first.click()
    confirm(room, "Take over", reason="It goes the wrong way.")

    room.locator("#timeline > li", has_text="It goes the wrong way.").get_by_text("took over").wait_for()
    room.locator(".members > li", has_text="human·").get_by_text("has the stick").wait_for()


def test_a_person_with_the_stick_hands_it_over_in_writing(room: Any) -> None:
    room.get_by_role("button", name="Take over…").first.click()
    confirm(room, "Take over", reason="I look at it myself.")

    room.get_by_role("button", name="Hand over…").click()
    room.get_by_role("dialog").locator("select").select_option(label="codex·ivory-swan")
    confirm(room, "Hand over", status="I removed the second token.", next_action="Run the slow tests.")

    handed = room.locator("#timeline > li", has_text="I removed the second token.").first
    handed.get_by_text("Passed to").wait_for()
    room.locator(".members > li", has_text="codex·ivory-swan").get_by_text("next").wait_for()


def test_pass_the_stick_on_for_an_agent(room: Any) -> None:
    menu(room, "Actions for claude·deft-osprey", "Pass the stick on")
    room.get_by_role("dialog").locator("select").select_option(label="codex·ivory-swan")
    confirm(room, "Pass on", reason="Codex knows the lexer.")

    room.locator("#timeline > li", has_text="Passed to codex·ivory-swan").first.wait_for()
    room.locator(".members > li", has_text="codex·ivory-swan").get_by_text("next").wait_for()


def test_release_a_reservation(room: Any) -> None:
    room.get_by_role("button", name="Release api").click()
    confirm(room, "Release", reason="It crashed.")

    room.locator(".tree .leaf", has_text="api").wait_for(state="detached")
    timeline(room, "ended the reservation of api/ by cursor·tall-reed: It crashed.")


def test_resume_an_agent_that_is_gone(room: Any) -> None:
    alert = room.locator(".alert", has_text="cursor·tall-reed is gone.")
    assert "It left 3 uncommitted files and reserved api/ until" in " ".join(alert.inner_text().split())
    alert.get_by_role("button", name="Resume as tall-reed…").click()
    confirm(room, "Resume")

    timeline(room, "Resumed the work of tall-reed")
    room.locator(".members > li", has_text="human·tall-reed").wait_for()
    alert.wait_for(state="detached")


def test_release_everything_that_a_gone_agent_reserved(room: Any) -> None:
    alert = room.locator(".alert", has_text="cursor·tall-reed is gone.")
    alert.get_by_role("button", name="Release…").click()
    confirm(room, "Release", reason="It crashed.")

    room.locator(".tree .leaf", has_text="api").wait_for(state="detached")


def test_reserve_a_path_and_leave(room: Any) -> None:
    room.get_by_role("button", name="Reserve…").click()
    confirm(room, "Reserve", scope="tests/")
    room.locator(".members > li", has_text="human·").wait_for()
    room.locator(".tree .leaf", has_text="tests").wait_for()

    menu(room, "More actions", "Leave the room")
    confirm(room, "Leave")

    room.locator(".members > li", has_text="human·").wait_for(state="detached")
    room.locator(".tree .leaf", has_text="tests").wait_for(state="detached")


def test_take_a_free_stick(room: Any, console: Console) -> None:
    scene = console.scene
    handoff = {"status": "Done.", "next_action": "Nothing."}
    scene.app.turns.release_stick(
        scene.who("deft-osprey"), scene.room_id, scene.turn.lease_id, scene.turn.turn_id, handoff
    )
    for name in ("ivory-swan", "noble-birch"):
        scene.app.membership.leave_path(scene.who(name), scene.room_id)

    room.get_by_role("button", name="Take the stick").click()

    room.locator(".members > li", has_text="human·").get_by_text("has the stick").wait_for()


def test_a_topic_from_its_beginning_to_its_end(console: Console, visit: Callable[..., Any]) -> None:
    page = visit(console, "/topics")
    page.get_by_role("button", name="New topic…").click()
    confirm(page, "Create", name="release notes")
    page.get_by_role("link", name="release notes").click()
    page.get_by_label("Message", exact=True).fill("Who writes them?")
    page.get_by_role("button", name="Send").click()
    message = page.locator(".talk > .message", has_text="Who writes them?")
    message.get_by_role("button", name="Reply").click()
    confirm(page, "Send", content_markdown="I do.")
    message.locator(".thread", has_text="I do.").wait_for()

    page.get_by_role("button", name="Rename…").click()
    confirm(page, "Rename", name="what is new")
    page.locator("h1", has_text="what is new").wait_for()
    page.get_by_role("button", name="Free the name…").click()
    confirm(page, "Free it")
    page.locator(".talk", has_text="freed the name").wait_for()
    page.get_by_role("button", name="Close…").click()
    confirm(page, "Close the topic", reason="Published.")

    page.locator(".head .pill", has_text="closed").wait_for()


def test_remove_an_agent(room: Any) -> None:
    menu(room, "Actions for gemini·noble-birch", "Remove")
    confirm(room, "Remove", reason="It is in the wrong checkout.")

    timeline(room, "It is in the wrong checkout.")


def test_close_the_room(room: Any) -> None:
    room.get_by_role("button", name="Take over…").first.click()
    confirm(room, "Take over", reason="We are done.")
    room.locator(".members > li", has_text="human·").get_by_text("has the stick").wait_for()
    menu(room, "More actions", "Close the room")
    confirm(room, "Close the room")

    room.locator(".head").get_by_text("closed").wait_for()


def test_a_refusal_is_shown_in_the_servers_words(room: Any, console: Console) -> None:
    room.get_by_role("button", name="Ask for the stick").click()
    console.scene.hand_over("deft-osprey", "ivory-swan", {"status": "Done.", "next_action": "Go on."})
    confirm(room, "Ask", text="Please.")

    room.locator(".toast.refused").get_by_text("does not have the stick").wait_for()
