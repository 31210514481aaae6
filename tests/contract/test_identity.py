"""Signals are linked to agents in the store, so that every door of one harness is the same agent.

The processes are real ones; what a door would see of them is put together by hand.
"""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from tests.callers import named
from tests.contract.conftest import Client

from conch.agents.connections import Connection, close_connection
from conch.agents.identity import Signal, Signals, explain, identify
from conch.agents.override import adopt_override
from conch.agents.petnames import propose_names
from conch.agents.records import Caller, note_name
from conch.agents.signals import gather_signals
from conch.app import App
from conch.calls import Call
from conch.errors import InvalidArgument, InvalidSetting
from conch.host.processes import Process
from conch.ids import digest
from conch.storage.base import Store
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session


class Child(Protocol):
    process: Process

    def kill(self) -> None: ...


StartChild = Callable[[], Child]


def explicit(agent_id: str) -> Signal:
    return Signal("explicit", agent_id, "CONCH_AGENT_ID")


def session(session_id: str) -> Signal:
    return Signal("session", f"session:codex:{session_id}", "CODEX_THREAD_ID")


def process_signal(process: Process) -> Signal:
    return Signal("process", "process:" + ":".join(map(str, process)), f"process {process.pid}")


def person(user: str, tty: str, host: str = "here") -> Signal:
    return Signal("person", f"human:{user}:{tty}@{host}", f"terminal {tty}")


def seen(*found: Signal, harness: Process | None = None, terminal: Process | None = None) -> Signals:
    """What a door sees. A harness process is always a signal as well, the weakest of them."""
    all_found = (*found, process_signal(harness)) if harness else found
    slug = "human" if found and found[0].kind == "person" else "codex"
    return Signals(all_found, slug, harness, terminal, "mcp_harness", "codex-mcp-client")


# -- one agent through every door


def test_a_new_harness_gets_an_id_of_its_slug_and_four_hexadecimal_digits(store: Store, child: StartChild) -> None:
    harness = child().process

    caller = identify(store, seen(harness=harness))

    assert re.fullmatch(r"codex:[0-9a-f]{4}", caller.agent_id)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", caller.name)
    assert caller == Caller(caller.agent_id, caller.name, harness, "mcp_harness", "codex-mcp-client", False)


def test_the_same_process_is_the_same_agent_again(store: Store, child: StartChild) -> None:
    harness = child().process

    assert identify(store, seen(harness=harness)) == identify(store, seen(harness=harness))


def test_a_door_that_sees_two_signals_joins_those_that_see_one_each(store: Store, child: StartChild) -> None:
    harness = child().process
    server = identify(store, seen(harness=harness))

    hook = identify(store, seen(session("one"), harness=harness))
    sandboxed_command = identify(store, seen(session("one")))

    assert server.agent_id == hook.agent_id == sandboxed_command.agent_id
    assert sandboxed_command.process == harness


def test_the_order_in_which_doors_are_opened_does_not_matter(store: Store, child: StartChild) -> None:
    harness = child().process
    sandboxed_command = identify(store, seen(session("one")))

    hook = identify(store, seen(session("one"), harness=harness))
    server = identify(store, seen(harness=harness))

    assert server.agent_id == hook.agent_id == sandboxed_command.agent_id


def test_two_processes_are_two_agents(store: Store, child: StartChild) -> None:
    first, second = identify(store, seen(harness=child().process)), identify(store, seen(harness=child().process))

    assert first.agent_id != second.agent_id
    assert first.name != second.name


def test_a_reused_pid_is_another_agent(store: Store, child: StartChild) -> None:
    harness = child().process
    first = identify(store, seen(harness=harness))

    second = identify(store, seen(harness=harness._replace(started_at=harness.started_at + 1)))

    assert first.agent_id != second.agent_id


def test_a_new_session_in_the_same_process_is_the_same_agent(store: Store, child: StartChild) -> None:
    harness = child().process
    before = identify(store, seen(session("one"), harness=harness))

    after_clear = identify(store, seen(session("two"), harness=harness))

    assert after_clear.agent_id == before.agent_id


def test_a_person_is_called_by_user_and_terminal(store: Store, child: StartChild) -> None:
    shell = child().process

    caller = identify(store, seen(person("wojtek", "s003"), terminal=shell))

    assert caller.agent_id == "human:wojtek:s003"
    assert caller.process == shell


