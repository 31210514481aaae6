"""Handles Ctrl-C, SIGTERM and SIGHUP while a command waits, so that the stick never stays with a command that is gone.

Python may run a signal handler between a claim and its return. So during a wait the main thread blocks these signals. A
second thread receives them and cancels the call.

While the answer is written, that thread interrupts the main thread, again and again: a signal that comes right before a
write does not end the write.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from conch.calls import Call, retry_interrupted
from conch.doors.exits import Interrupted, status_after
from conch.errors import Cancelled, ConchError, StoreInterrupted, StoreUnavailable
from conch.lean import signal, threading
from conch.tools.replies import Reply

_NUDGE_SECONDS = 0.02


class Interruptions:
    """Once created, it makes a signal cancel the call instead of ending the process."""

    def __init__(self, call: Call) -> None:
        self._call = call
        # A script's background command ignores Ctrl-C, and nohup ignores SIGHUP. Such signals stay ignored.
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        self._signals = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
        self._nudge = signal.SIGURG  # ignored by default, so a late one does no harm
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
        while self._raises and not self._has_raised:  # the main thread may be blocked in a write
            signal.pthread_kill(threading.main_thread().ident or 0, self._nudge)
            time.sleep(_NUDGE_SECONDS)
        os._exit(status_after(signal.sigwait(self._signals)))  # a second signal ends the process at once

    @property
    def status(self) -> int:
        """The exit status after the signal that came."""
        return status_after(self.number or 0)

    def wait(self, work: Callable[[], Reply]) -> Reply | None:
        """The reply that a command waits for. None if a signal came first; what the wait got is then taken back."""
        try:
            reply = work()
            if not self._call.cancelled:
                return reply
            reply.delivery.not_sent()
        except Cancelled:
            if self._call.undo is not None:  # an earlier claim of this wait may have been stored
                with suppress(ConchError):
                    retry_interrupted(self._call.undo)
        except StoreInterrupted as lost:  # the command must not run again: a signal it got before would be forgotten
            raise StoreUnavailable(lost.message, **lost.details) from lost
        return None

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Inside, a signal raises Interrupted once. So does a signal that came after the wait."""
        signal.signal(self._nudge, self._interrupt)
        self._raises = True
        try:
            if self.number is not None:
                self._interrupt(self._nudge, None)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, [self._nudge])  # a late nudge must not raise after this
            self._raises = False

    def _interrupt(self, nudge: int, frame: object) -> None:
        if not self._has_raised:
            self._has_raised = True
            raise Interrupted(self.number or 0)
