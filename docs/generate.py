"""Writes `docs/reference/` and the table of layers in `explanation.md` from the code. A test checks the result."""

from __future__ import annotations

import inspect
import json
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path

from conch import errors
from conch.config import POLICY_SETTINGS, SETTINGS, Setting
from conch.doors.cli.catalogue import COMMANDS
from conch.doors.cli.help import help_text
from conch.tools.catalogue import GROUPS, TOOLS, select_tools
from conch.tools.offers import compose
from conch.tools.registry import Tool

DOCS = Path(__file__).parent
HERE = DOCS / "reference"
LAYERS = runpy.run_path(str(DOCS.parent / "tests" / "unit" / "test_architecture.py"))["LAYERS"]
DATA_DIR = "`$XDG_DATA_HOME/conch`, else `~/.local/share/conch`; `%APPDATA%\\conch` on Windows"
PATHS = {"data_dir": "a path", "store": "a path or a URL"}
TABLE_BEGIN = "<!-- docs/generate.py writes this table. -->\n\n"
TABLE_END = "\n\n## Dependencies\n"
NOTE = "<!-- docs/generate.py writes this page from the code. Run `make docs` to update it. -->\n"


def tools() -> str:
    lines = [
        "# Tools",
        "",
        NOTE,
        "Every tool returns one object as `structuredContent`, and a short text for models. A refusal sets `isError`,",
        "and its object has `error` and `message` ([errors](errors.md)). `conch mcp --tools turns,bus` offers only",
        "those groups, with the tools of other groups that they need. The group `everyday` has what most agents need:",
        ", ".join(f"`{name}`" for name in select_tools(["everyday"])) + ".",
        "",
        "The ids of your own room, topic and turn may be left out. If the connection has joined several rooms or",
        "topics, a call must say which one it means.",
    ]
    for group in GROUPS:
        lines += ["", f"## Group `{group}`"]
        for tool in TOOLS.values():
            if tool.group == group:
                lines += _tool(tool)
    return "\n".join(lines) + "\n"


def _tool(tool: Tool) -> Iterator[str]:
    required = tool.input_schema.get("required", ())
    yield from ("", f"### `{tool.name}`", "", compose(tool.description), "")
    if not tool.input_schema["properties"]:
        return
    yield from ("| field | type | required | |", "|---|---|---|---|")
    for name, schema in tool.input_schema["properties"].items():
        kind = " or ".join(choice["type"] for choice in schema.get("anyOf", [schema]))
        about = compose(schema.get("description", ""))
        yield f"| `{name}` | {kind} | {'yes' if name in required else 'no'} | {about} |"


def settings() -> str:
    lines = [
        "# Settings",
        "",
        NOTE,
        "Settings are environment variables, read when a process starts. `set_room_policy` and `conch policy`",
        "override the settings in the second table for one room. `CONCH_AGENT_ID` is not in the tables, because it",
        "names an agent: see [who is calling](../explanation.md#who-is-calling).",
        "",
        "## The installation",
        "",
        *_settings([setting for setting in SETTINGS if setting not in POLICY_SETTINGS]),
        "",
        "## A room's policy",
        "",
        *_settings(POLICY_SETTINGS),
    ]
    return "\n".join(lines) + "\n"


def _settings(rows: Sequence[Setting]) -> Iterator[str]:
    yield from ("| variable | default | values | what it is | alias |", "|---|---|---|---|---|")
    for row in rows:
        values = ", ".join(row.choices) or (f"{row.low} to {row.high}" if row.high else PATHS[row.name])
        default = DATA_DIR if row.name == "data_dir" else "-" if row.default == "" else row.default
        aliases = ", ".join(f"`{alias}`" for alias in row.aliases)
        yield f"| `{row.variable}` | {default} | {values} | {row.about} | {aliases} |"


def error_codes() -> str:
    tree = inspect.getdoc(errors)
    return "\n".join(
        [
            "# Errors",
            "",
            NOTE,
            "A refusal changes nothing, except that a refused reservation sends each holder an `INCURSION` notice.",
            "",
            "| field | what it says |",
            "|---|---|",
            "| `error` | the code |",
            "| `message` | what happened, why, and what to do |",
            "| `field` | the argument that is wrong, if there is one |",
            "| `current_owner`, `current_turn_id`, `room_state` | the state of the room, if a turn or lease was lost |",
            "| `holders` | the agents that hold the scope, if a reservation was refused |",
            "",
            "```text",
            str(tree),
            "```",
            "",
        ]
    )


def commands() -> str:
    lines = ["# Commands", "", NOTE, "```text", help_text("").strip(), "```"]
    for name in COMMANDS:
        lines += ["", f"## `conch {name}`", "", "```text", help_text(name).strip(), "```"]
    return "\n".join(lines) + "\n"


def explanation() -> str:
    """The page, with the table of layers taken from the list in the architecture test, doors first."""
    page = (DOCS / "explanation.md").read_text()
    rows = [f"| {' '.join(f'`{name}`' for name in layer.names)} | {layer.holds} |" for layer in reversed(LAYERS)]
    table = "\n".join(["| layer | what is in it |", "|---|---|", *rows])
    before, rest = page.split(TABLE_BEGIN)
    return before + TABLE_BEGIN + table + TABLE_END + rest.split(TABLE_END, 1)[1]


def pages() -> dict[Path, str]:
    return {
        DOCS / "explanation.md": explanation(),
        HERE / "tools.md": tools(),
        HERE / "settings.md": settings(),
        HERE / "errors.md": error_codes(),
        HERE / "commands.md": commands(),
        HERE / "tools.json": json.dumps([tool.listed() for tool in TOOLS.values()], indent=2) + "\n",
    }


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text)
