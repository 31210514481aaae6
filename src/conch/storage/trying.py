"""Makes again what a lost connection, or another writer, has cut off."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from conch.errors import StoreInterrupted
from conch.typed import ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")

MOST_TRIES = 3


def retried(act: Callable[Given, Found]) -> Callable[Given, Found]:
    """For what only reads, or makes its one change in its last transaction: when that is cut off, nothing was changed.

    Whatever may have been committed is never made again: that is StoreUncertain, which the caller is told.
    """

    @wraps(act)
    def trying(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        for _ in range(MOST_TRIES - 1):
            try:
                return act(*args, **kwargs)
            except StoreInterrupted:
                pass
        return act(*args, **kwargs)

    return trying
