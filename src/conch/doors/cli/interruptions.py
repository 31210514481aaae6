"""Ctrl-C, SIGTERM and a hang-up while a command waits: none of them may leave the stick with somebody who is gone.

Python runs signal handlers in the middle of whatever the main thread does, also between a claim and its return. So
during a wait the signals are blocked there, and a thread of its own takes them and cancels the call.

While the answer is written, that thread interrupts the main thread, as often as it takes: a signal that comes right
before a write begins does not end it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from conch.calls import Call
from conch.lean import signal, threading

_NUDGE_SECONDS = 0.02


class Interrupted(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.number = number


def exit_status(number: int) -> int:
    """What a shell makes of a command that a signal has ended."""
    return 128 + number


class Interruptions:
    """From its construction on, a signal cancels the call instead of ending the process."""

    def __init__(self, call: Call) -> None:
        self._call = call
        # A command in the background of a script ignores Ctrl-C, one under nohup a hang-up: so be it.
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        self._signals = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
        self._nudge = signal.SIGURG  # ignored by default, so one that comes too late does no harm
        self._raises = False
        self._has_raised = False
        self.number: int | None = None
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        threading.Thread(target=self._take_signals, name="conch-signals", daemon=True).start()

    def _take_signals(self) -> None:
        if not self._signals:
            return
        self.number = signal.sigwait(self._signals)
        self._call.cancel()
        while self._raises and not self._has_raised:  # it came at the last moment: the main thread may sleep in a write
            signal.pthread_kill(threading.main_thread().ident or 0, self._nudge)
            time.sleep(_NUDGE_SECONDS)
        os._exit(exit_status(signal.sigwait(self._signals)))  # whoever insists gets their way

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Meanwhile a signal raises Interrupted, once; also one that has come since the wait."""
        signal.signal(self._nudge, self._interrupt)
        self._raises = True
        try:
            if self.number is not None:
                self._interrupt(self._nudge, None)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, [self._nudge])
            self._raises = False

    def _interrupt(self, nudge: int, frame: object) -> None:
        if not self._has_raised:
            self._has_raised = True
            raise Interrupted(self.number or 0)
