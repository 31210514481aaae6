"""Makes the pictures of the console and of `conch watch`:  python docs/pictures.py

They show a real room with an hour of history, in headless Chromium and in a terminal of its own.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

from picture import COLUMNS, LINE, draw  # noqa: E402
from tests.browser.serving import CHROMIUM, OPTIONS, Console, stage  # noqa: E402

COMMON, RARE = 160, 96  # colours; enough for pages that are mostly grey
SIZE = {"width": 1240, "height": 880}
ROWS, FRAME_SECONDS = 24, 2.5
PICTURES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("room", "", {}),
    ("room-dark", "", {"color_scheme": "dark"}),
    ("item", "?item=bb-12", {}),
)


def photograph(console: Console) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        for name, query, options in PICTURES:
            save(name, take(browser, console, console.room + query, options))
        browser.close()


def take(browser: Browser, console: Console, path: str, options: dict[str, Any]) -> bytes:
    context = browser.new_context(viewport=SIZE, **options)
    page = context.new_page()
    page.goto(console.enter(path))
    page.locator("main .card").first.wait_for()
    page.wait_for_timeout(500)  # until everything that the page asks for is there
    taken = page.screenshot()
    context.close()
    return taken


def save(name: str, png: bytes) -> None:
    picture = reduce_colours(Image.open(io.BytesIO(png)).convert("RGB"))
    picture.save(DOCS / "console" / f"{name}.png", optimize=True)


def reduce_colours(picture: Image.Image) -> Image.Image:
    """The picture with 256 colours: the commonest ones unchanged, and for the edges of letters what comes near."""
    common = [colour for _, colour in sorted(picture.getcolors(picture.width * picture.height), reverse=True)[:COMMON]]
    near = picture.quantize(RARE, Image.Quantize.MAXCOVERAGE).getpalette()[: 3 * RARE]
    palette = Image.new("P", (1, 1))
    palette.putpalette([*(part for colour in common for part in colour), *near])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


def record(console: Console) -> list[str]:
    """What `conch watch` shows while the agents go on: one text for each screen."""
    scene, written = console.scene, b""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(scene.environ, TERM="xterm-256color")
        os.chdir(scene.workspace)
        os.execv(sys.executable, [sys.executable, "-m", "conch", "watch"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    for act in (
        lambda: None,
        lambda: scene.say("ivory-swan", "The slow tests pass."),
        lambda: scene.hand_over("deft-osprey", "ivory-swan", {"status": "Parsed.", "next_action": "Review it."}),
        lambda: os.write(terminal, b"q"),
    ):
        act()
        written += _read(terminal, seconds=2)
    os.waitpid(child, 0)
    return _screens(written.decode())


def _read(terminal: int, seconds: float) -> bytes:
    found, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and select.select([terminal], [], [], left)[0]:
        try:
            found += os.read(terminal, 65_536)
        except OSError:  # how a terminal says that its last program has ended
            break
    return found


def _screens(written: str) -> list[str]:
    """The screens, without repetitions. Each begins where the cursor goes home."""
    shown = re.split(r"\x1b\[\?1049l", written)[0].replace("\r\n", "\n").split("\x1b[H")[1:]
    texts = ["\n".join(line.removesuffix("\x1b[K") for line in each.split("\n")[:ROWS]) for each in shown]
    return [text for before, text in zip(["", *texts], texts, strict=False) if text != before and text.strip()]


def animate(screens: list[str]) -> str:
    """All screens in one picture, one after the other."""
    height, share, seconds = LINE * (ROWS + 2), 100 / len(screens), FRAME_SECONDS * len(screens)
    frames = [
        re.sub(r"^<svg[^>]*>|</svg>\s*$", "", draw(text + "\n" * (ROWS - text.count("\n") - 1))) for text in screens
    ]
    shown = "".join(
        f'<g class="screen" style="animation-delay:{number * FRAME_SECONDS:.1f}s">{frame}</g>\n'
        for number, frame in enumerate(frames)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * 8.4 + 32:.0f} {height}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">\n'
        f"<style>.screen {{ visibility: hidden; animation: show {seconds:.1f}s step-end infinite }}"
        f"\n@keyframes show {{ 0% {{ visibility: visible }} {share:.2f}% {{ visibility: hidden }} }}</style>\n"
        f"{shown}</svg>\n"
    )


if __name__ == "__main__":
    (DOCS / "console").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="conch-pictures-") as folder,
        stage(Path(folder) / "ada", "over") as console,
    ):
        photograph(console)
        (DOCS / "watch.svg").write_text(animate(record(console)))
