"""One request in flight, as the domains see it.

A request can be cancelled. While it waits, it can report progress and keep its caller active. If the store interrupts
it before it changed anything, it runs again.
"""

from __future__ import annotations

from _thread import _local
from collections.abc import Callable

from conch.errors import Cancelled, StoreError, StoreInterrupted, StoreReplaced, StoreUncertain
from conch.lean import Lock, TypeVar

_Answer = TypeVar("_Answer")
_Granted = TypeVar("_Granted")

_MOST_TRIES = 3
_REPORT_EVERY_SECONDS = 4.0
_MOST_TELLING = 1_000  # more replies than one connection can have in flight
_MOST_ENDS = 8
_MOST_LATEST = 1_000


class _Request(_local):
    """What the request of this thread has done so far."""

    is_running = False
    has_changed = False


_request = _Request()


def note_change() -> None:
    """Note that a change of this thread's request is or may be stored, so that no later error claims the opposite."""
    _request.has_changed = True


def retry_interrupted(request: Callable[[], _Answer]) -> _Answer:
    """Run a whole request of a door, and run it again if the store interrupted it.

    Besides this, only waits and the stores themselves try again. A request makes its one change in its last
    transaction, and everything before that can be repeated safely. A change that may have been committed is never
    repeated: it raises StoreUncertain, and the caller decides. Any other trouble with the store says that nothing was
    changed, if that is true for the whole request. Only this function knows that.
    """
    if _request.is_running:  # a part of a request, which is retried alone
        return _retry(request)
    _request.is_running, _request.has_changed = True, False
    try:
        return _retry(request)
    except (StoreUncertain, StoreReplaced):  # after a replacement, anything may have changed
        raise
    except StoreError as trouble:
        if not _request.has_changed:
            trouble.message += " Nothing was changed."
            trouble.args = (trouble.message,)
        raise
    finally:
        _request.is_running = False


def _retry(request: Callable[[], _Answer]) -> _Answer:
    for _ in range(_MOST_TRIES - 1):
        try:
            return request()
        except StoreInterrupted:
            pass
    return request()


class Call:
    """Shared by the thread that runs a request and the thread that receives its cancellation."""

    __slots__ = (
        "_afterwards",
        "_cancelled",
        "_lock",
        "_renew",
        "_report",
        "_wake",
        "names_lease",
        "reply",
        "report_every",
        "undo",
    )

    def __init__(self, report: Callable[[str], None] | None = None, every: float = _REPORT_EVERY_SECONDS) -> None:
        """During a wait, `report` is called with a progress text once per `every` seconds."""
        self._lock = Lock()
        self._wake: Callable[[], None] | None = None
        self._cancelled = False
        self._report = report
        self.report_every = float("inf") if report is None else every
        self._renew: Callable[[], None] | None = None
        self._afterwards: list[Callable[[], None]] | None = None
        self.reply = object()
        """Identifies its reply. Keeping it keeps nothing else of the call in memory."""
        self.names_lease = False
        """The caller has given the lease_id, which only a reply can have told it."""
        self.undo: Callable[[], object] | None = None
        """Takes back what a failed call may still have granted, if its commit is in doubt."""

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            wake = self._wake
        if wake is not None:
            wake()

    def wake_with(self, wake: Callable[[], None] | None) -> None:
        """Set the function that wakes the request when it is cancelled, or None once the request is awake."""
        with self._lock:
            self._wake = wake
            cancelled = self._cancelled
        if cancelled and wake is not None:  # cancelled before it went to sleep
            wake()

    def check(self) -> None:
        """Raise Cancelled if the call was cancelled. Tools call it just before a change, so that none is made."""
        if self._cancelled:
            raise Cancelled("The call was cancelled.")

    def renew_with(self, renew: Callable[[], None]) -> None:
        """Set the function that keeps the caller active."""
        self._renew = renew

    def renew(self) -> None:
        if self._renew is not None:
            self._renew()

    def postpone_tidying(self) -> None:
        """From now on, `tidy` keeps its task, because the reply is more urgent."""
        self._afterwards = []

    def postponed(self) -> list[Callable[[], None]]:
        """The tasks to run now, once."""
        tasks, self._afterwards = self._afterwards, None
        return tasks or []

    def tidy(self, task: Callable[[], None]) -> None:
        """Run a short task that the reply does not depend on: now, or after the reply.

        Only the last one waits for the reply, so a call that tidies again and again collects nothing.
        """
        if self._afterwards is None:
            task()
            return
        earlier, self._afterwards = self._afterwards, [task]
        for each in earlier:
            each()

    def report(self, text: str) -> None:
        if self._report is not None:
            self._report(text)


class Telling:
    """Something that was granted until some time, and the replies that tell its agent of it.

    It is taken back if all of these replies are lost. It is also taken back if one of them stays unread and no other
    was read: otherwise a client that reads nothing could keep it by asking again and again.

    Asking again, or a heartbeat without the lease_id, does not show that the agent knows of it: the reply only tells of
    it once more. A call with the lease_id shows it. So does an extension that none of these replies reported.
    """

    def __init__(self, reply: object, until: int | None) -> None:
        self._replies = {reply: False}  # whether each was read
        self._ends = [until]
        self._is_known = False

    def again(self, reply: object, until: int | None = None) -> None:
        """Note another reply, and until when it extends the grant. The store may not have stored that, so earlier times
        still count.
        """
        if until is not None:
            self._ends = [*self._ends, until][-_MOST_ENDS:]
        if len(self._replies) < _MOST_TELLING:
            self._replies.setdefault(reply, False)

    def explains(self, until: int | None) -> bool:
        """Whether the grant lasts until this time because of one of these replies."""
        return until in self._ends

    def know(self) -> None:
        """Note that the agent has named it."""
        self._is_known = True

    def read(self, reply: object) -> None:
        """Note that the client has read a reply. If it cancels that call, it ignores the reply all the same."""
        if reply in self._replies:
            self._replies[reply] = True

    def lose(self, reply: object) -> None:
        self._replies.pop(reply, None)

    def is_lost(self, unread: bool = False) -> bool:
        """Whether to take it back after a reply was lost, or was left `unread`."""
        if self._is_known:
            return False
        return not any([*self._replies.values()]) if unread else not self._replies


class Latest(dict[str, _Granted]):
    """What this process has granted lately, by its id. Many threads use it."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def note(self, about: str, granted: _Granted) -> None:
        with self._lock:
            self.pop(about, None)
            self[about] = granted
            if len(self) > _MOST_LATEST:
                del self[next(iter(self))]  # the oldest: a dict keeps its order
