"""What the commands around agents, reservations and notices take."""

from __future__ import annotations

from argparse import ArgumentParser

from conch.doors.cli import options
from conch.notices.events import STATES
from conch.notices.payloads import SENDABLE, URGENCIES
from conch.scopes.reservations import LONGEST_TTL, SHORTEST_TTL, TTL_MINUTES


def speaker(parser: ArgumentParser) -> None:
    parser.add_argument("--agent", metavar="AGENT", help="speak as this agent (agent_id or name); default: yourself")
    options.room(parser)


def register(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="such as amber-otter; default: your generated name")
    parser.add_argument("--role", metavar="TEXT", help="what you do here")


def adopt(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="AGENT", help="the name or agent_id to resume")
    parser.add_argument("--scope", metavar="SCOPE", help="where its work lies, from here (default: anywhere)")


def shown(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="AGENT", help="an agent_id or a name; default: yourself")


def scope(parser: ArgumentParser) -> None:
    parser.add_argument("scope", metavar="SCOPE", help="a file or directory, from here, or 'dir/*'")


def reserve(parser: ArgumentParser) -> None:
    scope(parser)
    times = f"for how long, {SHORTEST_TTL} to {LONGEST_TTL} (default: {TTL_MINUTES})"
    parser.add_argument("--ttl", type=int, metavar="MINUTES", help=times)
    parser.add_argument("--takeover-stale", action="store_true", help="take it from owners that are stale or evicted")
    bead(parser)


def bead(parser: ArgumentParser) -> None:
    parser.add_argument("--bead", metavar="ID", help="the work item that it is for")


def status(parser: ArgumentParser) -> None:
    parser.add_argument("scope", nargs="?", metavar="PATH", help="only what overlaps this path")
    parser.add_argument("--all", action="store_true", help="also what is released or expired, newest first")


def send(parser: ArgumentParser) -> None:
    parser.add_argument("to", metavar="AGENT", help="who must see it: an agent_id or a name")
    parser.add_argument("--type", default="HANDOFF", choices=list(SENDABLE), help="default: HANDOFF")
    parser.add_argument("--subject", required=True, metavar="TEXT", help="what it is about, in a line")
    parser.add_argument("--summary", metavar="TEXT", help="HANDOFF: what was done and learned")
    parser.add_argument("--next", dest="next_action", metavar="TEXT", help="HANDOFF: what to do next")
    parser.add_argument("--no-ack", action="store_true", help="HANDOFF: it need not be accepted")
    parser.add_argument("--blocker", metavar="TEXT", help="BLOCKED: what is in the way")
    parser.add_argument("--request", dest="requested_action", metavar="TEXT", help="BLOCKED: what would help")
    parser.add_argument("--urgency", choices=URGENCIES, help="BLOCKED (default: medium)")
    parser.add_argument("--scope", metavar="SCOPE", help="the files that it is about, from here")
    bead(parser)


def inbox(parser: ArgumentParser) -> None:
    parser.add_argument("--state", choices=[*STATES, "all"], help="default: all that is not accepted")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most this many (default: 50)")


def event(parser: ArgumentParser) -> None:
    parser.add_argument("event", metavar="EVENT", help="its id; see `conch agent inbox`")


def init(parser: ArgumentParser) -> None:
    parser.add_argument("--non-interactive", action="store_true", help="never ask; fail where a person must decide")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--adopt", metavar="AGENT", help="resume this identity, if it left unfinished work")
    choice.add_argument("--register", metavar="NAME", help="begin under this name")
    options.room(parser)
