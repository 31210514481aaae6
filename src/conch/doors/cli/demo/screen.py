"""The terminal: headlines, and a timeline of what the agents did."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

from conch.doors.cli.output import clean, one_line

LINE_SECONDS = 0.12
ACT_SECONDS = 0.5
WIDEST = 110
NARROWEST = 40
TIME_WIDTH = 9
NAME_WIDTH = 6
INDENT = TIME_WIDTH + len(" ms  ") + NAME_WIDTH + len("  ")

BOLD, DIM, RED, GREEN, YELLOW, MAGENTA, CYAN = "1", "2", "31", "32", "33", "35", "36"
COLOURS = {"codex": CYAN, "claude": YELLOW, "gemini": MAGENTA}


class Screen:
    """Writes to standard output. On a terminal it uses colour, and pauses so that a person can follow."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns()
        self._paced = sys.stdout.isatty()
        self._coloured = self._paced and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._width = max(NARROWEST, min(shutil.get_terminal_size().columns, WIDEST))
        self._held_back: list[tuple[int, list[str]]] | None = None

    def headline(self, title: str, about: str) -> None:
        self._pause(ACT_SECONDS)
        self._print("")
        self._print(f"{self._paint(title, BOLD)}  {self._paint(about, DIM)}")

    def event(self, at: int, who: str, text: str, *, quoting: tuple[str, ...] = (), colour: str = "") -> None:
        """One entry of the timeline: when (in monotonic nanoseconds), who, what, and words that belong to it."""
        moment = f"{(at - self._began) / 1e6:{TIME_WIDTH}.1f} ms  "
        name = self._paint(who.ljust(NAME_WIDTH), COLOURS.get(who, BOLD))
        first, *others = _wrap(text, self._width - INDENT)
        lines = [f"{self._paint(moment, DIM)}{name}  {self._paint(first, colour)}"]
        lines += [" " * INDENT + self._paint(line, colour) for line in others]
        quoted = [line for words in quoting for line in _wrap(words, self._width - INDENT - 2)]
        lines += [" " * (INDENT + 2) + self._paint(line, DIM) for line in quoted]
        if self._held_back is None:
            self._print_slowly(lines)
        else:
            self._held_back.append((at, lines))

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Entries of things that happen at the same time come out by their times, however they were heard of."""
        self._held_back = []
        try:
            yield
        finally:
            entries, self._held_back = self._held_back, None
            for _, lines in sorted(entries, key=lambda entry: entry[0]):
                self._print_slowly(lines)

    def say(self, text: str, colour: str = "") -> None:
        for line in _wrap(text, self._width):
            self._print(self._paint(line, colour))

    def show_verbatim(self, text: str) -> None:
        """Something to copy, so it is never broken into lines of ours."""
        self._print(clean(text))

    def _print_slowly(self, lines: list[str]) -> None:
        for line in lines:
            self._print(line)
            self._pause(LINE_SECONDS)

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured and colour else text

    def _pause(self, seconds: float) -> None:
        if self._paced:
            time.sleep(seconds)

    def _print(self, line: str) -> None:
        print(line, flush=True)


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(one_line(text), max(width, NARROWEST - INDENT - 2), break_on_hyphens=False) or [""]
