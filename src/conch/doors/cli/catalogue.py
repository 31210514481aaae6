"""Every command: what it is for, what it takes, which function runs it. A new command is one entry and one function."""

from __future__ import annotations

from conch.doors.cli.command import Command, Group, flag, integer, seconds, switch, text, word, words

# The headings of the overview, and the first words of the commands that have two.
TURNS = Group("taking turns")
ROOMS = Group("the room")
TALK = Group("talking", "INVALID_ARGUMENT")
OTHERS = Group("everything else")
AGENT = Group("agent", "INVALID_ARGS", ROOMS.name, "who is here, what they reserve, and notices between them")
TOPICS = Group("topics", TALK.invalid, TALK.name, "the topics: create, list, show, close, rename, export")
_NAMES = Group("names", TALK.invalid, TALK.name, "the names on a topic: free")
_DB = Group("db", heading=OTHERS.name, summary="the store: path, verify, backup, migrate, copy, wipe")
FAMILIES = {group.name: group for group in (AGENT, TOPICS, _NAMES, _DB)}

# -- what several commands take

_SHARED = (
    switch("--json", "print one JSON object: ok, command, data, error", heading="every command"),
    flag("--store", "STORE", "a file, or the URL of a server; default: see `conch db path`", heading="every command"),
)
_ROOM = (
    flag("--path", "DIR", "the room of this path; default: of the working directory", heading="which room"),
    flag("--room", "ID", "the room with this id", heading="which room"),
    *_SHARED,
)
_TOPIC = (flag("--topic", "TOPIC", "its id or its name; default: the topic of this room", text), *_ROOM)
_TOPIC_GIVEN = (
    word("topic", "TOPIC", "its id or its name; default: the topic of this room", text, required=False),
    *_ROOM,
)
_SPEAKER = (flag("--agent", "AGENT", "speak as this agent (agent_id or name); default: yourself"), *_ROOM)
_REASON = flag("--reason", "TEXT", "why; it goes into the log")
_SCOPE = word("scope", "SCOPE", "a file or directory, from here, or 'dir/*'")
_BEAD = flag("--bead", "ID", "the work item that it is for")
_EVENT = word("event", "EVENT", "its id; see `conch agent inbox`")
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
    flag("--do-not", "TEXT", "what is off limits", many=True, heading="the handoff"),
    flag("--handoff", "FILE", "the whole handoff as JSON instead, from a file or `-`", heading="the handoff"),
)


