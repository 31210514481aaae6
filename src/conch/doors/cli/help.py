"""The texts of `conch --help` and `conch COMMAND --help`."""

from __future__ import annotations

from textwrap import wrap

from conch import __version__
from conch.doors.cli.catalogue import COMMANDS, FAMILIES, OTHERS, PEOPLE, ROOMS, SCOPES, TALK, TURNS
from conch.doors.cli.command import Command, Group, Option
from conch.doors.cli.output import Report
from conch.doors.cli.parser import unknown_command
from conch.lean import Any

_WIDTH = 79
_COLUMN = 24  # the rightmost column where the help of an option starts
_HELP = Option("--help", "", "show this help and exit")

_INTRODUCTION = """\
usage: conch COMMAND [OPTIONS]

Several coding agents share one checkout. The holder of the stick works, and
the others wait. Start with `conch join`, then `conch wait`; hand over with
`conch release`. To work side by side, reserve files: `conch reserve`."""

_CLOSING = """\
`conch help COMMAND` explains a command; `conch version` prints the version.
With --json a command prints one JSON object: ok, command, data, error. The exit
status is 0: done, 1: refused, 2: wrong usage, 3: not yet or timed out, 4: the
store is unavailable, 130: interrupted."""


def show(options: Any) -> Report:
    """`conch help`: the overview, or the help of the command that the words name."""
    name = " ".join(options.command)
    if name not in ("", *COMMANDS, *FAMILIES):
        raise unknown_command(name)
    text = help_text(name)
    return Report({"help": text}, text)


def version(options: Any) -> Report:
    return Report({"version": __version__}, f"conch {__version__}")


def help_text(command: str) -> str:
    """The help of one command, of a family of them, or (for anything else) the overview."""
    if command in COMMANDS:
        return _command_text(COMMANDS[command])
    family = command.partition(" ")[0]
    if family in FAMILIES:
        more = f"`conch {family} ACTION --help` explains an action."
        return f"usage: conch {family} ACTION [OPTIONS]\n\n{_listing(FAMILIES[family])}\n\n{more}"
    groups = "\n\n".join(_listing(group) for group in (TURNS, SCOPES, ROOMS, TALK, PEOPLE, OTHERS))
    return f"{_INTRODUCTION}\n\n{groups}\n\n{_CLOSING}"


def _listing(group: Group) -> str:
    entries = [(c.name.removeprefix(f"{group.name} "), c.summary) for c in COMMANDS.values() if c.group == group]
    entries += [(family.name, family.summary) for family in FAMILIES.values() if family.heading == group.name]
    return "\n".join([f"{group.name}:", *(f"  {name:<14}{summary}" for name, summary in entries)])


def _command_text(command: Command) -> str:
    positional = [option for option in command.options if not option.is_flag]
    flags = [option for option in command.options if option.is_flag]
    headings = dict.fromkeys(["options", *(option.heading for option in flags)])
    blocks = {"arguments": positional} | {name: [o for o in flags if o.heading == name] for name in headings}
    blocks["options"].append(_HELP)
    width = min(_COLUMN, max(len(_left(option)) + 4 for options in blocks.values() for option in options))
    # An option such as --do-not must not be split at its hyphen.
    about = ["\n".join(wrap(paragraph, _WIDTH, break_on_hyphens=False)) for paragraph in command.about.split("\n\n")]
    parts = [_usage(command.name, flags, positional), *about]
    parts += [_block(name, options, width) for name, options in blocks.items() if options]
    return "\n\n".join([*parts, *([f"examples:\n{command.examples}"] if command.examples else [])])


def _usage(name: str, flags: list[Option], positional: list[Option]) -> str:
    words = [_usage_of_flag(option, flags) for option in flags if not option.unless]
    lines, head = [], f"usage: conch {name} "
    line = head
    for word in [*words, "[-h]", *map(_usage_of_word, positional)]:
        if len(line) + len(word) > _WIDTH and line.strip():
            lines.append(line.rstrip())
            line = " " * len(head)
        line += f"{word} "
    return "\n".join([*lines, line.rstrip()])


def _usage_of_flag(option: Option, flags: list[Option]) -> str:
    both = [option, *(other for other in flags if other.unless == option.name)]
    text = " | ".join(_spelled(each) for each in both)
    return text if option.required else f"[{text}]"


def _usage_of_word(option: Option) -> str:
    if not option.required:
        return f"[{option.value}{' ...' if option.many else ''}]"
    return f"{option.value} [{option.value} ...]" if option.many else option.value


def _spelled(option: Option) -> str:
    value = f"{{{','.join(option.choices)}}}" if option.choices else option.value
    return f"{option.name} {value}".rstrip()


def _left(option: Option) -> str:
    if option is _HELP:
        return "-h, --help"
    return _spelled(option) if option.is_flag else option.value


def _block(heading: str, options: list[Option], width: int) -> str:
    lines = [f"{heading}:"]
    for option in options:
        help = f"{option.help} (repeatable)" if option.is_flag and option.many else option.help
        left, about = f"  {_left(option)}", wrap(help, _WIDTH - width, break_on_hyphens=False) or [""]
        if len(left) + 2 > width:
            lines.append(left)
            left = ""
        lines.append(f"{left:<{width}}{about[0]}".rstrip())
        lines += [" " * width + line for line in about[1:]]
    return "\n".join(lines)
