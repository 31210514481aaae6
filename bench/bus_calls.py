"""A server that is used for the bus: round trips, memory, and what its tools cost a model's context."""

from __future__ import annotations

import json

from bus_plan import BusPlan
from calls import Step, interleave, mail_row, memory, memory_rows, round_trip_row
from conch.tools.catalogue import GROUPS
from harness import CONCH, Row, Scratch, Server
from waking import join, send

CALLS_BEFORE_MEMORY = 100
LARGEST = {"turns": 8_000, "all": 24_000}
"""Bytes of JSON: what a model may have to read before any work is done."""


def measure(scratch: Scratch, plan: BusPlan) -> list[Row]:
    with (
        scratch.server("bench:caller") as conch,
        scratch.server("bench:reader") as reader,
        scratch.sdk_server() as sdk,
    ):
        topic_id, quiet_id = join(conch, "calls", "caller"), _write(conch, reader)
        steps: dict[str, Step] = {
            "ping": lambda: conch.call("ping"),
            "read": lambda: conch.call("topic_presence", topic_id=quiet_id),
            "mail": lambda: reader.call("topic_presence", topic_id=quiet_id),
            "send": lambda: conch.answer(send(conch, topic_id)),
        }
        if sdk is not None:
            steps["sdk"] = lambda: sdk.call("nothing")
        for _ in range(CALLS_BEFORE_MEMORY // len(steps)):
            for step in steps.values():
                step()
        used = memory(conch), memory(sdk)
        spreads = interleave(plan.rounds, plan.calls, steps)
    empty = spreads.get("sdk")
    return [
        round_trip_row("the tool `ping`", spreads["ping"], "empty tool", empty),
        round_trip_row("a read, `topic_presence`", spreads["read"], "empty tool", empty, 0.5),
        mail_row("a read, `topic_presence`", spreads["mail"], spreads["read"]),
        round_trip_row("a send, `sync`", spreads["send"], "empty tool", empty, 1),
        *memory_rows("after 100 calls", *used),
        *_list_rows(scratch),
    ]


def _write(writer: Server, reader: Server) -> str:
    """Write to the reader on a topic where nothing else is sent. Returns its id."""
    topic_id = join(writer, "quiet", "writer")
    join(reader, "quiet", "reader")
    letter = {"content_markdown": "Please look at this.", "metadata": {"to": "reader"}}
    writer.call("sync", topic_id=topic_id, outbox=[letter], wait_seconds=0)
    assert "mail" in reader.call("topic_presence", topic_id=topic_id)
    return topic_id


def _list_rows(scratch: Scratch) -> list[Row]:
    sizes = {group: _list_size(scratch, group) for group in GROUPS} | {"all": _list_size(scratch, ",".join(GROUPS))}
    return [
        Row(
            f"tool list, {group}",
            f"{size / 1_000:.1f} KB",
            budget=f"<= {LARGEST[group] // 1_000} KB" if group in LARGEST else "",
            met=size <= LARGEST[group] if group in LARGEST else None,
        )
        for group, size in sizes.items()
    ]


def _list_size(scratch: Scratch, groups: str) -> int:
    server = scratch.open((*CONCH, "mcp", "--tools", groups))
    try:
        server.initialize()
        tools = server.result(server.request("tools/list", {}))["tools"]
        return len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())
    finally:
        server.close()
