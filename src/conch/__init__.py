"""conch: whoever holds the conch may speak.

For Python programs: `conch.join()` and `await conch.join_async()` return the room of a workspace.
"""

from __future__ import annotations

from conch.lean import TYPE_CHECKING

if TYPE_CHECKING:  # what `__getattr__` returns, for type checkers
    from conch.doors.api import Answer as Answer
    from conch.doors.api import AsyncRoom as AsyncRoom
    from conch.doors.api import Heard as Heard
    from conch.doors.api import Message as Message
    from conch.doors.api import Reservation as Reservation
    from conch.doors.api import Room as Room
    from conch.doors.api import Turn as Turn
    from conch.doors.api import join as join
    from conch.doors.api import join_async as join_async
    from conch.errors import ConchError as ConchError

__version__ = "0.1.0"

_API = ("join", "join_async", "Room", "AsyncRoom", "Turn", "Message", "Answer", "Reservation", "Heard")


def __getattr__(name: str) -> object:
    """The names of the Python API, imported at their first use: a command must not pay for them."""
    if name in _API:
        from conch.doors import api

        return getattr(api, name)
    if name == "ConchError":
        from conch.errors import ConchError

        return ConchError
    raise AttributeError(f"module 'conch' has no attribute {name!r}")
