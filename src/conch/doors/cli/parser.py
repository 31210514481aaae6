"""The words of the command line: which command is meant, and with which options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from conch.doors.cli.catalogue import COMMANDS, FAMILIES
from conch.doors.cli.command import OTHERS, ROOMS, TALK, TURNS, Command
from conch.doors.cli.spoken import without_passwords
from conch.errors import InvalidArgument
from conch.typed import Any, NamedTuple, NoReturn

LONGEST_ECHO = 200
WITH_VALUE = ("--store", "--path", "--room", "--agent")  # options that may stand before the command


class Words(NamedTuple):
    """A command line, taken apart. `command` is empty if there is none."""

    command: str
    rest: list[str]

    @property
    def wants_help(self) -> bool:
        options = self.rest[: self.rest.index("--")] if "--" in self.rest else self.rest
        return "-h" in options or "--help" in options

    @property
    def wants_json(self) -> bool:
        return "--json" in self.rest


class Parser(argparse.ArgumentParser):
    """Raises its complaints, so that they come out like every other error."""

    def error(self, message: str) -> NoReturn:
        message = without_passwords(message)  # before it is cut, or half a password would not look like one
        text = message if len(message) <= LONGEST_ECHO else f"{message[:LONGEST_ECHO]}..."
        if re.match("unrecognized arguments: [^-]", message):
            text += " (words that belong together need quotes)"
        if message.endswith(" TEXT"):
            text += " (one that begins with a hyphen goes behind `--`)"
        raise InvalidArgument(f"{text}. See `{self.prog} --help`.", field=_field(message))


class Help(argparse.RawDescriptionHelpFormatter):
    """Fits any terminal. By itself argparse would ask for the width whenever an option is added, which is slow."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=79)


def split_words(words: Sequence[str]) -> Words:
    """The command and everything else; options may stand before the command, too."""
    name, rest = _take_name(list(words))
    if name in FAMILIES:
        action, rest = _take_name(rest)
        name = f"{name} {action}".rstrip()
    return Words(name, rest)


def _take_name(words: list[str]) -> tuple[str, list[str]]:
    place = 0
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in WITH_VALUE else 1
    return "".join(words[place : place + 1]), words[:place] + words[place + 1 :]


def parse_options(words: Words) -> Any:
    """The options of a command; InvalidArgument names the one that is wrong."""
    if words.command not in COMMANDS:
        raise InvalidArgument(_unknown(without_passwords(words.command)), field="command")
    return make_parser(COMMANDS[words.command]).parse_args(words.rest)


def make_parser(command: Command) -> Parser:
    parser = Parser(
        prog=f"conch {command.name}",
        description=command.about,
        epilog=command.examples and "examples:\n" + command.examples,
        formatter_class=Help,
        add_help=False,
        allow_abbrev=False,
    )
    for add in command.options:
        add(parser)
    parser.add_argument("-h", "--help", action="store_true", help="show this and exit")
    return parser


def help_text(command: str) -> str:
    """The help of one command, of a family of them, or (for anything else) the overview."""
    if command in COMMANDS:
        return make_parser(COMMANDS[command]).format_help().rstrip()
    family = command.partition(" ")[0]
    if family in FAMILIES:
        more = f"`conch {family} ACTION --help` tells more about each."
        return f"usage: conch {family} ACTION [OPTIONS]\n\n{_listing(family)}\n\n{more}"
    groups = "\n\n".join(_listing(group) for group in (TURNS, ROOMS, TALK, OTHERS))
    return f"{INTRODUCTION}\n\n{groups}\n\n{CLOSING}"


INTRODUCTION = """\
usage: conch COMMAND [OPTIONS]

Several coding agents, one checkout: whoever holds the stick may work.
Begin with `conch join`, then `conch wait`; hand over with `conch release`."""

CLOSING = """\
`conch COMMAND --help` tells more about a command, `conch --version` which
conch this is. --json makes a command print one object: ok, command, data,
error; the exit status is 0 only when ok."""


def _listing(group: str) -> str:
    entries = [(c.name.removeprefix(f"{group} "), c.summary) for c in COMMANDS.values() if c.group == group]
    entries += [(name, summary) for name, (heading, summary) in FAMILIES.items() if heading == group]
    return "\n".join([f"{group}:", *(f"  {name:<11}{summary}" for name, summary in entries)])


def _unknown(name: str) -> str:
    if not name or name in FAMILIES:
        return f"Which command? See `{f'conch {name}'.rstrip()} --help`."
    from difflib import get_close_matches  # only for those who mistype

    near = get_close_matches(name[:LONGEST_ECHO], [*FAMILIES, *COMMANDS], n=1)
    advice = f"did you mean `conch {near[0]}`?" if near else "see `conch --help`."
    return f"There is no command {name[:LONGEST_ECHO]!r}; {advice}"


def _field(message: str) -> str:
    """Which option an argparse complaint is about."""
    found = re.match(r"argument (\S+?)(?:/\S+)?:|.*?arguments(?: are required)?: ([^\s,]+)", message)
    name = (found[1] or found[2]) if found else "arguments"
    return name.lstrip("-").replace("-", "_")[:LONGEST_ECHO].lower()
