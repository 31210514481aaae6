"""Path scopes: one spelling for every way to name a part of a workspace, and how two of them overlap.

A scope is a file or a directory with everything inside. Its key is the path relative to the workspace's root, with a
slash at both ends and in one casing where the filesystem ignores case: `/` is the whole workspace, `/src/lib/` is
inside `/src/`. So one key is inside another exactly if it begins with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal, NamedTuple

from conch.errors import InvalidArgument
from conch.host.workspaces import folded, folds_case

Overlap = Literal["exact", "partial", "disjoint"]

EVERYTHING_INSIDE = ("**", "*")
SIGNS = "@+!"  # before a parenthesis, some shells match by them
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
        raise _not_from_here(text, root, field)
    plain = _without_ending(text.replace("\\", "/"))
    try:
        wild = _find_wildcard(plain, folder)
        stem = plain if wild is None else _directory(plain, wild)
        path = os.path.realpath(os.path.join(folder, os.path.expanduser(stem)))
        path.encode()
    except (OSError, ValueError):
        raise InvalidArgument(f"{field} {text[:LONGEST_ECHO]!r} is not a path.", field=field) from None
    scope = make_scope(path, root, folds_case(root))
    if scope is None:
        raise _outside(text, root, field)
    if wild is not None:
        raise _refused_wildcard(text, plain, wild, field)
    if len(scope.key.encode()) > LONGEST_KEY:
        message = f"{field} is {len(scope.key.encode())} bytes long; at most {LONGEST_KEY} are allowed."
        raise InvalidArgument(message, field=field, limit=LONGEST_KEY)
    return scope


def _refused_wildcard(text: str, path: str, wild: int, field: str) -> InvalidArgument:
    advice = "" if path[wild] in "*?" else " A name with brackets is a name as soon as there is such a file."
    message = (
        f"{field} {text[:LONGEST_ECHO]!r} has a wildcard that cannot be used: only `dir/*` and `dir/**` can, for "
        f"everything in a directory. Use {_directory(path, wild) + '*'!r}, or name each file.{advice}"
    )
    return InvalidArgument(message, field=field)


def _directory(path: str, place: int) -> str:
    """What stands before the part of a path in which a place is."""
    above = path[:place].rpartition("/")
    return above[0] + above[1]


def _without_ending(path: str) -> str:
    stem = path.rstrip("/")
    for ending in EVERYTHING_INSIDE:
        if stem == ending or stem.endswith("/" + ending):
            return stem[: -len(ending)] or "."
    return path


def _find_wildcard(path: str, folder: str) -> int | None:
    """Where a wildcard begins. What only looks like one, in the name of something that is there, is none."""
    places = [place for place in map(path.find, "*?") if place >= 0]
    for begin, end in (*_find_braces(path), *_find_brackets(path)):
        part_end = path.find("/", end)
        named = path if part_end < 0 else path[:part_end]
        if not os.path.lexists(os.path.join(folder, os.path.expanduser(named))):
            places.append(begin)
    return min(places, default=None)


def _find_braces(path: str) -> Iterator[tuple[int, int]]:
    """Where `{a,b}` and `{1..3}` stand. A brace alone occurs in the names of real files, such as `{slug}.tsx`."""
    openings: list[int] = []
    lists: set[int] = set()
    for place, letter in enumerate(path):
        if letter == "{":
            openings.append(place)
        elif openings and (letter == "," or path.startswith("..", place)):
            lists.add(openings[-1])
        elif openings and letter == "}" and (opening := openings.pop()) in lists:
            yield opening, place


def _find_brackets(path: str) -> Iterator[tuple[int, int]]:
    """Where `[ab]` and `+(a|b)` stand; frameworks have folders that are called `[slug]`."""
    place = 0
    for part in path.split("/"):
        if 0 <= (opening := part.find("[")) < (closing := part.rfind("]")) - 1:
            yield place + opening, place + closing
        for sign in SIGNS:
            if 0 <= (opening := part.find(sign + "(")) < (closing := part.rfind(")")):
                yield place + opening, place + closing
        place += len(part) + 1


def _is_of_another_system(text: str, folder: str) -> bool:
    """Whether a path begins like `C:\\` where there are no drives, or like `file://`, and no folder is called so."""
    head, slash, _ = text.replace("\\", "/").partition("/")
    is_drive = len(head) == 2 and head[0].isalpha()
    if not head.endswith(":") or not (slash or is_drive) or (is_drive and os.name == "nt"):
        return False
    return not os.path.lexists(os.path.join(folder, head))


def _not_from_here(text: str, root: str, field: str) -> InvalidArgument:
    advice = "Name it from there, such as 'src/lib'."
    if "://" in text:
        message = f"{field} {text[:LONGEST_ECHO]!r} is an address and not a path in the workspace {root}. {advice}"
        return InvalidArgument(message, field=field)
    return _outside(text, root, field, " " + advice)


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
