"""Three everyday walks through the code, in real processes whose calls and transactions are counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

PROBE = Path(__file__).with_name("house_probe.py")
PROTOCOL_VERSION = "2025-11-25"
HANDOFF = {"status": "the lexer is done", "next_action": "write the parser"}
QUIET_SECONDS = 0.3


class Cost(NamedTuple):
    calls: int
    files: int
    transactions: int

    def plus(self, other: Cost) -> Cost:
        return Cost(self.calls + other.calls, max(self.files, other.files), self.transactions + other.transactions)


Costs = dict[str, Cost]  # by the process in a walk that had them; "" if there is only one


class Probed:
    """A `conch` process of one checkout, with its own workspace and store."""

    def __init__(self, source: Path, folder: Path, agent_id: str, *words: str) -> None:
        asked, self._asking = os.pipe()
        self._telling, told = os.pipe()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONCH_", "PYTHON"))}
        environ = {**kept, "CONCH_DATA_DIR": str(folder / "data"), "CONCH_AGENT_ID": agent_id}
        self.process = subprocess.Popen(
            [sys.executable, str(PROBE), str(source), str(asked), str(told), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder / "workspace",
            env=environ,
            pass_fds=(asked, told),
            text=True,
        )
        os.close(asked)
        os.close(told)
        self._counts = os.fdopen(self._telling)

    def cost(self) -> Cost:
        """The cost since the last call, once the process is idle."""
        total = self._ask()
        while (more := self._ask()).calls:
            total = total.plus(more)
        return total

    def _ask(self) -> Cost:
        time.sleep(QUIET_SECONDS)
        os.write(self._asking, b"?")
        return self._read()

    def _read(self) -> Cost:
        return Cost(**json.loads(self._counts.readline()))

    def run(self) -> Cost:
        """The cost of a whole command."""
        self.process.communicate()
        if self.process.returncode:
            raise RuntimeError(f"conch ended with {self.process.returncode}")
        return self._read()

    def close(self) -> None:
        self.process.communicate()
        self._counts.close()
        os.close(self._asking)


class Agent(Probed):
    """A `conch mcp` server, and the client that speaks to it."""

    def __init__(self, source: Path, folder: Path, agent_id: str) -> None:
        super().__init__(source, folder, agent_id, "mcp")
        self._number = 0
        client = {"name": agent_id.partition(":")[0], "version": "1"}
        handshake = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
        self.answer(self._request("initialize", handshake))
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.answer(self.begin(tool, **arguments))["structuredContent"]

    def begin(self, tool: str, **arguments: Any) -> int:
        meta = {"progressToken": self._number + 1}
        return self._request("tools/call", {"name": tool, "arguments": arguments, "_meta": meta})

    def until_waiting(self) -> None:
        while self._receive().get("method") != "notifications/progress":
            pass

    def answer(self, number: int) -> Any:
        while (message := self._receive()).get("id") != number:
            pass
        result = message["result"]
        if result.get("isError"):
            raise RuntimeError(str(result["structuredContent"]))
        return result

    def _request(self, method: str, params: Any) -> int:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        return self._number

    def _send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def _receive(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@contextmanager
def _two_agents(source: Path) -> Iterator[tuple[Agent, Agent, Any]]:
    """Two agents in one room, and the second one's reply to its join."""
    with _scratch() as folder:
        codex, claude = (Agent(source, folder, agent_id) for agent_id in ("codex:1", "claude-code:1"))
        codex.call("join_path")
        room = claude.call("join_path")
        yield codex, claude, room
        codex.close()
        claude.close()


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="conch-house-") as name:
        folder = Path(name).resolve()
        (folder / "workspace").mkdir()
        (folder / "workspace" / "AGENTS.md").touch()
        yield folder


def walk_sync(source: Path) -> Costs:
    with _two_agents(source) as (codex, claude, room):
        topic_id = room["topic_id"]
        for agent in (codex, claude):
            agent.call("topic_join", topic_id=topic_id, agent_name=f"{room['room_id'][:4]}-{agent.process.pid}")
        outbox = [{"content_markdown": "the lexer is done"}]
        codex.call("sync", topic_id=topic_id, outbox=outbox, wait_seconds=0)
        codex.cost()
        codex.call("sync", topic_id=topic_id, outbox=outbox, wait_seconds=0)
        return {"": codex.cost()}


def walk_release(source: Path) -> Costs:
    with _two_agents(source) as (codex, claude, room):
        for owner, waiter in ((codex, claude), (claude, codex), (codex, claude)):  # the last round has warm caches
            turn = owner.call("wait_for_turn", room_id=room["room_id"], max_wait_ms=0)
            waiting = waiter.begin("wait_for_turn", room_id=room["room_id"])
            waiter.until_waiting()
            owner.cost(), waiter.cost()
            keys = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
            owner.call("release_stick", room_id=room["room_id"], handoff=HANDOFF, **keys)
            waiter.answer(waiting)
            costs = {", the owner": owner.cost(), ", the woken": waiter.cost()}
        return costs


def walk_reserve(source: Path) -> Costs:
    with _scratch() as folder:
        Probed(source, folder, "codex:1", "join").run()
        return {"": Probed(source, folder, "codex:1", "agent", "reserve", "src/x").run()}


WALKS: dict[str, Callable[[Path], Costs]] = {
    "`sync` with one message": walk_sync,
    "`release_stick` that wakes another process": walk_release,
    "`conch agent reserve`": walk_reserve,
}