def test_the_same_terminal_on_another_host_is_another_person(store: Store) -> None:
    here = identify(store, seen(person("wojtek", "pts3", "one")))
    there = identify(store, seen(person("wojtek", "pts3", "two")))

    assert here.agent_id == "human:wojtek:pts3"
    assert re.fullmatch(r"human:wojtek:pts3:[0-9a-f]{4}", there.agent_id)


# -- sessions that move


def test_a_session_resumed_in_a_new_process_is_the_same_agent_in_that_process(store: Store, child: StartChild) -> None:
    old, new = child(), child()
    before = identify(store, seen(session("one"), harness=old.process))
    old.kill()

    after = identify(store, seen(session("one"), harness=new.process))

    assert after.agent_id == before.agent_id
    assert after.process == new.process
    assert identify(store, seen(harness=new.process)).agent_id == before.agent_id


def test_a_session_that_lives_in_another_process_is_another_tab(store: Store, child: StartChild) -> None:
    first, second = child(), child()
    original = identify(store, seen(session("one"), harness=first.process))

    copy = identify(store, seen(session("one"), harness=second.process))

    assert copy.agent_id != original.agent_id
    assert copy.process == second.process
    assert identify(store, seen(session("one"), harness=first.process)) == original
    assert identify(store, seen(session("one"), harness=second.process)) == copy
    assert identify(store, seen(session("one"))) == original


def test_an_agent_known_in_a_room_keeps_its_process_when_an_old_session_is_resumed_there(
    app: App, workspace: str, child: StartChild
) -> None:
    old, new = child(), child()
    former = identify(app.store, seen(session("one"), harness=old.process))
    app.membership.join_path(former, workspace)
    old.kill()
    server = identify(app.store, seen(harness=new.process))
    app.membership.join_path(server, workspace)

    hook = identify(app.store, seen(session("one"), harness=new.process))

    assert hook.agent_id == server.agent_id != former.agent_id


def test_an_agent_in_no_room_gives_way_to_the_one_whose_session_is_resumed(
    app: App, workspace: str, child: StartChild
) -> None:
    old, new = child(), child()
    former = identify(app.store, seen(session("one"), harness=old.process))
    app.membership.join_path(former, workspace)
    old.kill()
    identify(app.store, seen(harness=new.process))

    hook = identify(app.store, seen(session("one"), harness=new.process))
    server = identify(app.store, seen(harness=new.process))

    assert server.agent_id == hook.agent_id == former.agent_id


def test_a_server_started_before_its_harness_resumes_a_session_becomes_the_resumed_agent(
    app: App, workspace: str, child: StartChild
) -> None:
    old, new = child(), child()
    former = identify(app.store, seen(session("resumed"), harness=old.process))
    app.membership.join_path(former, workspace)
    old.kill()
    server = seen(session("provisional"), harness=new.process)
    identify(app.store, server)

    hook = identify(app.store, seen(session("resumed"), harness=new.process))

    assert identify(app.store, server) == hook
    assert hook.agent_id == former.agent_id


def test_a_session_is_believed_even_if_its_process_cannot_be_seen(store: Store, child: StartChild) -> None:
    harness = child().process
    inside = identify(store, seen(session("one"), harness=harness))

    assert identify(store, seen(session("one"))) == inside


def test_an_agent_that_speaks_after_its_process_ended_is_not_declared_gone(store: Store, child: StartChild) -> None:
    harness = child()
    before = identify(store, seen(session("one"), harness=harness.process))
    harness.kill()

    after = identify(store, seen(session("one")))

    assert after.agent_id == before.agent_id
    assert after.process is None


# -- names of one's own


def test_an_explicit_id_is_the_agent_whatever_else_is_linked(store: Store, child: StartChild) -> None:
    harness = child().process
    identify(store, seen(session("one"), harness=harness))

    assert identify(store, seen(explicit("alice"), session("one"), harness=harness)).agent_id == "alice"


def test_what_is_seen_beside_an_explicit_id_is_linked_to_it(store: Store, child: StartChild) -> None:
    harness = child().process
    identify(store, seen(explicit("alice"), harness=harness))

    assert identify(store, seen(session("one"), harness=harness)).agent_id == "alice"


def test_a_signal_of_an_agent_in_a_room_is_never_taken_away(app: App, workspace: str, child: StartChild) -> None:
    harness = child().process
    derived = identify(app.store, seen(harness=harness))
    app.membership.join_path(derived, workspace)

    identify(app.store, seen(explicit("alice"), harness=harness))

    assert identify(app.store, seen(harness=harness)).agent_id == derived.agent_id


