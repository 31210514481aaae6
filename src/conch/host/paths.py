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
    plain = _without_wildcard(text.replace("\\", "/"))
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


def is_key_of(key: str, path: str) -> bool:
    """Whether a scope with this path can have this key, on a filesystem of any kind."""
    inside = "" if path == "." else f"/{path}"
    return any(make_scope(f"/root{inside}", "/root", folds) == Scope(path, key) for folds in (False, True))


def spell(scope: str, path: str | None = None) -> str:
    """A scope for use in a sentence, as it was given, followed by its path if the scope does not show it."""
    if (path or _stem(scope)) == ".":
        return "the whole workspace"
    return scope if path is None or shows_path(scope, path) else f"{scope} ({path})"


def shown(scope: str, path: str) -> str:
    """The scope as it was given, or its path if the scope does not show it."""
    return scope if shows_path(scope, path) else path


def shows_path(given: str, path: str) -> bool:
    """Whether a scope as it was given shows the path that it means. A link, for example, does not."""
    stem = _stem(given)
    return stem == path or (os.path.isabs(stem) and (path == "." or stem.endswith(f"/{path}")))


def respell(given: str, path: str) -> str:
    """The path of a scope, with the wildcard or the slash that it was given with."""
    plain = given.replace("\\", "/")
    ending = plain[len(_without_wildcard(plain).rstrip("/")) :].lstrip("/")
    text = (ending or ".") if path == "." else f"{path}/{ending}" if ending or plain.endswith("/") else path
    return f"./{text}" if text.startswith("~") else text  # a file called `~` is not the home directory


def _stem(scope: str) -> str:
    """A scope without its wildcard and without detours."""
    return os.path.normpath(_without_wildcard(scope.replace("\\", "/")))


def _without_wildcard(plain: str) -> str:
    return re.sub(_EVERYTHING_INSIDE, "", plain) if "*" in plain else plain


def classify(one: str, other: str) -> Overlap:
    """How two keys overlap."""
    if one == other:
        return "exact"
    return "partial" if one.startswith(other) or other.startswith(one) else "disjoint"


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part]


def _spelled(parts: list[str], folds: bool) -> list[str]:
    return [folded(part) for part in parts] if folds else parts
