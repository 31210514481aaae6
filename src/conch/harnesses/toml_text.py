"""Changes TOML as text: everything else in the file stays as it was written, byte for byte.

Each change is checked with Python's own reader. If a file says something in a way that this module cannot extend, such
as a table in braces, Unreadable says so and nothing is changed.
"""

from __future__ import annotations

import json
import tomllib

from conch.harnesses.unreadable import Unreadable
from conch.lean import Any

_MANY_LINES = ('"""', "'''")


def read_value(text: str) -> dict[str, Any]:
    """What the text means. Unreadable if it is not TOML."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def find_value(text: str, path: tuple[str, ...]) -> Any:
    """The value at a path; None if there is none."""
    value: Any = read_value(text)
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def add_table(text: str, path: tuple[str, ...], values: dict[str, Any]) -> str:
    """Add a table at the end of the file. A table that is there already stays as it is."""
    if find_value(text, path) is not None:
        return text
    newline = _newline(text)
    lines = [f"[{'.'.join(path)}]", *(f"{key} = {_spell(value)}" for key, value in values.items())]
    added = text + _gap(text, newline) + newline.join(lines) + newline
    return _checked(added, path, values)


def add_to_list(text: str, path: tuple[str, ...], value: str) -> str:
    """Add a string to a list of a table, and the list or the table if it is missing."""
    found = find_value(text, path)
    if isinstance(found, list) and value in found:
        return text
    table, key = path[:-1], path[-1]
    if find_value(text, table) is None:
        return add_table(text, table, {key: [value]})
    lines = text.splitlines(keepends=True)
    head = next(iter(_headers(lines, table)), None)
    if head is None:
        raise Unreadable(f"{'.'.join(table)} is not written as a table of its own")
    if found is None:
        lines.insert(head + 1, f"{key} = {_spell([value])}{_newline(text)}")
    else:
        place = _line_of_key(lines, head, key)
        before, bracket, rest = lines[place].partition("[")
        comma = ", " if found else ""
        lines[place] = f"{before}{bracket}{_spell(value)}{comma}{rest}"
    return _checked("".join(lines), path, [value, *(found or [])])


def remove_table(text: str, path: tuple[str, ...]) -> str:
    """Remove a table and the tables inside it. Comments after its last value stay: the user wrote them."""
    lines = text.splitlines(keepends=True)
    for head in reversed(_headers(lines, path, inside=True)):
        end = following = next((at for at in _headers(lines) if at > head), len(lines))
        while end > head + 1 and _is_empty(lines[end - 1]):
            end -= 1
        if not "".join(lines[end:following]).strip() and following == len(lines):
            end = following  # nothing follows, not even a comment
        del lines[head:end]
        if head and not lines[head - 1].strip() and (head == len(lines) or not lines[head].strip()):
            del lines[head - 1]
    return _checked("".join(lines), path, None)


def remove_from_list(text: str, path: tuple[str, ...], value: str) -> str:
    """Remove a string from a list, and the list if it is empty then."""
    found = find_value(text, path)
    if not isinstance(found, list) or value not in found:
        return text
    lines = text.splitlines(keepends=True)
    head = next(iter(_headers(lines, path[:-1])), None)
    if head is None:
        raise Unreadable(f"{'.'.join(path[:-1])} is not written as a table of its own")
    place = _line_of_key(lines, head, path[-1])
    left = [each for each in found if each != value]
    if not left:
        del lines[place]
        return _checked("".join(lines), path, None)
    spelled = _spell(value)
    for wanted in (f"{spelled}, ", f", {spelled}", f"{spelled},", spelled):
        if wanted in lines[place]:
            lines[place] = lines[place].replace(wanted, "", 1)
            break
    return _checked("".join(lines), path, left)


def _headers(lines: list[str], path: tuple[str, ...] | None = None, inside: bool = False) -> list[int]:
    """The lines that begin a table: any table, the table at a path, or also those inside it."""
    found, closing = [], ""
    for at, line in enumerate(lines):
        if not closing and line.lstrip().startswith("["):
            named = _name(line)
            if path is None or named == path or (inside and named[: len(path)] == path):
                found.append(at)
        for mark in _MANY_LINES:
            if line.count(mark) % 2 and closing in ("", mark):
                closing = "" if closing else mark
    return found


def _name(line: str) -> tuple[str, ...]:
    """The path in the header of a table; empty for a line of a list."""
    try:
        value: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path = []
    while isinstance(value, dict) and len(value) == 1:
        key, value = next(iter(value.items()))
        path.append(key)
        value = value[0] if isinstance(value, list) and value else value
    return tuple(path)


def _is_empty(line: str) -> bool:
    """Whether a line has no key and no value. A comment may be in it."""
    return not line.strip() or line.lstrip().startswith("#")


def _line_of_key(lines: list[str], head: int, key: str) -> int:
    end = next((at for at in _headers(lines) if at > head), len(lines))
    for at in range(head + 1, end):
        name, equals, value = lines[at].partition("=")
        if name.strip() == key and equals and value.strip().startswith("["):
            return at
    raise Unreadable(f"{key} is not written as a list on a line of its own")


def _checked(text: str, path: tuple[str, ...], wanted: Any) -> str:
    if find_value(text, path) != wanted:
        raise Unreadable(f"{'.'.join(path)} cannot be changed without rewriting the file")
    return text


def _spell(value: Any) -> str:
    # A JSON string without escaped slashes is a TOML string too, and so are numbers, booleans and lists of strings.
    return json.dumps(value, ensure_ascii=False)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _gap(text: str, newline: str) -> str:
    if not text.strip("\ufeff"):
        return ""
    return newline if text.endswith("\n") else newline * 2
