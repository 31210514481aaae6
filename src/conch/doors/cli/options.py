"""What the commands take, as argparse knows it."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

from conch.rooms.handoffs import ROLES


def shared(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("every command")
    group.add_argument("--json", action="store_true", help="print one JSON object: ok, command, data, error")
    group.add_argument("--store", metavar="STORE", help="a file, or the URL of a server; default: see `conch db path`")


def room(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("which room")
    group.add_argument("--path", metavar="DIR", help="the room of this path; default: of the working directory")
    group.add_argument("--room", metavar="ID", help="the room with this id")
    shared(parser)


def wait(parser: ArgumentParser) -> None:
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="give up after this long; 0: just look")


def handoff(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("the handoff")
    group.add_argument("--status", metavar="TEXT", help="what you did, what you learned, what is unfinished")
    group.add_argument("--next", metavar="TEXT", dest="next_action", help="what the next agent should do")
    artifacts = f"a file to look at; ROLE: {', '.join(ROLES)} (default: {ROLES[0]})"
    group.add_argument("--artifact", action="append", default=[], metavar="PATH[:A-B][=ROLE]", help=artifacts)
    group.add_argument("--question", action="append", default=[], metavar="TEXT", help="an open question")
    group.add_argument("--do-not", action="append", default=[], metavar="TEXT", help="what is off limits")
    group.add_argument("--handoff", metavar="FILE", help="the whole handoff as JSON instead, from a file or `-`")


def recipient(parser: ArgumentParser) -> None:
    parser.add_argument("to", metavar="AGENT", help="an agent_id or a name, or how it begins; see `conch state`")


def takeover_reason(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; it goes into the log")


def close_reason(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", metavar="TEXT", help="why; it goes into the log")


def rooms(parser: ArgumentParser) -> None:
    parser.add_argument("--path", metavar="DIR", help="a path in the workspace; default: the working directory")
    parser.add_argument("--all", action="store_true", help="every room of the store, closed ones too")


def join(parser: ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", metavar="DIR", help="a path in the workspace; default: here")
    parser.add_argument("--force-new", action="store_true", help="make a nested room at exactly this path")


def note(parser: ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT")


def events(parser: ArgumentParser) -> None:
    parser.add_argument("--after", metavar="CURSOR", help="only what came after a cursor or an event's number; 0: all")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most this many (default: 50)")
    parser.add_argument("--follow", action="store_true", help="go on with what happens from now on")


def order(parser: ArgumentParser) -> None:
    parser.add_argument("order", nargs="+", metavar="AGENT", help="every member once, in the new order")


def policy(parser: ArgumentParser) -> None:
    parser.add_argument("values", nargs="*", metavar="NAME=VALUE", help="a value to set; `NAME=` restores its default")


def topic(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--topic", type=_text, metavar="TOPIC", help="its id or its name; default: the topic of this room"
    )
    room(parser)


def topic_given(parser: ArgumentParser) -> None:
    parser.add_argument(
        "topic", nargs="?", type=_text, metavar="TOPIC", help="its id or its name; default: the topic of this room"
    )
    room(parser)


def new_topic(parser: ArgumentParser) -> None:
    parser.add_argument("name", type=_text, metavar="NAME", help="what it is called")


def topic_status(parser: ArgumentParser) -> None:
    parser.add_argument("--status", choices=("open", "closed", "all"), default="open", help="which (default: open)")
    parser.add_argument("--limit", type=int, default=1_000, metavar="N", help="at most this many (default: 1000)")


def rename(parser: ArgumentParser) -> None:
    parser.add_argument("topic", type=_text, metavar="TOPIC", help="its id or its name")
    parser.add_argument("new_name", type=_text, metavar="NAME", help="the new name")
    room(parser)


def export(parser: ArgumentParser) -> None:
    parser.add_argument("--format", choices=("markdown", "jsonl"), default="markdown", help="(default: markdown)")
    parser.add_argument("--output", metavar="FILE", help="a file that does not exist yet; default: standard output")


def message(parser: ArgumentParser) -> None:
    parser.add_argument("text", type=_text, metavar="TEXT", help="what to say; `-` reads it from standard input")
    parser.add_argument(
        "--to", action="append", default=[], type=_text, metavar="NAME", help="whom it is for; everybody sees it"
    )
    parser.add_argument(
        "--type",
        default="message",
        type=_text,
        metavar="TYPE",
        help="message (default), question, answer, ack or any other word",
    )
    parser.add_argument(
        "--reply-to", type=_text, metavar="MESSAGE", help="the id, or the number, of the message this answers"
    )
    parser.add_argument("--key", type=_text, metavar="KEY", help="sending again under the same key sends nothing twice")


def reading(parser: ArgumentParser) -> None:
    parser.add_argument("--since", metavar="WHEN", help="from a message number (12), a time (2026-01-31T12:00) or an "
                        "age (90m, 2h, 3d) on, also what you have read; your place does not move")  # fmt: skip
    parser.add_argument("--follow", action="store_true", help="go on, as messages come, until you interrupt it or the "
                        "topic is closed; your own are shown too; with --json one object per line")  # fmt: skip
    parser.add_argument("--peek", action="store_true", help="do not count it as read")
    parser.add_argument("--limit", type=int, metavar="N", help="at most this many (default: 100); with --follow, end "
                        "after this many (default: never)")  # fmt: skip


def question(parser: ArgumentParser) -> None:
    parser.add_argument("text", type=_text, metavar="QUESTION", help="what to ask; `-` reads it from standard input")
    parser.add_argument("--wait", type=_seconds, default=60.0, metavar="SECONDS",
                        help="how long to wait for an answer (default: 60); 0: just ask")  # fmt: skip


def answer(parser: ArgumentParser) -> None:
    parser.add_argument("question", type=_text, metavar="QUESTION", help="its number or id; see `conch questions`")
    parser.add_argument("text", type=_text, metavar="TEXT", help="the answer; `-` reads it from standard input")
    parser.add_argument("--pointer", action="append", default=[], type=_text, metavar="PATH", help="where to look")
    parser.add_argument("--followup", action="append", default=[], type=_text, metavar="TEXT", help="what to ask next")


def questions(parser: ArgumentParser) -> None:
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument("--done", metavar="QUESTION", help="close one of yours: it is answered well enough")
    ending.add_argument("--cancel", metavar="QUESTION", help="take back one of yours")
    parser.add_argument("--all", action="store_true", help="also those that are answered or cancelled")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most this many (default: 50)")


def search(parser: ArgumentParser) -> None:
    parser.add_argument("query", nargs="+", metavar="TEXT", help="what to look for; any text will do")
    parser.add_argument("--mode", choices=("hybrid", "fts", "semantic"), default="hybrid",
                        help="by words (fts), by meaning (semantic) or both (default)")  # fmt: skip
    parser.add_argument("--topic", metavar="TOPIC", help="only in this one, by its id or its name; default: everywhere")
    parser.add_argument("--sender", metavar="NAME", help="only what this peer said")
    parser.add_argument("--type", metavar="TYPE", help="only messages of this type")
    parser.add_argument("--since", metavar="WHEN", help="a time (2026-01-31T12:00) or an age (90m, 2h, 3d)")
    parser.add_argument("--until", metavar="WHEN", help="the same")
    parser.add_argument("--model", metavar="NAME", help="which model knows the meaning")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="at most this many (default: 20)")
    parser.add_argument("--content", action="store_true", help="whole messages, not only a line of each")
    shared(parser)


def freed_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", type=_text, metavar="NAME", help="the name to free; see `conch topics show`")


def explain(parser: ArgumentParser) -> None:
    parser.add_argument("--explain", action="store_true", help="show every signal, its link, and which one won")


def backup(parser: ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="a file that does not exist yet")


def copy(parser: ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="STORE", help="a file, or the URL of a server")


def wipe(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="really do it")


def keep(parser: ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="leave the scratch repository and store behind")


def _text(given: str) -> str:
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("is not valid UTF-8") from None
    return given


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise ArgumentTypeError(f"must be a number of seconds, 0 or more, not {text[:80]!r}")
    return seconds
