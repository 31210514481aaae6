"""One agent in a process of its own: it makes the tool calls that a test asks for, or takes turns by itself.

    python agent.py                      one line of JSON for every call on standard input
    python agent.py play PATH TURNS      passes the stick, through whatever happens to the store
    python agent.py talk NAME COUNT      sends messages on the topic `pink`, each until it is confirmed
    python agent.py --skew SECONDS ...   with a wall clock that is wrong

It is what an MCP server is, without the protocol: a session, and tools.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import cache
from typing import Any

if __name__ == "__main__" and sys.argv[1:2] == ["--skew"]:  # before anything has had a chance to ask for the time
    SKEW = int(sys.argv[2])
    right_time, right_time_ns = time.time, time.time_ns
    time.time = lambda: right_time() + SKEW
    time.time_ns = lambda: right_time_ns() + SKEW * 1_000_000_000
    del sys.argv[1:3]

from conch.app import open_app
from conch.calls import Call
from conch.errors import StoreError
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session


@cache
def session() -> Session:
    return Session(open_app(os.environ), "mcp")


def say(words: Any) -> None:
    print(json.dumps(words), flush=True)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    outcome = call_tool(TOOLS[tool], session(), arguments, Call())
    try:
        outcome.delivery.sent()
    except StoreError as trouble:  # as a door does: the reply is already out, so the error cannot go to the caller
        print(trouble, file=sys.stderr)
    return outcome.data


def obey() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        say(call(order["tool"], **order["arguments"]))


def insist(tool: str, **arguments: Any) -> dict[str, Any]:
    """Call again while the store is away. The caller checks any other answer."""
    while (answer := call(tool, **arguments)).get("error") == "DB_UNAVAILABLE":
        say(["away", tool])
        time.sleep(0.02)
    return answer


def play(path: str, turns: str) -> None:
    """Report what was asked of the store and its answer, so that a test can compare both with the log."""
    while "error" in (joined := insist("join_path", context_path=path)):
        say(["unsure", "join", joined["error"]])
    room_id = joined["room_id"]
    say(["joined", room_id])
    sys.stdin.readline()
    made = 0
    while made < int(turns):
        turn = insist("wait_for_turn", room_id=room_id, max_wait_ms=5_000)
        if turn.get("status") == "your_turn":
            say(["claimed", turn["turn_id"], turn["handoff"], turn["from_agent_id"], turn["reason"]])
            made += let_go(room_id, turn)
        elif "error" in turn:
            say(["unsure", "claim", turn["error"]])
    while "error" in (left := insist("leave_path", room_id=room_id)) and left["error"] != "unknown_member":
        say(["unsure", "leave", left["error"]])
    say(["done"])


def let_go(room_id: str, turn: dict[str, Any]) -> int:
    """1 when the turn is over for certain."""
    mark = os.urandom(8).hex()
    say(["writes", turn["turn_id"], mark])
    fenced = {"room_id": room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    answer = insist("release_stick", **fenced, handoff={"status": mark, "next_action": "go on"})
    if "error" in answer:
        say(["unsure", "release", answer["error"]])
        return 0
    say(["released", turn["turn_id"], mark])
    return 1


def talk(name: str, count: str) -> None:
    """A message whose fate is not known is sent again, under the same key."""
    topic_id = call("topic_create", name="pink")["topic_id"]
    call("topic_join", topic_id=topic_id, agent_name=name)
    say(["joined", topic_id])
    sys.stdin.readline()
    for number in range(int(count)):
        outbox = [{"content_markdown": f"{name} {number}", "client_message_id": str(number)}]
        while "error" in (sent := insist("sync", topic_id=topic_id, outbox=outbox, wait_seconds=0)):
            say(["unsure", "send", sent["error"]])
        say(["sent", sent["sent"][0]["message"]["seq"]])
    say(["done"])


def main(words: list[str]) -> None:
    roles = {"play": play, "talk": talk}
    if words:
        roles[words[0]](*words[1:])
    else:
        obey()


if __name__ == "__main__":
    main(sys.argv[1:])
