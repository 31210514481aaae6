"""Path scopes: one spelling for each part of a workspace, and how two of them overlap.

A scope is a file, or a directory with everything inside. Its key is the path relative to the workspace's root, with a
slash at both ends, in one casing if the filesystem ignores case. `/` is the whole workspace, and `/src/lib/` is inside
`/src/`. A scope is inside another one if its key starts with the other's key.
"""

from __future__ import annotations

import os

from conch.errors import InvalidArgument
from conch.host.workspaces import folded, folds_case
from conch.lean import Literal, NamedTuple, re

Overlap = Literal["exact", "partial", "disjoint"]

_EVERYTHING_INSIDE = r"(?:^|(?<=/))\*\*?/*$"
# Wildcards, lists, and a start such as `C:` or `file://`.
_SIGNS = r"[*?\[\]{}]|[@+!]\(|^[A-Za-z][\w.+-]*:(?=/|$)"
_ADVICE = (
    "Name each file, or reserve the directory, such as 'src/lib'. Brackets and braces are literal only if such a file "
    "exists."
)
_LONGEST_ECHO = 200
_LONGEST_KEY = 2_000  # bytes; every engine can index this


class Scope(NamedTuple):
    path: str
    """For people, relative to the workspace; `.` is all of it."""
    key: str

    @property
    def ancestors(self) -> list[str]:
        """The keys of the directories above, starting with the workspace."""
        parts = self.key.split("/")[1:-1]
        return ["/", *("/" + "/".join(parts[:depth]) + "/" for depth in range(1, len(parts)))] if parts else []

    @property
    def end(self) -> str:
        """The first key after everything inside, in byte order."""
        return self.key[:-1] + chr(ord("/") + 1)

    def contains(self, key: str) -> bool:
        return key.startswith(self.key)


def parse_scope(text: str, root: str, field: str = "scope", base: str | None = None) -> Scope:
    """The scope for a path in the workspace at `root`; links are followed. InvalidArgument if it cannot be used.

    A relative path starts at `base`, else at the root. `dir/*` and `dir/**` mean the directory.
    """
    folder = base or root
    plain = text.replace("\\", "/")
    plain = re.sub(_EVERYTHING_INSIDE, "", plain) if "*" in plain else plain
    if _is_pattern(plain, folder):
        raise _refused(text, field, f"looks like a pattern or an address. {_ADVICE}")
    try:
        path = os.path.realpath(os.path.join(folder, os.path.expanduser(plain)))
        path.encode()  # ValueError unless it is valid UTF-8, which every store needs
    except (OSError, ValueError):
        raise _refused(text, field, "is not a path.") from None
    scope = make_scope(path, root, folds_case(root))
    if scope is None:
        raise _refused(text, field, f"is outside the workspace {root}. Use a path inside it.")
    if len(scope.key.encode()) > _LONGEST_KEY:
        message = f"{field} is {len(scope.key.encode())} bytes long; at most {_LONGEST_KEY} are allowed."
        raise InvalidArgument(message, field=field, limit=_LONGEST_KEY)
    return scope


def _is_pattern(path: str, folder: str) -> bool:
    """Whether a path looks like a wildcard, a brace list, a drive or a URL, and no such file exists."""
    drive, rest = os.path.splitdrive(path)
    if not set(rest) & set("*?[]{}(:"):  # most paths: they need no regular expression
        return False
    signs = list(re.finditer(_SIGNS, rest))
    if not signs or "*" in rest or "?" in rest:
        return bool(signs)
    end = path.find("/", len(drive) + signs[-1].end())
    named = path if end < 0 else path[:end]
    return not os.path.lexists(os.path.join(folder, os.path.expanduser(named)))


def _refused(text: str, field: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{field} {text[:_LONGEST_ECHO]!r} {why}", field=field)


def make_scope(path: str, root: str, folds: bool) -> Scope | None:
    """The scope of an absolute path without links; None outside the root. It does not access the filesystem."""
    parts, above = _parts(path), _parts(root)
    head = parts[: len(above)]
    if _spelled(head, folds) != _spelled(above, folds):
        return None
    inside = parts[len(above) :]
    key = "/" + "".join(part + "/" for part in _spelled(inside, folds))
    return Scope("/".join(inside) or ".", key)


def spell(path: str) -> str:
    """A scope's path for use in a sentence."""
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
