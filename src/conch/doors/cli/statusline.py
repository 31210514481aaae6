"""The line that a waiting command shows on standard error: for whom it waits, and for how long."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from conch.doors.cli.output import duration, write
from conch.doors.cli.tables import columns, shortened
from conch.doors.cli.terminal import can_move, width
from conch.lean import Any, Self
from conch.tools.text import one_line

TICK_SECONDS = 1.0  # how often the line on a terminal changes
_BACK_AND_CLEAR = "\r\x1b[K"  # to the first column, and clear the line


class StatusLine:
    """One line that changes on a terminal; elsewhere one line per subject that is waited for."""

    def __init__(self) -> None:
        self.moves = can_move(sys.stderr)
        self._subject: Any = None
        self._name = ""
        self._sentence = ""
        self._since = self._began = time.monotonic()

    def show(self, subject: Any, name: str, seconds: float, sentence: str) -> None:
        """Show what is waited for. Where the line cannot move, only a new subject is shown.

        The sentence has places for the name and for the time that has passed, which begins at `seconds`.
        """
        if subject != self._subject:
            self._subject, self._name, self._sentence = subject, one_line(name), sentence
            self._since = time.monotonic() - seconds
            if not self.moves:
                self._print(self._texts()[-2] + "\n")
        self.tick()

    def tick(self, _: str = "") -> None:
        """Show how much time has passed by now. This does not ask the store."""
        if self.moves and self._subject is not None:
            # One column stays free, so that the terminal does not wrap.
            self._print(_BACK_AND_CLEAR + self._fitting((width(sys.stderr) or 80) - 1))

    def _fitting(self, room: int) -> str:
        """The longest text that fits. If none does, the name is cut and the time stays."""
        texts = self._texts()
        rest = texts[-1].removeprefix(self._name)
        cut = shortened(self._name, max(0, room - columns(rest))) + rest
        return next((text for text in texts if columns(text) <= room), cut)

    def _texts(self) -> list[str]:
        """The same in ever fewer words."""
        now = time.monotonic()
        lasted, waited = duration(now - self._since), duration(now - self._began)
        texts = [self._sentence.format(self._name, lasted), f"{self._name}: {lasted}"]
        return texts if lasted == waited else [f"{texts[0]}; you have waited {waited}", *texts]

    def _print(self, text: str) -> None:
        try:
            write(sys.stderr, text)
        except OSError:  # the line is only a courtesy, so the wait goes on without it
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.moves and self._subject is not None:
            self._print(_BACK_AND_CLEAR)
