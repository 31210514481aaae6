"""A server with tools made for these tests: the real connection, session and registry under tools that misbehave.

    python probe_server.py JOURNAL [MAX_LINE_BYTES | --http]

The journal is the file in which calls that were taken back leave a line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from conch.app import open_app
from conch.calls import Call
from conch.doors.mcp.server import serve_stdio
from conch.doors.web.server import Serving, serve
from conch.tools.instructions import instructions
from conch.tools.registry import Tool
from conch.tools.replies import Delivery, Object, Reply
from conch.tools.session import Session


def take_back() -> None:
    with open(sys.argv[1], "a") as journal:
        journal.write("undone\n")


def sleep_until_cancelled(call: Call) -> None:
    woken = threading.Event()
    call.wake_with(woken.set)
    call.report("waiting")
    woken.wait()


def echo(session: Session, given: Object, call: Call) -> Reply:
    return Reply({"text": given["text"]}, given["text"], Delivery(not_sent=take_back))


def wait(session: Session, given: Object, call: Call) -> Reply:
    """Like wait_for_turn: sleeps, and changes nothing when it is cancelled."""
    sleep_until_cancelled(call)
    call.check()
    raise AssertionError("woken without being cancelled")


def claim_anyway(session: Session, given: Object, call: Call) -> Reply:
    """Like wait_for_turn when the claim was committed just before the cancellation came."""
    sleep_until_cancelled(call)
    call.report("nobody wants to hear this any more")
    return Reply({"claimed": True}, "claimed", Delivery(not_sent=take_back))


def claim_slowly(session: Session, given: Object, call: Call) -> Reply:
    """Like wait_for_turn while the store is busy: to note that the reply was sent takes until the test says so."""

    def note() -> None:
        deadline = time.monotonic() + 10
        while not os.path.exists(f"{sys.argv[1]}.noted") and time.monotonic() < deadline:
            time.sleep(0.005)

    return Reply({"claimed": True}, "claimed", Delivery(sent=note, retracted=take_back))


def count(session: Session, given: Object, call: Call) -> Reply:
    for number in range(given["to"]):
        call.report(f"step {number}")
    return Reply({}, "counted")


def journal(session: Session, given: Object, call: Call) -> Reply:
    """Wait for as many lines in the journal, and say how many there are."""
    deadline = time.monotonic() + 10
    while len(lines := _journal_lines()) < given["lines"] and time.monotonic() < deadline:
        time.sleep(0.005)
    return Reply({"lines": len(lines)}, str(len(lines)))


def _journal_lines() -> list[str]:
    with open(sys.argv[1], "a+") as journal:
        journal.seek(0)
        return journal.readlines()


def make_noise(session: Session, given: Object, call: Call) -> Reply:
    print("a stray print", flush=True)
    os.write(1, b"a stray write\n")
    child = subprocess.run(["sh", "-c", "echo a noisy child; cat"], check=True, timeout=10)
    return Reply({"child": child.returncode}, "made noise")


def fill(session: Session, given: Object, call: Call) -> Reply:
    return Reply({}, "x" * given["size"], Delivery(not_sent=take_back))


def unspeakable(session: Session, given: Object, call: Call) -> Reply:
    return Reply({"value": {"nan": float("nan"), "object": object()}[given["kind"]]}, "", Delivery(not_sent=take_back))


def half_a_pair(session: Session, given: Object, call: Call) -> Reply:
    return Reply({"text": "cut \ud83d here"}, "cut \ud83d here \U0001f41a")


def crash(session: Session, given: Object, call: Call) -> Reply:
    raise RuntimeError("a secret detail")


def client(session: Session, given: Object, call: Call) -> Reply:
    path, name = session.path(None), session._client_name()
    return Reply({"path": path, "name": name}, path, Delivery(not_sent=take_back))


def hang(session: Session, given: Object, call: Call) -> Reply:
    """A call that does not hear that it was cancelled."""
    call.report("waiting")
    threading.Event().wait()
    raise AssertionError("unreachable")


def tool(handler: object, **fields: str) -> Tool:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in fields.items()},
        "required": list(fields),
    }
    name = handler.__name__
    return Tool(handler, name, f"Probe: {name}.", schema, {"readOnlyHint": True}, "probe")


TOOLS = [
    tool(echo, text="string"),
    tool(wait),
    tool(claim_anyway),
    tool(claim_slowly),
    tool(count, to="integer"),
    tool(journal, lines="integer"),
    tool(make_noise),
    tool(fill, size="integer"),
    tool(unspeakable, kind="string"),
    tool(half_a_pair),
    tool(crash),
    tool(client),
    tool(hang),
]


def main(words: list[str]) -> int:
    tools = {one.name: one for one in TOOLS}
    if words[1:] == ["--http"]:
        here = Serving(0, "127.0.0.1", (), None, None, False)
        return serve(open_app(os.environ), here, tools, instructions(tools))
    limit = {"CONCH_MAX_LINE_BYTES": words[1]} if len(words) > 1 else {}
    return serve_stdio(open_app({**os.environ, **limit}), tools)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
