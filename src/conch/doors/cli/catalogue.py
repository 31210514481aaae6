"""Every command: its help, its options, and the function that runs it. A new command is one entry and one function."""

from __future__ import annotations

from conch.doors.cli.command import (
    Command,
    Group,
    age,
    flag,
    grouped,
    integer,
    port,
    seconds,
    switch,
    text,
    ttl_minutes,
    word,
    words,
)

# The headings of the overview, and the first words of the commands that have two.
TURNS = Group("taking turns")
SCOPES = Group("working side by side", "INVALID_ARGS")
ROOMS = Group("the room")
PEOPLE = Group("stepping in, for people at a terminal")
TALK = Group("talking", "INVALID_ARGUMENT")
OTHERS = Group("everything else")
_AGENT = Group("agent", "INVALID_ARGS", ROOMS.name, "the agents here, their reservations and notices")
_TOPICS = Group("topics", TALK.invalid, TALK.name, "create, list, show, close, rename or export topics")
_NAMES = Group("names", TALK.invalid, TALK.name, "free a name on a topic")
_DB = Group("db", heading=OTHERS.name, summary="the store: path, verify, backup, restore, migrate, copy ...")
_GUARD = Group("guard", heading=SCOPES.name, summary="refuse commits of files that another agent has reserved")
_INSTRUCTIONS = Group(
    "instructions", heading=OTHERS.name, summary="the instructions for agents, and your working agreement"
)
FAMILIES = {group.name: group for group in (_GUARD, _AGENT, _TOPICS, _NAMES, _INSTRUCTIONS, _DB)}

# -- options that several commands share

_JSON = switch("--json", "print one JSON object: ok, command, data, error", heading="every command")
_SHARED = (
    _JSON,
    flag("--store", "STORE", "a file or a server's URL; default: see `conch db path`", heading="every command"),
)
_ROOM = (
    flag("--path", "DIR", "the room of this path; default: the working directory", heading="which room"),
    flag("--room", "ID", "the room with this id", heading="which room"),
    *_SHARED,
)
_TOPIC_GIVEN = (
    word("topic", "TOPIC", "a topic's id or name; default: the room's home topic", text, required=False),
    *_ROOM,
)
_SPEAKER = (flag("--agent", "AGENT", "act as this agent (its label, name or agent_id); default: yourself"), *_ROOM)
_TOPIC = (flag("--topic", "TOPIC", "a topic's id or name; default: the room's home topic", text), *_SPEAKER)
_REASON = flag("--reason", "TEXT", "the reason, which is recorded")
_SCOPE_HELP = "a file, a directory, or 'dir/*', relative to the working directory"
_SCOPE = word("scope", "SCOPE", _SCOPE_HELP)
_SCOPES = words("scope", "PATH", _SCOPE_HELP)
_BEAD = flag("--bead", "ID", "the work item (bead) it is for")
_RESERVING = (
    flag("--ttl", "TIME", "how long it lasts, from 5m to 24h; a number: minutes (default: 2h)", ttl_minutes),
    switch("--takeover-stale", "take it over from stale or evicted owners"),
    _BEAD,
    *_SPEAKER,
)
_ENDED = switch("--all", "include released and expired ones, newest first")
_EVENT = word("event", "EVENT", "the notice's id; see `conch agent inbox`")
_AGENT_HELP = "a label, a name or an agent_id, or the start of one; see `conch state`"
_HOLDER = word("holder", "AGENT", _AGENT_HELP)
_HANDOFF = (
    flag("--status", "TEXT", "what you did, what you learned, what is unfinished", heading="the handoff"),
    flag("--next", "TEXT", "what the next agent should do", field="next_action", heading="the handoff"),
    flag(
        "--artifact",
        "PATH[:A-B][=ROLE]",
        "a file to look at; ROLE: examine, review, edit, context, output (default: examine)",
        many=True,
        heading="the handoff",
    ),
    flag("--question", "TEXT", "an open question", many=True, heading="the handoff"),
    flag("--do-not", "TEXT", "something the next agent must not do", many=True, heading="the handoff"),
    flag("--handoff", "FILE", "the whole handoff as JSON, from a file; `-`: standard input", heading="the handoff"),
)

_HARNESSES = words(
    "harness",
    "HARNESS",
    "claude-code, codex, gemini, opencode, cursor, vscode, copilot, qwen or kilo; default: those on this machine",
    required=False,
)
_INSTALLING = (
    switch("--all", "every harness on this machine, which is the default"),
    switch("--project", "the settings of the project here, which everyone who works in it shares"),
    switch("--user", "your own settings, for all projects (default)", unless="--project"),
    switch("--print", "show every change, and make none"),
)

