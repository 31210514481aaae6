"""What happened, as JSON lines: the calls that the agents made and the replies they saw, the signals, the store.

Each process appends to a file of its own, one `write` per line, so a killed process loses no finished line. All
processes share the machine's monotonic clock, so the files together give the order of replies and later requests.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Object = dict[str, Any]

UNKNOWN = frozenset({"DB_UNCERTAIN"})
"""The codes of replies that leave open whether the call took effect."""


class Call(NamedTuple):
    """One call as its client saw it."""

    player: int
    agent_id: str
    tool: str
    args: Object
    began: float
    ended: float = math.inf
    """When the reply was read; never, if it was lost."""
    outcome: str = "lost"
    """`ok`, `refused`, `lost` (the client or its server died first) or `unanswered` (neither did)."""
    code: str = ""
    data: Object = {}
    wall: float = 0.0
    """The time of day of `ended`."""
    over: float = math.inf
    """By when a lost call can no longer take effect: its server was dead."""

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def may_have_acted(self) -> bool:
        return self.outcome != "refused" or self.code in UNKNOWN

    def __str__(self) -> str:
        until = "lost" if self.ended == math.inf else f"{self.ended:.3f}"
        result = json.dumps(self.data) if self.is_ok else self.code or self.outcome
        return f"{self.began:.3f}-{until} {self.agent_id} {self.tool} {json.dumps(self.args)} -> {result}"[:600]


class Signal(NamedTuple):
    """Something that was done to a player, to its server, or (player -1) to all of them."""

    at: float
    kind: str
    player: int = -1
    over: float = 0.0
    """When it was done, if it took a while, as a restart of the database does."""


class Epoch(NamedTuple):
    """The life of one store: from the end of a disaster to the beginning of the next.

    Demands are made of calls that lie wholly inside an epoch. What ran during the disaster may belong to either.
    """

    began: float
    closing: float = math.inf
    """When the snapshot was begun: a write whose reply was read before is in it."""
    ended: float = math.inf
    disaster: str = ""
    """What ended this epoch: `wipe`, `restore`, `delete`, `overwrite`, or nothing at the end of the run."""
    tables: dict[str, list[Object]] = {}
    """The rows of the snapshot."""
    problems: list[str] = []
    """What `conch db verify` found."""
    kept_until: float = -math.inf
    """For a store that came back with older rows: it has no lease that was granted after this moment."""
    base: dict[str, list[Object]] = {}
    """For a restored store: the rows of its backup."""

    def holds(self, call: Call) -> bool:
        over = call.began if call.ended == math.inf else call.ended
        return self.began < call.began and over < self.ended


class History(NamedTuple):
    calls: list[Call]
    """In the order in which they began."""
    signals: list[Signal]
    epochs: list[Epoch]
    tracebacks: list[str]


class Journal:
    """Appends lines to the file of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._number = 0

    def write(self, **facts: Any) -> None:
        os.write(self._file, json.dumps(facts).encode() + b"\n")

    def begin(self, agent_id: str, tool: str, args: Object) -> int:
        """Write down a call before it is made; returns its number for `end`."""
        self._number += 1
        self.write(call=self._number, agent_id=agent_id, tool=tool, args=args, began=time.monotonic())
        return self._number

    def end(self, number: int, outcome: str, code: str = "", data: Object | None = None) -> None:
        at, wall = time.monotonic(), time.time()
        self.write(reply=number, ended=at, wall=wall, outcome=outcome, code=code, data=data or {})


def load_history(folder: Path) -> History:
    signals, epochs, ends = _load_killer(folder / "killer.jsonl")
    calls = [call for path in sorted(folder.glob("player-*.jsonl")) for call in read_calls(path, ends)]
    texts = [path.read_text(errors="replace") for path in sorted(folder.glob("stderr-*"))]
    tracebacks = [text[text.index("Traceback") :][:2_000] for text in texts if "Traceback" in text]
    return History(sorted(calls, key=lambda call: call.began), signals, epochs, tracebacks)


def read_calls(path: Path, ends: dict[int, float]) -> Iterator[Call]:
    """The calls of one player. `ends` says when each orphaned server was dead."""
    player, server, open_calls = int(path.stem.split("-")[1]), 0, dict[int, Call]()
    for line in _lines(path):
        if "server" in line:
            server = line["server"]
        elif "call" in line:
            open_calls[line["call"]] = Call(player, line["agent_id"], line["tool"], line["args"], line["began"])
        else:
            call = open_calls.pop(line["reply"])
            ended = math.inf if line["outcome"] == "lost" else line["ended"]
            facts = {key: line[key] for key in ("outcome", "code", "data", "wall")}
            yield call._replace(ended=ended, over=line["ended"], **facts)
    # The player died before the reply. Its server may have gone on for a while.
    yield from (call._replace(over=ends.get(server, math.inf)) for call in open_calls.values())


def _load_killer(path: Path) -> tuple[list[Signal], list[Epoch], dict[int, float]]:
    """The signals, the epochs, and when each orphaned server was dead."""
    signals, epochs, ends = [], [], dict[int, float]()
    for line in _lines(path):
        if "signal" in line:
            signals.append(Signal(line["at"], line["signal"], line["player"], line["over"]))
        elif "epoch" in line:
            epochs.append(Epoch(**line["epoch"]))
        else:
            ends[line["reaped"]] = line["at"]
    return signals, epochs, ends


def _lines(path: Path) -> Iterator[Object]:
    with path.open() as file:
        yield from (json.loads(line) for line in file if line.endswith("\n"))
