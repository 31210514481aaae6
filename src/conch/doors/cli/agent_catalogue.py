"""The commands around agents, reservations and notices."""

from __future__ import annotations

from conch.doors.cli import agent_options as options
from conch.doors.cli.command import AGENT, OTHERS, Command

COMMANDS = (
    Command(
        "init",
        OTHERS,
        "join the room here, under a name of your own or a resumed one",
        "Join the room of the workspace and settle who you are in it: go on as you are,\n"
        "register a name, or resume the identity of an agent that is gone and left\n"
        "unfinished work. On a terminal it asks; otherwise, or with --non-interactive,\n"
        "it registers you if nobody can be resumed, and fails with a recommendation if\n"
        "somebody can.",
        (options.init,),
        "  conch init --non-interactive --json\n  conch init --adopt amber-otter",
    ),
    Command(
        "agent register",
        AGENT,
        "take a name and a role in the room",
        "Take a name in the room, 3 to 48 of a-z, 0-9 and single hyphens, or keep your\n"
        "generated one. Nobody else in the room can have it.",
        (options.register, options.speaker),
    ),
    Command(
        "agent adopt",
        AGENT,
        "resume the identity of an agent that is gone",
        "Take over the name, the reservations and the notices of an agent whose process\n"
        "is gone, if it left uncommitted files in what it had reserved, or work items in\n"
        "progress.",
        (options.adopt, options.speaker),
    ),
    Command(
        "agent heartbeat",
        AGENT,
        "say that you are still at work",
        "Say that you are still at work, so that nobody takes over what you reserved.",
        (options.speaker,),
    ),
    Command("agent list", AGENT, "who is here, and how lively", "Everybody in the room.", (options.speaker,)),
    Command(
        "agent show",
        AGENT,
        "one agent, and what it has reserved",
        "One agent of the room, and what it has reserved.",
        (options.shown, options.speaker),
    ),
    Command(
        "agent send",
        AGENT,
        "send a notice that must be accepted",
        "Tell an agent of the room that work is passed to it, or that you need its input.",
        (options.send, options.speaker),
        '  conch agent send amber-otter --subject "Parser" --summary "It parses" \\\n'
        '                   --next "Review it"\n'
        '  conch agent send amber-otter --type BLOCKED --subject "CI" \\\n'
        '                   --blocker "no token" --request "add one" --urgency high',
    ),
    Command(
        "agent inbox",
        AGENT,
        "read the notices for you",
        "The notices for you, oldest first.",
        (options.inbox, options.speaker),
    ),
    Command(
        "agent seen",
        AGENT,
        "say that you have seen a notice",
        "Mark a notice to you as seen.",
        (options.event, options.speaker),
    ),
    Command(
        "agent accept",
        AGENT,
        "accept a notice",
        "Accept a notice to you; once accepted, it stays so.",
        (options.event, options.speaker),
    ),
    Command(
        "agent reserve",
        AGENT,
        "reserve files before you change them",
        "Reserve a file or a directory with everything in it; again, to renew it. It is\n"
        "refused while others have reserved any part of it.",
        (options.reserve, options.speaker),
        "  conch agent reserve src/parser.py\n  conch agent reserve 'src/*' --ttl 30",
    ),
    Command(
        "agent release",
        AGENT,
        "give back what you reserved",
        "Give back what you reserved.",
        (options.scope, options.speaker),
    ),
    Command(
        "agent status",
        AGENT,
        "who has reserved what",
        "Who has reserved what, or what overlaps one path.",
        (options.status, options.speaker),
    ),
)
