"""The exit status of `conch` for every result. Scripts rely on these numbers, so no other module chooses one.

0 done, 1 refused, 2 usage, 3 not yet, 4 the store cannot be used, 128 + N ended by signal N (130: Ctrl-C).
"""

from __future__ import annotations

from conch.lean import signal

REFUSED = 1
USAGE = 2
_NOT_YET = 3
_NO_STORE = 4
INTERRUPTED = 130

_NOT_YET_CODES = ("not_yet", "timeout", "takeover_available")


class Interrupted(BaseException):
    """A signal came while a command wrote its answer."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.number = number


def status_of(code: str) -> int:
    """The exit status for the code of an error."""
    if code in _NOT_YET_CODES:
        return _NOT_YET
    if code.startswith("DB_"):
        return _NO_STORE
    return USAGE if code.lower().startswith("invalid_") or code == "limit_exceeded" else REFUSED


def status_after(signal_number: int) -> int:
    """The exit status that a shell shows for a command ended by a signal."""
    return 128 + signal_number
