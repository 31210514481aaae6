"""Looking at a room and changing it."""

from __future__ import annotations

from conch.doors.cli.catalogue import AGENT, ROOMS
from conch.doors.cli.catalogue.options import EVERY, LIMIT, PAGES, REASON, ROOM, SPEAKER
from conch.doors.cli.command import Command, flag, grouped, switch, word, words

COMMANDS = grouped(
    ROOMS,
    Command(
        "status",
        "status.status",
        "the room at a glance: who works, waits, asks or is gone",
        "Show the room at a glance: what is wrong, who has the stick and what it works on, who waits, who asked "
        "something, who is gone and what it left, and what is reserved. `conch` alone does the same on a terminal.",
        (switch("--all", "every open room"), *PAGES, *ROOM),
        "  conch status          the room of the working directory\n"
        "  conch status --all    every open room; those in trouble come first\n"
        "  conch status --json   the same for a script",
        reads=True,
    ),
    Command(
        "watch",
        "watch.watch",
        "the room at a glance, live, with the timeline below",
        "Show the room as `conch status` does, live, with the timeline below. It changes as soon as something happens. "
        "Watching does not make you a member. `q` ends it.",
        ROOM,
        reads=True,
    ),
    Command(
        "state",
        "rooms.state",
        "who holds the stick, and the members",
        "Show who holds the stick, who is next, and the members.",
        (switch("--all", "also list members that are gone and hold nothing"), *PAGES, *ROOM),
        reads=True,
    ),
    Command(
        "who",
        "agents.list_agents",
        "list the agents in the room",
        "List every agent in the room, and whether it is still there.",
        (*PAGES, *SPEAKER),
        reads=True,
        invalid=AGENT.invalid,
    ),
    Command(
        "rooms",
        "rooms.rooms",
        "list the rooms of a workspace",
        "List the open rooms from a path up to the root of its workspace, innermost first.",
        (
            flag("--path", "DIR", "a path in the workspace; default: the working directory"),
            switch("--all", "every room in the store, including closed ones"),
            *PAGES,
            *EVERY,
        ),
        reads=True,
    ),
    Command(
        "events",
        "timeline.events",
        "what happened in the room",
        "Show the room's timeline: claims, handoffs, takeovers, notes, messages of the home "
        "topic, reservations, and notices with their state. Without --after you see the "
        "latest entries, oldest first. --follow runs until you interrupt it or the room is "
        "closed; with --json it prints one object per line.",
        (
            flag("--after", "CURSOR", "only entries after this cursor or event number; 0: all"),
            LIMIT._replace(help="at most this many (default: 50, or as many as fit into 32 KB)"),
            flag("--bead", "ID", "only entries about this work item (bead)"),
            switch("--follow", "keep printing new entries"),
            *ROOM,
        ),
        reads=True,
    ),
    Command(
        "note",
        "rooms.note",
        "write a note into the log",
        "Write a note into the log. You do not need the stick.",
        (word("text", "TEXT", "the note"), *SPEAKER),
    ),
    Command(
        "leave",
        "rooms.leave",
        "stop being a member",
        "Leave the room. If you hold the stick, hand it over first.",
        SPEAKER,
    ),
    Command(
        "close",
        "turns.close",
        "close the room; you must hold the stick",
        "Close the room for all members. You must hold the stick; a free stick is claimed "
        "for you. The log stays readable. `conch join` opens a new room at the same path. If other agents are in the "
        "room, the command asks first.",
        (REASON, switch("--yes", "close it even if other agents are in it, without asking"), *SPEAKER),
    ),
    Command(
        "reorder",
        "rooms.reorder",
        "set the sequence of the members",
        "Set the sequence in which the members take turns.",
        (words("order", "AGENT", "a member that comes first; the others keep their order, after these"), *ROOM),
    ),
    Command(
        "policy",
        "rooms.policy",
        "show or set the room's policy",
        "Show or set the room's policy: its time limits (90s, 5m, 2h; a number: milliseconds), "
        "release_order (sequence or waiting_first), and guard: what a hook does before an edit of a file that another "
        "agent has reserved (off, warn, enforce; enforce_stick also refuses while another agent holds the stick).",
        (words("values", "NAME=VALUE", "a value to set; `NAME=` restores its default", required=False), *ROOM),
        "  conch policy owner_lease_ttl_ms=10m\n  conch policy owner_lease_ttl_ms=\n  conch policy guard=enforce",
    ),
)