def test_an_explicit_id_without_any_process_is_known_by_time_alone(store: Store) -> None:
    assert identify(store, seen(explicit("alice"))).process is None


def test_a_terminal_does_not_replace_a_process_that_lives(store: Store, child: StartChild) -> None:
    client, shell = child(), child()
    identify(store, seen(explicit("alice"), harness=client.process))

    peeking = identify(store, seen(explicit("alice"), terminal=shell.process))
    client.kill()
    staying = identify(store, seen(explicit("alice"), terminal=shell.process))

    assert peeking.process == client.process
    assert staying.process == shell.process


def test_no_process_that_shares_an_explicit_id_replaces_the_one_it_lives_by(store: Store, child: StartChild) -> None:
    first, second = child(), child()
    identify(store, seen(explicit("alice"), harness=first.process))

    beside = identify(store, seen(explicit("alice"), harness=second.process))
    first.kill()
    after = identify(store, seen(explicit("alice"), harness=second.process))

    assert (beside.process, beside.stands_in) == (first.process, True)
    assert (after.process, after.stands_in) == (second.process, False)


def test_a_terminal_that_shares_an_explicit_id_does_not_replace_a_process_on_another_host(
    store: Store, child: StartChild
) -> None:
    elsewhere = Process("another host", "boot", 17, 1)
    identify(store, seen(explicit("alice"), harness=elsewhere))

    typed = identify(store, seen(explicit("alice"), terminal=child().process))

    assert (typed.process, typed.stands_in) == (elsewhere, True)


def test_every_client_of_an_explicit_id_is_that_agent_through_its_other_doors(store: Store, child: StartChild) -> None:
    first, second = child().process, child().process
    identify(store, seen(explicit("alice"), harness=first))
    identify(store, seen(explicit("alice"), harness=second))

    assert identify(store, seen(harness=first)).agent_id == "alice"
    assert identify(store, seen(harness=second)).agent_id == "alice"


def test_a_client_that_once_exported_an_id_does_not_replace_the_process_it_lives_by(
    store: Store, child: StartChild
) -> None:
    first, second = child(), child()
    owner = identify(store, seen(harness=first.process))
    identify(store, seen(explicit(owner.agent_id), harness=second.process))

    beside = identify(store, seen(harness=second.process))
    first.kill()
    after = identify(store, seen(harness=second.process))

    assert (beside.agent_id, beside.process, beside.stands_in) == (owner.agent_id, first.process, True)
    assert (after.process, after.stands_in) == (second.process, False)


# -- an override never becomes another agent that is alive


ACTIVE_MS = 60_000


def override(store: Store, caller: Caller, agent_id: str) -> Caller:
    return adopt_override(store, caller, agent_id, ACTIVE_MS)


def test_an_override_speaks_under_its_own_id_with_the_facts_of_the_caller(store: Store, child: StartChild) -> None:
    caller = identify(store, seen(harness=child().process))

    adopted = override(store, caller, "alice")

    assert adopted == caller._replace(agent_id="alice", name=adopted.name, overridden=True)
    assert adopted.name != caller.name
    assert override(store, caller, "alice") == override(store, adopted, "alice") == adopted
    assert identify(store, seen(explicit("alice"))).process == caller.process


def test_an_override_changes_nothing_for_other_doors_of_the_process(store: Store, child: StartChild) -> None:
    harness = child().process
    caller = identify(store, seen(harness=harness))
    override(store, caller, "alice")

    assert identify(store, seen(harness=harness)) == caller


def test_an_override_takes_over_the_id_of_an_agent_that_is_gone(store: Store, child: StartChild) -> None:
    first, second = child(), child()
    override(store, identify(store, seen(harness=first.process)), "alice")
    first.kill()

    override(store, identify(store, seen(harness=second.process)), "alice")

    assert identify(store, seen(explicit("alice"))).process == second.process


@pytest.mark.parametrize("process", ["alive", "unknown"])
def test_an_override_with_the_id_of_an_agent_that_may_be_alive_is_refused(
    store: Store, child: StartChild, process: str
) -> None:
    elsewhere = Process("another-host", "another-boot", 1, 1)
    living = named(store, "alice", child().process if process == "alive" else elsewhere)
    impostor = identify(store, seen(harness=child().process))

    with pytest.raises(InvalidArgument, match="alice is another agent, and it is still running") as refusal:
        override(store, impostor, "alice")

    assert refusal.value.details["field"] == "agent_id_override"
    assert named(store, "alice").process == living.process


