"""Processes that end without a word, wherever they happen to be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.agents.records import Caller, process_columns
from conch.app import App
from conch.bells.base import seat_channel
from conch.errors import StaleLease, TakeoverNotAvailable, TurnMismatch, UnknownMember
from conch.host import processes
from conch.host.processes import Process
from conch.rooms.presence import member_columns

HANDOFF = {"status": "half of it is done", "next_action": "do the other half"}
LONGEST = "600000"


@pytest.fixture
def environ(environ: dict[str, str], every_engine: dict[str, str]) -> dict[str, str]:
    return environ | every_engine


@pytest.fixture
def room_id(app: App, agent: Callable[..., Caller], workspace: str) -> str:
    """A room that one member of this process, claude:1, is in."""
    return app.membership.join_path(agent("claude:1"), workspace).snapshot.room.room_id


def facts_of(app: App, room_id: str, agent_id: str) -> Process:
    process = app.rooms.get_state(None, room_id).member(agent_id).process
    assert process is not None
    return process


def look(app: App, room_id: str) -> tuple[str, str | None]:
    snapshot = app.rooms.get_state(None, room_id)
    return snapshot.state, snapshot.takeover_reason


# -- kill -9


def test_everybody_who_waits_hears_at_once_that_the_owner_was_killed(
    player: Callable[..., Any], app: App, room_id: str, workspace: str, until: Callable[..., Any]
) -> None:
    owner = player("hold", agent_id="codex:1", workspace=workspace)
    owner.heard_until("claimed")
    waiters = [player("wait_once", agent_id=f"gemini:{number}", workspace=workspace) for number in range(3)]
    for number in range(3):
        until(lambda number=number: app.bell.hears(seat_channel(room_id, f"gemini:{number}")))

    owner.kill()

    assert [each.heard() for each in waiters] == [["woken", "takeover_available", "owner_gone", "owner_gone"]] * 3


def test_a_killed_owner_can_do_nothing_with_its_lease_before_or_after_a_takeover(
    player: Callable[..., Any], app: App, agent: Callable[..., Caller], room_id: str, workspace: str, referee: Any
) -> None:
    owner = player("hold", agent_id="codex:1", workspace=workspace)
    [_, turn_id, lease_id, *_] = owner.heard_until("claimed")[-1]
    owner.kill()
    ghost, heir = agent("codex:1", facts_of(app, room_id, "codex:1")), agent("claude:1")
    attempts: list[Callable[[], Any]] = [
        lambda: app.turns.heartbeat(ghost, room_id, lease_id, turn_id),
        lambda: app.turns.release_stick(ghost, room_id, lease_id, turn_id, HANDOFF),
        lambda: app.turns.pass_stick(ghost, room_id, lease_id, turn_id, "claude:1", HANDOFF),
        lambda: app.membership.close_room(ghost, room_id, lease_id, turn_id, None),
    ]

    for attempt in attempts:
        with pytest.raises(StaleLease):
            attempt()
    with pytest.raises(UnknownMember):
        app.claims.wait_for_turn(ghost, room_id, max_wait_ms=0)
    taken = app.claims.takeover_stick(heir, room_id, turn_id, "codex:1 was killed")
    for attempt in attempts:
        with pytest.raises(TurnMismatch):
            attempt()

    assert (taken.room.owner, taken.room.turn_id, taken.revoked) == ("claude:1", turn_id + 1, "codex:1")
    app.turns.heartbeat(heir, room_id, str(taken.room.lease_id), taken.room.turn_id)
    referee.check(room_id)


def test_a_killed_recipient_is_known_to_be_gone_at_once_and_cannot_claim(
    player: Callable[..., Any],
    app: App,
    agent: Callable[..., Caller],
    room_id: str,
    workspace: str,
    until: Callable[..., Any],
) -> None:
    owner = agent("claude:1")
    recipient = player("sit", agent_id="codex:1", workspace=workspace)
    recipient.heard()
    waiter = player("wait_once", agent_id="gemini:1", workspace=workspace)
    mine = app.claims.wait_for_turn(owner, room_id, max_wait_ms=0).snapshot.room
    until(lambda: app.bell.hears(seat_channel(room_id, "gemini:1")))
    app.turns.pass_stick(owner, room_id, str(mine.lease_id), mine.turn_id, "codex:1", HANDOFF)

    recipient.kill()

    assert waiter.heard() == ["woken", "takeover_available", "recipient_gone", "recipient_gone"]
    ghost = agent("codex:1", facts_of(app, room_id, "codex:1"))
    with pytest.raises(UnknownMember):
        app.claims.wait_for_turn(ghost, room_id, max_wait_ms=0)
    with pytest.raises(UnknownMember):
        app.claims.takeover_stick(ghost, room_id, mine.turn_id, "from beyond")
    assert app.claims.takeover_stick(owner, room_id, mine.turn_id, "codex:1 was killed").revoked == "codex:1"


def test_a_process_killed_inside_a_transaction_leaves_nothing_behind_and_delays_no_one(
    player: Callable[..., Any], environ: dict[str, str], app: App, room_id: str, workspace: str, referee: Any
) -> None:
    environ["CONCH_BUSY_TIMEOUT_MS"] = LONGEST
    writer = player("note_when_told", agent_id="gemini:1", workspace=workspace)
    writer.heard()
    victim = player("stay_inside", agent_id="codex:1", workspace=workspace)
    victim.heard()
    writer.tell("after the kill")

    victim.kill()

    assert writer.heard()[0] == "noted"
    events = referee.check(room_id)
    assert [event.details for event in events if event.event_type == "note"] == [{"note": "after the kill"}]


@pytest.mark.parametrize("every_engine", ["sqlite"], indirect=True)  # the other one has no such queue
def test_a_process_killed_in_the_queue_is_not_waited_for(
    player: Callable[..., Any],
    environ: dict[str, str],
    workspace: str,
    until: Callable[..., Any],
    is_queueing: Callable[[Any], bool],
) -> None:
    environ["CONCH_BUSY_TIMEOUT_MS"] = LONGEST
    victim = player("note_when_told", agent_id="codex:1", workspace=workspace)
    writer = player("note_when_told", agent_id="gemini:1", workspace=workspace)
    for each in (victim, writer):
        assert each.heard() == ["joined"]
    first = player("stand_first_in_queue")
    assert first.heard() == ["first"]
    victim.tell("never written")
    until(lambda: is_queueing(victim))
    writer.tell("written")

    victim.kill()
    first.tell("go")

    assert writer.heard()[0] == "noted"


def test_a_room_whose_players_are_all_killed_in_mid_play_goes_on_with_the_next_one(
    player: Callable[..., Any],
    gates: Callable[[int], list[Any]],
    environ: dict[str, str],
    app: App,
    agent: Callable[..., Caller],
    room_id: str,
    workspace: str,
    referee: Any,
) -> None:
    environ |= {"CONCH_OWNER_LEASE_TTL_MS": "1", "CONCH_CLAIM_TTL_MS": "1"}
    [gate] = gates(1)
    players = [
        player("grab", agent_id=f"codex:{number}", workspace=workspace, tries=1_000_000, gate=gate.path)
        for number in range(6)
    ]
    for each in players:
        each.heard()
    gate.open()

    for number, each in enumerate(players):
        for _ in range(20 + number):
            each.heard()
        each.kill()

    referee.check(room_id)
    heir = agent("claude:1")
    wait = app.claims.wait_for_turn(heir, room_id, max_wait_ms=0)
    if wait.status == "takeover_available":
        app.claims.takeover_stick(heir, room_id, wait.snapshot.room.turn_id, "all of them were killed")
    assert app.rooms.get_state(None, room_id).room.owner == "claude:1"
    referee.check(room_id)


def test_an_owner_that_was_stopped_past_its_lease_wakes_up_without_the_stick(
    player: Callable[..., Any],
    environ: dict[str, str],
    app: App,
    agent: Callable[..., Caller],
    room_id: str,
    workspace: str,
    clock: Any,
    referee: Any,
) -> None:
    environ["CONCH_OWNER_LEASE_TTL_MS"] = "1000"
    owner = player("hold", agent_id="codex:1", workspace=workspace)
    owner.heard_until("claimed")
    owner.popen.send_signal(signal.SIGSTOP)
    clock.move(seconds=60)

    taken = app.claims.takeover_stick(agent("claude:1"), room_id, 1, "it does not answer")
    owner.popen.send_signal(signal.SIGCONT)
    owner.tell("release")

    assert owner.heard() == ["turn_mismatch", "claude:1"]
    assert app.rooms.get_state(None, room_id).room.lease_id == taken.room.lease_id
    referee.check(room_id)


# -- who is gone, and who only seems so


@pytest.fixture
def owner(app: App, agent: Callable[..., Caller], room_id: str, workspace: str) -> Callable[[Process], Caller]:
    """codex:1, who holds the stick and whose process is known by the facts given."""

    def make(facts: Process) -> Caller:
        living = agent("codex:1")
        app.membership.join_path(living, workspace)
        app.claims.wait_for_turn(living, room_id, max_wait_ms=0)
        return move(app, room_id, living, facts)

    return make


def move(app: App, room_id: str, caller: Caller, facts: Process) -> Caller:
    """Let the store know a member by these facts. A caller cannot do so while the recorded process is alive."""
    moved = caller._replace(process=facts)
    with app.store.write(room_id) as tx:
        tx.run("update_agent_process", agent_id=caller.agent_id, **process_columns(facts))
        tx.run("update_member_process", room_id=room_id, agent_id=caller.agent_id, **member_columns(moved))
    assert facts_of(app, room_id, caller.agent_id) == facts
    return moved


def my_facts() -> Process:
    facts = processes.look_up(os.getpid())
    assert facts is not None
    return facts


def test_a_living_process_that_has_only_the_owners_pid_does_not_keep_the_stick_for_it(
    owner: Callable[[Process], Caller], app: App, agent: Callable[..., Caller], room_id: str
) -> None:
    facts = my_facts()
    owner(facts._replace(started_at=facts.started_at - 1))

    assert look(app, room_id) == ("owner_gone", "owner_gone")
    assert app.claims.takeover_stick(agent("claude:1"), room_id, 1, "another process has its pid").revoked == "codex:1"


def test_an_owner_of_an_earlier_boot_is_gone_although_its_pid_and_start_time_are_taken(
    owner: Callable[[Process], Caller], app: App, room_id: str
) -> None:
    owner(my_facts()._replace(boot_id="an earlier one"))

    assert look(app, room_id) == ("owner_gone", "owner_gone")


def test_a_living_owner_keeps_the_stick_until_its_lease_lapses(
    owner: Callable[[Process], Caller], app: App, agent: Callable[..., Caller], room_id: str, clock: Any
) -> None:
    owner(my_facts())

    with pytest.raises(TakeoverNotAvailable):
        app.claims.takeover_stick(agent("claude:1"), room_id, 1, "too early")
    assert look(app, room_id) == ("owned", None)
    clock.move(seconds=45 * 60)
    assert look(app, room_id) == ("stale_owner", "owner_timeout")


def test_a_process_of_another_host_is_never_declared_gone_only_late(
    owner: Callable[[Process], Caller], app: App, agent: Callable[..., Caller], room_id: str, clock: Any
) -> None:
    caller = owner(Process("another host", "another boot", 2**22 + 1, 1))

    with pytest.raises(TakeoverNotAvailable):
        app.claims.takeover_stick(agent("claude:1"), room_id, 1, "no such pid here")
    assert look(app, room_id) == ("owned", None)
    clock.move(seconds=45 * 60)
    assert look(app, room_id) == ("stale_owner", "owner_timeout")
    mine = app.claims.wait_for_turn(caller, room_id, max_wait_ms=0)
    assert (mine.status, mine.reason, look(app, room_id)) == ("your_turn", "already_owner", ("owned", None))


def test_a_recipient_whose_pid_was_given_to_another_process_is_gone(
    app: App, agent: Callable[..., Caller], room_id: str, workspace: str
) -> None:
    facts, claude = my_facts(), agent("claude:1")
    codex = agent("codex:1")
    app.membership.join_path(codex, workspace)
    mine = app.claims.wait_for_turn(claude, room_id, max_wait_ms=0).snapshot.room
    app.turns.release_stick(claude, room_id, str(mine.lease_id), mine.turn_id, HANDOFF)

    assert look(app, room_id) == ("reserved", None)
    move(app, room_id, codex, facts._replace(started_at=facts.started_at - 1))

    assert look(app, room_id) == ("recipient_gone", "recipient_gone")


LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


@pytest.mark.skipif(not os.access(LAST_PID, os.W_OK), reason="only the administrator of a Linux chooses pids")
def test_the_kernel_gives_the_owners_pid_away_and_the_owner_is_still_gone(
    player: Callable[..., Any], app: App, room_id: str, workspace: str
) -> None:
    owner = player("hold", agent_id="codex:1", workspace=workspace)
    owner.heard_until("claimed")
    owner.kill()

    with next_to_have(owner.popen.pid) as impostor:
        assert impostor.poll() is None
        assert look(app, room_id) == ("owner_gone", "owner_gone")
        impostor.kill()


def next_to_have(pid: int) -> subprocess.Popen[bytes]:
    """A process with a pid that has been used before; others may be quicker, so it may take some tries."""
    for _ in range(200):
        LAST_PID.write_text(str(pid - 1))
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        if process.pid == pid:
            return process
        process.kill()
        process.communicate()
    pytest.skip("the pid was not to be had")
