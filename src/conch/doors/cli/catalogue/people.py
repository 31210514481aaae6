"""Stepping in between agents: only people may."""

from __future__ import annotations

from conch.doors.cli.catalogue import PEOPLE
from conch.doors.cli.catalogue.options import AGENT_HELP, REASON, ROOM
from conch.doors.cli.command import Command, flag, grouped, switch, word

_HOLDER = word("holder", "AGENT", AGENT_HELP)

COMMANDS = grouped(
    PEOPLE,
    Command(
        "nudge",
        "people.nudge",
        "ask the holder of the stick to hand over",
        "Ask the agent that has the stick to hand it over. It sees that in its next reply.",
        (_HOLDER, word("text", "TEXT", "what you want to say", required=False), *ROOM),
        '  conch nudge amber\n  conch nudge amber "Please hand over: the release waits for you"',
    ),
    Command(
        "kick",
        "people.kick",
        "end an agent's membership",
        "End the membership of an agent. Its reservations end, and its stick becomes free. When one of its "
        "calls is refused, the error says who did it and why.",
        (_HOLDER, REASON._replace(required=True), *ROOM),
        '  conch kick amber --reason "it runs in the wrong checkout"',
    ),
    Command(
        "redact",
        "people.redact",
        "remove the text of a message from the store",
        "Remove the text of a message, such as a pasted password, from the store for good: from the message, the "
        "search index, free pages, the -wal beside the file, and everything that repeats it. The message stays in its "
        "place and says who redacted it and why. The command lists the copies that conch made earlier; delete them "
        "yourself. It rewrites the file, and no agent can write meanwhile.",
        (
            word("message", "MESSAGE", "the number of the message on its topic, or its id"),
            REASON._replace(required=True),
            switch("--secret", "ask for the secret itself, and remove it from every text"),
            flag("--topic", "TOPIC", "a topic's id or name; default: the room's home topic"),
            *ROOM,
        ),
        '  conch redact 12 --reason "a password was pasted"',
    ),
)