_TOOL_GROUPS = "turns, bus, questions, scopes, admin, everyday"  # a test compares this with the tools

COMMANDS = grouped(
    TURNS,
    Command(
        "join",
        "rooms.join",
        "join the room of a workspace",
        "Join the room of a workspace. The workspace is the git top level, or else the "
        "nearest directory with a marker such as AGENTS.md, or else the directory itself. "
        "Joining again is harmless. A person who joins only watches: the stick does not come to you by itself, but "
        "you can send, ask, answer, and wait for the stick.",
        (
            word("path", "DIR", "a path in the workspace; default: the working directory", required=False),
            switch("--force-new", "make a nested room at exactly this path"),
            switch("--take-turns", "for a person: enter the sequence; without it, a person only watches"),
            *_SHARED,
        ),
    ),
    Command(
        "wait",
        "turns.wait",
        "wait for the stick and claim it",
        "Wait for the stick, claim it, and print the handoff. Start work only after that. "
        "The exit status is 0 only if you hold the stick. While you wait, you see who "
        "holds it and for how long. You can interrupt the wait; that changes nothing.\n\n"
        "If conch knows the process of your shell or harness, it renews your lease while that process runs.",
        (
            flag(
                "--timeout", "TIME", "give up after this long (90s, 5m, 2h; a number: seconds); 0: do not wait", seconds
            ),
            *_SPEAKER,
        ),
        "  conch wait                      until it is your turn\n"
        "  conch wait --timeout 5m --json  for agents: call again until it is your turn\n"
        "  conch wait --timeout 0          claim the stick only if it is free",
    ),
    Command(
        "listen",
        "listening.listen",
        "wait for anything that concerns you",
        "Wait for the first of: your turn, a takeover, messages for you, questions that you could answer, notices. It "
        "prints what came and ends. Run it in the background to be woken. Each thing is shown once; `conch read` still "
        "shows all messages. If the stick was offered to you, you hold it now, as after `conch wait`. It does "
        "not claim a free stick. Only one listener of an agent can run at a time.",
        (
            flag(
                "--timeout", "TIME", "give up after this long (90s, 5m, 2h; a number: seconds); 0: do not wait", seconds
            ),
            *_SPEAKER,
        ),
        "  conch listen                until there is something for you\n  conch listen --timeout 0    what is new now",
    ),
    Command(
        "release",
        "turns.release",
        "hand over to the next member in sequence",
        "Release the stick. It is reserved for the next active member in sequence. The "
        "handoff must say what you did and what to do next.",
        (*_HANDOFF, *_SPEAKER),
        '  conch release --status "Parser done; 2 tests fail" --next "Fix test_cli" \\\n'
        "                --artifact src/parser.py:10-42=review\n"
        "  conch release --handoff handoff.json",
    ),
    Command(
        "pass",
        "turns.pass_stick",
        "hand over to one member of your choice",
        "Hand the stick to one active member, with the same handoff as `conch release`. A person at a terminal can "
        "pass it on for its holder, with a reason; then the handoff is optional.",
        (
            word("to", "AGENT", _AGENT_HELP, required=False),
            flag("--to", "AGENT", "the same as AGENT", field="recipient"),
            flag("--for", "AGENT", "for a person: pass the stick on for the agent that has it", field="holder"),
            _REASON._replace(help="with --for: the reason, which is recorded"),
            *_HANDOFF,
            *_SPEAKER,
        ),
        '  conch pass amber --status "Schema is in" --next "Review the migration"\n'
        '  conch pass --for swan --to amber --reason "swan is stuck"',
    ),
    Command(
        "take",
        "turns.take",
        "take over from a member that does not answer",
        "Take the stick from an owner or a recipient that is gone, or silent for too "
        "long. `conch state` and `conch wait` say when you may. It prints the last "
        "handoff and the notes since. With --force, a person at a terminal takes it from an agent that is at work.",
        (
            _REASON._replace(required=True),
            switch("--force", "for a person: take it even from an agent that still has time"),
            *_SPEAKER,
        ),
    ),
)