def test_an_agent_on_another_host_that_was_not_seen_for_long_does_not_block_its_id(
    store: Store, child: StartChild, clock: Any
) -> None:
    named(store, "alice", Process("another-host", "another-boot", 1, 1))
    clock.advance(milliseconds=ACTIVE_MS)

    assert override(store, identify(store, seen(harness=child().process)), "alice").agent_id == "alice"


def test_an_override_is_never_given_the_lease_of_an_agent_that_is_gone(
    app: App, workspace: str, child: StartChild
) -> None:
    first = child()
    owner = named(app.store, "alice", first.process)
    room_id = app.membership.join_path(owner, workspace).snapshot.room.room_id
    app.claims.wait_for_turn(owner, room_id, None, 0, Call())
    first.kill()

    with pytest.raises(InvalidArgument, match=f"alice still holds the stick of room {room_id}"):
        override(app.store, identify(app.store, seen(harness=child().process)), "alice")


@pytest.mark.parametrize("name", ["old-elm", "new-elm", "chosen", "o1d-elm"])
def test_an_override_is_no_name_that_another_agent_has_or_had(
    app: App, workspace: str, child: StartChild, name: str
) -> None:
    ada = Client(app, "ada:1", workspace, child().process)
    for each in ("old-elm", "new-elm"):  # the first is a former name now
        ada.data("agent_register", name=each)
    topic_id = ada.data("topic_create", name="pink")["topic_id"]
    ada.data("topic_join", topic_id=topic_id, agent_name="chosen")

    with pytest.raises(InvalidArgument, match="Choose another agent_id_override"):
        override(app.store, identify(app.store, seen(harness=child().process)), name)


@pytest.mark.parametrize("agent_id", ["human:root:pts0", "human:", "HUMAN:ada:pts1"])
def test_a_person_can_be_claimed_neither_by_an_override_nor_by_a_setting(store: Store, agent_id: str) -> None:
    with pytest.raises(InvalidArgument, match="not begin with human:"):
        override(store, identify(store, seen(explicit("bob"))), agent_id)
    with pytest.raises(InvalidSetting, match="not begin with human:"):
        gather_signals("cli", {"CONCH_AGENT_ID": agent_id}, None)


def test_an_impostor_learns_nothing_and_its_end_changes_nothing_for_the_living_owner(
    app: App, workspace: str, child: StartChild
) -> None:
    owner = Client(app, "codex:1", workspace, child().process)
    turn = owner.data("wait_for_turn")
    impostor = child()
    stranger = Session(app, "mcp")
    stranger.speak_as(named(app.store, "stranger:1", impostor.process))

    refused = call_tool(
        TOOLS["join_path"], stranger, {"context_path": workspace, "agent_id_override": "codex:1"}, Call()
    )
    impostor.kill()

    assert refused.is_error and refused.data["field"] == "agent_id_override"
    assert turn["lease_id"] not in refused.text
    grant = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    assert owner.data("heartbeat", **grant)["turn_id"] == turn["turn_id"]


# -- two connections that live at the same time are two agents


def connected(parent: Process, server: Process, *found: Signal, client: str = "codex-mcp-client") -> Signals:
    """What the server of this client, below this parent, sees."""
    connection = Connection(server, process_signal(parent).value, client)
    return seen(*found, harness=parent)._replace(connection=connection)


def end(store: Store, caller: Caller) -> None:
    """The client closes the caller's connection."""
    assert caller.connection is not None
    close_connection(store, caller.connection)


def test_two_connections_below_one_parent_are_two_agents(store: Store, child: StartChild) -> None:
    parent, first, second = (child().process for _ in range(3))
    one, other = identify(store, connected(parent, first)), identify(store, connected(parent, second))

    assert one.agent_id != other.agent_id
    assert identify(store, connected(parent, first)) == one
    assert identify(store, connected(parent, second)) == other


def test_a_connection_after_one_that_ended_is_the_same_agent(store: Store, child: StartChild) -> None:
    parent, first, second = child(), child(), child()
    before = identify(store, connected(parent.process, first.process))
    first.kill()

    after = identify(store, connected(parent.process, second.process))

    assert after.agent_id == before.agent_id


