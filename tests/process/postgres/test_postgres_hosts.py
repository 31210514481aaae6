"""Several hosts on one server: the server's clock counts, and a host that was cut off is fenced when it returns."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

HOUR = 3_600
SOON = 20.0  # far sooner than a kernel gives up on a host that does not answer

APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")  # a place where pids mean something else


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def can(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True).returncode == 0


class Network:
    """The hub, where the server is, and other hosts with a cable to it each; none of them reaches anything else."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.hub = f"{name}-hub"

    def add_host(self, letter: str, number: int) -> None:
        host = f"{self._name}-{letter}"
        ip("netns", "add", host)
        ip("-n", self.hub, "link", "add", f"to-{letter}", "type", "veth", "peer", "name", "cable", "netns", host)
        ip("-n", self.hub, "address", "add", f"10.213.{number}.1/24", "dev", f"to-{letter}")
        ip("-n", host, "address", "add", f"10.213.{number}.2/24", "dev", "cable")
        ip("-n", host, "link", "set", "cable", "up")
        self.plug_in(letter)

    def on(self, letter: str) -> tuple[str, ...]:
        """How to run something there."""
        return ("ip", "netns", "exec", f"{self._name}-{letter}")

    def unplug(self, letter: str) -> None:
        ip("-n", self.hub, "link", "set", f"to-{letter}", "down")

    def plug_in(self, letter: str) -> None:
        ip("-n", self.hub, "link", "set", f"to-{letter}", "up")

    def remove(self) -> None:
        for letter in ("hub", "a", "b"):
            subprocess.run(["ip", "netns", "delete", f"{self._name}-{letter}"], capture_output=True)


@pytest.fixture
def network(server: Any) -> Iterator[Network]:
    """While it is there, the server listens only inside it."""
    name = f"conch{os.getpid()}"
    if sys.platform != "linux" or os.geteuid() != 0 or not can("ip", "netns", "add", f"{name}-hub"):
        pytest.skip("network namespaces need Linux, root and iproute2 (`ip netns add`)")
    network = Network(name)
    try:
        network.add_host("a", 1)
        network.add_host("b", 2)
        server.stop()
        server.start("10.213.1.1,10.213.2.1", within=network.on("hub"))
        yield network
    finally:
        server.restart() if server.is_running else server.start()
        network.remove()


@pytest.fixture
def apart() -> tuple[str, ...]:
    if not can(*APART, "true"):
        pytest.skip("another pid namespace needs Linux and root (`unshare --pid`)")
    return APART


