"""Measure the console: `python bench/console.py`, about a minute, or `--quick` to see that everything still runs.

From an event to its pixels in headless Chromium, requests per second, memory with many open pages, and a long room.
It needs what `make test-browser` installs.
"""

from __future__ import annotations

import argparse
import http.client
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from harness import Row, Spread, memory_of, milliseconds
from report import figure, load, machine, rows_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.browser.serving import CHROMIUM, OPTIONS, Console, stage

from conch.bus.drafts import Draft

PIXEL_BUDGET = 0.1
REST_SECONDS = 0.3  # between two events, so that the page has drawn the first
BATCH = 100
# The moment of the frame that shows a text, by the clock that the benchmark reads too.
WATCH = """() => {
  window.shown = {};
  const look = () => {
    const found = document.querySelector("#timeline > li")?.textContent.match(/pixel-(\\d+)/);
    if (!found || found[1] in window.shown) return;
    window.shown[found[1]] = 0;
    requestAnimationFrame(() => {
      window.shown[found[1]] = performance.timeOrigin + performance.now();
      window.awaited?.();
    });
  };
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""

SHOWN = """number => new Promise((resolve) => {
  window.awaited = () => window.shown[number] && resolve(window.shown[number]);
  window.awaited();
})"""


class Client:
    """One connection with the console's cookie."""

    def __init__(self, console: Console) -> None:
        address = urlsplit(console.entrance)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        self._connection.request("GET", f"{address.path}?{address.query}", headers={"Accept": "text/html"})
        reply = self._connection.getresponse()
        reply.read()
        self._cookie = (reply.getheader("Set-Cookie") or "").partition(";")[0]

    def get(self, path: str) -> bytes:
        self._connection.request("GET", path, headers={"Cookie": self._cookie})
        reply = self._connection.getresponse()
        body = reply.read()
        assert reply.status == 200, body
        return body

    def listen(self) -> http.client.HTTPResponse:
        self._connection.request("GET", "/api/stream", headers={"Cookie": self._cookie})
        return self._connection.getresponse()

    def close(self) -> None:
        self._connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the console.")
    parser.add_argument("--quick", action="store_true", help="only check that every row can be measured")
    quick = parser.parse_args().quick
    events, requests, streams, long = (5, 20, 5, 1_000) if quick else (100, 300, 50, 100_000)
    before = machine()
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as folder, stage(Path(folder) / "store") as console:
        rows = [
            *measure_pixels(console, events),
            *measure_requests(console, requests),
            *measure_streams(console, streams),
            *measure_long_room(console, long, requests),
        ]
    print(f"Machine: {before}\n\n{figure('console', rows_table(rows))}\nLoad average at the end: {load()}.")
    return 0


def measure_pixels(console: Console, count: int, room: str = "a room of 50 events") -> list[Row]:
    from playwright.sync_api import sync_playwright

    took = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page = browser.new_page(viewport={"width": 1280, "height": 2_000})
        page.goto(console.enter(console.room))
        page.locator("#timeline > li").first.wait_for()
        page.evaluate(WATCH)
        for number in range(count):
            time.sleep(REST_SECONDS)
            began = time.time()
            console.scene.say("ivory-swan", f"pixel-{number} ")
            took.append(page.evaluate(SHOWN, number) / 1_000 - began)
        browser.close()
    spread = Spread.of(took)
    budget = f"<= {PIXEL_BUDGET * 1_000:.0f} ms"
    return [
        Row(f"message sent to its pixels, {room}, p50 of {count}", milliseconds(spread.p50), budget=budget,
            met=spread.p50 <= PIXEL_BUDGET),
        Row("the same, p99", milliseconds(spread.p99), budget=budget, met=spread.p99 <= PIXEL_BUDGET),
    ]  # fmt: skip


def measure_requests(console: Console, count: int) -> list[Row]:
    paths = {
        "`/api/rooms`": "/api/rooms",
        "a room": f"/api{console.room}",
        "a page of its timeline": f"/api{console.room}/timeline",
    }
    rows = []
    for name, path in paths.items():
        alone, beside = requests_per_second(console, path, count, 1), requests_per_second(console, path, count, 8)
        rows.append(Row(f"requests per second, {name}", f"{alone:,.0f} one by one", f"{beside:,.0f} with 8 clients"))
    return rows


def requests_per_second(console: Console, path: str, count: int, clients: int) -> float:
    connected = [Client(console) for _ in range(clients)]

    def ask(client: Client) -> None:
        for _ in range(count // clients):
            client.get(path)

    threads = [threading.Thread(target=ask, args=[client]) for client in connected]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    for client in connected:
        client.close()
    return count // clients * clients / took


def measure_streams(console: Console, count: int) -> list[Row]:
    before = memory_of(console.process.pid).rss
    listeners = [Client(console) for _ in range(count)]
    streams = [client.listen() for client in listeners]
    arrived: list[float] = []

    def hear(stream: http.client.HTTPResponse) -> None:
        while b"to all of you" not in stream.readline():
            pass
        arrived.append(time.monotonic())

    threads = [threading.Thread(target=hear, args=[stream]) for stream in streams]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    console.scene.say("ivory-swan", "to all of you")
    for thread in threads:
        thread.join()
    after = memory_of(console.process.pid).rss
    for client in listeners:
        client.close()
    took = [each - began for each in arrived]
    return [
        Row(
            "memory of `conch serve`, RSS", f"{before / 1e6:.0f} MB", f"with {count} open streams: {after / 1e6:.0f} MB"
        ),
        Row(
            f"message to {count} open streams",
            f"{milliseconds(median(took))} median",
            f"last: {milliseconds(max(took))}",
        ),
    ]


def measure_long_room(console: Console, count: int, requests: int) -> list[Row]:
    """A page of the timeline and the pixels of an event, once the room has many events."""
    path = f"/api{console.room}/timeline"
    short = Spread.of(timed(console, path, requests))
    peer = console.scene.app.peers.join_as_itself(console.scene.who("ivory-swan"), console.scene.topic_id)
    for start in range(0, count, BATCH):
        console.scene.app.messages.send(peer, [Draft(f"Event {start + number}.") for number in range(BATCH)])
    long = Spread.of(timed(console, path, requests))
    row = Row(f"a page of the timeline, room of {count:,} events, p50", milliseconds(long.p50),
              f"room of 50 events: {milliseconds(short.p50)}", f"{long.p50 / short.p50:.2f}x")  # fmt: skip
    return [row, *measure_pixels(console, max(5, requests // 20), f"a room of {count:,} events")]


def timed(console: Console, path: str, count: int) -> list[float]:
    client, took = Client(console), []
    for _ in range(count):
        began = time.monotonic()
        client.get(path)
        took.append(time.monotonic() - began)
    client.close()
    return took


if __name__ == "__main__":
    sys.exit(main())