def test_a_connection_whose_client_closed_it_has_ended_while_its_server_still_runs(
    store: Store, child: StartChild
) -> None:
    parent, first, second = (child().process for _ in range(3))
    before = identify(store, connected(parent, first))
    end(store, before)

    assert identify(store, connected(parent, second)).agent_id == before.agent_id


def test_of_several_that_ended_the_latest_is_continued_and_the_next_one_continues_the_other(
    store: Store, child: StartChild, clock: Any
) -> None:
    parent, *servers = (child().process for _ in range(5))
    early, late = (identify(store, connected(parent, server)) for server in servers[:2])
    end(store, early)
    clock.advance(milliseconds=1)
    end(store, late)

    continued = [identify(store, connected(parent, server)).agent_id for server in servers[2:]]

    assert continued == [late.agent_id, early.agent_id]


def test_a_connection_that_was_killed_after_another_was_closed_is_the_latest(
    store: Store, child: StartChild, clock: Any
) -> None:
    parent, killed, closed, next_one = child(), child(), child(), child()
    latest = identify(store, connected(parent.process, killed.process))
    end(store, identify(store, connected(parent.process, closed.process)))
    clock.advance(milliseconds=1)
    killed.kill()

    assert identify(store, connected(parent.process, next_one.process)).agent_id == latest.agent_id


def test_a_connection_that_was_killed_before_another_was_closed_is_not_the_latest(
    store: Store, child: StartChild, clock: Any
) -> None:
    parent, closed, killed, next_one = child(), child(), child(), child()
    latest = identify(store, connected(parent.process, closed.process))
    identify(store, connected(parent.process, killed.process))
    killed.kill()
    clock.advance(milliseconds=1)
    end(store, latest)

    assert identify(store, connected(parent.process, next_one.process)).agent_id == latest.agent_id


def test_another_client_below_the_same_parent_is_another_agent(store: Store, child: StartChild) -> None:
    parent, first, second = (child().process for _ in range(3))
    before = identify(store, connected(parent, first))
    end(store, before)

    assert identify(store, connected(parent, second, client="inspector")).agent_id != before.agent_id


def test_connections_with_one_session_id_are_one_agent(store: Store, child: StartChild) -> None:
    parent, first, second = (child().process for _ in range(3))

    one = identify(store, connected(parent, first, session("one")))
    other = identify(store, connected(parent, second, session("one")))

    assert one.agent_id == other.agent_id


def test_a_command_of_the_harness_is_the_agent_of_its_connection(store: Store, child: StartChild) -> None:
    parent, server = child().process, child().process
    command = identify(store, seen(harness=parent))

    assert identify(store, connected(parent, server)).agent_id == command.agent_id
    assert identify(store, seen(harness=parent)).agent_id == command.agent_id


def in_session(signals: Signals) -> Signals:
    """The same caller, identified by a session id and not by the process above."""
    return signals._replace(found=tuple(signal for signal in signals.found if signal.kind != "process"))


def test_sessions_of_one_process_are_agents_of_their_own_through_every_door(store: Store, child: StartChild) -> None:
    daemon, first, second = (child().process for _ in range(3))

    command = identify(store, in_session(seen(session("one"), harness=daemon)))
    one = identify(store, in_session(connected(daemon, first, session("one"))))
    other = identify(store, in_session(connected(daemon, second, session("two"))))
    other_command = identify(store, in_session(seen(session("two"), harness=daemon)))

    assert one.agent_id == command.agent_id
    assert other.agent_id == other_command.agent_id != one.agent_id


def test_a_new_session_does_not_continue_a_session_that_has_ended(store: Store, child: StartChild) -> None:
    daemon, first, second, third = (child().process for _ in range(4))
    ended = identify(store, in_session(connected(daemon, first, session("one"))))
    end(store, ended)

    fresh = identify(store, in_session(connected(daemon, second, session("two"))))
    resumed = identify(store, in_session(connected(daemon, third, session("one"))))

    assert fresh.agent_id != ended.agent_id
    assert resumed.agent_id == ended.agent_id


def test_a_connection_stays_its_agent_when_its_calls_come_from_more_sessions(
    app: App, workspace: str, child: StartChild
) -> None:
    daemon, server = child().process, child().process
    before = identify(app.store, connected(daemon, server))
    app.membership.join_path(before, workspace)

    with_session = identify(app.store, in_session(connected(daemon, server, session("one"))))
    with_subagent = identify(app.store, in_session(connected(daemon, server, session("one"), session("two"))))

    assert with_session == with_subagent == before
    assert identify(app.store, seen(session("two"))).agent_id == before.agent_id