_ALL = (
    Command(
        "join",
        TURNS,
        "rooms.join",
        "join the room of a workspace",
        "Join the room of a workspace: its git top level, else the nearest folder with\n"
        "a marker such as AGENTS.md, else the folder itself. Joining again is harmless.",
        (
            word("path", "DIR", "a path in the workspace; default: here", required=False),
            switch("--force-new", "make a nested room at exactly this path"),
            *_SHARED,
        ),
    ),
    Command(
        "wait",
        TURNS,
        "waiting.wait",
        "wait for the stick, and claim it",
        "Wait until the stick is yours and claim it; the handoff is printed. Work only\n"
        "after that. The exit status is 0 only if you hold the stick. Meanwhile it says\n"
        "who holds it and for how long. Interrupted, it leaves the stick where it is.\n\n"
        "Your lease is then renewed for you as long as your shell or harness lives.",
        (flag("--timeout", "SECONDS", "give up after this long; 0: just look", seconds), *_ROOM),
        "  conch wait                     until it is your turn\n"
        "  conch wait --timeout 30 --json for agents: ask, and ask again\n"
        "  conch wait --timeout 0         take it if it is free",
    ),
    Command(
        "release",
        TURNS,
        "turns.release",
        "hand over to the next member in sequence",
        "Let go of the stick: it is reserved for the next active member in sequence.\n"
        "The handoff must say what you did and what to do next.",
        (*_HANDOFF, *_ROOM),
        '  conch release --status "Parser done; 2 tests fail" --next "Fix test_cli" \\\n'
        "                --artifact src/parser.py:10-42=review\n"
        "  conch release --handoff handoff.json",
    ),
    Command(
        "pass",
        TURNS,
        "turns.pass_stick",
        "hand over to one member of your choice",
        "Hand the stick to one active member, with the same handoff as `conch release`.",
        (word("to", "AGENT", "an agent_id or a name, or how it begins; see `conch state`"), *_HANDOFF, *_ROOM),
        '  conch pass amber --status "Schema is in" --next "Review the migration"',
    ),
    Command(
        "take",
        TURNS,
        "turns.take",
        "take over from a member that does not answer",
        "Take the stick from an owner or a recipient that is gone or silent for too\n"
        "long. `conch state` and `conch wait` say when that is allowed. There is no\n"
        "handoff for you then: read `conch events`.",
        (_REASON._replace(required=True), *_ROOM),
    ),
    Command(
        "state",
        ROOMS,
        "rooms.state",
        "who holds the stick, and who is there",
        "Who holds the stick, whose turn is next, and which members are there.",
        _ROOM,
    ),
    Command(
        "rooms",
        ROOMS,
        "rooms.rooms",
        "list the rooms of a workspace",
        "The open rooms from a path up to the root of its workspace, the deepest first.",
        (
            flag("--path", "DIR", "a path in the workspace; default: the working directory"),
            switch("--all", "every room of the store, closed ones too"),
            *_SHARED,
        ),
    ),
    Command(
        "events",
        ROOMS,
        "watching.events",
        "what happened, oldest first",
        "The room's timeline: claims, handoffs, takeovers and notes, the messages of its\n"
        "home topic, reservations, and notices with what became of them. The latest\n"
        "ones, oldest first, unless --after is given. With --follow it goes on until you\n"
        "interrupt it; then --json prints one object per line.",
        (
            flag("--after", "CURSOR", "only what came after a cursor or an event's number; 0: all"),
            flag("--limit", "N", "at most this many (default: 50)", integer, default=50),
            switch("--follow", "go on with what happens from now on"),
            *_ROOM,
        ),
    ),
    Command(
        "note",
        ROOMS,
        "rooms.note",
        "write a note into the log",
        "Write a note into the log. The stick is not touched.",
        (word("text", "TEXT", "what to note"), *_ROOM),
    ),
    Command(
        "leave",
        ROOMS,
        "rooms.leave",
        "stop being a member",
        "Stop being a member. Hand over the stick first if you hold it.",
        _ROOM,
    ),
    Command(
        "close",
        ROOMS,
        "turns.close",
        "end the room, as the holder of its stick",
        "End the room for everybody. Takes the stick for it if that is free. The log\n"
        "stays readable; `conch join` opens a new room at the same place.",
        (_REASON, *_ROOM),
    ),
    Command(
        "reorder",
        ROOMS,
        "rooms.reorder",
        "set the sequence of the members",
        "Set the sequence in which the stick goes round.",
        (words("order", "AGENT", "every member once, in the new order"), *_ROOM),
    ),
    Command(
        "policy",
        ROOMS,
        "rooms.policy",
        "show or set the room's timing",
        "Show the room's timing, or set some of it. Times are in milliseconds.",
        (words("values", "NAME=VALUE", "a value to set; `NAME=` restores its default", required=False), *_ROOM),
        "  conch policy owner_lease_ttl_ms=600000\n  conch policy owner_lease_ttl_ms=",
    ),
    Command(
        "send",
        TALK,
        "talk.send",
        "say something to the others",
        "Say something on the room's topic. No turn is needed.",
        (
            word("text", "TEXT", "what to say; `-` reads it from standard input", text),
            flag("--to", "NAME", "whom it is for; everybody sees it", text, many=True),
            flag(
                "--type", "TYPE", "message (default), question, answer, ack or any other word", text, default="message"
            ),
            flag("--reply-to", "MESSAGE", "the id, or the number, of the message this answers", text),
            flag("--key", "KEY", "sending again under the same key sends nothing twice", text),
            *_TOPIC,
        ),
        '  conch send "The schema is in" --to amber-otter\n  git diff --stat | conch send -',
    ),
    Command(
        "read",
        TALK,
        "talk.read",
        "read what the others said",
        "Read the messages that are new to you, oldest first. Once they are printed,\nthey count as read.",
        (
            flag(
                "--since",
                "WHEN",
                "from a message number (12), a time (2026-01-31T12:00) or an age (90m, 2h, 3d) on, also what you have "
                "read; your place does not move",
            ),
            switch(
                "--follow",
                "go on, as messages come, until you interrupt it or the topic is closed; your own are shown too; with "
                "--json one object per line",
            ),
            switch("--peek", "do not count it as read"),
            flag(
                "--limit",
                "N",
                "at most this many (default: 100); with --follow, end after this many (default: never)",
                integer,
            ),
            *_TOPIC,
        ),
        "  conch read --follow            as they come\n  conch read --since 2h          once more",
    ),
    Command(
        "ask",
        TALK,
        "talk.ask",
        "ask the others, and wait for an answer",
        "Ask the others on the room's topic and wait for the first answer. The exit\n"
        "status is 0 only if there is one, or if you did not want to wait.",
        (
            word("text", "QUESTION", "what to ask; `-` reads it from standard input", text),
            flag(
                "--wait", "SECONDS", "how long to wait for an answer (default: 60); 0: just ask", seconds, default=60.0
            ),
            *_TOPIC,
        ),
        '  conch ask "Which branch do we release from?" --wait 300',
    ),
    Command(
        "answer",
        TALK,
        "talk.answer",
        "answer a question of another agent",
        "Answer a question of another agent, once.",
        (
            word("question", "QUESTION", "its number or id; see `conch questions`", text),
            word("text", "TEXT", "the answer; `-` reads it from standard input", text),
            flag("--pointer", "PATH", "where to look", text, many=True),
            flag("--followup", "TEXT", "what to ask next", text, many=True),
            *_TOPIC,
        ),
        '  conch answer 12 "From main." --pointer docs/releasing.md',
    ),
    Command(
        "questions",
        TALK,
        "talk.questions",
        "the questions that are open",
        "The open questions on the room's topic, newest first; or end one of yours.",
        (
            flag("--done", "QUESTION", "close one of yours: it is answered well enough"),
            flag("--cancel", "QUESTION", "take back one of yours", unless="--done"),
            switch("--all", "also those that are answered or cancelled"),
            flag("--limit", "N", "at most this many (default: 50)", integer, default=50),
            *_TOPIC,
        ),
        "  conch questions --done 12",
    ),
    Command(
        "search",
        TALK,
        "talk.search",
        "search what was said, by words and by meaning",
        "Search the messages of all topics, or of one. All words must be there, the\n"
        "last one may be a beginning (3 letters or more), quotes make a phrase. With the\n"
        "extra `semantic` installed, the same said in other words is found too.",
        (
            words("query", "TEXT", "what to look for; any text will do"),
            flag(
                "--mode",
                "MODE",
                "by words (fts), by meaning (semantic) or both (default)",
                default="hybrid",
                choices=("hybrid", "fts", "semantic"),
            ),
            flag("--topic", "TOPIC", "only in this one, by its id or its name; default: everywhere"),
            flag("--sender", "NAME", "only what this peer said"),
            flag("--type", "TYPE", "only messages of this type"),
            flag("--since", "WHEN", "a time (2026-01-31T12:00) or an age (90m, 2h, 3d)"),
            flag("--until", "WHEN", "the same"),
            flag("--model", "NAME", "which model knows the meaning"),
            flag("--limit", "N", "at most this many (default: 20)", integer, default=20),
            switch("--content", "whole messages, not only a line of each"),
            *_SHARED,
        ),
        "  conch search db.py migration\n  conch search '\"exactly this\"' --sender amber-otter --since 2d",
    ),
    Command(
        "topics create",
        TOPICS,
        "topics.create",
        "make a topic beside the room's own",
        "Make a topic, or find the open one.",
        (word("name", "NAME", "what it is called", text), *_SHARED),
    ),
    Command(
        "topics list",
        TOPICS,
        "topics.list_topics",
        "list topics, newest first",
        "List topics, newest first.",
        (
            flag("--status", "STATUS", "which (default: open)", default="open", choices=("open", "closed", "all")),
            flag("--limit", "N", "at most this many (default: 1000)", integer, default=1_000),
            *_SHARED,
        ),
    ),
    Command(
        "topics show",
        TOPICS,
        "topics.show",
        "a topic, and who is on it",
        "What a topic is called, and who was on it lately.",
        _TOPIC_GIVEN,
    ),
    Command(
        "topics close",
        TOPICS,
        "topics.close",
        "end a topic",
        "End a topic. It stays readable, and its open questions can still be answered.",
        (_REASON, *_TOPIC_GIVEN),
    ),
    Command(
        "topics rename",
        TOPICS,
        "topics.rename",
        "give a topic another name",
        "Give a topic another name.",
        (word("topic", "TOPIC", "its id or its name", text), word("new_name", "NAME", "the new name", text), *_ROOM),
    ),
    Command(
        "topics export",
        TOPICS,
        "export.export",
        "write a whole topic as Markdown or JSON lines",
        "Write a whole topic, however long, as Markdown or as one JSON object per line.",
        (
            flag("--format", "FORMAT", "(default: markdown)", default="markdown", choices=("markdown", "jsonl")),
            flag("--output", "FILE", "a file that does not exist yet; default: standard output"),
            *_TOPIC_GIVEN,
        ),
        "  conch topics export --format jsonl --output talk.jsonl",
    ),
    Command(
        "names free",
        _NAMES,
        "topics.free",
        "free a name whose token is lost",
        "Let anybody have a name again whose reclaim_token is lost. A message on the\ntopic says so.",
        (word("name", "NAME", "the name to free; see `conch topics show`", text), *_TOPIC),
    ),
    Command(
        "whoami",
        OTHERS,
        "agents.whoami",
        "who conch takes you for",
        "Which agent you are here. CONCH_AGENT_ID, when exported, decides.",
        (switch("--explain", "show every signal, its link, and which one won"), *_SHARED),
    ),
    Command("db path", _DB, "store.path", "print where the store is", "Print where the store is.", _SHARED),
    Command(
        "db verify",
        _DB,
        "store.verify",
        "replay the log and compare it with the rooms",
        "Check the files, replay every room's log and compare. Changes nothing; the\n"
        "exit status is 0 only if all is well.",
        _SHARED,
    ),
    Command(
        "db backup",
        _DB,
        "store.backup",
        "copy the store while others go on using it",
        "Make a consistent copy while others go on using the store.",
        (word("file", "FILE", "a file that does not exist yet", required=False), *_SHARED),
    ),
    Command(
        "db migrate",
        _DB,
        "store.migrate",
        "bring an older store to this version's schema",
        "Bring an older store to the schema of this version of conch. A file is backed up\n"
        "first, by itself; for a server take a dump before. While other processes use the\n"
        "store, they are named and nothing is changed, unless you say --force.",
        (switch("--force", "migrate although other processes use the store"), *_SHARED),
    ),
    Command(
        "db copy",
        _DB,
        "store.copy",
        "move everything into another store",
        "Copy every table into another, empty store, of either kind, and compare every\n"
        "row. This store stays as it is.",
        (flag("--to", "STORE", "a file, or the URL of a server", required=True), *_SHARED),
        '  conch db copy --to "$NEW_STORE"',
    ),
    Command(
        "db wipe",
        _DB,
        "store.wipe",
        "forget every room, member and event",
        "Forget everything. A store that cannot be read is moved aside instead.",
        (switch("--yes", "really do it"), *_SHARED),
    ),
    Command(
        "mcp",
        OTHERS,
        "",
        "serve MCP on standard input and output (harnesses start this)",
        "Serve MCP on standard input and output. See `conch mcp --help`.",
    ),
    Command(
        "demo",
        OTHERS,
        "",
        "watch three scripted agents take turns, skip, fail and recover",
        "Watch three scripted agents take turns in a scratch repository.",
        (switch("--keep", "leave the scratch repository and store behind"),),
    ),
    Command(
        "init",
        OTHERS,
        "agents.init",
        "join the room here, under a name of your own or a resumed one",
        "Join the room of the workspace and settle who you are in it: go on as you are,\n"
        "register a name, or resume the identity of an agent that is gone and left\n"
        "unfinished work. On a terminal it asks. Otherwise, or with --non-interactive,\n"
        "it registers you if no agent can be resumed, and fails with a recommendation if\n"
        "one can.",
        (
            switch("--non-interactive", "never ask; fail where a person must decide"),
            flag("--adopt", "AGENT", "resume this identity, if it left unfinished work"),
            flag("--register", "NAME", "begin under this name", unless="--adopt"),
            *_ROOM,
        ),
        "  conch init --non-interactive --json\n  conch init --adopt amber-otter",
        invalid=AGENT.invalid,
    ),
    Command(
        "agent register",
        AGENT,
        "agents.register",
        "take a name and a role in the room",
        "Take a name in the room, 3 to 48 of a-z, 0-9 and single hyphens, or keep your\n"
        "generated one. No other agent in the room can have it.",
        (
            word("name", "NAME", "such as amber-otter; default: your generated name", required=False),
            flag("--role", "TEXT", "what you do here"),
            *_SPEAKER,
        ),
    ),
    Command(
        "agent adopt",
        AGENT,
        "agents.adopt",
        "resume the identity of an agent that is gone",
        "Take over the name, the reservations and the notices of an agent whose process\n"
        "is gone, if it left uncommitted files in what it had reserved, or work items in\n"
        "progress.",
        (
            word("name", "AGENT", "the name or agent_id to resume"),
            flag("--scope", "SCOPE", "where its work lies, from here (default: anywhere)"),
            *_SPEAKER,
        ),
    ),
    Command(
        "agent heartbeat",
        AGENT,
        "agents.heartbeat",
        "say that you are still at work",
        "Say that you are still at work, so that no agent takes over what you reserved.",
        _SPEAKER,
    ),
    Command(
        "agent list", AGENT, "agents.list_agents", "who is here, and how lively", "Every agent in the room.", _SPEAKER
    ),
    Command(
        "agent show",
        AGENT,
        "agents.show",
        "one agent, and what it has reserved",
        "One agent of the room, and what it has reserved.",
        (word("name", "AGENT", "an agent_id or a name; default: yourself", required=False), *_SPEAKER),
    ),
    Command(
        "agent send",
        AGENT,
        "scopes.send",
        "send a notice that must be accepted",
        "Tell an agent of the room that work is passed to it, or that you need its input.",
        (
            word("to", "AGENT", "who must see it: an agent_id or a name"),
            flag("--type", "TYPE", "default: HANDOFF", default="HANDOFF", choices=("HANDOFF", "BLOCKED")),
            flag("--subject", "TEXT", "what it is about, in a line", required=True),
            flag("--summary", "TEXT", "HANDOFF: what was done and learned"),
            flag("--next", "TEXT", "HANDOFF: what to do next", field="next_action"),
            switch("--no-ack", "HANDOFF: it need not be accepted"),
            flag("--blocker", "TEXT", "BLOCKED: what is in the way"),
            flag("--request", "TEXT", "BLOCKED: what would help", field="requested_action"),
            flag("--urgency", "URGENCY", "BLOCKED (default: medium)", choices=("low", "medium", "high")),
            flag("--scope", "SCOPE", "the files that it is about, from here"),
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
        AGENT,
        "scopes.inbox",
        "read the notices for you",
        "The notices for you, oldest first.",
        (
            flag(
                "--state",
                "STATE",
                "default: all that is not accepted",
                choices=("unread", "seen", "accepted", "all"),
            ),
            flag("--limit", "N", "at most this many (default: 50)", integer, default=50),
            *_SPEAKER,
        ),
    ),
    Command(
        "agent seen",
        AGENT,
        "scopes.seen",
        "say that you have seen a notice",
        "Mark a notice to you as seen.",
        (_EVENT, *_SPEAKER),
    ),
    Command(
        "agent accept",
        AGENT,
        "scopes.accept",
        "accept a notice",
        "Accept a notice to you; once accepted, it stays so.",
        (_EVENT, *_SPEAKER),
    ),
    Command(
        "agent reserve",
        AGENT,
        "scopes.reserve",
        "reserve files before you change them",
        "Reserve a file or a directory with everything in it; again, to renew it. It is\n"
        "refused while others have reserved any part of it.",
        (
            _SCOPE,
            flag("--ttl", "MINUTES", "for how long, 5 to 1440 (default: 120)", integer),
            switch("--takeover-stale", "take it from owners that are stale or evicted"),
            _BEAD,
            *_SPEAKER,
        ),
        "  conch agent reserve src/parser.py\n  conch agent reserve 'src/*' --ttl 30",
    ),
    Command(
        "agent release",
        AGENT,
        "scopes.release",
        "give back what you reserved",
        "Give back what you reserved.",
        (_SCOPE, *_SPEAKER),
    ),
    Command(
        "agent status",
        AGENT,
        "scopes.status",
        "who has reserved what",
        "Who has reserved what, or what overlaps one path.",
        (
            word("scope", "PATH", "only what overlaps this path", required=False),
            switch("--all", "also what is released or expired, newest first"),
            *_SPEAKER,
        ),
    ),
)

COMMANDS = {command.name: command for command in _ALL}