COMMANDS |= grouped(
    SCOPES,
    Command(
        "reserve",
        "scopes.reserve_all",
        "reserve files before you change them",
        "Reserve files, or directories with everything in them. Reserve them again to renew them. "
        "If another agent has reserved any part of one, nothing is reserved.",
        (_SCOPES, *_RESERVING),
        "  conch reserve src/parser.py tests/test_parser.py\n  conch reserve 'src/*' --ttl 30m",
    ),
    Command(
        "unreserve",
        "people.unreserve",
        "release reservations, or end an agent's",
        "Release your reservations of these paths: all of them or none. A person at a terminal can end those of an "
        "agent, with --of and a reason; the agent gets a message.",
        (
            _SCOPES,
            flag("--of", "AGENT", "for a person: end the reservations of this agent"),
            _REASON._replace(help="with --of: the reason, which is recorded"),
            *_SPEAKER,
        ),
        '  conch unreserve src/parser.py\n  conch unreserve --of amber src/ --reason "amber works on docs/ now"',
    ),
    Command(
        "reservations",
        "scopes.status",
        "who has reserved what",
        "List the reservations, or those that overlap one path.",
        (word("scope", "PATH", "only reservations that overlap this path", required=False), _ENDED, *_SPEAKER),
        reads=True,
    ),
)

COMMANDS |= grouped(
    PEOPLE,
    Command(
        "nudge",
        "people.nudge",
        "ask the holder of the stick to hand over",
        "Ask the agent that has the stick to hand it over. It sees that in its next reply.",
        (_HOLDER, word("text", "TEXT", "what you want to say", text, required=False), *_ROOM),
        '  conch nudge amber\n  conch nudge amber "Please hand over: the release waits for you"',
    ),
    Command(
        "kick",
        "people.kick",
        "end an agent's membership",
        "End the membership of an agent. Its reservations end, and its stick becomes free. At its next call, the agent "
        "learns who did it and why.",
        (_HOLDER, _REASON._replace(required=True), *_ROOM),
        '  conch kick amber --reason "it runs in the wrong checkout"',
    ),
    Command(
        "redact",
        "people.redact",
        "remove the text of a message from the store",
        "Remove the text of a message, such as a pasted password, from the store for good: from the message, the "
        "search index, free pages, the -wal beside the file, and everything that repeats it. The message stays in its "
        "place and says who redacted it and why. The command names copies that were made before, and leaves them "
        "alone. It rewrites the file, and no agent can write meanwhile.",
        (
            word("message", "MESSAGE", "the number of the message on its topic, or its id", text),
            _REASON._replace(required=True),
            switch("--secret", "ask for the secret itself, and remove it wherever else it appears"),
            flag("--topic", "TOPIC", "a topic's id or name; default: the room's home topic", text),
            *_ROOM,
        ),
        '  conch redact 12 --reason "a password was pasted"',
    ),
)

COMMANDS |= grouped(
    ROOMS,
    Command(
        "status",
        "status.status",
        "the room at a glance: who works, waits, asks or is gone",
        "Show the room at a glance: what is wrong, who has the stick and what it works on, who waits, who asked "
        "something, who is gone and what it left, and what is reserved. `conch` alone does the same on a terminal.",
        (switch("--all", "every open room"), *_ROOM),
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
        _ROOM,
        reads=True,
    ),
    Command(
        "state",
        "rooms.state",
        "who holds the stick, and the members",
        "Show who holds the stick, who is next, and the members.",
        (switch("--all", "also list members that are gone and hold nothing"), *_ROOM),
        reads=True,
    ),
    Command(
        "who",
        "agents.list_agents",
        "list the agents in the room",
        "List every agent in the room, and whether it is still there.",
        _SPEAKER,
        reads=True,
        invalid=_AGENT.invalid,
    ),
    Command(
        "rooms",
        "rooms.rooms",
        "list the rooms of a workspace",
        "List the open rooms from a path up to the root of its workspace, innermost first.",
        (
            flag("--path", "DIR", "a path in the workspace; default: the working directory"),
            switch("--all", "every room in the store, including closed ones"),
            *_SHARED,
        ),
        reads=True,
    ),
    Command(
        "events",
        "watching.events",
        "what happened in the room",
        "Show the room's timeline: claims, handoffs, takeovers, notes, messages of the home "
        "topic, reservations, and notices with their state. Without --after you see the "
        "latest entries, oldest first. --follow runs until you interrupt it; with --json it "
        "prints one object per line.",
        (
            flag("--after", "CURSOR", "only entries after this cursor or event number; 0: all"),
            flag("--limit", "N", "at most this many (default: 50)", integer, default=50),
            flag("--bead", "ID", "only entries about this work item (bead)"),
            switch("--follow", "keep printing new entries"),
            *_ROOM,
        ),
        reads=True,
    ),
    Command(
        "note",
        "rooms.note",
        "write a note into the log",
        "Write a note into the log. You do not need the stick.",
        (word("text", "TEXT", "the note"), *_SPEAKER),
    ),
    Command(
        "leave",
        "rooms.leave",
        "stop being a member",
        "Leave the room. If you hold the stick, hand it over first.",
        _SPEAKER,
    ),
    Command(
        "close",
        "turns.close",
        "close the room; you must hold the stick",
        "Close the room for all members. You must hold the stick; a free stick is claimed "
        "for you. The log stays readable. `conch join` opens a new room at the same path. If other agents are in the "
        "room, the command asks first.",
        (_REASON, switch("--yes", "close it even if other agents are in it, without asking"), *_SPEAKER),
    ),
    Command(
        "reorder",
        "rooms.reorder",
        "set the sequence of the members",
        "Set the sequence in which the members take turns.",
        (words("order", "AGENT", "every member that `conch state` lists, in the new order"), *_ROOM),
    ),
    Command(
        "policy",
        "rooms.policy",
        "show or set the room's policy",
        "Show or set the room's policy: its time limits (90s, 5m, 2h; a number: milliseconds), "
        "release_order (sequence or waiting_first), and guard: what a hook does before an edit of a file that another "
        "agent has reserved (off, warn, enforce; enforce_stick also refuses while another agent holds the stick).",
        (words("values", "NAME=VALUE", "a value to set; `NAME=` restores its default", required=False), *_ROOM),
        "  conch policy owner_lease_ttl_ms=10m\n  conch policy owner_lease_ttl_ms=\n  conch policy guard=enforce",
    ),
)