# -- a command beside the connections of its process


def test_a_command_is_the_agent_of_the_one_open_connection(store: Store, child: StartChild) -> None:
    parent, first, second = (child().process for _ in range(3))
    end(store, identify(store, connected(parent, first)))
    living = identify(store, connected(parent, second, client="inspector"))

    assert identify(store, seen(harness=parent)).agent_id == living.agent_id


def test_a_command_beside_several_open_connections_is_none_of_their_agents(
    app: App, workspace: str, child: StartChild
) -> None:
    parent, first, second = (child().process for _ in range(3))
    one, other = (identify(app.store, connected(parent, server)) for server in (first, second))
    for caller in (one, other):
        app.membership.join_path(caller, workspace)

    command = identify(app.store, seen(harness=parent))

    assert command.agent_id not in (one.agent_id, other.agent_id)
    assert identify(app.store, seen(harness=parent)) == command
    assert command.process == parent
    end(app.store, one)
    assert identify(app.store, seen(harness=parent)).agent_id == other.agent_id


def test_a_session_id_tells_which_of_several_connections_a_command_belongs_to(store: Store, child: StartChild) -> None:
    parent, first, second = (child().process for _ in range(3))
    one = identify(store, connected(parent, first, session("one")))
    other = identify(store, connected(parent, second, session("two")))

    commands = [identify(store, seen(session(each), harness=parent)) for each in ("one", "two")]

    assert [command.agent_id for command in commands] == [one.agent_id, other.agent_id]
    assert one.agent_id != other.agent_id


def test_a_connection_with_an_override_counts_beside_another_one(store: Store, child: StartChild) -> None:
    parent, first, second = (child().process for _ in range(3))
    override(store, identify(store, connected(parent, first)), "alice")
    other = identify(store, connected(parent, second))

    assert identify(store, seen(harness=parent)).agent_id not in ("alice", other.agent_id)


def test_the_explanation_of_a_command_shows_the_connections_of_its_process(store: Store, child: StartChild) -> None:
    parent, first, second = (child().process for _ in range(3))
    one = identify(store, connected(parent, first))
    alone = explain(store, seen(harness=parent))
    other = identify(store, connected(parent, second))
    beside = explain(store, seen(harness=parent))

    served = [(each["client_name"], each["agent_id"], each["name"], each["is_open"]) for each in beside["connections"]]
    assert (alone["agent_id"], alone["is_ambiguous"]) == (one.agent_id, False)
    assert beside["is_new"] and beside["is_ambiguous"]
    assert sorted(served) == sorted(("codex-mcp-client", each.agent_id, each.name, True) for each in (one, other))


def test_an_override_is_refused_while_another_connection_of_the_same_parent_has_the_id(
    store: Store, child: StartChild
) -> None:
    parent, first, second = (child().process for _ in range(3))
    override(store, identify(store, connected(parent, first)), "alice")

    with pytest.raises(InvalidArgument, match="still running"):
        override(store, identify(store, connected(parent, second)), "alice")


def test_an_exported_id_is_refused_while_an_override_elsewhere_has_it(store: Store, child: StartChild) -> None:
    parent, server, another = child().process, child(), child().process
    override(store, identify(store, connected(parent, server.process)), "alice")

    for signals in (seen(explicit("alice")), seen(explicit("alice"), harness=another)):
        with pytest.raises(InvalidSetting, match="alice is another agent, and it is still running") as refusal:
            identify(store, signals)
        assert refusal.value.details["setting"] == "CONCH_AGENT_ID"
    assert identify(store, seen(explicit("alice"), harness=parent)).agent_id == "alice"
    server.kill()
    assert identify(store, seen(explicit("alice"), harness=another)).agent_id == "alice"


def test_an_override_with_the_exported_id_keeps_no_other_process_out(store: Store, child: StartChild) -> None:
    parent, server, another = (child().process for _ in range(3))
    override(store, identify(store, connected(parent, server, explicit("alice"))), "alice")

    assert identify(store, seen(explicit("alice"), harness=another)).agent_id == "alice"


def test_a_connection_after_one_with_an_override_is_the_agent_from_before_the_override(
    store: Store, child: StartChild
) -> None:
    parent, first, second = (child().process for _ in range(3))
    before = identify(store, connected(parent, first))
    end(store, override(store, before, "alice"))

    assert identify(store, connected(parent, second)).agent_id == before.agent_id


