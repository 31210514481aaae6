"""Parses the command line into a command and its options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from conch.doors.cli.catalogue import COMMANDS, FAMILIES
from conch.doors.cli.command import Command, Option, require_utf8
from conch.errors import InvalidArgument
from conch.lean import Any, NamedTuple

_LONGEST_ECHO = 200
_WITH_VALUE = ("--store", "--path", "--room", "--agent")  # options that may come before the command
_BEFORE_COMMAND = tuple(Option(name, "", "") for name in (*_WITH_VALUE, "--json", "--version"))


class Words(NamedTuple):
    """A split command line. `command` is empty if there is none."""

    command: str
    rest: list[str]

    @property
    def _options(self) -> list[str]:
        return self.rest[: self.rest.index("--")] if "--" in self.rest else self.rest

    @property
    def wants_help(self) -> bool:
        return "-h" in self._options or "--help" in self._options

    @property
    def wants_version(self) -> bool:
        return not self.command and any(word in ("-V", "--version") for word in self.rest)

    @property
    def wants_json(self) -> bool:
        return "--json" in self._options


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
        raise unknown_command(words.command, words.rest)
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
            elif _is_value(word) and word.partition("=")[0] not in self._flags:  # `--status=all is done` is a flag
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
            raise self._unknown_option(name)
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

    def _unknown_option(self, name: str) -> InvalidArgument:
        from conch.doors.cli.suggestions import did_you_mean, near_options  # only needed after a mistake

        hint = did_you_mean(near_options(name, self._command.options)) or self._hyphen_hint()
        return self._refusal(f"There is no option {name}", name, hint)

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
            if not option.names_files:
                require_utf8(word)
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


def unknown_command(name: str, rest: Sequence[str] = ()) -> InvalidArgument:
    """The refusal of a command line without a known command, with what the user may have meant."""
    from conch.doors.cli.advice import without_passwords  # only needed after a mistake
    from conch.doors.cli.other_programs import find_own
    from conch.doors.cli.suggestions import did_you_mean, near_commands, near_options

    name = without_passwords(name)
    shown, family = repr(name[:_LONGEST_ECHO]), name.partition(" ")[0]
    own = find_own([name, *rest])
    near = near_commands(name)
    strange = "".join([without_passwords(word) for word in rest if _is_strange(word)][:1])
    if own is not None:
        text = f"There is no command {shown}; use `conch {own}`."
    elif near and name not in FAMILIES:
        text = f"There is no command {shown}; {did_you_mean(near, 'conch ')}"
    elif meant := near_options(strange, _BEFORE_COMMAND):
        text = f"There is no option {strange[:_LONGEST_ECHO]}; {did_you_mean(meant)}"
    elif not name or name in FAMILIES:
        text = f"Which command? See `{f'conch {name}'.rstrip()} --help`."
    else:
        text = f"There is no command {shown}; see `{f'conch {family}' if family in FAMILIES else 'conch'} --help`."
    return InvalidArgument(text, field="command")


def _is_strange(word: str) -> bool:
    """Whether it is an option that no command has."""
    name = word.partition("=")[0]
    return not _is_value(word) and all(name != option.name for each in COMMANDS.values() for option in each.options)
