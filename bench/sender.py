"""One process that sends messages on a topic through the library for a given time, and reports."""

from __future__ import annotations

import json
import os
import sys
import time

from conch.app import open_app
from conch.bus.drafts import Draft
from conch.errors import ConchError
from conch.tools.session import Session
from waking import BODY


def main() -> None:
    app = open_app(os.environ)
    topic, _ = app.topics.create(sys.argv[1], None, "reuse")
    peer = app.peers.join(Session(app, "mcp").caller(), sys.argv[2], topic.topic_id, None, None).peer
    took: list[float] = []
    refused = 0
    print(json.dumps({"ready": True}), flush=True)
    order = json.loads(sys.stdin.readline())
    time.sleep(max(0.0, order["start"] - time.monotonic()))
    deadline = order["start"] + order["seconds"]
    while (started := time.monotonic()) < deadline:
        try:
            app.messages.send(peer, [Draft(BODY)])
            took.append(time.monotonic() - started)
        except ConchError as refusal:
            refused += 1
            print(refusal, file=sys.stderr)
    print(json.dumps({"took": took, "refused": refused}), flush=True)
    app.close()


if __name__ == "__main__":
    main()
