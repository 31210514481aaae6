"""What conch knows about a harness: where its settings are, and what an installer writes there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping

from conch.harnesses.alarms import Ring
from conch.harnesses.edits import Block, Edit, Item, Member, Whole
from conch.lean import Any, NamedTuple

HOOK_SECONDS = 5  # after this long a harness gives up on a hook; conch gives up earlier by itself
_HOOK = " hook "


class Place(NamedTuple):
    """Where to install: for one user, or for one project."""

    home: str
    project: str | None
    """The root of the project; None for the user."""
    environ: Mapping[str, str]
    program: str
    """The command that starts conch."""
    data_dir: str
    skill: str
    """The text of the skill."""
    instructions: str = ""
    """The paragraph for AGENTS.md and its like; empty if nobody asked for it."""
    wakes: bool = False
    """Whether the server wakes its agent."""

    @property
    def server_words(self) -> list[str]:
        """The arguments that start our server."""
        return ["mcp", "--wake"] if self.wakes else ["mcp"]

    def folder(self, variable: str, *default: str) -> str:
        """A folder of the user's settings: what the harness's own variable says, or a default below the home."""
        return self.environ.get(variable) or os.path.join(self.home, *default)

    def config(self, *parts: str) -> str:
        """A path below the user's configuration folder."""
        return os.path.join(self.folder("XDG_CONFIG_HOME", ".config"), *parts)

    def hook(self, event: str, harness: str) -> str:
        """The shell command of a hook."""
        return f"{shlex.quote(self.program)}{_HOOK}{event} --harness {harness}"


class Change(NamedTuple):
    """The edits to one file."""

    path: str
    edits: tuple[Edit, ...]


class Harness(NamedTuple):
    slug: str
    title: str
    programs: tuple[str, ...]
    """The commands that start it, to find out whether it is there."""
    folder: Callable[[Place], str]
    """The folder of the user's settings, for the same reason."""
    changes: Callable[[Place], list[Change]]
    steps: tuple[str, ...] = ()
    """What a person must do after that, because no installer may do it."""
    check: str = ""
    """A command that shows that it works."""
    ring: Ring | None = None
    """How to wake one of its agents when the agent has stopped."""
    wake_step: str = ""
    """What waking does in it, for the person who switches it on."""


# -- parts that several harnesses share


def stdio_entry(place: Place, **more: Any) -> dict[str, Any]:
    """The usual entry of an MCP server."""
    return {"command": place.program, "args": place.server_words, **more}


def server(path: str, place: Place, **more: Any) -> Change:
    """Our server below `mcpServers`, where most harnesses look."""
    return Change(path, (Member(("mcpServers", "conch"), stdio_entry(place, **more)),))


def claude_hooks(
    place: Place, harness: str, edits: str, timeout: int = HOOK_SECONDS, end_timeout: int | None = None
) -> tuple[Edit, ...]:
    """The hooks of a harness that has the events of Claude Code. `edits` are the tools that change files."""
    events = {"PreToolUse": edits, "PostToolUse": "*", "UserPromptSubmit": "", "Stop": "", "SessionStart": ""}
    hooks = [_hook(place, harness, event, tools, timeout) for event, tools in events.items()]
    return (*hooks, _hook(place, harness, "SessionEnd", "", end_timeout or timeout))


def _hook(place: Place, harness: str, event: str, tools: str, timeout: int) -> Item:
    command = {"type": "command", "command": place.hook(event, harness), "timeout": timeout}
    group = {"matcher": tools, "hooks": [command]} if tools else {"hooks": [command]}
    return Item(("hooks", event), group, f"{_HOOK}{event} --harness {harness}")


def hook_item(place: Place, harness: str, event: str, item: dict[str, Any], key: str = "command") -> Item:
    """A hook of a harness whose lists hold commands directly."""
    command = {key: place.hook(event, harness), **item}
    return Item(("hooks", event), command, f"{_HOOK}{event} --harness {harness}")


def skill(place: Place, *folder: str) -> Change:
    """The skill in a folder of the project, or of the home."""
    root = place.home if place.project is None else place.project
    return Change(os.path.join(root, *folder, "skills", "conch", "SKILL.md"), (Whole(place.skill),))


def instructions(place: Place, file: str, user_file: str = "") -> list[Change]:
    """Our paragraph in the file of instructions, if it was asked for."""
    if not place.instructions:
        return []
    path = os.path.join(place.project, file) if place.project is not None else user_file
    return [Change(path, (Block(place.instructions),))] if path else []


def existing(*paths: str) -> str:
    """The first of the paths where a file is; otherwise the first path."""
    return next((path for path in paths if os.path.lexists(path)), paths[0])