def test_a_connection_of_an_explicit_id_is_not_continued_while_another_of_that_id_lives(
    store: Store, child: StartChild
) -> None:
    parent, first, second, third = (child().process for _ in range(4))
    identify(store, connected(parent, first, explicit("alice")))
    end(store, identify(store, connected(parent, second, explicit("alice"))))

    assert identify(store, connected(parent, third)).agent_id != "alice"


@pytest.mark.parametrize("override", ["", " alice", "-alice", "al ice", "a" * 129, "alice\n", "älice"])
def test_an_override_that_cannot_be_an_id_is_refused_and_named(store: Store, override: str) -> None:
    caller = identify(store, seen(explicit("bob")))

    with pytest.raises(InvalidArgument) as refusal:
        adopt_override(store, caller, override, ACTIVE_MS)

    assert refusal.value.details["field"] == "agent_id_override"


# -- ids and names are unique


def test_a_hash_that_is_taken_is_lengthened(store: Store, child: StartChild) -> None:
    signals = seen(harness=child().process)
    short = explain(store, signals)["agent_id"]
    identify(store, seen(explicit(short)))

    longer = identify(store, signals).agent_id

    assert re.fullmatch(r"codex:[0-9a-f]{6}", longer)
    assert longer.startswith(short)


def test_a_name_that_is_taken_is_passed_over(store: Store) -> None:
    wanted = propose_names(digest("alice"))
    taken = [next(wanted) for _ in range(9)]
    with store.write("agents") as tx:
        for name in taken:
            note_name(tx, name)

    caller = identify(store, seen(explicit("alice")))

    assert caller.name == next(wanted)


IDENTIFY = """
import os, pickle, sys
from conch.agents.identity import identify
from conch.app import open_app
app, signals = open_app(os.environ), pickle.loads(bytes.fromhex(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(identify(app.store, signals).agent_id)
"""


def test_many_doors_that_open_at_once_are_one_agent(environ: dict[str, str], store: Store, child: StartChild) -> None:
    harness = child().process
    views = [seen(harness=harness), seen(session("one"), harness=harness)] * 3
    doors = [
        subprocess.Popen(
            [sys.executable, "-c", IDENTIFY, pickle.dumps(view).hex()],
            env=environ,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for view in views
    ]
    for door in doors:
        assert door.stdout and door.stdout.readline() == "ready\n"

    for door in doors:
        assert door.stdin
        door.stdin.write("go\n")
        door.stdin.flush()

    assert len({door.communicate(timeout=60)[0] for door in doors}) == 1


# -- what it costs, and why it is so


def test_a_known_agent_is_recognised_while_another_process_writes(store: Store, child: StartChild) -> None:
    door = seen(session("one"), harness=child().process)
    known = identify(store, door)

    with store.write("agents") as tx:
        assert tx.now  # it has the lock
        assert identify(store, door) == known
        assert identify(store, seen(session("one"))) == known


def test_a_tab_of_its_own_is_recognised_without_a_write_too(store: Store, child: StartChild) -> None:
    identify(store, seen(session("one"), harness=child().process))
    copy = seen(session("one"), harness=child().process)
    known = identify(store, copy)

    with store.write("agents") as tx:
        assert tx.now  # it has the lock
        assert identify(store, copy) == known


def test_the_explanation_names_each_signal_its_link_and_the_winner(store: Store, child: StartChild) -> None:
    harness = child().process
    caller = identify(store, seen(harness=harness))

    told = explain(store, seen(session("one"), harness=harness))

    assert (told["agent_id"], told["name"], told["is_new"]) == (caller.agent_id, caller.name, False)
    links = [(signal["kind"], signal["linked_to"], signal["wins"]) for signal in told["signals"]]
    assert links == [("session", None, False), ("process", caller.agent_id, True)]
    assert f"process {harness.pid}" in told["reason"]
    assert told["process"]["pid"] == harness.pid


def test_the_explanation_of_a_stranger_says_who_it_would_be_and_changes_nothing(
    store: Store, child: StartChild
) -> None:
    stranger = seen(session("one"), harness=child().process)
    before = store.change_counter()

    told = explain(store, stranger)

    assert store.change_counter() == before
    assert told["is_new"] is True
    assert told["agent_id"] == identify(store, stranger).agent_id
