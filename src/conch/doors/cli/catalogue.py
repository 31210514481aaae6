"""Every command: what it is for, what it takes, and how it is used."""

from __future__ import annotations

from conch.doors.cli import agent_catalogue, options
from conch.doors.cli.command import AGENT, DB, NAMES, OTHERS, ROOMS, TALK, TOPICS, TURNS, Command

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
        "send",
        TALK,
        "say something to the others",
        "Say something on the room's topic. No turn is needed.",
        (options.message, options.topic),
        '  conch send "The schema is in" --to amber-otter\n'
        "  git diff --stat | conch send -",
    ),
    Command(
        "read",
        TALK,
        "read what the others said",
        "Read the messages that are new to you, oldest first. Once they are printed,\n"
        "they count as read.",
        (options.reading, options.topic),
        "  conch read --follow            as they come\n"
        "  conch read --since 2h          once more",
    ),
    Command(
        "ask",
        TALK,
        "ask the others, and wait for an answer",
        "Ask the others on the room's topic and wait for the first answer. The exit\n"
        "status is 0 only if there is one, or if you did not want to wait.",
        (options.question, options.topic),
        '  conch ask "Which branch do we release from?" --wait 300',
    ),
    Command(
        "answer",
        TALK,
        "answer somebody's question",
        "Answer a question of somebody else, once.",
        (options.answer, options.topic),
        '  conch answer 12 "From main." --pointer docs/releasing.md',
    ),
    Command(
        "questions",
        TALK,
        "the questions that are open",
        "The open questions on the room's topic, newest first; or end one of yours.",
        (options.questions, options.topic),
        "  conch questions --done 12",
    ),
    Command(
        "search",
        TALK,
        "search what was said, by words and by meaning",
        "Search the messages of all topics, or of one. All words must be there, the\n"
        "last one may be a beginning (3 letters or more), quotes make a phrase. With the\n"
        "extra `semantic` installed, the same said in other words is found too.",
        (options.search,),
        "  conch search db.py migration\n  conch search '\"exactly this\"' --sender amber-otter --since 2d",
    ),
    Command("topics create", TOPICS, "make a topic beside the room's own", "Make a topic, or find the open one.",
            (options.new_topic, options.shared)),
    Command("topics list", TOPICS, "list topics, newest first", "List topics, newest first.",
            (options.topic_status, options.shared)),
    Command("topics show", TOPICS, "a topic, and who is on it", "What a topic is called, and who was on it lately.",
            (options.topic_given,)),
    Command(
        "topics close",
        TOPICS,
        "end a topic",
        "End a topic. It stays readable, and its open questions can still be answered.",
        (options.close_reason, options.topic_given),
    ),
    Command("topics rename", TOPICS, "give a topic another name", "Give a topic another name.",
            (options.rename,)),
    Command(
        "topics export",
        TOPICS,
        "write a whole topic as Markdown or JSON lines",
        "Write a whole topic, however long, as Markdown or as one JSON object per line.",
        (options.export, options.topic_given),
        "  conch topics export --format jsonl --output talk.jsonl",
    ),
    Command(
        "names free",
        NAMES,
        "free a name whose token is lost",
        "Let anybody have a name again whose reclaim_token is lost. The topic is told.",
        (options.freed_name, options.topic),
    ),
    Command(
        "whoami",
        OTHERS,
        "who conch takes you for",
        "Which agent you are here. CONCH_AGENT_ID, when exported, decides.",
        (options.explain, options.shared),
    ),
    Command("db path", DB, "print where the store is", "Print where the store is.", (options.shared,)),
    Command(
        "db verify",
        DB,
        "replay the log and compare it with the rooms",
        "Check the files, replay every room's log and compare. Changes nothing; the\n"
        "exit status is 0 only if all is well.",
        (options.shared,),
    ),
    Command(
        "db backup",
        DB,
        "copy the store while others go on using it",
        "Make a consistent copy while others go on using the store.",
        (options.backup, options.shared),
    ),
    Command(
        "db migrate",
        DB,
        "bring an older store to this version's schema",
        "Bring an older store to the schema of this version of conch. A file is backed up\n"
        "first, by itself; for a server take a dump before.",
        (options.shared,),
    ),
    Command(
        "db copy",
        DB,
        "move everything into another store",
        "Copy every table into another, empty store, of either kind, and compare every\n"
        "row. This store stays as it is.",
        (options.copy, options.shared),
        "  conch db copy --to \"$NEW_STORE\"",
    ),
    Command(
        "db wipe",
        DB,
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

# Commands of two words: under which heading the first of them stands, and what they are about.
FAMILIES = {
    AGENT: (ROOMS, "who is here, what they reserve, and notices between them"),
    TOPICS: (TALK, "the topics: create, list, show, close, rename, export"),
    NAMES: (TALK, "the names on a topic: free"),
    DB: (OTHERS, "the store: path, verify, backup, migrate, copy, wipe"),
}