COMMANDS |= grouped(
    TALK,
    Command(
        "send",
        "talk.send",
        "send a message to the others",
        "Send a message to the room's home topic. You do not need the stick.",
        (
            word("text", "TEXT", "the message; `-` reads standard input", text),
            flag("--to", "AGENT", "the agent it is for; all members can still read it", text, many=True),
            flag(
                "--type", "TYPE", "message (default), question, answer, ack or any other word", text, default="message"
            ),
            flag("--reply-to", "MESSAGE", "the number or id of the message you reply to", text),
            flag("--key", "KEY", "your own key; a second message with the same key is not sent", text),
            *_TOPIC,
        ),
        '  conch send "The schema is in" --to amber-otter\n  git diff --stat | conch send -',
    ),
    Command(
        "read",
        "talk.read",
        "read new messages",
        "Read the messages that are new to you, oldest first. Printed messages count as read.",
        (
            flag(
                "--since",
                "WHEN",
                "start at a message number (12), a time (2026-01-31T12:00) or an age (90s, 5m, 2h, 3d); this shows "
                "read messages too, and marks none as read",
            ),
            switch(
                "--follow",
                "keep printing messages, including your own, until you interrupt it or the topic is closed; with "
                "--json one object per line",
            ),
            switch("--peek", "do not mark them as read"),
            flag(
                "--limit",
                "N",
                "at most this many (default: 100); with --follow, end after this many (default: never)",
                integer,
            ),
            *_TOPIC,
        ),
        "  conch read --follow            print messages as they come\n"
        "  conch read --since 2h          read the last two hours again",
    ),
    Command(
        "ask",
        "talk.ask",
        "ask a question and wait for an answer",
        "Ask a question on the room's home topic and wait for the first answer. The exit status "
        "is 0 if an answer came, or if you did not wait (--wait 0).",
        (
            word("text", "QUESTION", "the question; `-` reads standard input", text),
            flag(
                "--wait",
                "TIME",
                "how long to wait for an answer (90s, 5m, 2h; a number: seconds; default: 60); 0: do not wait",
                seconds,
                default=60.0,
            ),
            *_TOPIC,
        ),
        '  conch ask "Which branch do we release from?" --wait 5m',
    ),
    Command(
        "answer",
        "talk.answer",
        "answer another agent's question",
        "Answer another agent's question. You can answer a question once.",
        (
            word("question", "QUESTION", "the question's number or id; see `conch questions`", text),
            word("text", "TEXT", "the answer; `-` reads standard input", text),
            flag("--pointer", "PATH", "a file to look at", text, many=True),
            flag("--followup", "TEXT", "a question to ask next", text, many=True),
            *_TOPIC,
        ),
        '  conch answer 12 "From main." --pointer docs/releasing.md',
    ),
    Command(
        "questions",
        "talk.questions",
        "list open questions, or close one of yours",
        "List the open questions on the room's home topic, newest first, or close one of yours.",
        (
            flag("--done", "QUESTION", "mark one of yours as answered", text),
            flag("--cancel", "QUESTION", "cancel one of yours", text, unless="--done"),
            switch("--all", "include answered and cancelled questions"),
            flag("--limit", "N", "at most this many (default: 50)", integer, default=50),
            *_TOPIC,
        ),
        "  conch questions --done 12",
        reads=True,
    ),
    Command(
        "search",
        "talk.search",
        "search messages, by words and by meaning",
        "Search the messages of all topics, or of one. A message must contain all words. "
        "The last word may be incomplete (3 letters or more); quotes make a phrase. With "
        "the extra `semantic` installed, search also finds messages with a similar meaning.",
        (
            words("query", "TEXT", "what to search for; no special syntax is needed"),
            flag(
                "--mode",
                "MODE",
                "by words (fts), by meaning (semantic) or both (default)",
                default="hybrid",
                choices=("hybrid", "fts", "semantic"),
            ),
            flag("--topic", "TOPIC", "only in this topic (id or name); default: all topics", text),
            flag("--sender", "AGENT", "only messages from this agent"),
            flag("--type", "TYPE", "only messages of this type"),
            flag("--since", "WHEN", "only messages sent since this time (2026-01-31T12:00) or age (90s, 5m, 2h, 3d)"),
            flag("--until", "WHEN", "only messages sent until this time or age"),
            flag("--model", "NAME", "the model for the search by meaning"),
            flag("--limit", "N", "at most this many (default: 20)", integer, default=20),
            switch("--content", "print whole messages instead of one line of each"),
            *_SHARED,
        ),
        "  conch search db.py migration\n  conch search '\"exactly this\"' --sender amber-otter --since 2d",
        reads=True,
    ),
)

