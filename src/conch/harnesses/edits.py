"""What conch writes into one settings file: small edits that can be made, recognised and undone."""

from __future__ import annotations

from conch.harnesses import json_text, toml_text
from conch.harnesses.unreadable import Unreadable
from conch.lean import Any, NamedTuple, Protocol

_BEGIN, _END = "<!-- conch: begin -->", "<!-- conch: end -->"


class Edit(Protocol):
    """One change to the text of a file. A missing file is an empty text."""

    def apply(self, text: str) -> str:
        """The text with the change; the same text if it is there already. Unreadable if it cannot be made safely."""

    def is_in(self, text: str) -> bool:
        """Whether the text has the change already, with the same values."""

    def undo(self, text: str, original: str) -> str:
        """The text without the change, and without what only the change needed. `original` was there before it."""


class Member(NamedTuple):
    """A member of a JSON object, such as the entry of our MCP server."""

    path: tuple[str, ...]
    value: Any

    def apply(self, text: str) -> str:
        return json_text.add_member(_object(text), self.path, self.value)

    def is_in(self, text: str) -> bool:
        return bool(_look_up(json_text.read_value(_object(text)), self.path) == self.value)

    def undo(self, text: str, original: str) -> str:
        if _look_up(json_text.read_value(_object(original)), self.path) is not None:
            return text  # it was there before conch came
        return _prune(json_text.remove(text, self.path), self.path[:-1], original)


class Item(NamedTuple):
    """An item of a JSON list, such as a hook. It is ours if it holds the mark, whatever else has changed in it."""

    path: tuple[str, ...]
    value: Any
    mark: str

    def apply(self, text: str) -> str:
        text = _object(text)
        return text if self._places(text) else json_text.add_item(text, self.path, self.value)

    def is_in(self, text: str) -> bool:
        return self.value in (_look_up(json_text.read_value(_object(text)), self.path) or ())

    def undo(self, text: str, original: str) -> str:
        for place in reversed(self._places(text)):
            text = json_text.remove(text, (*self.path, place))
        return _prune(text, self.path, original)

    def _places(self, text: str) -> list[int]:
        found = _look_up(json_text.read_value(text), self.path)
        return [at for at, item in enumerate(found) if _holds(item, self.mark)] if isinstance(found, list) else []


class Table(NamedTuple):
    """A table of a TOML file."""

    path: tuple[str, ...]
    values: dict[str, Any]

    def apply(self, text: str) -> str:
        return toml_text.add_table(text, self.path, self.values)

    def is_in(self, text: str) -> bool:
        found = toml_text.find_value(text, self.path)
        return isinstance(found, dict) and self.values.items() <= found.items()

    def undo(self, text: str, original: str) -> str:
        if toml_text.find_value(original, self.path) is not None:
            return text  # it was there before conch came
        return toml_text.remove_table(text, self.path)


class Entry(NamedTuple):
    """A string in a list of a TOML table."""

    path: tuple[str, ...]
    value: str

    def apply(self, text: str) -> str:
        return toml_text.add_to_list(text, self.path, self.value)

    def is_in(self, text: str) -> bool:
        return self.value in (toml_text.find_value(text, self.path) or ())

    def undo(self, text: str, original: str) -> str:
        text = toml_text.remove_from_list(text, self.path, self.value)
        table = self.path[:-1]
        is_ours = toml_text.find_value(text, table) == {} and toml_text.find_value(original, table) is None
        return toml_text.remove_table(text, table) if is_ours else text


class Whole(NamedTuple):
    """A file of our own."""

    text: str

    def apply(self, text: str) -> str:
        if text not in ("", self.text):
            raise Unreadable("the file is not empty, and conch did not write it")
        return self.text

    def is_in(self, text: str) -> bool:
        return text == self.text

    def undo(self, text: str, original: str) -> str:
        return original


class Block(NamedTuple):
    """Our paragraph in a file that people write, between two marks."""

    text: str

    def apply(self, text: str) -> str:
        if _BEGIN in text:
            return text
        newline = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text else newline if text.endswith("\n") else newline * 2
        return f"{text}{gap}{self._block(newline)}{newline}"

    def is_in(self, text: str) -> bool:
        return any(self._block(newline) in text for newline in ("\n", "\r\n"))

    def _block(self, newline: str) -> str:
        return newline.join([_BEGIN, *self.text.strip().splitlines(), _END])

    def undo(self, text: str, original: str) -> str:
        head, begin, rest = text.partition(_BEGIN)
        _, end, tail = rest.partition(_END)
        if not begin or not end:
            return text
        newline = "\r\n" if "\r\n" in text else "\n"
        return head.removesuffix(newline) + tail.removeprefix(newline)


def _holds(value: Any, mark: str) -> bool:
    """Whether any string inside the value contains the mark."""
    if isinstance(value, str):
        return mark in value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_holds(each, mark) for each in inside)


def _object(text: str) -> str:
    """The text of a JSON file; an empty file is an empty object."""
    return text if text.strip("\ufeff \r\n\t") else "{}\n"


def _look_up(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _prune(text: str, path: tuple[str, ...], original: str) -> str:
    """Remove containers that are empty now and that conch itself had added."""
    before = json_text.read_value(_object(original))
    while path and _look_up(before, path) is None and json_text.is_empty(text, path):
        text, path = json_text.remove(text, path), path[:-1]
    return text
