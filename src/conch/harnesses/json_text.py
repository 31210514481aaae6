"""Changes JSON with comments as text: everything else in the file stays as it was written, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable

from conch.harnesses.unreadable import Unreadable
from conch.lean import Any, NamedTuple

_SPACE = " \t\r\n"
_DEEPEST = 200


class _Node(NamedTuple):
    """A value and its place in the text. `value` is what it means; `parts` are the members or items of a container."""

    start: int
    end: int
    value: Any
    parts: tuple[_Part, ...] = ()


class _Part(NamedTuple):
    """A member of an object, or an item of an array, with its key, and where the comma after it is (-1: nowhere)."""

    start: int
    key: str | int
    node: _Node
    comma: int = -1


class _Reader:
    """Reads JSON with comments and trailing commas. Unreadable says where a text is wrong."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0

    def read(self) -> _Node:
        self._skip()
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("more text after the end")
        return node

    def _value(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise self._wrong("too many levels")
        letter = self._text[self._at : self._at + 1]
        if letter == "{":
            return self._container("}", depth, self._member)
        return self._container("]", depth, self._item) if letter == "[" else self._scalar()

    def _container(self, close: str, depth: int, read_part: Callable[[int, int], _Part]) -> _Node:
        start, parts = self._at, list[_Part]()
        self._at += 1
        while True:
            self._skip()
            if self._text.startswith(close, self._at):
                break
            if parts and parts[-1].comma < 0:
                raise self._wrong(f"expected a comma or {close!r}")
            part = read_part(len(parts), depth)
            self._skip()
            if self._text.startswith(",", self._at):
                part = part._replace(comma=self._at)
                self._at += 1
            parts.append(part)
        self._at += 1
        values = [part.node.value for part in parts]
        value = dict(zip((part.key for part in parts), values, strict=True)) if close == "}" else values
        return _Node(start, self._at, value, tuple(parts))

    def _member(self, _: int, depth: int) -> _Part:
        start = self._at
        key = self._scalar().value
        if not isinstance(key, str):
            raise self._wrong("expected a key in quotes", start)
        self._skip()
        if not self._text.startswith(":", self._at):
            raise self._wrong("expected a colon")
        self._at += 1
        self._skip()
        return _Part(start, key, self._value(depth + 1))

    def _item(self, place: int, depth: int) -> _Part:
        return _Part(self._at, place, self._value(depth + 1))

    def _scalar(self) -> _Node:
        start = self._at
        try:
            value, self._at = json.JSONDecoder().raw_decode(self._text, start)
        except (json.JSONDecodeError, RecursionError):
            raise self._wrong("expected a value") from None
        return _Node(start, self._at, value)

    def _skip(self) -> None:
        """Go past whitespace and comments."""
        text = self._text
        while self._at < len(text):
            if text[self._at] in _SPACE:
                self._at += 1
            elif text.startswith("//", self._at):
                end = text.find("\n", self._at)
                self._at = end if end >= 0 else len(text)
            elif text.startswith("/*", self._at):
                end = text.find("*/", self._at + 2)
                if end < 0:
                    raise self._wrong("a comment without an end")
                self._at = end + 2
            else:
                return

    def _wrong(self, why: str, at: int | None = None) -> Unreadable:
        before = self._text[: self._at if at is None else at]
        return Unreadable(why, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def read_value(text: str) -> Any:
    """What the text means. Unreadable if it is not JSON, with or without comments."""
    return _Reader(text).read().value


def add_member(text: str, path: tuple[str, ...], value: Any) -> str:
    """Add a member, and the objects above it that are missing. A member that is there already stays as it is."""
    node = _Reader(text).read()
    for place, key in enumerate(path):
        _require(node, dict, path[:place])
        found = _find(node, key)
        if found is None:
            for missing in reversed(path[place + 1 :]):
                value = {missing: value}
            return _insert(text, node, f"{json.dumps(key)}: ", value)
        node = found.node
    return text


def add_item(text: str, path: tuple[str, ...], value: Any) -> str:
    """Add an item at the end of an array, and the array if it is missing. An equal item is not added again."""
    text = add_member(text, path, [])
    node = _Reader(text).read()
    for key in path:
        node = _child(node, key)
    _require(node, list, path)
    return text if value in node.value else _insert(text, node, "", value)


def remove(text: str, path: tuple[str | int, ...]) -> str:
    """Remove a member or an item, if it is there."""
    node = _Reader(text).read()
    for key in path[:-1]:
        found = _find(node, key)
        if found is None:
            return text
        node = found.node
    part = _find(node, path[-1])
    return text if part is None else _cut(text, node, node.parts.index(part))


def is_empty(text: str, path: tuple[str | int, ...]) -> bool:
    """Whether there is an object or a list at a path with nothing in it, not even a comment."""
    node = _Reader(text).read()
    for key in path:
        found = _find(node, key)
        if found is None:
            return False
        node = found.node
    return text[node.start : node.start + 1] in ("{", "[") and not text[node.start + 1 : node.end - 1].strip(_SPACE)


def _find(node: _Node, key: str | int) -> _Part | None:
    # If a key occurs twice, programs use the last one.
    return next((part for part in reversed(node.parts) if part.key == key), None)


def _child(node: _Node, key: str | int) -> _Node:
    found = _find(node, key)
    assert found is not None
    return found.node


def _require(node: _Node, kind: type, path: tuple[str, ...]) -> None:
    if type(node.value) is not kind:
        name = ".".join(path) or "the whole file"
        raise Unreadable(f"{name} is not {'an object' if kind is dict else 'a list'}")


# -- text


def _insert(text: str, node: _Node, key: str, value: Any) -> str:
    """Write a new part after the last one, in the style of the file."""
    newline, unit = _style(text)
    outer = _indent_of(text, node.start)
    if node.parts and "\n" not in text[node.start : node.end]:
        end = node.parts[-1].node.end
        shown = json.dumps(value, ensure_ascii=False)
        return f"{text[:end]}, {key}{shown}{text[end:]}"
    inner = _indent_of(text, node.parts[0].start) if node.parts else outer + unit
    shown = _lines(value, unit, newline + inner)
    close = node.end - 1
    end = len(text[:close].rstrip(_SPACE))  # after the last part, or after a comment that follows it
    head = text[:end]
    if node.parts and node.parts[-1].comma < 0:
        last = node.parts[-1].node.end
        head = f"{text[:last]},{text[last:end]}"
    tail = text[end:close] if "\n" in text[end:close] else newline + outer
    return f"{head}{newline}{inner}{key}{shown}{tail}{text[close:]}"


def _cut(text: str, node: _Node, place: int) -> str:
    """The text without a part and its comma. All comments stay, except those inside the part."""
    part, parts, close = node.parts[place], node.parts, node.end - 1
    before, after = text[: part.start], text[max(part.node.end, part.comma + 1) :]
    if part.comma > part.node.end:
        after = text[part.node.end : part.comma].rstrip(" \t") + after
    if len(parts) == 1 and not _has_comment(text, node, part):
        return text[: node.start + 1] + text[close:]
    if 0 < place == len(parts) - 1 and part.comma < 0:  # the comma before it would be the last one
        comma = parts[place - 1].comma
        before = text[:comma] + text[comma + 1 : part.start]
    rest = after.lstrip(" \t")
    if rest.startswith(("\n", "\r\n")):  # nothing else follows on its line
        return before.rstrip(" \t").removesuffix("\n").removesuffix("\r") + rest
    return (before.rstrip(" \t") if rest.startswith(text[close]) else before) + rest


def _has_comment(text: str, node: _Node, part: _Part) -> bool:
    """Whether there is a comment beside the only part of a container."""
    comma = {part.comma} if part.comma >= 0 else set()
    outside = (*range(node.start + 1, part.start), *range(part.node.end, node.end - 1))
    return any(text[at] not in _SPACE and at not in comma for at in outside)


def _style(text: str) -> tuple[str, str]:
    """The line end and the indentation that the file uses."""
    newline = "\r\n" if "\r\n" in text else "\n"
    for line in text.split("\n"):
        space = line[: len(line) - len(line.lstrip(" \t"))]
        if space and line.strip(_SPACE):
            return newline, space
    return newline, "  "


def _indent_of(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _lines(value: Any, unit: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline)
