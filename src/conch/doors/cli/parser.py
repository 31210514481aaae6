"""The words of the command line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from conch import __version__
from conch.errors import InvalidArgument
from conch.handoffs import ROLES


class Parser(argparse.ArgumentParser):
    """Raises its complaints, so that they come out like every other error."""

    def error(self, message: str) -> NoReturn:
        raise InvalidArgument(f"{message}. See `{self.prog} --help`.", field="arguments")


def make_parser() -> Parser:
    shared = Parser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print one JSON object: ok, command, data, error")
    shared.add_argument("--store", help="the SQLite file to use (default: see `conch db path`)")
    room = Parser(add_help=False, parents=[shared])
    room.add_argument("--room", metavar="ID", help="the room; default: the one of --path")
    room.add_argument("--path", metavar="DIR", default=None, help="a path in the workspace; default: here")

    parser = Parser(prog="conch", description="Take turns in a workspace that several agents share.")
    parser.add_argument("--version", action="version", version=f"conch {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    _add_turn_commands(commands, room)
    _add_room_commands(commands, shared, room)
    _add_store_commands(commands, shared)
    whoami = commands.add_parser("whoami", parents=[shared], help="who conch takes you for")
    whoami.add_argument("--explain", action="store_true", help="show every signal, its link, and which one won")
    mcp = commands.add_parser("mcp", help="serve MCP on standard input and output (harnesses start this)")
    mcp.add_argument("--tools", metavar="GROUPS", help="only these tool groups, separated by commas")
    demo = commands.add_parser("demo", help="watch three scripted agents take turns, skip, fail and recover")
    demo.add_argument("--keep", action="store_true", help="leave the scratch repository and store behind")
    return parser


Commands = argparse._SubParsersAction  # argparse has no public name for it


def _add_turn_commands(commands: Commands[Parser], room: Parser) -> None:
    wait = commands.add_parser("wait", parents=[room], help="wait for the stick and claim it")
    wait.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="give up after this long; 0: just look")
    handoff = Parser(add_help=False)
    handoff.add_argument("--status", metavar="TEXT", help="what you did, what you learned, what is unfinished")
    handoff.add_argument("--next", metavar="TEXT", dest="next_action", help="what the next agent should do")
    handoff.add_argument(
        "--artifact",
        action="append",
        default=[],
        metavar="PATH[:A-B][=ROLE]",
        help=f"a file to look at; ROLE is one of {', '.join(ROLES)} (default: examine)",
    )
    handoff.add_argument("--question", action="append", default=[], metavar="TEXT", help="an open question")
    handoff.add_argument("--do-not", action="append", default=[], metavar="TEXT", help="what is off limits")
    handoff.add_argument("--handoff", metavar="FILE", help="the whole handoff as JSON, from a file or `-`")
    commands.add_parser("release", parents=[room, handoff], help="hand over to the next member in sequence")
    passing = commands.add_parser("pass", parents=[room, handoff], help="hand over to one member")
    passing.add_argument("to", metavar="AGENT", help="an agent_id or a name, as `conch state` shows them")
    take = commands.add_parser("take", parents=[room], help="take over from somebody who does not answer")
    take.add_argument("--reason", required=True, metavar="TEXT", help="why; it is written into the log")


def _add_room_commands(commands: Commands[Parser], shared: Parser, room: Parser) -> None:
    rooms = commands.add_parser("rooms", parents=[shared], help="list the rooms of a workspace")
    rooms.add_argument("--path", metavar="DIR", help="a path in the workspace; default: here")
    rooms.add_argument("--all", action="store_true", help="every room of the store, closed ones too")
    join = commands.add_parser("join", parents=[shared], help="join the room of a workspace")
    join.add_argument("path", nargs="?", metavar="DIR", help="a path in the workspace; default: here")
    join.add_argument("--force-new", action="store_true", help="make a nested room at exactly this path")
    note = commands.add_parser("note", parents=[room], help="write a note into the log")
    note.add_argument("text", metavar="TEXT")
    commands.add_parser("state", parents=[room], help="who holds the stick, and who is there")
    events = commands.add_parser("events", parents=[room], help="the log, oldest first")
    events.add_argument("--after", metavar="CURSOR", help="only what came after this")
    events.add_argument("--limit", type=int, default=50, metavar="N", help="at most this many (default: 50)")
    commands.add_parser("leave", parents=[room], help="stop being a member")
    close = commands.add_parser("close", parents=[room], help="end the room, as the holder of its stick")
    close.add_argument("--reason", metavar="TEXT")
    reorder = commands.add_parser("reorder", parents=[room], help="set the sequence of the members")
    reorder.add_argument("order", nargs="+", metavar="AGENT", help="every member once, in the new order")
    policy = commands.add_parser("policy", parents=[room], help="show or set the room's timing")
    policy.add_argument("values", nargs="*", metavar="NAME=VALUE", help="`NAME=` gives a value back to its default")


def _add_store_commands(commands: Commands[Parser], shared: Parser) -> None:
    db = commands.add_parser("db", help="the store: where it is, whether it is sound, copies")
    actions = db.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    actions.add_parser("path", parents=[shared], help="print where the store is")
    actions.add_parser("verify", parents=[shared], help="replay the log and compare it with the rooms")
    backup = actions.add_parser("backup", parents=[shared], help="copy the store while others go on using it")
    backup.add_argument("file", nargs="?", metavar="FILE", help="a file that does not exist yet")
    wipe = actions.add_parser("wipe", parents=[shared], help="forget every room, member and event")
    wipe.add_argument("--yes", action="store_true", help="really do it")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more, not {text!r}")
    return seconds
