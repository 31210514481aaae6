"""Taking turns: join, wait, release."""

from __future__ import annotations

from conch.doors.cli.catalogue import TURNS
from conch.doors.cli.catalogue.options import AGENT_HELP, EVERY, REASON, SPEAKER
from conch.doors.cli.command import Command, flag, grouped, seconds, switch, word

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

COMMANDS = grouped(
    TURNS,
    Command(
        "join",
        "rooms.join",
        "join the room of a workspace",
        "Join the room of a workspace. The workspace is the git top level, or else the "
        "nearest directory with a marker such as AGENTS.md, or else the directory itself. "
        "Joining again is harmless. If you are a person, you only watch: the stick does not come to you by itself, "
        "but you can send, ask, answer, and wait for the stick.",
        (
            word("path", "DIR", "a path in the workspace; default: the working directory", required=False),
            switch("--force-new", "make a nested room at exactly this path"),
            switch("--take-turns", "for a person: enter the sequence; without it, a person only watches"),
            *EVERY,
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
            *SPEAKER,
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
        "prints what came, and then it ends. Run it in the background to be woken. Each thing is shown once; `conch "
        "read` still shows all messages. If the stick was offered to you, you hold it now, as after `conch wait`. It "
        "claims a free stick only if a handoff waits with it. Only one listener of an agent can run at a time.",
        (
            flag(
                "--timeout", "TIME", "give up after this long (90s, 5m, 2h; a number: seconds); 0: do not wait", seconds
            ),
            *SPEAKER,
        ),
        "  conch listen                until there is something for you\n  conch listen --timeout 0    what is new now",
    ),
    Command(
        "release",
        "turns.release",
        "hand over to the next member in sequence",
        "Release the stick. It is reserved for the next active member in sequence. The "
        "handoff must say what you did and what to do next.",
        (*_HANDOFF, *SPEAKER),
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
            word("to", "AGENT", AGENT_HELP, required=False),
            flag("--to", "AGENT", "the same as AGENT", field="recipient"),
            flag("--for", "AGENT", "for a person: pass the stick on for the agent that has it", field="holder"),
            REASON._replace(help="with --for: the reason, which is recorded"),
            *_HANDOFF,
            *SPEAKER,
        ),
        '  conch pass amber --status "Schema is in" --next "Review the migration"\n'
        '  conch pass --for swan --to amber --reason "swan is stuck"',
    ),
    Command(
        "take",
        "turns.take",
        "take over from a member that does not answer",
        "Take the stick from an owner or a recipient that is gone, or silent for too "
        "long. `conch state` and `conch wait` say when you may. `conch take` prints the last handoff and the notes "
        "since then. With --force, a person at a terminal takes the stick from an agent that is at work.",
        (
            REASON._replace(required=True),
            switch("--force", "for a person: take it even from an agent that still has time"),
            *SPEAKER,
        ),
    ),
)
