"""What agents write is text. Other origins neither read nor write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest
from tests.browser.serving import Console

TEXTS = (
    "<script>window.pwned = 1</script>",
    '<img src="x" onerror="window.pwned = 1">',
    "[click](javascript:window.pwned=1)",
    '"><svg onload="window.pwned = 1">',
    "`</code><script>window.pwned = 1</script>`",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_script_in_a_message_is_shown_and_does_not_run(
    text: str, gallery: Console, visit: Callable[..., Any]
) -> None:
    gallery.scene.say("ivory-swan", text)
    page = visit(gallery, gallery.room)

    page.locator("#timeline").get_by_text(text.strip("`")).first.wait_for()

    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.querySelectorAll('.said script, .said img, .said svg').length") == 0
    assert page.evaluate("[...document.querySelectorAll('.said a')].every(a => /^https?:/.test(a.href))")


def test_no_field_of_an_agent_becomes_markup(console: Console, visit: Callable[..., Any]) -> None:
    scene, image = console.scene, TEXTS[1]
    handoff = {
        "status": image,
        "next_action": image,
        "artifacts": [{"path": image, "role": "edit"}],
        "open_questions": [image],
        "do_not": [image],
    }
    scene.reserve("ivory-swan", image, bead_id=image)
    scene.block("ivory-swan", "deft-osprey", image, image)
    scene.ask("ivory-swan", image)
    scene.hand_over("deft-osprey", "ivory-swan", handoff)
    scene.app.membership.append_note(scene.who("ivory-swan"), scene.room_id, image)

    page = visit(console, f"{console.room}?item={quote(image)}")
    for place in ("#timeline", ".members", ".tree", ".talk", ".panel", ".filters"):
        page.locator(place).get_by_text(image).first.wait_for(state="attached")

    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, .panel img").count() == 0


def test_hidden_characters_are_shown(gallery: Console, visit: Callable[..., Any]) -> None:
    gallery.scene.say("ivory-swan", "safe\u202egnp.exe\u200b and \U0001f469\u200d\U0001f680")
    page = visit(gallery, gallery.room)

    page.locator("#timeline").get_by_text("safe\\u{202e}gnp.exe\\u{200b} and \U0001f469\u200d\U0001f680").wait_for()


def test_markdown_is_formatted(gallery: Console, visit: Callable[..., Any]) -> None:
    gallery.scene.say("ivory-swan", "**bold** `code` https://example.org/a\n\n- one\n- two\n\n```\n<b>\n```")
    page = visit(gallery, gallery.room)

    said = page.locator("#timeline .said", has_text="bold")
    said.locator("strong", has_text="bold").wait_for()

    assert said.locator("li").count() == 2
    assert said.locator("pre").inner_text().strip() == "<b>"
    assert said.locator("a").get_attribute("rel") == "noopener noreferrer nofollow"


ATTACK = b"""<!doctype html><script>
const api = new URLSearchParams(location.search).get("api"), room = new URLSearchParams(location.search).get("room");
const attempt = (path, options) => fetch(api + path, {credentials: "include", ...options})
  .then(reply => reply.type === "opaque" ? "opaque" : reply.text(), () => "refused");
const headers = {"Content-Type": "application/json"};
const body = JSON.stringify({room_id: room, content_markdown: "written by another origin"});
Promise.all([
  attempt("/api/rooms", {}),
  attempt("/api/act/send", {method: "POST", headers, body}),
  attempt("/api/act/send", {method: "POST", mode: "no-cors", body}),
]).then(found => { document.title = JSON.stringify(found); });
</script>"""


@pytest.fixture
def other_origin() -> Iterator[str]:
    """A foreign page on another port of this machine: the same site, so the browser sends the cookie."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(ATTACK)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_another_origin_neither_reads_nor_writes(
    gallery: Console, visit: Callable[..., Any], other_origin: str
) -> None:
    page = visit(gallery, gallery.room)
    page.locator("#timeline > li").first.wait_for()

    page.goto(f"{other_origin}?api={gallery.address}&room={gallery.scene.room_id}")
    page.wait_for_function("document.title.startsWith('[')")

    assert page.title().startswith('["refused","refused"')
    page.goto(gallery.address + gallery.room)
    page.locator("#timeline > li").first.wait_for()
    assert page.get_by_text("written by another origin").count() == 0


def test_without_the_token_there_is_nothing_to_see(gallery: Console, chromium: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()

    page.goto(gallery.address + gallery.room)

    assert "conch serve" in page.locator("body").inner_text()
    assert "deft-osprey" not in page.content()
    context.close()
