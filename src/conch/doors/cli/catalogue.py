"""Every command: what it is for, what it takes, and how it is used."""

from __future__ import annotations

from conch.doors.cli import agent_catalogue, options
from conch.doors.cli.command import AGENTS, OTHERS, ROOMS, STORE, TURNS, Command

RELEASE_EXAMPLE = """\
  conch release --status "Parser done; 2 tests fail" --next "Fix test_cli" \\
                --artifact src/parser.py:10-42=review
  conch release --handoff handoff.json"""

_ALL = (
    Command(
        "join",
        TURNS,
        "join the room of a workspace",
        "Join the room of a workspace: its git top level, else the nearest folder with\n"
        "a marker such as AGENTS.md, else the folder itself. Joining again is harmless.",
        (options.join, options.shared),
    ),
    Command(
        "wait",
        TURNS,
        "wait for the stick, and claim it",
        "Wait until the stick is yours and claim it; the handoff is printed. Work only\n"
        "after that. The exit status is 0 only if you hold the stick. Meanwhile it says\n"
        "who holds it and for how long. Interrupted, it leaves the stick where it is.\n\n"
        "Your lease is then renewed for you as long as your shell or harness lives.",
        (options.wait, options.room),
        "  conch wait                     until it is your turn\n"
        "  conch wait --timeout 30 --json for agents: ask, and ask again\n"
        "  conch wait --timeout 0         take it if it is free",
    ),
    Command(
        "release",
        TURNS,
        "hand over to the next member in sequence",
        "Let go of the stick: it is reserved for the next active member in sequence.\n"
        "The handoff must say what you did and what to do next.",
        (options.handoff, options.room),
        RELEASE_EXAMPLE,
    ),
    Command(
        "pass",
        TURNS,
        "hand over to one member of your choice",
        "Hand the stick to one active member, with the same handoff as `conch release`.",
        (options.recipient, options.handoff, options.room),
        '  conch pass amber --status "Schema is in" --next "Review the migration"',
    ),
    Command(
        "take",
        TURNS,
        "take over from somebody who does not answer",
        "Take the stick from an owner or a recipient that is gone or silent for too\n"
        "long. `conch state` and `conch wait` say when that is allowed. There is no\n"
        "handoff for you then: read `conch events`.",
        (options.takeover_reason, options.room),
    ),
    Command(
        "state",
        ROOMS,
        "who holds the stick, and who is there",
        "Who holds the stick, whose turn is next, and which members are there.",
        (options.room,),
    ),
    Command(
        "rooms",
        ROOMS,
        "list the rooms of a workspace",
        "The open rooms from a path up to the root of its workspace, the deepest first.",
        (options.rooms, options.shared),
    ),
    Command(
        "events",
        ROOMS,
        "what happened, oldest first",
        "The room's timeline: claims, handoffs, takeovers and notes, the messages of its\n"
        "home topic, reservations, and notices with what became of them. The latest\n"
        "ones, oldest first, unless --after is given. With --follow it goes on until you\n"
        "interrupt it; then --json prints one object per line.",
        (options.events, options.room),
    ),
    Command("note", ROOMS, "write a note into the log", "Write a note into the log. The stick is not touched.",
            (options.note, options.room)),
    Command("leave", ROOMS, "stop being a member", "Stop being a member. Hand over the stick first if you hold it.",
            (options.room,)),
    Command(
        "close",
        ROOMS,
        "end the room, as the holder of its stick",
        "End the room for everybody. Takes the stick for it if that is free. The log\n"
        "stays readable; `conch join` opens a new room at the same place.",
        (options.close_reason, options.room),
    ),
    Command(
        "reorder",
        ROOMS,
        "set the sequence of the members",
        "Set the sequence in which the stick goes round.",
        (options.order, options.room),
    ),
    Command(
        "policy",
        ROOMS,
        "show or set the room's timing",
        "Show the room's timing, or set some of it. Times are in milliseconds.",
        (options.policy, options.room),
        "  conch policy owner_lease_ttl_ms=600000\n  conch policy owner_lease_ttl_ms=",
    ),
    Command(
        "whoami",
        OTHERS,
        "who conch takes you for",
        "Which agent you are here. CONCH_AGENT_ID, when exported, decides.",
        (options.explain, options.shared),
    ),
    Command("db path", STORE, "print where the store is", "Print where the store is.", (options.shared,)),
    Command(
        "db verify",
        STORE,
        "replay the log and compare it with the rooms",
        "Check the files, replay every room's log and compare. Changes nothing; the\n"
        "exit status is 0 only if all is well.",
        (options.shared,),
    ),
    Command(
        "db backup",
        STORE,
        "copy the store while others go on using it",
        "Make a consistent copy while others go on using the store.",
        (options.backup, options.shared),
    ),
    Command(
        "db migrate",
        STORE,
        "bring an older store to this version's schema",
        "Bring an older store to the schema of this version of conch. A file is backed up\n"
        "first, by itself; for a server take a dump before.",
        (options.shared,),
    ),
    Command(
        "db copy",
        STORE,
        "move everything into another store",
        "Copy every table into another, empty store, of either kind, and compare every\n"
        "row. This store stays as it is.",
        (options.copy, options.shared),
        "  conch db copy --to \"$NEW_STORE\"",
    ),
    Command(
        "db wipe",
        STORE,
        "forget every room, member and event",
        "Forget everything. A store that cannot be read is moved aside instead.",
        (options.wipe, options.shared),
    ),
    Command(
        "mcp",
        OTHERS,
        "serve MCP on standard input and output (harnesses start this)",
        "Serve MCP on standard input and output. See `conch mcp --help`.",
    ),
    Command(
        "demo",
        OTHERS,
        "watch three scripted agents take turns, skip, fail and recover",
        "Watch three scripted agents take turns in a scratch repository.",
        (options.keep,),
    ),
)  # fmt: skip

COMMANDS = {command.name: command for command in (*_ALL, *agent_catalogue.COMMANDS)}

# Commands of two words: what the first of them is about, and the group that lists the others.
FAMILIES = {
    "agent": (AGENTS, "who is here, what they reserve, and notices between them"),
    "db": (STORE, "the store: path, verify, backup, migrate, copy, wipe"),
}
