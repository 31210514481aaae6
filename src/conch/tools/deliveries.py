"""Replies on their way out: whoever asks next about the same thing waits until it is known whether they arrived."""

from __future__ import annotations

import threading
from collections.abc import Callable

LONGEST_SECONDS = 1.0  # replies that leave together may wait for each other; then the same comes twice


class Deliveries:
    """Of one connection. A client can have read a reply, and ask again, before we know that it has left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unsettled: dict[str, threading.Event] = {}

    def wait(self, topic: str) -> None:
        with self._lock:
            unsettled = self._unsettled.get(topic)
        if unsettled is not None:
            unsettled.wait(LONGEST_SECONDS)

    def then(self, topic: str, task: Callable[[], None]) -> Callable[[], None]:
        """The same task to be run once the last reply's fate is known; whoever asks next waits for it too."""
        with self._lock:
            earlier = self._unsettled.get(topic)
        settled = self.begin(topic)

        def run() -> None:
            try:
                if earlier is not None:
                    earlier.wait(LONGEST_SECONDS)
                task()
            finally:
                settled()

        return run

    def begin(self, topic: str) -> Callable[[], None]:
        """Call the result when the reply's fate is known, and what follows from it is done."""
        event = threading.Event()
        with self._lock:
            self._unsettled[topic] = event

        def settle() -> None:
            event.set()
            with self._lock:
                if self._unsettled.get(topic) is event:
                    del self._unsettled[topic]

        return settle
