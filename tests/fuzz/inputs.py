"""Bad calls of every tool and bad command lines of every command, from the schemas and the catalogue."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.arguments import VALID
from tests.fuzz.values import NO_WAITS, TEXTS, TYPABLE, bad_value, damage
from tests.fuzz.world import World

from conch.doors.cli.catalogue import COMMANDS
from conch.doors.cli.command import Option
from conch.tools.catalogue import TOOLS

Object = dict[str, Any]
ON_FREE_TOPICS = ("topic_close", "topic_join")  # a room's own topic closes with the room, and needs no joining
WAITS = ("max_wait_ms", "wait_seconds")


UNKNOWN = "surprise"
TOOL_FIELDS = [(name, field) for name, tool in TOOLS.items() for field in (*tool.input_schema["properties"], UNKNOWN)]

# Commands that never end by themselves, or that answer a harness in its own format.
NEVER_TYPED = {"mcp", "demo", "serve", "hook"}
# Options that wait forever, or destroy what the others need.
NEVER_GIVEN = {"--follow", "--yes", "--force", "--json"}
NO_WAIT = {"wait": ["--timeout=0"], "ask": ["--wait=0"], "init": ["--non-interactive"]}
COMMAND_OPTIONS = [
    (name, option)
    for name, command in COMMANDS.items()
    if name not in NEVER_TYPED
    for option in command.options
    if option.name not in NEVER_GIVEN
]


class ToolCall(NamedTuple):
    tool: str
    arguments: Object
    damaged: str
    """The field that is wrong."""


def bad_call(rng: random.Random, name: str, field: str, world: World) -> ToolCall:
    """A call that is right but for one field: missing, unknown, or with a value it does not expect."""
    schema = TOOLS[name].input_schema
    arguments = {key: world.valid.get(key, value) for key, value in VALID[name].items()}
    arguments |= {key: 0 for key in WAITS if key in schema["properties"]}
    if name in ON_FREE_TOPICS:
        arguments["topic_id"] = world.free_topic
    if (name, field) == ("topic_join", "name"):
        del arguments["topic_id"]  # it takes one or the other
    if field == UNKNOWN:
        field = rng.choice((UNKNOWN, *(text for text in TEXTS if text not in schema["properties"])))
        arguments[field] = 1
    elif field in schema.get("required", ()) and rng.random() < 0.1:
        del arguments[field]
    else:
        arguments[field] = _bad_argument(rng, field, schema["properties"][field], world)
    return ToolCall(name, arguments, field)


def _bad_argument(rng: random.Random, field: str, schema: Object, world: World) -> Any:
    if field in WAITS:
        return rng.choice(NO_WAITS)
    if field in world.valid:
        return damage(rng, schema, world.valid[field], world.ids)
    return bad_value(rng, schema, world.ids)


def bad_line(rng: random.Random, name: str, wrong: Option, world: World) -> list[str]:
    """A command line that is right but for one option or argument."""
    words, last = [*name.split(), *NO_WAIT.get(name, ())], []
    for option in COMMANDS[name].options:
        if option == wrong and rng.random() < 0.9:
            value = rng.choice(world.ids if rng.random() < 0.3 else TYPABLE)
        elif option.required and option != wrong:
            value = _good_word(option, world.valid)
        else:
            continue
        if not option.is_flag:
            last.append(value)
        elif option.is_switch:
            words.append(option.name)
        else:
            words += rng.choice(([option.name, value], [f"{option.name}={value}"]))
    if rng.random() < 0.1:
        last.append(rng.choice(TYPABLE))
    return [*words, "--json", *(["--"] if rng.random() < 0.5 else []), *last]


def _good_word(option: Option, valid: Mapping[str, Any]) -> str:
    words = {"AGENT": "ada:1", "EVENT": valid["event_id"], "QUESTION": valid["question_id"], "SCOPE": "src"}
    words |= {"TOPIC": valid["topic_id"], "STORE": "copy.sqlite", "FILE": "file", "NAME": "amber-otter"}
    return str(words.get(option.value, "text"))
