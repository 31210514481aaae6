"""A server at work: the round trip of a call, and the memory it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness import Memory, Plan, Row, Scratch, Server, Spread, memory_of, milliseconds, times

MEGABYTE = 1_000_000
CALLS_BEFORE_MEMORY = 100
BUDGET_BYTES = 20 * MEGABYTE
REST_SECONDS = 0.005
"""Long enough for the processor to sleep and for its caches to be used by others, as between calls of real agents."""

Step = Callable[[], object]


def measure(scratch: Scratch, plan: Plan) -> list[Row]:
    with scratch.server("bench:caller") as conch, scratch.server("bench:other") as other, scratch.sdk_server() as sdk:
        fresh = memory(conch), memory(sdk)
        read, write, nothing = _steps(scratch, conch, sdk)
        for _ in range(CALLS_BEFORE_MEMORY // 2):
            for step in (read, write, nothing, nothing):
                step()
        used = memory(conch), memory(sdk)
        steps = {"ping": conch.ping, "read": read, "write": write, "mail": _write_with_mail(scratch, conch, other)}
        if sdk is not None:
            steps |= {"sdk ping": sdk.ping, "sdk tool": nothing}
        spreads = interleave(plan.rounds, plan.calls, steps)
        rested = interleave(plan.rounds, plan.rested_calls, steps, REST_SECONDS)
    return [
        round_trip_row("`ping`", spreads["ping"], "`ping`", spreads.get("sdk ping")),
        round_trip_row("a read, `get_room_state`", spreads["read"], "empty tool", spreads.get("sdk tool"), 0.5),
        round_trip_row("a write, `heartbeat`", spreads["write"], "empty tool", spreads.get("sdk tool"), 1),
        mail_row("a write, `heartbeat`", spreads["mail"], spreads["write"]),
        round_trip_row("a read after 5 ms of rest", rested["read"], "empty tool", rested.get("sdk tool")),
        round_trip_row("a write after 5 ms of rest", rested["write"], "empty tool", rested.get("sdk tool")),
        *memory_rows("after `initialize`", *fresh),
        *memory_rows("after 100 calls", *used),
    ]


def _steps(scratch: Scratch, conch: Server, sdk: Server | None) -> tuple[Step, Step, Step]:
    """One read and one write by conch, and the tool that does nothing."""
    room_id = conch.call("join_path", context_path=scratch.workspace("calls"))["room_id"]
    turn = conch.call("wait_for_turn", room_id=room_id)
    fence = {"room_id": room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    return (
        lambda: conch.call("get_room_state", room_id=room_id),
        lambda: conch.call("heartbeat", **fence),
        lambda: sdk.call("nothing") if sdk is not None else None,
    )


def _write_with_mail(scratch: Scratch, conch: Server, other: Server) -> Step:
    """The same write by an agent to which another has written."""
    joined = other.call("join_path", context_path=scratch.workspace("mail"))
    turn = other.call("wait_for_turn", room_id=joined["room_id"])
    conch.call("topic_join", topic_id=joined["topic_id"], agent_name="writer")
    letter = {"content_markdown": "Please look at this.", "metadata": {"to": joined["name"]}}
    conch.call("sync", topic_id=joined["topic_id"], outbox=[letter], wait_seconds=0)
    fence = {"room_id": joined["room_id"], "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    assert "mail" in other.call("heartbeat", **fence)
    return lambda: other.call("heartbeat", **fence)


def interleave(rounds: int, count: int, steps: dict[str, Step], rest: float = 0.0) -> dict[str, Spread]:
    """Measure some of each step per round, so that a busy moment of the machine affects all of them."""
    took: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            for _ in range(count // rounds):
                time.sleep(rest)
                started = time.perf_counter()
                step()
                took[name].append(time.perf_counter() - started)
    return {name: Spread.of(seconds) for name, seconds in took.items()}


def memory(server: Server | None) -> Memory | None:
    return memory_of(server.process.pid) if server else None


def round_trip_row(what: str, ours: Spread, beside: str, theirs: Spread | None, budget_ms: float | None = None) -> Row:
    return Row(
        f"round trip of {what}, p50 / p99 of {ours.size}",
        _pair(ours),
        f"SDK's {beside}: {_pair(theirs)}" if theirs else "SDK not installed",
        times(ours.p50, theirs.p50) if theirs else "",
        f"p50 <= {budget_ms:g} ms" if budget_ms else "",
        ours.p50 * 1_000 <= budget_ms if budget_ms else None,
    )


def mail_row(what: str, with_mail: Spread, without: Spread) -> Row:
    """What mail costs: a call whose reply has mail, compared with the same call when nothing waits."""
    called = f"round trip of {what}, with mail, p50 / p99 of {with_mail.size}"
    return Row(called, _pair(with_mail), f"without mail: {_pair(without)}", times(with_mail.p50, without.p50))


def _pair(spread: Spread) -> str:
    return f"{milliseconds(spread.p50)} / {milliseconds(spread.p99)}"


def memory_rows(when: str, ours: Memory | None, theirs: Memory | None) -> list[Row]:
    assert ours is not None
    return [
        Row(
            f"memory {when}, {kind.upper()}",
            _megabytes(getattr(ours, kind)),
            f"empty SDK server: {_megabytes(getattr(theirs, kind))}" if theirs else "SDK not installed",
            times(getattr(ours, kind), getattr(theirs, kind)) if theirs else "",
            "<= 20 MB",
            getattr(ours, kind) <= BUDGET_BYTES,
        )
        for kind in Memory._fields
    ]


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.1f} MB"
