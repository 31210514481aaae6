"""`conch completion`: what may come next on a command line, for the completion of a shell.

The script of each shell is a few lines. It asks `conch completion candidates`, so that commands and options are always
those of the catalogue, and agents, topics and rooms are those of this moment. Nothing here changes or creates anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from conch.app import App, open_app
from conch.config import Policy
from conch.doors.cli.catalogue import COMMANDS, FAMILIES
from conch.doors.cli.command import Command, Option
from conch.doors.cli.context import open_named
from conch.doors.cli.output import Report
from conch.errors import ConchError, InvalidArgument
from conch.lean import Any, NamedTuple
from conch.tools.text import one_line

_MOST = 200
_FILES, _FOLDERS = ":files", ":folders"  # the shell completes these itself
_OF_VALUE = {
    "AGENT": "agents",
    "COMMAND": "commands",
    "DIR": _FOLDERS,
    "FILE": _FILES,
    "NAME=VALUE": "policy",
    "PATH": _FILES,
    "PATH[:A-B][=ROLE]": _FILES,
    "SCOPE": _FILES,
    "STORE": _FILES,
    "TOPIC": "topics",
}
_OF_OPTION = {"--room": "rooms", "--to": "agents", "--sender": "agents"}
_PLACES = ("--store", "--path", "--room")
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+@")

_SCRIPTS = {
    "bash": """\
# conch completion for bash. Add to ~/.bashrc: eval "$(conch completion bash)"
_conch() {
  local line found=()
  COMPREPLY=()
  while IFS= read -r line; do found+=("${line%% *}"); done < <(
    command "$1" completion candidates -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  local cur=${COMP_WORDS[COMP_CWORD]}
  [[ $cur == = ]] && cur=
  case ${found[0]-} in
    :files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    :folders) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    *) COMPREPLY=("${found[@]}"); [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace ;;
  esac
}
complete -F _conch conch
""",
    "zsh": """\
#compdef conch
# conch completion for zsh. Add to ~/.zshrc, after compinit: eval "$(conch completion zsh)"
_conch() {
  local line
  local -a found shown
  while IFS= read -r line; do
    found+=("${line%% *}"); shown+=("$line")
  done < <(command "${words[1]}" completion candidates -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  case ${found[1]-} in
    :files) compset -P '--*='; _files ;;
    :folders) compset -P '--*='; _files -/ ;;
    *=) compadd -S '' -a found ;;
    ?*) compadd -l -d shown -a found ;;
  esac
}
compdef _conch conch
""",
    "fish": """\
# conch completion for fish. Add to ~/.config/fish/config.fish: conch completion fish | source
function __conch_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l found (command $words[1] completion candidates -- $words[2..-1] 2>/dev/null)
    switch "$found[1]"
        case ':files'
            __fish_complete_path (commandline -ct)
        case ':folders'
            __fish_complete_directories (commandline -ct)
        case '*'
            string replace '  ' \\t -- $found
    end
