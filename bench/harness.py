"""What every benchmark uses: servers on pipes, a scratch store, percentiles, and rows of the table."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

Object = dict[str, Any]

HERE = Path(__file__).resolve().parent
SDK_PYTHON = HERE.parent / ".venv-mcp2" / "bin" / "python"
PYTHON = (sys.executable, "-c", "pass")
CONCH = (sys.executable, "-m", "conch")
CONCH_SCRIPT = str(Path(sysconfig.get_path("scripts")) / "conch")
HANDOFF = {"status": "Measured one turn.", "next_action": "Measure the next one."}


class Plan(NamedTuple):
    """How much is measured. Everything is bounded, so a run ends by itself."""

    rounds: int
    handoffs: int
    polled_handoffs: int
    calls: int
    rested_calls: int
    starts: int
    idle_seconds: float
    crowds: tuple[int, ...]
    """How many processes pass sticks."""
    passing_rounds: int
    passing_seconds: float
    limit_seconds: int


FULL = Plan(
    rounds=10,
    handoffs=600,
    polled_handoffs=100,
    calls=2_000,
    rested_calls=200,
    starts=15,
    idle_seconds=20,
    crowds=(1, 2, 8, 32),
    passing_rounds=3,
    passing_seconds=2,
    limit_seconds=600,
)
QUICK = Plan(
    rounds=2,
    handoffs=20,
    polled_handoffs=4,
    calls=40,
    rested_calls=10,
    starts=1,
    idle_seconds=1,
    crowds=(1, 2),
    passing_rounds=1,
    passing_seconds=0.2,
    limit_seconds=300,
)


class Row(NamedTuple):
    """One line of the table. `met` is None without a budget."""

    what: str
    conch: str
    beside: str = ""
    ratio: str = ""
    budget: str = ""
    met: bool | None = None


class Spread(NamedTuple):
    """Many measurements of one thing, in seconds."""

    p50: float
    p99: float
    longest: float
    size: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        ordered = sorted(seconds)
        last = len(ordered) - 1
        return cls(ordered[last // 2], ordered[min(last, int(len(ordered) * 0.99))], ordered[-1], len(ordered))


class Memory(NamedTuple):
    """Resident bytes, and this process's share of them: a page that n processes map counts as 1/n."""

    rss: int
    pss: int


def memory_of(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1_024 for line in lines[1:]}
    return Memory(sizes["Rss"], sizes["Pss"])


def milliseconds(seconds: float) -> str:
    digits = 2 if seconds < 0.010 else 1 if seconds < 0.1 else 0
    return f"{seconds * 1_000:.{digits}f} ms"


def times(numerator: float, denominator: float) -> str:
    """A ratio, with more digits the smaller it is."""
    ratio = numerator / denominator
    return f"{ratio:.2f}x" if ratio < 1 else f"{ratio:.1f}x" if ratio < 20 else f"{ratio:.0f}x"


class Server:
    """An MCP server process and the pipes to it, used by one thread that waits for one thing at a time."""

    def __init__(self, command: Sequence[str], environ: dict[str, str], errors: Path) -> None:
        self._errors = errors
        with errors.open("ab") as stderr:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environ, bufsize=0
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._input, self._output = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._rest = b""
        self._last_id = 0

    def initialize(self) -> None:
        client = {"name": "conch-bench", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.result(self.request("initialize", params))
        self._send({"method": "notifications/initialized"})

    def ping(self) -> None:
        self.result(self.request("ping", {}))

    def call(self, tool: str, **arguments: Any) -> Object:
        return self.answer(self.begin(tool, **arguments))

    def begin(self, tool: str, **arguments: Any) -> int:
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def begin_wait(self, room_id: str) -> int:
        """Start a `wait_for_turn`; returns once the server reports that it waits."""
        params = {"name": "wait_for_turn", "arguments": {"room_id": room_id}, "_meta": {"progressToken": "waiting"}}
        request_id = self.request("tools/call", params)
        if "method" not in (message := self._receive()):
            raise RuntimeError(f"the waiter did not wait: {message}")
        return request_id

    def answer(self, request_id: int) -> Object:
        """What a tool call returned; a refusal ends the benchmark."""
        result = self.result(request_id)
        if result.get("isError"):
            raise RuntimeError(f"a tool call was refused: {result}")
        found: Object = result.get("structuredContent", {})
        return found

    def request(self, method: str, params: Object) -> int:
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def result(self, request_id: int) -> Object:
        """The result of a request; progress notifications are skipped."""
        while (message := self._receive()).get("id") != request_id:
            pass
        if "result" not in message:
            raise RuntimeError(f"a request was refused: {message}")
        found: Object = message["result"]
        return found

    def close(self) -> None:
        """Close the server's input, which ends it."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _send(self, message: Object) -> None:
        os.write(self._input, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _receive(self) -> Object:
        while b"\n" not in self._rest:
            chunk = os.read(self._output, 65_536)
            if not chunk:
                raise RuntimeError(f"a server ended early: {self._errors.read_text()[-2_000:]}")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        message: Object = json.loads(line)
        return message


class Scratch:
    """A temporary store and workspaces, deleted when the run ends. `sdk_python` runs the empty SDK server."""

    def __init__(self, folder: Path, sdk_python: str | None) -> None:
        self.folder = folder
        self.sdk_python = sdk_python

    def environ(self, agent_id: str = "bench:0000") -> dict[str, str]:
        """An environment without the caller's session, so that the machine's own rooms are never touched."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "CONCH_DATA_DIR": str(self.folder / "data"),
            "CONCH_AGENT_ID": agent_id,
            **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
        }

    def workspace(self, name: str) -> str:
        """A directory with a marker file, which makes it a workspace root wherever the temporary directory is."""
        path = self.folder / "workspaces" / name
        path.mkdir(parents=True, exist_ok=True)
        (path / "AGENTS.md").touch()
        return str(path)

    def open(
        self, command: Sequence[str], agent_id: str = "bench:0000", variables: dict[str, str] | None = None
    ) -> Server:
        return Server(command, {**self.environ(agent_id), **(variables or {})}, self.folder / "stderr")

    @contextmanager
    def server(self, agent_id: str, **variables: str) -> Iterator[Server]:
        """An initialized `conch mcp`."""
        with self._initialized((*CONCH, "mcp"), agent_id, variables) as server:
            yield server

    @contextmanager
    def sdk_server(self) -> Iterator[Server | None]:
        """The empty server of the official SDK; None if the SDK is not installed."""
        if self.sdk_python is None:
            yield None
            return
        with self._initialized(self.sdk_command, "bench:0000") as server:
            yield server

    @property
    def sdk_command(self) -> tuple[str, str]:
        assert self.sdk_python is not None
        return self.sdk_python, str(HERE / "sdk_server.py")

    @contextmanager
    def _initialized(
        self, command: Sequence[str], agent_id: str, variables: dict[str, str] | None = None
    ) -> Iterator[Server]:
        server = self.open(command, agent_id, variables)
        try:
            server.initialize()
            yield server
        finally:
            server.close()


@contextmanager
def open_scratch(sdk_python: str | None) -> Iterator[Scratch]:
    folder = Path(tempfile.mkdtemp(prefix="conch-bench-"))
    try:
        yield Scratch(folder, sdk_python)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
