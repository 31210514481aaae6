"""Topics, and the names on them."""

from __future__ import annotations

from conch.doors.cli.catalogue import NAMES, TOPICS
from conch.doors.cli.catalogue.options import EVERY, GIVEN_TOPIC, PAGES, REASON, ROOM, TOPIC
from conch.doors.cli.command import Command, flag, grouped, word

COMMANDS = grouped(
    TOPICS,
    Command(
        "topics create",
        "topics.create",
        "create a topic besides the room's home topic",
        "Create a topic. If an open topic has this name, you get that one.",
        (word("name", "NAME", "the topic's name"), *EVERY),
    ),
    Command(
        "topics list",
        "topics.list_topics",
        "list topics, newest first",
        "List topics, newest first.",
        (
            flag(
                "--status", "STATUS", "which topics (default: open)", default="open", choices=("open", "closed", "all")
            ),
            *PAGES,
            *EVERY,
        ),
        reads=True,
    ),
    Command(
        "topics show",
        "topics.show",
        "show a topic and its peers",
        "Show a topic, and the peers that used it within the last hour.",
        (GIVEN_TOPIC[0], *PAGES, *ROOM),
        reads=True,
    ),
    Command(
        "topics close",
        "topics.close",
        "close a topic",
        "Close a topic. It stays readable, and its open questions can still be answered. The home topic of a room "
        "closes only with the room.",
        (word("topic", "TOPIC", "the topic's id or name"), REASON, *ROOM),
    ),
    Command(
        "topics rename",
        "topics.rename",
        "rename a topic",
        "Rename a topic.",
        (
            word("topic", "TOPIC", "the topic's id or name"),
            word("new_name", "NAME", "the new name"),
            *ROOM,
        ),
    ),
    Command(
        "topics export",
        "topics.export",
        "write a whole topic as Markdown or JSON lines",
        "Write a whole topic as Markdown, or as one JSON object per line.",
        (
            flag(
                "--format",
                "FORMAT",
                "the format (default: markdown)",
                default="markdown",
                choices=("markdown", "jsonl"),
            ),
            flag("--output", "FILE", "a file that does not exist yet; default: standard output"),
            *GIVEN_TOPIC,
        ),
        "  conch topics export --format jsonl --output talk.jsonl",
        reads=True,
    ),
)

COMMANDS |= grouped(
    NAMES,
    Command(
        "names free",
        "people.free_name",
        "free a name whose token is lost",
        "Free a name whose reclaim_token is lost, so that any agent can take it. A message on the topic says so. "
        "Only a person at a terminal can do this.",
        (word("name", "NAME", "the name to free, or a label; see `conch topics show`"), TOPIC[0], *ROOM),
    ),
)