def set_lease(agent: Any, room_id: str, milliseconds: int) -> None:
    policy = {"owner_lease_ttl_ms": milliseconds, "heartbeat_interval_ms": milliseconds // 4}
    agent.call("set_room_policy", room_id=room_id, policy=policy)


def claim(agent: Any, room_id: str) -> dict[str, Any]:
    turn = agent.call("wait_for_turn", room_id=room_id, max_wait_ms=0)
    assert turn["status"] == "your_turn", turn
    return {"room_id": room_id, "lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}


def unless_unavailable(answer: dict[str, Any]) -> dict[str, Any] | None:
    return None if answer.get("error") == "DB_UNAVAILABLE" else answer


def test_a_host_that_is_cut_off_loses_the_stick_and_is_fenced_when_it_returns(
    network: Network, apart: tuple[str, ...], agents: Callable[..., Any], server: Any, database: str,
    workspace: str, referee: Any, until: Callable[..., Any],
) -> None:  # fmt: skip
    def start(agent_id: str, letter: str, number: int) -> Any:
        url = f"postgresql://conch@10.213.{number}.1:{server.port}/{database}"
        return agents(agent_id, within=(*network.on(letter), *apart), CONCH_STORE=url)

    codex, claude = start("codex:1", "a", 1), start("claude:1", "b", 2)
    for agent in (codex, claude):
        room_id = agent.call("join_path", context_path=workspace)["room_id"]
    set_lease(codex, room_id, 2_000)
    lease = claim(codex, room_id)

    network.unplug("a")
    codex.begin("heartbeat", **lease)
    waited = claude.call("wait_for_turn", room_id=room_id, max_wait_ms=20_000)
    taken = claude.call("takeover_stick", room_id=room_id, expected_turn_id=1, reason="it does not answer")
    cut_off = codex.hear(SOON)
    network.plug_in("a")
    fenced = until(lambda: unless_unavailable(codex.call("heartbeat", **lease)))  # a cable needs a moment

    assert len(server.ask("SELECT DISTINCT host_id FROM conch.room_members", database)) == 2
    assert (waited["status"], waited["reason"]) == ("takeover_available", "owner_timeout")
    assert (taken["turn_id"], taken["revoked"]) == (2, "codex:1")
    assert cut_off["error"] == "DB_UNAVAILABLE"
    assert "cannot be reached" in cut_off["message"]
    assert (fenced["error"], fenced["current_owner"]) == ("turn_mismatch", "claude:1")
    referee.check(room_id)


def test_a_waiter_on_a_host_that_was_cut_off_gets_the_stick_when_it_is_back(
    network: Network, agents: Callable[..., Any], app: Any, server: Any, database: str, workspace: str,
    until: Callable[..., Any],
) -> None:  # fmt: skip
    url = f"postgresql://conch@10.213.1.1:{server.port}/{database}"
    codex, claude = agents("codex:1"), agents("claude:1", within=network.on("a"), CONCH_STORE=url)
    for agent in (codex, claude):
        room_id = agent.call("join_path", context_path=workspace)["room_id"]
    lease = claim(codex, room_id)
    claude.begin("wait_for_turn", room_id=room_id, max_wait_ms=25_000)
    until(lambda: app.bell.hears(f"seat-{room_id}-claude:1"))

    network.unplug("a")
    released = codex.call("release_stick", **lease, handoff={"status": "done", "next_action": "go on"})
    network.plug_in("a")

    assert released["reserved_for"] == "claude:1"
    assert claude.hear(SOON)["status"] == "your_turn"


def test_a_process_of_another_host_is_never_found_gone_only_late(
    apart: tuple[str, ...], agents: Callable[..., Any], workspace: str
) -> None:
    codex, claude = agents("codex:1", within=apart), agents("claude:1")
    for agent in (codex, claude):
        room_id = agent.call("join_path", context_path=workspace)["room_id"]
    set_lease(codex, room_id, 6_000)
    claim(codex, room_id)
    codex.end()

    at_once = claude.call("wait_for_turn", room_id=room_id, max_wait_ms=0)
    later = claude.call("wait_for_turn", room_id=room_id, max_wait_ms=20_000)

    assert (at_once["status"], at_once["room_state"]) == ("not_yet", "owned")
    assert (later["status"], later["reason"], later["room_state"]) == (
        "takeover_available", "owner_timeout", "stale_owner",
    )  # fmt: skip


def test_hosts_with_wrong_clocks_agree_on_when_a_lease_is_over(agents: Callable[..., Any], workspace: str) -> None:
    fast, slow, right = (
        agents("fast:1", "--skew", str(2 * HOUR)),
        agents("slow:1", "--skew", str(-2 * HOUR)),
        agents("r:1"),
    )
    for agent in (fast, slow, right):
        room_id = agent.call("join_path", context_path=workspace)["room_id"]
    lease = claim(fast, room_id)

    early = [agent.call("wait_for_turn", room_id=room_id, max_wait_ms=0) for agent in (slow, right)]
    set_lease(fast, room_id, 400)
    fast.call("heartbeat", **lease)
    for agent in (slow, right):
        agent.begin("wait_for_turn", room_id=room_id, max_wait_ms=20_000)
    late = [agent.hear(SOON) for agent in (slow, right)]
    taken = slow.call("takeover_stick", room_id=room_id, expected_turn_id=1, reason="its time is over")
    seen = [agent.call("get_room_state", room_id=room_id)["room"]["lease_expires_at"] for agent in (fast, slow, right)]

    assert [(answer["status"], answer["room_state"]) for answer in early] == [("not_yet", "owned")] * 2
    assert early[0]["lease_expires_at"] == early[1]["lease_expires_at"]
    assert [(answer["status"], answer["reason"]) for answer in late] == [("takeover_available", "owner_timeout")] * 2
    assert seen == [taken["lease_expires_at"]] * 3
    assert fast.call("heartbeat", **lease)["error"] == "turn_mismatch"


def test_a_recipient_that_is_late_by_the_stores_clock_is_late_for_everybody(
    agents: Callable[..., Any], workspace: str
) -> None:
    fast, slow, right = (
        agents("fast:1", "--skew", str(2 * HOUR)),
        agents("slow:1", "--skew", str(-2 * HOUR)),
        agents("r:1"),
    )
    for agent in (right, slow, fast):
        room_id = agent.call("join_path", context_path=workspace)["room_id"]
    right.call("set_room_policy", room_id=room_id, policy={"claim_ttl_ms": 300_000})
    lease = claim(right, room_id)
    right.call("pass_stick", **lease, to_agent_id="slow:1", handoff={"status": "done", "next_action": "go on"})

    early = fast.call("get_room_state", room_id=room_id)
    mine = slow.call("wait_for_turn", room_id=room_id, max_wait_ms=0)

    assert (early["room"]["state"], early["takeover"]["available"]) == ("reserved", False)
    assert mine["status"] == "your_turn"
