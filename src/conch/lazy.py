"""Modules of the standard library that many files use and few commands need: each is imported at its first use.

`json` and `re` together take half as long to import as Python takes to start, and every command would pay for them.
"""

from __future__ import annotations

from _thread import allocate_lock as Lock  # noqa: N812 - `threading.Lock` under its own name, without the rest of it

from conch.typed import TYPE_CHECKING

if TYPE_CHECKING:
    import json
    import re
    import signal
    import threading
else:

    class _Lazy:
        def __init__(self, name):
            self._name = name

        def __getattr__(self, attribute):
            value = getattr(__import__(self._name), attribute)
            setattr(self, attribute, value)  # the next use finds it at once
            return value

    json, re, signal, threading = _Lazy("json"), _Lazy("re"), _Lazy("signal"), _Lazy("threading")

__all__ = ["Lock", "json", "re", "signal", "threading"]
