"""Parses the command line into a command and its options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from conch.doors.cli.catalogue import COMMANDS, FAMILIES
from conch.doors.cli.command import Command, Option
from conch.errors import InvalidArgument
from conch.lean import Any, NamedTuple

_LONGEST_ECHO = 200
_WITH_VALUE = ("--store", "--path", "--room", "--agent")  # options that may come before the command


class Words(NamedTuple):
    """A split command line. `command` is empty if there is none."""

    command: str
    rest: list[str]

    @property
    def wants_help(self) -> bool:
        options = self.rest[: self.rest.index("--")] if "--" in self.rest else self.rest
        return "-h" in options or "--help" in options

    @property
    def wants_json(self) -> bool:
        return "--json" in self.rest


def split_words(words: Sequence[str]) -> Words:
    """Split off the command. Options may come before it, too."""
    name, rest = _take_name(list(words))
    if name in FAMILIES:
        action, rest = _take_name(rest)
        name = f"{name} {action}".rstrip()
    return Words(name, rest)


def _take_name(words: list[str]) -> tuple[str, list[str]]:
    place = 0
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in _WITH_VALUE else 1
    return "".join(words[place : place + 1]), words[:place] + words[place + 1 :]


def parse_options(words: Words) -> Any:
    """The options of a command; InvalidArgument names the one that is wrong."""
    if words.command not in COMMANDS:
        raise InvalidArgument(_unknown(words.command, words.rest), field="command")
    if words.command == "mcp":  # `conch mcp ...` never gets here: the server reads its own options
        raise InvalidArgument("`mcp` must be the first word: `conch mcp --tools GROUPS`.", field="command")
    return _Parse(COMMANDS[words.command]).run(words.rest)


class _Parse:
    """Turns the words of one command line into values."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._flags = {option.name: option for option in command.options if option.is_flag}
        self._given: dict[str, Any] = {}

    def run(self, words: list[str]) -> Any:
        positional: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                positional += rest
            elif _is_value(word):
                positional.append(word)
            else:
                self._take_flag(word, rest)
        self._take_positional(positional)
        missing = [option for option in self._command.options if option.required and option.key not in self._given]
        if missing:
            self._complain_of_missing(missing[0])
        return SimpleNamespace(**{option.key: self._value(option) for option in self._command.options})

    def _take_flag(self, word: str, rest: Iterator[str]) -> None:
        name, equals, value = word.partition("=")
        option = self._flags.get(name)
        if option is None:
            raise self._refusal(f"There is no option {name}", name, self._hyphen_hint())
        for other in self._flags.values():
            if other.key in self._given and (other.unless == name or option.unless == other.name):
                raise self._refusal(f"{name} and {other.name} cannot be combined", name)
        if option.is_switch:
            if equals:
                raise self._refusal(f"{name} takes no value", name)
            self._given[option.key] = True
            return
        if not equals:
            value = next(rest, "--")  # stands for a missing value, which is then refused
            if not _is_value(value):
                raise self._refusal(f"{name} needs a value: {option.value}", name)
        self._keep(option, value)

    def _take_positional(self, words: list[str]) -> None:
        for option in self._command.options:
            if option.is_flag:
                continue
            taken, words = (words, []) if option.many else (words[:1], words[1:])
            for word in taken:
                self._keep(option, word)
        if words:
            message = f"Unexpected words: {' '.join(words).strip() or 'an empty one'}"
            raise self._refusal(message, words[0], "a text of several words needs quotes")

    def _keep(self, option: Option, word: str) -> None:
        if option.choices and word not in option.choices:
            raise self._refusal(
                f"{option.shown} must be one of {', '.join(option.choices)}, not {word!r}", option.shown
            )
        try:
            value = option.parse(word)
        except ValueError as problem:
            raise self._refusal(f"{option.shown} {problem}", option.shown) from None
        if option.many:
            self._given.setdefault(option.key, []).append(value)
        else:
            self._given[option.key] = value

    def _value(self, option: Option) -> Any:
        return self._given.get(option.key, [] if option.many else option.default)

    def _complain_of_missing(self, option: Option) -> None:
        if option.is_flag:
            raise self._refusal(f"{option.name} is required", option.name)
        raise self._refusal(f"{option.value} is missing", option.value, self._hyphen_hint())

    def _hyphen_hint(self) -> str:
        takes_text = any(option.value == "TEXT" and not option.is_flag for option in self._command.options)
        return "put `--` before a text that starts with a hyphen" if takes_text else ""

    def _refusal(self, message: str, name: str, hint: str = "") -> InvalidArgument:
        from conch.doors.cli.advice import without_passwords  # only needed after a mistake

        message = without_passwords(message)  # before it is cut: half a password would not be found
        text = message if len(message) <= _LONGEST_ECHO else f"{message[:_LONGEST_ECHO]}..."
        text += f" ({hint})" if hint else ""
        field = without_passwords(name).lstrip("-").replace("-", "_")[:_LONGEST_ECHO].lower()
        return InvalidArgument(f"{text}. See `conch {self._command.name} --help`.", field=field or "arguments")


def _is_value(word: str) -> bool:
    """Whether a word is not a flag. Negative numbers and texts with spaces are values."""
    if not word.startswith("-") or word == "-" or " " in word:
        return True
    return word[1:].replace(".", "", 1).isdecimal()


def _unknown(name: str, rest: Sequence[str]) -> str:
    from difflib import get_close_matches  # only needed after a mistake

    from conch.doors.cli.advice import without_passwords
    from conch.doors.cli.elsewhere import find_own

    if not name or name in FAMILIES:
        return f"Which command? See `{f'conch {name}'.rstrip()} --help`."
    name = without_passwords(name)
    own = find_own([name, *rest])
    if own is not None:
        return f"There is no command {name!r}; use `conch {own}`."
    near = get_close_matches(name[:_LONGEST_ECHO], [*FAMILIES, *COMMANDS], n=1)
    advice = f"did you mean `conch {near[0]}`?" if near else "see `conch --help`."
    return f"There is no command {name[:_LONGEST_ECHO]!r}; {advice}"
