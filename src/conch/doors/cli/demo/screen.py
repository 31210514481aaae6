"""The terminal: headlines, and a timeline of what the agents did."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time

from conch.doors.cli.output import one_line

LINE_SECONDS = 0.14
ACT_SECONDS = 0.5
WIDEST = 110
TIME_WIDTH = 9
NAME_WIDTH = 6
INDENT = TIME_WIDTH + len(" ms  ") + NAME_WIDTH + len("  ")

BOLD, DIM, RED, GREEN, YELLOW, MAGENTA, CYAN = "1", "2", "31", "32", "33", "35", "36"
COLOURS = {"codex": CYAN, "claude": YELLOW, "gemini": MAGENTA}


class Screen:
    """Writes to standard output. On a terminal it uses colour, and pauses so that a person can follow."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns()
        self._paced = sys.stdout is not None and sys.stdout.isatty()
        self._coloured = self._paced and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._width = max(40, min(shutil.get_terminal_size().columns, WIDEST))

    def headline(self, title: str, about: str) -> None:
        self._pause(ACT_SECONDS)
        self._print("")
        self._print(self._paint(title, BOLD))
        for line in self._wrap(about, self._width):
            self._print(self._paint(line, DIM))

    def event(self, at: int, who: str, text: str, colour: str = "") -> None:
        """One entry of the timeline: when (monotonic nanoseconds), who, what."""
        moment = f"{(at - self._began) / 1e6:{TIME_WIDTH}.1f} ms  "
        name = self._paint(who.ljust(NAME_WIDTH), COLOURS.get(who, BOLD))
        first, *others = self._wrap(text, self._width - INDENT)
        self._print(f"{self._paint(moment, DIM)}{name}  {self._paint(first, colour)}")
        for line in others:
            self._print(" " * INDENT + self._paint(line, colour))
        self._pause(LINE_SECONDS)

    def quote(self, text: str) -> None:
        """What belongs to the entry above."""
        for line in self._wrap(text, self._width - INDENT - 2):
            self._print(" " * (INDENT + 2) + self._paint(line, DIM))
        self._pause(LINE_SECONDS)

    def say(self, text: str, colour: str = "") -> None:
        for line in self._wrap(text, self._width):
            self._print(self._paint(line, colour))

    def show_path(self, label: str, path: str) -> None:
        """A path is for copying, so it is never broken."""
        self._print(f"{label} {one_line(path)}")

    def blank(self) -> None:
        self._print("")

    def _wrap(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(one_line(text), max(20, width), break_on_hyphens=False) or [""]

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured and colour else text

    def _pause(self, seconds: float) -> None:
        if self._paced:
            time.sleep(seconds)

    def _print(self, line: str) -> None:
        print(line, flush=True)
