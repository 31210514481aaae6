"""`conch watch`: the room at a glance, live, with the timeline below.

The screen changes when a bell rings, when a process ends, and twice a minute. In between, only the times on it move,
without asking the store.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from conch.bells.base import activity_channel, room_channel, topic_channel
from conch.bells.waits import FOREVER, Pause, wait_for
from conch.calls import Call
from conch.clock import SECOND
from conch.doors.cli import terminal
from conch.doors.cli.context import Context
from conch.doors.cli.interruptions import Interruptions
from conch.doors.cli.output import Report, clean, give_up, write
from conch.doors.cli.status import cut, find_left, look, room_lines
from conch.doors.exits import status_after
from conch.errors import Cancelled, InvalidArgument, StoreError
from conch.lean import TYPE_CHECKING, Any, signal, threading
from conch.notices.timeline import Entry, read_timeline
from conch.overseeing.survey import Survey, find_gone
from conch.rooms.presence import renewal_ms
from conch.tools import timeline_view
from conch.tools.text import one_line

if TYPE_CHECKING:
    from conch.members.adoption import Candidate

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # the terminal's alternate screen, without a cursor
_HOME, _REST, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_TICK_SECONDS = 5.0  # how often the times move
_LOOK_SECONDS = 30.0  # a time that runs out rings no bell
_MOST_ENTRIES = 100
_QUIT = b"qQ\x03\x04"


def watch(context: Context) -> Report:
    """Show the room until the user ends it. Watching makes nobody a member."""
    if context.options.json or terminal.width() is None:
        message = (
            "`conch watch` needs a terminal. For a pipe or a program: `conch events --follow`, `conch status --json`."
        )
        raise InvalidArgument(message, field="json" if context.options.json else None)
    room = context.room.room
    screen = _Screen(context)
    call = Call(screen.tick, every=_TICK_SECONDS)
    call.renew_with(context.session.stay_active)
    channels = (room_channel(room.room_id), activity_channel(room.room_id), topic_channel(room.topic_id))
    renewal = renewal_ms(context.app.settings) / 1_000
    interruptions = Interruptions(call)
    try:
        with _Terminal().used(call, screen.draw_again), screen.resizing():
            wait_for(context.app.bell, channels, screen.show, FOREVER, call, renewal=renewal)
    except Cancelled:
        number = interruptions.number
        return Report(None, "", status=0 if number is None else status_after(number), is_printed=True)
    except OSError as problem:  # the terminal is gone
        return Report(None, "", status=give_up(problem), is_printed=True)
    return Report(None, "", is_printed=True)


class _Screen:
    """What is on the terminal: the last look at the room, drawn for the size that the terminal has now."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._room_id = context.room_id
        self._found: Survey | None = None
        self._entries: list[Entry] = []
        self._left: list[Candidate] = []
        self._gone: frozenset[str] = frozenset()
        self._trouble = ""
        self._is_drawing = False

    def show(self, pause: Pause) -> None:
        """Look at the room and draw it. While the store does not answer, the last look stays, with what is wrong."""
        try:
            self._look()
            self._trouble = ""
        except StoreError as trouble:
            self._trouble = f"The store does not answer; trying again. {one_line(trouble.message)}"
            raise
        finally:
            self.draw()
        found = self._found
        pause.seconds = min(pause.seconds, _LOOK_SECONDS)
        pause.processes = tuple(each.member.process for each in found.standings) if found else ()

    def _look(self) -> None:
        context = self._context
        snapshot = context.app.rooms.get_state(None, self._room_id)
        gone = find_gone(snapshot)
        if gone != self._gone:  # asking git takes time
            self._gone, self._left = gone, find_left(context, snapshot)
        self._entries = read_timeline(context.app.store, self._room_id, None, _MOST_ENTRIES).entries
        self._found = look(context, snapshot, self._left)

    def tick(self, _: str = "") -> None:
        """Move the times on. This does not ask the store."""
        if self._found is not None:
            self._found.snapshot.now += int(_TICK_SECONDS * SECOND)
            self.draw()

    @contextmanager
    def resizing(self) -> Iterator[None]:
        """Inside, a new size of the terminal draws everything again."""
        before = signal.signal(signal.SIGWINCH, lambda number, frame: self.draw_again())
        try:
            yield
        finally:
            signal.signal(signal.SIGWINCH, before)

    def draw_again(self) -> None:
        """Draw from a signal handler."""
        if not self._is_drawing:  # what is being drawn now may have the wrong size until the next tick
            self.draw()

    def draw(self) -> None:
        self._is_drawing = True
        try:
            width, height = terminal.width() or 80, terminal.height()
            lines = self._lines(width, height)
            # Each line is cleared only after its end, so that nothing flickers.
            text = terminal.clean_marked("\n".join(lines[:height]), clean, sys.stdout)
            write(sys.stdout, _HOME + text.replace("\n", f"{_REST}\n") + _REST + _BELOW)
        finally:
            self._is_drawing = False

    def _lines(self, width: int, height: int) -> list[str]:
        top = [terminal.mark(cut(f"! {self._trouble}", width), "red")] if self._trouble else []
        if self._found is not None:
            top += [line for text in room_lines(self._found, width) for line in text.split("\n")]
        foot = terminal.mark(cut("q ends this; `conch events` shows the whole timeline", width), "grey")
        space = height - len(top) - 2
        shown = self._entries[-space:] if space > 0 else []
        return [*top[: height - 1], *([""] if shown else []), *(_entry_line(each, width) for each in shown), foot][
            :height
        ]