COMMANDS |= grouped(
    _TOPICS,
    Command(
        "topics create",
        "topics.create",
        "create a topic besides the room's home topic",
        "Create a topic. If an open topic has this name, you get that one.",
        (word("name", "NAME", "the topic's name", text), *_SHARED),
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
            flag("--limit", "N", "at most this many (default: 1000)", integer, default=1_000),
            *_SHARED,
        ),
        reads=True,
    ),
    Command(
        "topics show",
        "topics.show",
        "show a topic and its peers",
        "Show a topic, and the peers that used it within the last hour.",
        _TOPIC_GIVEN,
        reads=True,
    ),
    Command(
        "topics close",
        "topics.close",
        "close a topic",
        "Close a topic. It stays readable, and its open questions can still be answered.",
        (_REASON, *_TOPIC_GIVEN),
    ),
    Command(
        "topics rename",
        "topics.rename",
        "rename a topic",
        "Rename a topic.",
        (
            word("topic", "TOPIC", "the topic's id or name", text),
            word("new_name", "NAME", "the new name", text),
            *_ROOM,
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
            *_TOPIC_GIVEN,
        ),
        "  conch topics export --format jsonl --output talk.jsonl",
        reads=True,
    ),
)

COMMANDS |= grouped(
    _NAMES,
    Command(
        "names free",
        "topics.free",
        "free a name whose token is lost",
        "Free a name whose reclaim_token is lost, so that any agent can take it. A message on the topic says so.",
        (word("name", "NAME", "the name to free, or a label; see `conch topics show`", text), *_TOPIC),
    ),
)

