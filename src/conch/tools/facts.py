"""Puts every fact of a reply's object into its text, because some harnesses show a model only one of the two.

A view writes what reads well. `tell` adds whatever the view left out, as `name=value`, so the two cannot drift apart.
The view of a frequent reply says which facts its text always has. In other texts, `tell` searches for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import filterfalse

from conch.lean import Any, json
from conch.tools.replies import Object, Told
from conch.tools.text import MARGIN, behind_margin, is_plain, one_line, visible

# A view shows a handoff whole, behind a margin. Warnings have lines of their own.
_SHOWN_WHOLE = frozenset(("handoff", "handoff_template", "warnings"))
_NUMBERS = (int, float)  # unlike any other empty value, 0 is a fact
_LONGEST_WORD = 200
_is_word = re.compile(r"[\w.:/@+~#%,-]+").fullmatch

_Fact = tuple[str, str, Any]
"""The object that it is in, its name and its value."""


def tell(data: Object, text: str, *ending: str, told: Told | None = None) -> str:
    """The text of an object, the facts that it lacks, and the last lines. Items of a list have their own texts.

    `told` are the facts that the text has. If it is None, they are searched for.
    """
    return "\n".join([_complete(data, text, "\n".join([text, *ending]), told), *ending])


def tell_item(data: Object, line: str, told: Told | None = None) -> str:
    """The text of an item of a list, with the facts that it lacks below."""
    return _complete(data, line, line, None) if told is None else _add_left(data, line, told)


def tell_warnings(data: Object) -> list[str]:
    """The texts of the warnings in an object, each with its code first."""
    found = data.get("warnings", ())
    return [
        tell_item(each.get("context", {}), behind_margin(each["message"], first=f"{each['code']}: ")) for each in found
    ]


def _complete(data: Object, text: str, whole: str, told: Told | None) -> str:
    return _add(text, _untold(data, whole)) if told is None else _add_left(data, text, told)


def _untold(data: Object, text: str) -> Iterator[_Fact]:
    """The facts that are not found in the text."""
    for fact in _facts(data):
        _, name, value = fact
        if not isinstance(value, list):
            if not _is_told(text, name, value):
                yield fact
        elif not all(_is_told(text, name, each) for each in value):  # then all of it: a part would pass for the whole
            yield fact


def _add_left(data: Object, text: str, told: Told) -> str:
    for name in filterfalse(told.__contains__, data):
        if data[name] or type(data[name]) in _NUMBERS:
            return _add(text, _facts(data, told=told))
    return text  # as almost always


def _add(text: str, facts: Iterable[_Fact]) -> str:
    words: dict[str, list[str]] = {}
    blocks: list[str] = []
    for about, name, value in facts:
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, str) and (len(each) > _LONGEST_WORD or len(each.splitlines()) > 1):
                path = f"{about}.{name}" if about else name
                blocks.append(behind_margin(each, MARGIN * 2, first=f"{MARGIN}{path}: "))
            else:
                words.setdefault(about, []).append(f"{name}={_spell(each)}")
    added = [f"{MARGIN}{about}{': ' if about else ''}{' '.join(each)}" for about, each in words.items()]
    return "\n".join(filter(None, [text, *added, *blocks]))


def _facts(data: Object, about: str = "", told: Told = frozenset()) -> list[_Fact]:
    """Every value that is not an object, and every list of such values, without those that are `told`.

    What is false or empty is not a fact.
    """
    found: list[_Fact] = []
    for name, value in data.items():
        if name in _SHOWN_WHOLE or (not value and type(value) not in _NUMBERS):
            continue
        path = f"{about}.{name}" if about else name
        if path in told:
            continue
        if not name.isidentifier():
            name = _spell(one_line(name))
        if isinstance(value, dict):
            found += _facts(value, f"{about}.{name}" if about else name, told)
        elif not isinstance(value, list) or not any(isinstance(each, (dict, list)) for each in value):
            found.append((about, name, value))
        elif about:  # only a list of the reply itself has a text for each of its items
            found.append((about, name, json.dumps(value, ensure_ascii=False, default=str)))
    return found


def _is_told(text: str, name: str, value: Any) -> bool:
    """Whether the text has this value. A number counts only with its name, because any text has some number."""
    if isinstance(value, str) and not value.isdecimal():
        if "\n" not in value and _mentions(text, value.strip() or value):  # as almost always
            return True
        return not is_plain(value) and (not value.strip() or any(_mentions(text, form) for form in _forms(value)))
    spelled = _spell(value)
    if spelled not in text:
        return False
    if name.endswith("seq") and _mentions(text, f"#{spelled}"):
        return True
    return _mentions(text, f"{name}={spelled}") or (name == "cursor" and _mentions(text, f'"{spelled}"'))


def _forms(value: str) -> Iterator[str]:
    """How a view may show a text with several lines or with special characters: behind a margin, or on one line."""
    yield value.strip().replace("\n", f"\n{MARGIN}")  # as most messages are shown
    for margin in (MARGIN, MARGIN * 2):
        yield behind_margin(value, margin, first="").strip()
    yield one_line(value)


def _mentions(text: str, word: str) -> bool:
    """Whether the word is in the text and not only a part of a longer one."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1 : at].isalnum() and word[:1].isalnum()) and not text[end : end + 1].isalnum():
            return True
        at = text.find(word, at + 1)
    return False


def _spell(value: Any) -> str:
    """A value in one word. Text with spaces or signs is quoted, so that it cannot pass for another fact."""
    if isinstance(value, str):
        return value if _is_word(value) else visible(json.dumps(value, ensure_ascii=False))
    return str(value).lower() if isinstance(value, bool) else str(value)