def _entry_line(entry: Entry, width: int) -> str:
    moment = time.strftime("%H:%M", time.localtime(entry.created_at / SECOND))
    return cut(f"{moment}  {one_line(timeline_view.sentence(entry))}", width)


class _Terminal:
    """The terminal during the watch: its alternate screen, without a cursor. Each key is read as it is typed."""

    def __init__(self) -> None:
        import termios

        self._tty = termios
        self._keyboard: int | None = None
        try:
            descriptor = sys.stdin.fileno()
            self._before: list[Any] = termios.tcgetattr(descriptor)
            self._keyboard = descriptor
        except (OSError, ValueError, termios.error):  # no keyboard: only a signal ends it
            pass

    @contextmanager
    def used(self, call: Call, draw: Callable[[], None]) -> Iterator[None]:
        """Inside, `q` cancels the call. A stopped process leaves the terminal as it was, and draws again afterwards."""

        def stop(number: int, frame: FrameType | None) -> None:
            self._leave()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, stop)

        def go_on(number: int, frame: FrameType | None) -> None:
            self._enter()  # the shell has set the terminal for itself
            draw()

        before = [
            (number, signal.signal(number, task)) for number, task in ((signal.SIGTSTP, stop), (signal.SIGCONT, go_on))
        ]
        self._enter()
        if self._keyboard is not None:
            threading.Thread(target=_read_keys, args=(self._keyboard, call), name="conch-keys", daemon=True).start()
        try:
            yield
        finally:
            for number, task in before:
                signal.signal(number, task)
            with suppress(OSError):
                self._leave()

    def _enter(self) -> None:
        import tty

        if self._keyboard is not None:
            tty.setcbreak(self._keyboard)
        _write_now(_ENTER)

    def _leave(self) -> None:
        _write_now(_LEAVE)
        if self._keyboard is not None:
            with suppress(self._tty.error):
                self._tty.tcsetattr(self._keyboard, self._tty.TCSADRAIN, self._before)


def _write_now(text: str) -> None:
    """Write without the buffer, which a signal handler must not touch."""
    os.write(sys.stdout.fileno(), text.encode())


def _read_keys(descriptor: int, call: Call) -> None:
    while True:
        try:
            typed = os.read(descriptor, 64)
        except OSError:
            typed = b""
        if not typed or any(key in _QUIT for key in typed):
            call.cancel()
            return
