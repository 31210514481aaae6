"""Talking: messages, questions and search."""

from __future__ import annotations

from conch.doors.cli.catalogue import TALK
from conch.doors.cli.catalogue.options import AFTER, EVERY, LIMIT, TOPIC
from conch.doors.cli.command import Command, flag, grouped, integer, seconds, switch, word, words

COMMANDS = grouped(
    TALK,
    Command(
        "send",
        "sending.send",
        "send a message to the others",
        "Send a message to the room's home topic. You do not need the stick.",
        (
            word("text", "TEXT", "the message; `-` reads standard input"),
            flag("--to", "AGENT", "the agent it is for; all members can still read it", many=True),
            flag("--type", "TYPE", "message (default), question, answer, ack or any other word", default="message"),
            flag("--reply-to", "MESSAGE", "the number or id of the message you reply to"),
            flag("--key", "KEY", "your own key; a second message with the same key is not sent"),
            *TOPIC,
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
                "at most this many (default: 100, or as many as fit into 32 KB); with --follow, end after this many "
                "(default: never)",
                integer,
            ),
            *TOPIC,
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
            word("text", "QUESTION", "the question; `-` reads standard input"),
            flag(
                "--wait",
                "TIME",
                "how long to wait for an answer (90s, 5m, 2h; a number: seconds; default: 60); 0: do not wait",
                seconds,
                default=60.0,
            ),
            *TOPIC,
        ),
        '  conch ask "Which branch do we release from?" --wait 5m',
    ),
    Command(
        "answer",
        "talk.answer",
        "answer another agent's question",
        "Answer another agent's question. You can answer a question once.",
        (
            word("question", "QUESTION", "the question's number or id; see `conch questions`"),
            word("text", "TEXT", "the answer; `-` reads standard input"),
            flag("--pointer", "PATH", "a file to look at", many=True),
            flag("--followup", "TEXT", "a question to ask next", many=True),
            *TOPIC,
        ),
        '  conch answer 12 "From main." --pointer docs/releasing.md',
    ),
    Command(
        "questions",
        "talk.questions",
        "list open questions, or close one of yours",
        "List the open questions on the room's home topic, newest first, or close one of yours.",
        (
            flag("--done", "QUESTION", "mark one of yours as answered"),
            flag("--cancel", "QUESTION", "cancel one of yours", unless="--done"),
            switch("--all", "include answered and cancelled questions"),
            AFTER,
            LIMIT._replace(help="at most this many (default: 50, or as many as fit into 32 KB)"),
            *TOPIC,
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
            flag("--topic", "TOPIC", "only in this topic (id or name); default: all topics"),
            flag("--sender", "AGENT", "only messages from this agent"),
            flag("--type", "TYPE", "only messages of this type"),
            flag("--since", "WHEN", "only messages sent since this time (2026-01-31T12:00) or age (90s, 5m, 2h, 3d)"),
            flag("--until", "WHEN", "only messages sent until this time or age"),
            flag("--model", "NAME", "the model for the search by meaning"),
            AFTER,
            LIMIT._replace(help="at most this many (default: 20, or as many as fit into 32 KB)"),
            switch("--content", "print whole messages instead of one line of each"),
            *EVERY,
        ),
        "  conch search db.py migration\n  conch search '\"exactly this\"' --sender amber-otter --since 2d",
        reads=True,
    ),
)
