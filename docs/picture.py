"""Draws two parts of a real `conch demo`, as a terminal shows them.

`docs/demo.svg` is its beginning; `docs/crash.svg` is the crash of an agent, and how the others go on.
"""

from __future__ import annotations

import html
import os
import pty
import re
import sys
from pathlib import Path

COLUMNS, LINES, CELL, LINE = 82, 34, 8.4, 18
COLOURS = {
    "30": "#5c6370", "31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "34": "#61afef", "35": "#c678dd",
    "36": "#56b6c2", "37": "#d7dae0", "90": "#7f848e",
}  # fmt: skip


def record() -> str:
    """What the demo writes to a terminal of its own."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(COLUMNS=str(COLUMNS), TERM="xterm-256color")
        os.execv(sys.executable, [sys.executable, "-m", "conch", "demo"])
    written = b""
    try:
        while part := os.read(terminal, 65_536):
            written += part
    except OSError:  # how a terminal says that its last program has ended
        pass
    os.waitpid(child, 0)
    return written.decode().replace("\r\n", "\n")


def draw(text: str) -> str:
    lines = text.split("\n")
    height = LINE * (len(lines) + 2)
    rows = "\n".join(
        f'<text x="16" y="{LINE * (number + 2)}" xml:space="preserve">{_spans(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * CELL + 32:.0f}" height="{height}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#21252b"/>\n<g fill="#d7dae0">\n{rows}\n</g>\n</svg>\n'
    )


def _spans(line: str) -> str:
    """Terminal colours as spans; other escape sequences leave no trace."""
    style, spans = "", []
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z])", line):
        if part.startswith("\x1b["):
            style = _style(part, style)
        elif part:
            spans.append(f"<tspan{style}>{html.escape(part, quote=False)}</tspan>")
    return "".join(spans)


def _style(escape: str, before: str) -> str:
    if not escape.endswith("m"):
        return before
    codes = escape[2:-1].split(";")
    colour = next((f' fill="{COLOURS[code]}"' for code in codes if code in COLOURS), "")
    weight = ' font-weight="bold"' if "1" in codes else ' opacity="0.6"' if "2" in codes else ""
    return colour + weight


def crash(text: str) -> str:
    """The act in which an agent is killed while it holds the stick."""
    acts = re.split(r"(?m)^(?=\S*Act \d)", text)
    return next(act for act in acts if "SIGKILL" in act).split("\n\n")[0]


if __name__ == "__main__":
    written = record()
    here = Path(__file__).parent
    (here / "demo.svg").write_text(draw("\n".join(written.split("\n")[:LINES])))
    (here / "crash.svg").write_text(draw(crash(written)))