COMMANDS |= grouped(
    OTHERS,
    Command(
        "help",
        "help.show",
        "explain conch or one command",
        "Show all commands, or explain one.",
        (words("command", "COMMAND", "such as `wait` or `db wipe`", required=False), _JSON),
        "  conch help reserve",
        reads=True,
        needs_store=False,
    ),
    Command(
        "version",
        "help.version",
        "print the version",
        "Print the version of conch; `conch -V` does the same.",
        (_JSON,),
        reads=True,
        needs_store=False,
    ),
    Command(
        "completion",
        "completion.complete",
        "complete commands in bash, zsh or fish",
        "Print the script that completes commands, options, agents, topics and rooms in a shell. The script asks "
        "`conch completion candidates`, which looks at the store and changes nothing.",
        (
            word("shell", "SHELL", "bash, zsh or fish; candidates: what the script asks")._replace(
                choices=("bash", "zsh", "fish", "candidates")
            ),
            words("words", "WORD", "candidates: the words typed so far, after `--`", required=False),
            _JSON,
        ),
        '  eval "$(conch completion bash)"     in ~/.bashrc\n'
        '  eval "$(conch completion zsh)"      in ~/.zshrc, after compinit\n'
        "  conch completion fish | source      in ~/.config/fish/config.fish",
        reads=True,
        needs_store=False,
    ),
    Command(
        "whoami",
        "agents.whoami",
        "which agent you are",
        "Show which agent you are. If CONCH_AGENT_ID is exported, it decides.",
        (switch("--explain", "show every signal, the agent it is linked to, and the signal that won"), *_SHARED),
        reads=True,
    ),
    Command(
        "import",
        "imports.import_data",
        "import the data of another program",
        "Import the topics, messages, names and cursors of a message bus (schema version 5 or 6), or the rooms, "
        "members and log of a talking stick. The file does not change. Importing it again adds only what is new in it.",
        (
            word("file", "FILE", "the database file of the other program"),
            switch("--dry-run", "show what would be added, and change nothing"),
            *_SHARED,
        ),
        "  conch import bus.db --dry-run",
    ),
    Command(
        "mcp",
        "",
        "serve MCP on standard input and output (harnesses start this)",
        "Serve MCP on standard input and output. Harnesses start this command; you rarely do.",
        (
            flag(
                "--tools", "GROUPS", "only these groups of tools, separated by commas (default: all): " + _TOOL_GROUPS
            ),
            switch("--wake", "wake the agent when it has stopped and something comes for it"),
        ),
        "  conch mcp --tools turns,bus",
    ),
    Command(
        "doctor",
        "doctor.doctor",
        "check the setup, and say what to do",
        "Check the store with a real write and read, the bell with a real ring, permissions, clocks and versions. "
        "Start the server and a hook as a harness does, and read the settings of each harness back. Each finding says "
        "what to do. The exit status is 0 only if there is no problem.",
        _SHARED,
        reads=True,
    ),
    Command(
        "hook",
        "",
        "answer a hook of a harness (harnesses start this)",
        "Read what a harness tells its hooks, as JSON on standard input, and answer in that harness's form. "
        "`conch install` sets the hooks up; you rarely run this. It always exits with 0, and prints `{}` if there is "
        "nothing to say or something is wrong.",
        (
            word("event", "EVENT", "such as PreToolUse or SessionStart, as the harness calls it"),
            flag("--harness", "NAME", "the harness that asks; default: the one that the environment shows"),
        ),
        needs_store=False,
    ),
    Command(
        "install",
        "installing.install",
        "set up the harnesses on this machine to use conch",
        "Write what a harness needs to take part: the MCP server, hooks, and the skill. Without a name, every harness "
        "on this machine gets it. conch only adds its own entries, keeps comments and links, and leaves a file alone "
        "if it cannot read it. Running it again changes nothing; `conch uninstall` undoes everything.",
        (
            _HARNESSES,
            *_INSTALLING,
            switch("--instructions", "also add a paragraph to AGENTS.md, CLAUDE.md or GEMINI.md"),
            switch("--wake", "also wake an agent that has stopped, when the stick or a message comes for it"),
            _JSON,
        ),
        "  conch install                    every harness on this machine\n"
        "  conch install claude codex       only these two\n"
        "  conch install claude --project   for everyone who works in this project",
        needs_store=False,
    ),
    Command(
        "uninstall",
        "installing.uninstall",
        "undo what `conch install` wrote",
        "Undo exactly what `conch install` wrote. A file that has not changed since is restored, byte for byte. "
        "From any other file, conch removes only its own entries.",
        (_HARNESSES, *_INSTALLING, _JSON),
        needs_store=False,
    ),
    Command(
        "serve",
        "",
        "serve the console for a browser, and MCP over HTTP",
        "Serve the console: pages in a browser on which you see all rooms live and can step in. The same server speaks "
        "MCP at /mcp. It prints an address with a token, which signs your browser in. It needs the extra `serve`.",
        (
            flag("--port", "N", "the port; default: 8377, or the next free one", port),
            flag("--allow-host", "HOST", "a name under which a reverse proxy serves it", text, many=True),
            flag("--bind", "ADDRESS", "the address to listen on (default: 127.0.0.1)", default="127.0.0.1"),
            flag("--cert", "FILE", "the TLS certificate; needs --key"),
            flag("--key", "FILE", "the key of the TLS certificate"),
            switch("--force", "allow other machines to connect without TLS"),
            *_SHARED,
        ),
        "  conch serve\n  conch serve --port 9000 --allow-host console.example",
        reads=True,
    ),
    Command(
        "demo",
        "demo.demo",
        "watch three scripted agents take turns, fail and recover",
        "Watch three scripted agents take turns in a scratch repository.",
        (switch("--keep", "keep the scratch repository and its store"),),
        needs_store=False,
    ),
    Command(
        "init",
        "agents.init",
        "join the room under a new name or a resumed one",
        "Join the room of the workspace and decide who you are in it: keep your name, "
        "register a new one, or resume the identity of an agent that is gone and left "
        "unfinished work. On a terminal it asks you. Otherwise, or with "
        "--non-interactive, it registers you if there is no agent to resume. If there is "
        "one, it fails and recommends what to do.",
        (
            switch("--non-interactive", "never ask; fail if a person must decide"),
            flag(
                "--adopt", "AGENT", "resume this identity; without unfinished work, a person at a terminal must agree"
            ),
            flag("--register", "NAME", "start under this name", unless="--adopt"),
            *_ROOM,
        ),
        "  conch init --non-interactive --json\n  conch init --adopt amber-otter",
        invalid=_AGENT.invalid,
    ),
)