end
complete -c conch -f -a '(__conch_candidates)'
""",
}


class _Line(NamedTuple):
    """What was typed before the word to complete."""

    command: str
    awaits: Option | None
    """The option whose value comes next."""
    arguments: int
    """How many positional arguments there are."""
    given: dict[str, str]
    """The store, the path and the room, if the line has them."""


def complete(options: Any) -> Report:
    """The script for a shell, or the candidates for the last word of a command line."""
    if options.shell in _SCRIPTS:
        if options.words:
            raise InvalidArgument("Only `conch completion candidates` takes words.", field="words")
        return Report({"script": _SCRIPTS[options.shell]}, _SCRIPTS[options.shell].rstrip("\n"))
    found = list(_candidates(options.words))
    rows = [{"value": value, "about": about} for value, about in found]
    return Report({"candidates": rows}, "\n".join(f"{value}  {one_line(about)}".rstrip() for value, about in found))


def _candidates(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    *before, last = _joined(words) or [""]
    line = _read(before)
    name, equals, value = last.partition("=")
    option = _flag(line.command, name) if equals and last.startswith("--") else None
    if line.awaits is not None:
        found, prefix, before_value = _values(line, line.awaits), last, ""
    elif option is not None:
        found, prefix, before_value = _values(line, option), value, f"{name}=" if words[-1].startswith("--") else ""
    else:
        found, prefix, before_value = _words(line, last), last, ""
    for candidate, about in found:
        if candidate in (_FILES, _FOLDERS):
            yield candidate, ""
        elif candidate.startswith(prefix):
            yield before_value + candidate, about


def _joined(words: Sequence[str]) -> list[str]:
    """The words as they were typed: bash splits them at `=` and `:`."""
    joined: list[str] = []
    for place, word in enumerate(words):
        if joined and (word in ("=", ":") or (place > 0 and words[place - 1] in ("=", ":"))):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _read(words: Iterable[str]) -> _Line:
    """Follow the words up to the last one, as the parser does."""
    command, count = "", 0
    awaits: Option | None = None
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if awaits is not None:
            given[awaits.name], awaits = word, None
        elif word.startswith("--"):
            option = _flag(command, name)
            if equals:
                given[name] = value
            elif option is not None and not option.is_switch:
                awaits = option
        elif command in ("", *FAMILIES):
            command = f"{command} {word}".strip()
        else:
            count += 1
    return _Line(command, awaits, count, {name: given[name] for name in _PLACES if name in given})


def _flag(command: str, name: str) -> Option | None:
    """The option of the command, or of any command if there is none yet."""
    commands = [COMMANDS[command]] if command in COMMANDS else COMMANDS.values()
    return next((option for each in commands for option in each.options if option.name == name), None)


def _words(line: _Line, last: str) -> Iterable[tuple[str, str]]:
    if line.command in ("", *FAMILIES) and not last.startswith("-"):
        return _names(line.command)
    command = COMMANDS.get(line.command)
    if command is None and not last.startswith("-"):
        return []
    if command is None:
        return [("--help", "show this and exit"), ("--version", "print the version"), ("--json", "")]
    if last.startswith("-"):
        return [*((o.name, o.help) for o in command.options if o.is_flag), ("--help", "show this and exit")]
    option = _positional(command, line.arguments)
    return _values(line, option) if option else []


def _names(family: str) -> list[tuple[str, str]]:
    """The commands, or the actions of a family."""
    if family:
        return [(n.removeprefix(f"{family} "), c.summary) for n, c in COMMANDS.items() if n.startswith(f"{family} ")]
    families = [(name, family.summary) for name, family in FAMILIES.items()]
    return [*((name, command.summary) for name, command in COMMANDS.items() if " " not in name), *families]


def _positional(command: Command, place: int) -> Option | None:
    options = [option for option in command.options if not option.is_flag]
    if options and place >= len(options):
        return options[-1] if options[-1].many else None
    return options[place] if options else None


def _values(line: _Line, option: Option) -> Iterable[tuple[str, str]]:
    """What can be given to an option or an argument."""
    kind = _OF_VALUE.get(option.value) or _OF_OPTION.get(option.name, "")
    if option.choices:
        return [(choice, "") for choice in option.choices]
    if kind in (_FILES, _FOLDERS):
        return [(kind, "")]
    if kind == "commands":
        return _names("")
    if kind == "policy":
        return [(f"{name}=", "") for name in Policy._fields]
    return [(value, about) for value, about in _live(line, kind) if _SAFE.issuperset(value)] if kind else []


def _live(line: _Line, kind: str) -> list[tuple[str, str]]:
    """Values from the store; empty if there is no store or it does not answer, because a shell shows no errors."""
    try:
        given = line.given.get("--store")
        app = open_app(os.environ) if given is None else open_named("store", os.path.expanduser(given))
        try:
            return _LIVE[kind](app, line) if app.has_store else []
        finally:
            app.close()
    except ConchError:
        return []


def _agents(app: App, line: _Line) -> list[tuple[str, str]]:
    room_id, path = line.given.get("--room"), line.given.get("--path", ".")
    if room_id is not None:
        rooms = [app.rooms.get_state(None, room_id)]
    else:
        rooms = app.rooms.list_rooms(os.path.abspath(os.path.expanduser(path)))[:1]
    return [(m.name, m.label) for room in rooms for m in room.shown().members]


def _topics(app: App, line: _Line) -> list[tuple[str, str]]:
    found = app.topics.list(["open"], _MOST)
    return [(t.name, t.topic_id) if _SAFE.issuperset(t.name) else (t.topic_id, "") for t, _ in found]


def _rooms(app: App, line: _Line) -> list[tuple[str, str]]:
    return [(s.room.room_id, s.room.canonical_path) for s in app.rooms.all_rooms() if s.state != "closed"][:_MOST]


_LIVE = {"agents": _agents, "topics": _topics, "rooms": _rooms}
