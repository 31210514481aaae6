"""Calls and types bad input, and collects what is wrong with the answers."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

from tests.fuzz.inputs import COMMAND_OPTIONS, TOOL_FIELDS, ToolCall, bad_call, bad_line
from tests.fuzz.judge import judge_ended, judge_reply
from tests.fuzz.world import World
from tests.process.forking import Forks
from tests.progress import Progress

from conch.tools.catalogue import TOOLS

PER_WORLD = 1_000  # a store that grows would make comparing its rows slow
ENOUGH = 20


class Report:
    """How the calls ended, and the first finding of each kind."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.ends: Counter[str] = Counter()
        self.findings: dict[tuple[str, str], str] = {}

    def add(self, where: str, given: object, finding: str) -> None:
        kind = finding.split(":")[0]
        self.findings.setdefault((where, kind[:60]), f"{where}: {finding}\n    given {ascii(given)[:400]}")

    def __str__(self) -> str:
        total = f"{self.ends.total()} calls with seed {self.seed}: {dict(self.ends.most_common(8))}"
        return "\n".join([total, *self.findings.values()])


def fuzz_tools(report: Report, count: int, store: str = "") -> None:
    """Call tools until that many calls were made."""
    rng = random.Random(report.seed)
    fields = cycle(rng.sample(TOOL_FIELDS, len(TOOL_FIELDS)))
    progress, begun = Progress("calls", count, report.findings.values()), report.ends.total()
    while count > 0 and len(report.findings) < ENOUGH:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, World(Path(folder), store) as world:
            for name, field in islice(fields, min(count, PER_WORLD)):
                _call(world, bad_call(rng, name, field, world), report)
                progress.tell(report.ends.total() - begun, report.findings.values())
            world.ada.data("ping")  # it still serves
            if world.ada.errors():
                report.add("server", "", f"standard error: {world.ada.errors()[-500:]}")
        count -= PER_WORLD


def _call(world: World, call: ToolCall, report: Report) -> None:
    reply, length = world.ada.request("tools/call", {"name": call.tool, "arguments": call.arguments})
    changes = world.changes()
    for finding in judge_reply(call, reply, length, changes):
        report.add(call.tool, call.arguments, finding)
    result = reply.get("result", {"isError": True, "structuredContent": {"error": "not JSON"}})
    report.ends[result["structuredContent"]["error"] if result["isError"] else "succeeded"] += 1
    if not result["isError"] and call.tool == "sync":
        world.settle(result["structuredContent"])
    if not result["isError"] and not TOOLS[call.tool].annotations.get("readOnlyHint"):
        world.renew()


def fuzz_commands(report: Report, count: int, forks: Forks) -> None:
    """Type commands until that many were typed."""
    rng = random.Random(report.seed)
    options = cycle(rng.sample(COMMAND_OPTIONS, len(COMMAND_OPTIONS)))
    progress, begun = Progress("commands", count, report.findings.values()), report.ends.total()
    while count > 0 and len(report.findings) < ENOUGH:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, World(Path(folder)) as world:
            for name, option in islice(options, min(count, PER_WORLD)):
                _type(world, forks, bad_line(rng, name, option, world), report)
                progress.tell(report.ends.total() - begun, report.findings.values())
        count -= PER_WORLD


def _type(world: World, forks: Forks, words: list[str], report: Report) -> None:
    ended = world.type(forks, words)
    changes = world.changes()
    for finding in judge_ended(ended, changes):
        report.add(" ".join(words[:2]), words, finding)
    report.ends[f"status {ended.status}"] += 1
    if ended.status == 0 and changes:
        world.renew()
