"""The agents of a room, their reservations and notices."""

from __future__ import annotations

from conch.doors.cli.catalogue import AGENT
from conch.doors.cli.catalogue.options import AFTER, BEAD, ENDED, LIMIT, PAGES, RESERVING, SCOPE_HELP, SPEAKER
from conch.doors.cli.command import Command, flag, grouped, switch, word

_SCOPE = word("scope", "SCOPE", SCOPE_HELP)
_EVENT = word("event", "EVENT", "the notice's id; see `conch agent inbox`")

COMMANDS = grouped(
    AGENT,
    Command(
        "agent register",
        "agents.register",
        "choose your name and role in the room",
        "Choose a name in the room, or keep your generated one. A name has 3 to 48 characters: "
        "a-z, 0-9 and single hyphens. No other agent in the room can have the same name.",
        (
            word("name", "NAME", "such as amber-otter; default: your generated name", required=False),
            flag("--role", "TEXT", "what you do here"),
            *SPEAKER,
        ),
    ),
    Command(
        "agent adopt",
        "agents.adopt",
        "resume the identity of an agent that is gone",
        "Take over the name, the reservations and the notices of an agent whose process is "
        "gone: you resume its identity. It must have left work items in progress, or "
        "uncommitted files. The files count if it had reserved them, or held the stick.",
        (
            word("name", "AGENT", "the agent to resume: its label, name or agent_id"),
            flag("--scope", "SCOPE", "where its work is, relative to the working directory (default: anywhere)"),
            *SPEAKER,
        ),
    ),
    Command(
        "agent heartbeat",
        "agents.heartbeat",
        "report that you are still working",
        "Report that you are still working, so that no agent takes over your reservations.",
        SPEAKER,
    ),
    Command(
        "agent list",
        "agents.list_agents",
        "list the agents in the room",
        "List every agent in the room, with its liveness.",
        (*PAGES, *SPEAKER),
        reads=True,
    ),
    Command(
        "agent show",
        "agents.show",
        "show one agent and its reservations",
        "Show an agent in the room and its reservations.",
        (word("name", "AGENT", "a label, a name or an agent_id; default: yourself", required=False), *PAGES, *SPEAKER),
        reads=True,
    ),
    Command(
        "agent send",
        "scopes.send",
        "send a notice to an agent",
        "Send a notice: hand work to an agent of the room, or say that you are blocked.",
        (
            word("to", "AGENT", "the recipient: its label, name or agent_id"),
            flag(
                "--type",
                "TYPE",
                "the kind of notice (default: HANDOFF)",
                default="HANDOFF",
                choices=("HANDOFF", "BLOCKED"),
            ),
            flag("--subject", "TEXT", "what it is about, in one line", required=True),
            flag("--summary", "TEXT", "HANDOFF: what you did and learned"),
            flag("--next", "TEXT", "HANDOFF: what to do next", field="next_action"),
            switch("--no-ack", "HANDOFF: the recipient need not accept it"),
            flag("--blocker", "TEXT", "BLOCKED: what blocks you"),
            flag("--request", "TEXT", "BLOCKED: what would help", field="requested_action"),
            flag(
                "--urgency", "URGENCY", "BLOCKED: how urgent it is (default: medium)", choices=("low", "medium", "high")
            ),
            flag("--scope", "SCOPE", "the files it is about, relative to the working directory"),
            BEAD,
            *SPEAKER,
        ),
        '  conch agent send amber-otter --subject "Parser" --summary "It parses" \\\n'
        '                   --next "Review it"\n'
        '  conch agent send amber-otter --type BLOCKED --subject "CI" \\\n'
        '                   --blocker "no token" --request "add one" --urgency high',
    ),
    Command(
        "agent inbox",
        "scopes.inbox",
        "read the notices for you",
        "List the notices for you: the most urgent first, then the oldest.",
        (
            flag(
                "--state",
                "STATE",
                "which notices (default: all that you have not accepted)",
                choices=("unread", "seen", "accepted", "all"),
            ),
            flag("--bead", "ID", "only notices about this work item (bead)"),
            AFTER,
            LIMIT._replace(help="at most this many (default: 50, or as many as fit into 32 KB)"),
            *SPEAKER,
        ),
        reads=True,
    ),
    Command(
        "agent seen",
        "scopes.seen",
        "mark a notice as seen",
        "Mark a notice to you as seen.",
        (_EVENT, *SPEAKER),
    ),
    Command(
        "agent accept",
        "scopes.accept",
        "accept a notice",
        "Accept a notice to you. You cannot undo this.",
        (_EVENT, *SPEAKER),
    ),
    Command(
        "agent reserve",
        "scopes.reserve",
        "reserve files before you change them",
        "Reserve a file, or a directory with everything in it. Reserve it again to renew it. "
        "The command fails if another agent has reserved any part of it.",
        (_SCOPE, *RESERVING),
        "  conch agent reserve src/parser.py\n  conch agent reserve 'src/*' --ttl 30m",
    ),
    Command(
        "agent release",
        "scopes.release",
        "release a reservation",
        "Release one of your reservations.",
        (_SCOPE, *SPEAKER),
    ),
    Command(
        "agent status",
        "scopes.status",
        "list reservations",
        "List the reservations, or those that overlap one path.",
        (
            word("scope", "PATH", "only reservations that overlap this path", required=False),
            ENDED,
            *PAGES,
            *SPEAKER,
        ),
        reads=True,
    ),
)
