"""What the commands take, as argparse knows it."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

from conch.handoffs import ROLES


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
    parser.add_argument("--after", metavar="CURSOR", help="only what came after this; 0: from the beginning")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most this many (default: 50)")
    parser.add_argument("--follow", action="store_true", help="go on with what happens from now on")


def order(parser: ArgumentParser) -> None:
    parser.add_argument("order", nargs="+", metavar="AGENT", help="every member once, in the new order")


def policy(parser: ArgumentParser) -> None:
    parser.add_argument("values", nargs="*", metavar="NAME=VALUE", help="a value to set; `NAME=` restores its default")


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


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise ArgumentTypeError(f"must be a number of seconds, 0 or more, not {text[:80]!r}")
    return seconds
