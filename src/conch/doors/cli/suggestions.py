"""What a person who mistyped a command or an option may have meant. Only needed after a mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from conch.doors.cli.catalogue import COMMANDS, FAMILIES
from conch.doors.cli.command import Option
from conch.doors.cli.other_programs import ELSEWHERE

_MOST = 3
_LONGEST = 80  # characters to compare
_NEAR = 0.5  # the least similarity, from 0 to 1
_SAFE_AND_NEAR = 0.6
_AS_NEAR = 0.15  # a difference in similarity that does not count
_WHOLE = 0.75  # the similarity of a word that is the beginning of another
_SLIP = 0.85  # the similarity of a word with one slip, however short it is
# Options that make a command claim, take over or destroy more than it does without them.
_CHANGING = (
    "--cancel",
    "--done",
    "--for",
    "--force",
    "--force-new",
    "--of",
    "--take-turns",
    "--takeover-stale",
    "--yes",
)


def near_commands(typed: str) -> list[str]:
    """Commands and families that look like it. Commands that only read come first."""
    if not typed:
        return []
    family, _, action = typed.partition(" ")
    if action and family in FAMILIES:
        known = {name.partition(" ")[2]: name for name in COMMANDS if name.startswith(f"{family} ")}
        return _near(action, known, [name for name in known.values() if COMMANDS[name].reads])
    known = {name: name for name in (*FAMILIES, *COMMANDS) if " " not in name}
    known |= {name.partition(" ")[2]: name for name in COMMANDS if name.endswith(f" {typed}")}
    known |= {word: name for word, name in ELSEWHERE.items() if " " not in word}
    return _near(typed, known, [name for name in known.values() if name in COMMANDS and COMMANDS[name].reads])


def near_options(typed: str, options: Sequence[Option]) -> list[str]:
    """Options that look like it. Those that do no harm come first."""
    names = [*(option.name for option in options if option.is_flag), "--help"]
    known = {name.removeprefix("--"): name for name in names}
    return _near(typed.lstrip("-"), known, [name for name in names if name not in _CHANGING])


def _near(typed: str, known: Mapping[str, str], safe: Sequence[str]) -> list[str]:
    """The nearest by their words. If none of them is safe but another near one is, that one comes first."""
    nearness: dict[str, float] = {}
    for word, name in known.items():
        nearness[name] = max(_similarity(typed[:_LONGEST].lower(), word), nearness.get(name, 0.0))
    ranked = sorted((name for name in nearness if nearness[name] >= _NEAR), key=lambda name: -nearness[name])
    nearest = [name for name in ranked if nearness[name] >= nearness[ranked[0]] - _AS_NEAR][:_MOST]
    if not any(name in safe for name in nearest):
        nearest = [name for name in ranked if name in safe and nearness[name] >= _SAFE_AND_NEAR][:1] + nearest
    return sorted(nearest, key=lambda name: name not in safe)


def _similarity(typed: str, word: str) -> float:
    begins = len(typed) > 1 and word.startswith(typed)
    least = _SLIP if _is_one_slip(typed, word) else _WHOLE if begins else 0.0
    return max(SequenceMatcher(None, typed, word).ratio(), least)


def _is_one_slip(typed: str, word: str) -> bool:
    """Whether one letter is too many, missing, wrong or swapped with the next."""
    both = list(zip(typed, word, strict=False))
    same = next((place for place, (one, other) in enumerate(both) if one != other), len(both))
    given, meant = typed[same:], word[same:]
    is_swapped = given[:2] == meant[1::-1] and given[2:] == meant[2:]
    return is_swapped or given[1:] in (meant, meant[1:]) or given == meant[1:]


def did_you_mean(found: Sequence[str], before: str = "") -> str:
    """The question, or nothing without suggestions."""
    return f"did you mean {' or '.join(f'`{before}{name}`' for name in found)}?" if found else ""
