"""The program of one scripted agent, in the place of a harness: it calls the tools that the director names.

Lines from the director: `{"call": N, "tool": ..., "arguments": ...}`. Lines to it: `{"ready": PID}` once, then for
every call, when it has begun to wait, `{"call": N, "waiting": ..., "at": ...}`, and in the end
`{"call": N, "refused": ..., "data": ..., "sent_at": ..., "arrived_at": ...}`. Times are monotonic nanoseconds.
"""

from __future__ import annotations

import os
import select
import sys
import time

from conch.doors.cli.demo.client import Client
from conch.doors.cli.demo.pipes import LinePipe, Object, write_line

DIRECTOR_IN, DIRECTOR_OUT = 0, 1


class Agent:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._sent_at: dict[int, int] = {}

    def work(self) -> None:
        """Carry calls one way and replies the other, until the director or the server ends."""
        orders, replies = LinePipe(DIRECTOR_IN), self._client.replies
        while True:
            readable, _, _ = select.select([orders, replies], [], [])
            now = time.monotonic_ns()
            try:
                if replies in readable:
                    for message in replies.read():
                        self._report(message, now)
                if orders in readable:
                    for order in orders.read():
                        self._obey(order)
            except (EOFError, BrokenPipeError):
                return

    def _obey(self, order: Object) -> None:
        self._sent_at[order["call"]] = time.monotonic_ns()
        self._client.call(order["call"], order["tool"], order["arguments"])

    def _report(self, message: Object, now: int) -> None:
        if message.get("method") == "notifications/progress":
            params = message["params"]
            say({"call": params["progressToken"], "waiting": params.get("message", ""), "at": now})
        elif "id" in message:
            refused, data = read_result(message)
            sent_at = self._sent_at.pop(message["id"])
            times = {"sent_at": sent_at, "arrived_at": now}
            say({"call": message["id"], "refused": refused, "data": data, **times})


def read_result(message: Object) -> tuple[bool, Object]:
    """Whether a reply is a refusal, and its object; an error of the protocol is a refusal too."""
    if "result" in message:
        return message["result"]["isError"], message["result"]["structuredContent"]
    return True, {"error": str(message["error"]["code"]), "message": message["error"]["message"]}


def say(message: Object) -> None:
    write_line(DIRECTOR_OUT, message)


def main() -> int:
    client = Client()
    try:
        client.initialize(sys.argv[1])
        say({"ready": os.getpid()})
        Agent(client).work()
    finally:
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
