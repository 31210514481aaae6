"""Cheap replacements for modules that are slow to import, because every command, hook and server pays for each import.

Importing `typing` takes as long as starting Python, and each of its named tuples compiles code. This module offers the
names from `typing` that the code needs at run time. It imports `json`, `re`, `signal` and `threading` at their first
use, because few commands need them. A type checker sees the real names.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock as Lock  # noqa: N812 - the same as `threading.Lock`, without importing `threading`

TYPE_CHECKING = False  # type checkers treat every variable of this name as true

if TYPE_CHECKING:
    import json
    import re
    import signal
    import threading
    from typing import Any, Literal, NamedTuple, Protocol, Self, TextIO, TypeGuard, TypeVar

    def lazy_module(name: str) -> Any: ...
else:
    from _collections import _tuplegetter

    class _Anything:
        """Stands in for a type. Python does not evaluate our annotations, but it does evaluate type aliases."""

        def __init__(self, *about):
            pass

        def __class_getitem__(cls, parameters):
            return cls

    Any = Literal = Self = TextIO = TypeGuard = TypeVar = _Anything

    class Protocol:
        """A base class that only a type checker uses."""

    class _Fields(type):
        """Turns the annotations of a class into the fields of a tuple."""

        def __new__(meta, name, bases, body):
            fields = tuple(body.get("__annotations__", ())) if bases else ()
            if fields:
                body["_field_defaults"] = {field: body[field] for field in fields if field in body}
                body["_fields"] = body["__match_args__"] = fields
                body |= {field: _tuplegetter(place, None) for place, field in enumerate(fields)}
            return super().__new__(meta, name, bases or (tuple,), {"__slots__": (), **body})

    _OFTEN = 30
    _made = {}  # how often each class was called before it compiled its constructor

    def _in_order(cls, values, named):
        """All values in order. None if they do not fit: the compiled constructor then raises the error."""
        fields = cls._fields
        rest = fields[len(values) :]
        for name in named:
            if name not in rest:
                return None
        given = cls._field_defaults | named
        for name in rest:
            if name not in given:
                return None
        ordered = (*values, *map(given.__getitem__, rest))
        return ordered if len(ordered) == len(fields) else None

    class NamedTuple(metaclass=_Fields):
        """Like `typing.NamedTuple`, but a class compiles its constructor only once it has been called often.

        Compiling takes as long as dozens of calls, and a short command makes few tuples of each class.
        """

        def __new__(cls, /, *values, **named):
            made = _made[cls] = _made.get(cls, 0) + 1
            if made < _OFTEN:
                ordered = values if len(values) == len(cls._fields) and not named else _in_order(cls, values, named)
                if ordered is not None:
                    return tuple.__new__(cls, ordered)
            names = ", ".join(cls._fields)
            create = eval(f"lambda _cls, {names}: _new(_cls, ({names},))", {"_new": tuple.__new__})
            create.__defaults__ = tuple(cls._field_defaults.values())
            cls.__new__ = create  # later calls go straight to the compiled constructor
            return create(cls, *values, **named)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, /, **changes):
            changed = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"{type(self).__name__} has no fields {', '.join(changes)}")
            return changed

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

        def __getnewargs__(self):
            return tuple(self)

    class _Lazy:
        """A module that is imported at the first use of one of its names. An `import` in a function is not as fast."""

        def __init__(self, name):
            self._name = name

        def __getattr__(self, attribute):
            value = getattr(import_module(self._name), attribute)
            setattr(self, attribute, value)  # the next use skips this function
            return value

    lazy_module = _Lazy
    json, re, signal, threading = _Lazy("json"), _Lazy("re"), _Lazy("signal"), _Lazy("threading")


def import_module(name: str) -> Any:
    """Like the function of `importlib`, which imports `warnings` too."""
    __import__(name)
    return sys.modules[name]


__all__ = [
    "TYPE_CHECKING",
    "Any",
    "Literal",
    "Lock",
    "NamedTuple",
    "Protocol",
    "Self",
    "TextIO",
    "TypeGuard",
    "TypeVar",
    "import_module",
    "json",
    "lazy_module",
    "re",
    "signal",
    "threading",
]
