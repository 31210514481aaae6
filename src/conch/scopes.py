"""Path scopes: one spelling for every way to name a part of a workspace, and how two of them overlap.

A scope is a file or a directory with everything inside. Its key is the path relative to the workspace's root, with a
slash at both ends and in one casing where the filesystem ignores case: `/` is the whole workspace, `/src/lib/` is
inside `/src/`. So one key is inside another exactly if it begins with it.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from conch.errors import InvalidArgument
from conch.workspaces import folded, folds_case

Overlap = Literal["exact", "partial", "disjoint"]

EVERYTHING_INSIDE = ("**", "*")
LONGEST_ECHO = 200
LONGEST_KEY = 2_000  # bytes; what every engine can index


class Scope(NamedTuple):
    path: str
    """For people, relative to the workspace; `.` is all of it."""
    key: str

    @property
    def ancestors(self) -> list[str]:
        """The keys of the directories above, the workspace first."""
        parts = self.key.split("/")[1:-1]
        return ["/", *("/" + "/".join(parts[:depth]) + "/" for depth in range(1, len(parts)))] if parts else []

    @property
    def end(self) -> str:
        """The first key, in the order of bytes, after everything inside."""
        return self.key[:-1] + chr(ord("/") + 1)

    def contains(self, key: str) -> bool:
        return key.startswith(self.key)


def parse_scope(text: str, root: str, field: str = "scope", base: str | None = None) -> Scope:
    """What a scope means in the workspace at `root`; links are followed. InvalidArgument says what cannot be used.

    A relative path starts at `base`, else at the root; what a refusal proposes instead does so, too.
    """
    folder = base or root
    if _is_of_another_system(text, folder):
        raise _outside(text, root, field, " Name it from there, such as 'src/lib'.")
    try:
        plain = strip_wildcard(text, folder, field)
        path = os.path.realpath(os.path.join(folder, os.path.expanduser(plain)))
        path.encode()
    except (OSError, ValueError):
        raise InvalidArgument(f"{field} {text[:LONGEST_ECHO]!r} is not a path.", field=field) from None
    scope = make_scope(path, root, folds_case(root))
    if scope is None:
        raise _outside(text, root, field)
    if len(scope.key.encode()) > LONGEST_KEY:
        message = f"{field} is {len(scope.key.encode())} bytes long; at most {LONGEST_KEY} are allowed."
        raise InvalidArgument(message, field=field, limit=LONGEST_KEY)
    return scope


def strip_wildcard(text: str, folder: str, field: str = "scope") -> str:
    """The path without a `/*` or `/**` at its end, which mean everything inside; other wildcards are refused.

    The folder is where a relative path starts: what is found there under such a name is no wildcard.
    """
    path = _without_ending(text.replace("\\", "/"))
    wild = _find_wildcard(path, folder)
    if wild is not None:
        above = path[:wild].rpartition("/")
        advice = " A name with brackets is a name as soon as there is such a file." if path[wild] == "[" else ""
        message = (
            f"{field} {text[:LONGEST_ECHO]!r} has a wildcard that cannot be used: only `dir/*` and `dir/**` can, for "
            f"everything in a directory. Use {above[0] + above[1] + '*'!r}, or name each file.{advice}"
        )
        raise InvalidArgument(message, field=field)
    return path


def _without_ending(path: str) -> str:
    stem = path.rstrip("/")
    for ending in EVERYTHING_INSIDE:
        if stem == ending or stem.endswith("/" + ending):
            return stem[: -len(ending)] or "."
    return path


def _find_wildcard(path: str, folder: str) -> int | None:
    """Where a wildcard begins. A brace alone occurs in the names of real files, such as `{slug}.tsx`."""
    places = [place for place in map(path.find, "*?") if place >= 0]
    opening, comma, closing = (path.find(letter) for letter in "{,}")
    if 0 <= opening < comma < closing:
        places.append(opening)
    return min(places + _find_brackets(path, folder), default=None)


def _find_brackets(path: str, folder: str) -> list[int]:
    """Where `[ab]` stands in a name that nothing has; frameworks have folders that are called `[slug]`."""
    places, place = [], 0
    for part in path.split("/"):
        opening, end = part.find("["), place + len(part)
        if 0 <= opening < part.rfind("]") - 1:
            named = os.path.join(folder, os.path.expanduser(path[:end]))
            places += [] if os.path.lexists(named) else [place + opening]
        place = end + 1
    return places


def _is_of_another_system(text: str, folder: str) -> bool:
    """Whether a path begins like `C:\\` where there are no drives, or like `file://`, and no folder is called so."""
    head, slash, _ = text.replace("\\", "/").partition("/")
    is_drive = len(head) == 2 and head[0].isalpha()
    if not head.endswith(":") or not (slash or is_drive) or (is_drive and os.name == "nt"):
        return False
    return not os.path.lexists(os.path.join(folder, head))


def _outside(text: str, root: str, field: str, advice: str = "") -> InvalidArgument:
    message = f"{field} {text[:LONGEST_ECHO]!r} is outside the workspace {root}; only what is inside can be used."
    return InvalidArgument(message + advice, field=field)


def make_scope(path: str, root: str, folds: bool) -> Scope | None:
    """The scope of an absolute path, free of links; None outside the root. Pure: it asks no filesystem."""
    parts, above = _parts(path), _parts(root)
    head = parts[: len(above)]
    if _spelled(head, folds) != _spelled(above, folds):
        return None
    inside = parts[len(above) :]
    key = "/" + "".join(part + "/" for part in _spelled(inside, folds))
    return Scope("/".join(inside) or ".", key)


def spell(path: str) -> str:
    """A scope's path in a sentence."""
    return "the whole workspace" if path == "." else path


def classify(one: str, other: str) -> Overlap:
    """How two keys overlap."""
    if one == other:
        return "exact"
    return "partial" if one.startswith(other) or other.startswith(one) else "disjoint"


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part]


def _spelled(parts: list[str], folds: bool) -> list[str]:
    return [folded(part) for part in parts] if folds else parts