COMMANDS |= grouped(
    _DB,
    Command("db path", "store.path", "print where the store is", "Print where the store is.", _SHARED, reads=True),
    Command(
        "db verify",
        "store.verify",
        "check the files, the schema, the logs and every row",
        "Check the files and the schema, replay every room's log, and check that all rows fit "
        "together: messages, cursors, questions, reservations, notices, names and the search "
        "index. Agents can keep working. Nothing is repaired. The exit status is 0 only if there "
        "is no problem.",
        _SHARED,
        reads=True,
    ),
    Command(
        "db reindex",
        "store.reindex",
        "empty the search index; the next search builds it again",
        "Empty the search index. The next search builds it again from the messages.",
        _SHARED,
    ),
    Command(
        "db backup",
        "store.backup",
        "back up the store while others use it",
        "Make a consistent copy of the store's file while others use it. For a server, print the "
        "`pg_dump` command that makes the backup.",
        (
            word("file", "FILE", "a file that does not exist yet; default: a new one beside the store", required=False),
            *_SHARED,
        ),
    ),
    Command(
        "db restore",
        "store.restore",
        "replace everything with a backup",
        "Check a backup, then replace everything in the store with it, in one step. What was there before is kept in a "
        "new file. If other processes use the store, the command asks first; they go on with the restored store. For a "
        "server, print the `pg_restore` command.",
        (
            word("file", "FILE", "a file made by `conch db backup`"),
            switch("--yes", "restore even if other processes use the store"),
            *_SHARED,
        ),
    ),
    Command(
        "db migrate",
        "store.migrate",
        "bring an older store to this version's schema",
        "Bring an older store to the schema of this version of conch. A file is backed up "
        "automatically; for a server, make a dump yourself first. If other processes use "
        "the store, the command names them and changes nothing, unless you add --force.",
        (switch("--force", "migrate even if other processes use the store"), *_SHARED),
    ),
    Command(
        "db copy",
        "store.copy",
        "copy everything into another store",
        "Copy every table into another, empty store of either kind, and compare every row. This store does not change.",
        (flag("--to", "STORE", "a file, or the URL of a server", required=True), *_SHARED),
        '  conch db copy --to "$NEW_STORE"',
    ),
    Command(
        "db prune",
        "retention.prune",
        "delete what is old and done with",
        "Delete what is old and done with: closed rooms and topics, messages that all agents have read, "
        "the log of earlier turns, ended reservations, accepted notices. What is open, unread, pending or unaccepted "
        "stays. The command says what it would delete, and asks. It works in short steps, so agents can keep working, "
        "and it can be stopped at any moment. No backup is made.",
        (
            flag("--older", "TIME", "how old: 90d, 2h or a number of days (default: CONCH_RETENTION_DAYS)", age),
            switch("--dry-run", "only say what would be deleted"),
            switch("--compact", "give the space back to the disk; no agent can write meanwhile"),
            switch("--yes", "do not ask; scripts need it"),
            *_SHARED,
        ),
        "  conch db prune --older 90d --dry-run\n  conch db prune --older 90d --yes",
    ),
    Command(
        "db wipe",
        "store.wipe",
        "delete everything in the store, or one room",
        "Delete everything in the store, or one room with its messages. The command says what it would delete, and "
        "which agents are alive and hold a stick. On a terminal you must type the number of rooms. A backup is made "
        "first. A store that cannot be read is moved aside instead.",
        (
            flag("--room", "ID", "delete only this room; see `conch rooms --all`"),
            switch("--yes", "do not ask; scripts need it"),
            *_SHARED,
        ),
        "  conch db wipe --room room_1a2b3c",
    ),
)

