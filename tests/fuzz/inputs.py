"""Bad calls of every tool and bad command lines of every command, from the schemas and the catalogue."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.arguments import VALID
from tests.fuzz.values import NO_WAITS, TEXTS, TYPABLE, bad_value, damage

from conch.doors.cli.catalogue import COMMANDS
from conch.doors.cli.command import Option
from conch.tools.catalogue import TOOLS

Object = dict[str, Any]
ON_FREE_TOPICS = ("topic_close", "topic_join")  # a room's own topic closes with the room, and needs no joining
WAITS = ("max_wait_ms", "wait_seconds")


class ToolCall(NamedTuple):
    tool: str
    arguments: Object
    damaged: str
    """The field that is wrong."""


def bad_call(rng: random.Random, valid: Mapping[str, Any], free_topic: str, ids: Sequence[str]) -> ToolCall:
    """A call that is right but for one field: missing, unknown, or with a value it does not expect."""
    tool = rng.choice(list(TOOLS.values()))
    properties = tool.input_schema["properties"]
    arguments = {name: valid.get(name, value) for name, value in VALID[tool.name].items()}
    arguments |= {name: 0 for name in WAITS if name in properties}
    if tool.name in ON_FREE_TOPICS:
        arguments["topic_id"] = free_topic
    field = rng.choice([*properties, "surprise"])
    if (tool.name, field) == ("topic_join", "name"):
        del arguments["topic_id"]  # it takes one or the other
    required = tool.input_schema.get("required", ())
    if field not in properties:
        field = rng.choice(("surprise", *(text for text in TEXTS if text not in properties)))
        arguments[field] = 1
    elif field in WAITS:
        arguments[field] = rng.choice(NO_WAITS)
    elif field in required and rng.random() < 0.1:
        del arguments[field]
    elif field in valid:
        arguments[field] = damage(rng, properties[field], valid[field], ids)
    else:
        arguments[field] = bad_value(rng, properties[field], ids)
    return ToolCall(tool.name, arguments, field)


# Commands that never end by themselves, or do what they say at once.
NEVER_TYPED = {"mcp", "demo"}
NEVER_GIVEN = {"--follow", "--yes", "--force", "--json"}
NO_WAIT = {"wait": ["--timeout=0"], "ask": ["--wait=0"], "init": ["--non-interactive"]}


def bad_line(rng: random.Random, valid: Mapping[str, Any], ids: Sequence[str]) -> list[str]:
    """A command line that is right but for one option or argument."""
    command = COMMANDS[rng.choice(sorted(COMMANDS.keys() - NEVER_TYPED))]
    options = [option for option in command.options if option.name not in NEVER_GIVEN]
    wrong = rng.choice(options) if options else None
    words = [*command.name.split(), *NO_WAIT.get(command.name, ())]
    last: list[str] = []
    for option in options:
        if option is wrong and not (option.required and rng.random() < 0.1):
            value = _bad_word(rng, option, ids)
        elif option.required and option is not wrong:
            value = _good_word(option, valid)
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


def _bad_word(rng: random.Random, option: Option, ids: Sequence[str]) -> str:
    return rng.choice(ids) if rng.random() < 0.3 else rng.choice(TYPABLE)


def _good_word(option: Option, valid: Mapping[str, Any]) -> str:
    words = {"AGENT": "ada:1", "EVENT": valid["event_id"], "QUESTION": valid["question_id"], "SCOPE": "src"}
    words |= {"TOPIC": valid["topic_id"], "STORE": "copy.sqlite", "FILE": "file", "NAME": "amber-otter"}
    return str(words.get(option.value, "text"))
