"""Puts every fact of a reply's object into its text, because some harnesses show a model only one of the two.

A view writes what reads well. `tell` adds whatever the view left out, as `name=value`, so the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from conch.lean import Any, json
from conch.tools.replies import Object
from conch.tools.text import MARGIN, behind_margin, is_plain, one_line, visible

# A view shows a handoff whole, behind a margin. Warnings have lines of their own.
_SHOWN_WHOLE = frozenset(("handoff", "handoff_template", "warnings"))
_LONGEST_WORD = 200
_WITHOUT_SIGNS = str.maketrans("", "", "-_.:/@+~#%,")


def tell(data: Object, text: str, *ending: str) -> str:
    """The text of an object, the facts that it lacks, and the last lines. Items of a list have their own texts."""
    return "\n".join([_add(text, _facts(data), "\n".join(ending)), *ending])


def tell_item(data: Object, line: str) -> str:
    """The text of an item of a list, with the facts that it lacks below."""
    # All messages of a list are on one topic, which the text names once, below the list.
    is_message = "message_type" in data
    return _add(line, ((name, value) for name, value in _facts(data) if not (is_message and name == "topic_id")))


def tell_warnings(data: Object) -> list[str]:
    """The texts of the warnings in an object, each with its code first."""
    found = data.get("warnings", ())
    return [
        tell_item(each.get("context", {}), behind_margin(each["message"], first=f"{each['code']}: ")) for each in found
    ]


def _add(text: str, facts: Iterator[tuple[str, Any]], ending: str = "") -> str:
    whole = f"{text}\n{ending}" if ending else text
    words: dict[str, list[str]] = {}
    blocks: list[str] = []
    for path, value in facts:
        about, _, name = path.rpartition(".")
        values = value if isinstance(value, list) else (value,)
        for each in values:
            if not _is_told(whole, name, each):
                break
        else:
            continue
        for each in values:  # all of a list, because a part of it would pass for the whole
            if isinstance(each, str) and (len(each) > _LONGEST_WORD or (not is_plain(each) and _has_lines(each))):
                blocks.append(behind_margin(each, MARGIN * 2, first=f"{MARGIN}{path}: "))
            else:
                words.setdefault(about, []).append(f"{name}={_spell(each)}")
    added = [f"{MARGIN}{about}{': ' if about else ''}{' '.join(each)}" for about, each in words.items()]
    return "\n".join(line for line in [text, *added, *blocks] if line)


def _facts(data: Object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is not an object, and every list of such values, by its name.

    What is false or empty is not a fact.
    """
    for name, value in data.items():
        if name in _SHOWN_WHOLE or value is None or value is False or value in ("", [], {}):
            continue
        label = prefix + (name if name.isidentifier() else _spell(one_line(name)))
        if isinstance(value, dict):
            yield from _facts(value, f"{label}.")
        elif not isinstance(value, list) or not any(isinstance(each, (dict, list)) for each in value):
            yield label, value
        elif prefix:  # only a list of the reply itself has a text for each of its items
            yield label, json.dumps(value, ensure_ascii=False, default=str)


def _is_told(text: str, name: str, value: Any) -> bool:
    """Whether the text has this value. A number counts only with its name, because any text has some number."""
    if isinstance(value, str) and not value.isdecimal():
        if is_plain(value):  # as almost always
            return _mentions(text, value.strip() or value)
        return not value.strip() or any(_mentions(text, form) for form in _forms(value))
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


def _has_lines(text: str) -> bool:
    return len(text.splitlines()) > 1


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
        letters = value.translate(_WITHOUT_SIGNS)
        is_word = value and (not letters or letters.isalnum())
        return value if is_word else visible(json.dumps(value, ensure_ascii=False))
    return str(value).lower() if isinstance(value, bool) else str(value)