COMMANDS |= grouped(
    _AGENT,
    Command(
        "agent register",
        "agents.register",
        "choose your name and role in the room",
        "Choose a name in the room, or keep your generated one. A name has 3 to 48 characters: "
        "a-z, 0-9 and single hyphens. No other agent in the room can have the same name.",
        (
            word("name", "NAME", "such as amber-otter; default: your generated name", required=False),
            flag("--role", "TEXT", "what you do here"),
            *_SPEAKER,
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
            *_SPEAKER,
        ),
    ),
    Command(
        "agent heartbeat",
        "agents.heartbeat",
        "report that you are still working",
        "Report that you are still working, so that no agent takes over your reservations.",
        _SPEAKER,
    ),
    Command(
        "agent list",
        "agents.list_agents",
        "list the agents in the room",
        "List every agent in the room, with its liveness.",
        _SPEAKER,
        reads=True,
    ),
    Command(
        "agent show",
        "agents.show",
        "show one agent and its reservations",
        "Show an agent in the room and its reservations.",
        (word("name", "AGENT", "a label, a name or an agent_id; default: yourself", required=False), *_SPEAKER),
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
            _BEAD,
            *_SPEAKER,
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
            flag("--limit", "N", "at most this many (default: 50)", integer, default=50),
            *_SPEAKER,
        ),
        reads=True,
    ),
    Command(
        "agent seen",
        "scopes.seen",
        "mark a notice as seen",
        "Mark a notice to you as seen.",
        (_EVENT, *_SPEAKER),
    ),
    Command(
        "agent accept",
        "scopes.accept",
        "accept a notice",
        "Accept a notice to you. You cannot undo this.",
        (_EVENT, *_SPEAKER),
    ),
    Command(
        "agent reserve",
        "scopes.reserve",
        "reserve files before you change them",
        "Reserve a file, or a directory with everything in it. Reserve it again to renew it. "
        "The command fails if another agent has reserved any part of it.",
        (_SCOPE, *_RESERVING),
        "  conch agent reserve src/parser.py\n  conch agent reserve 'src/*' --ttl 30m",
    ),
    Command(
        "agent release",
        "scopes.release",
        "release a reservation",
        "Release one of your reservations.",
        (_SCOPE, *_SPEAKER),
    ),
    Command(
        "agent status",
        "scopes.status",
        "list reservations",
        "List the reservations, or those that overlap one path.",
        (
            word("scope", "PATH", "only reservations that overlap this path", required=False),
            _ENDED,
            *_SPEAKER,
        ),
        reads=True,
    ),
)

_REPOSITORY = (flag("--path", "DIR", "a directory in the repository; default: the working directory"), _JSON)

COMMANDS |= grouped(
    _GUARD,
    Command(
        "guard install",
        "guarding.install",
        "add git's pre-commit hook",
        "Add a pre-commit hook to the repository here, for all its worktrees. It refuses a commit that touches a file "
        "that another live agent has reserved, and names the agent. A hook that is there already stays and runs first. "
        "`git commit --no-verify` skips all hooks.",
        _REPOSITORY,
        needs_store=False,
    ),
    Command(
        "guard uninstall",
        "guarding.uninstall",
        "remove git's pre-commit hook",
        "Remove the hook of `conch guard install`, and restore the one that was there before.",
        _REPOSITORY,
        needs_store=False,
    ),
    Command(
        "guard check",
        "guarding.check",
        "check files before a commit (the hook runs this)",
        "Check whether another live agent has reserved one of the files that standard input names, separated by NUL. "
        "The exit status is 1 if so.",
        _SHARED,
        "  git diff --cached --name-only -z | conch guard check",
        reads=True,
    ),
)

_PROJECT = (flag("--path", "DIR", "a directory of the project; default: the working directory"), _JSON)

COMMANDS |= grouped(
    _INSTRUCTIONS,
    Command(
        "instructions show",
        "instructing.show",
        "show the instructions for agents",
        "Show the instructions that the MCP server gives to a model, with your working agreement and that of this "
        "project, and where both are kept.",
        _PROJECT,
        reads=True,
        needs_store=False,
    ),
    Command(
        "instructions edit",
        "instructing.edit",
        "change the working agreement of this project, or your own",
        "Change the working agreement of this project (.conch/instructions.md), or your own with --user. Agents get it "
        "with the instructions of the MCP server, and when a session starts. On a terminal this opens $EDITOR; "
        "otherwise it reads standard input. An empty text deletes the agreement.",
        (
            word("text", "TEXT", "the whole agreement; - reads standard input", text, required=False),
            switch("--user", "your own agreement, for all projects"),
            *_PROJECT,
        ),
        '  conch instructions edit "Run the tests before you hand over."\n'
        "  conch instructions edit --user - < agreement.md",
        needs_store=False,
    ),
)
