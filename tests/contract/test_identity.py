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

from conch.agents.identity import Caller, Signal, Signals, adopt_override, explain, identify
from conch.agents.petnames import propose_names
from conch.app import App
from conch.errors import InvalidArgument
from conch.host.processes import Process
from conch.ids import digest
from conch.storage.base import Store


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


def test_the_latest_client_is_the_process_of_an_explicit_id(store: Store, child: StartChild) -> None:
    first, second = child(), child()
    identify(store, seen(explicit("alice"), harness=first.process))

    assert identify(store, seen(explicit("alice"), harness=second.process)).process == second.process


def test_every_client_of_an_explicit_id_is_that_agent_through_its_other_doors(store: Store, child: StartChild) -> None:
    first, second = child().process, child().process
    identify(store, seen(explicit("alice"), harness=first))
    identify(store, seen(explicit("alice"), harness=second))

    assert identify(store, seen(harness=first)).agent_id == "alice"
    assert identify(store, seen(harness=second)).agent_id == "alice"


def test_an_override_speaks_under_its_own_id_with_the_facts_of_the_caller(store: Store, child: StartChild) -> None:
    caller = identify(store, seen(harness=child().process))

    adopted = adopt_override(store, caller, "alice")

    assert adopted == caller._replace(agent_id="alice", name=adopted.name, overridden=True)
    assert adopted.name != caller.name
    assert adopt_override(store, caller, "alice") == adopted
    assert identify(store, seen(explicit("alice"))).process == caller.process


def test_an_override_moves_its_agent_into_the_process_of_the_caller(store: Store, child: StartChild) -> None:
    first, second = (identify(store, seen(harness=child().process)) for _ in range(2))
    adopt_override(store, first, "alice")

    adopt_override(store, second, "alice")

    assert identify(store, seen(explicit("alice"))).process == second.process


def test_an_override_changes_nothing_for_other_connections_of_the_process(store: Store, child: StartChild) -> None:
    harness = child().process
    caller = identify(store, seen(harness=harness))
    adopt_override(store, caller, "alice")

    assert identify(store, seen(harness=harness)) == caller


@pytest.mark.parametrize("override", ["", " alice", "-alice", "al ice", "a" * 129, "alice\n", "älice"])
def test_an_override_that_cannot_be_an_id_is_refused_and_named(store: Store, override: str) -> None:
    caller = identify(store, seen(explicit("bob")))

    with pytest.raises(InvalidArgument) as refusal:
        adopt_override(store, caller, override)

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
        for number, name in enumerate(taken):
            row: dict[str, Any] = {"agent_id": f"test:{number}", "name": name, "harness": "test"}
            row |= {"session_kind": "script", "host_id": None, "boot_id": None, "pid": None}
            tx.run("insert_agent", now=tx.now, process_started_at=None, **row)

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

    with store.write("agents"):
        assert identify(store, door) == known
        assert identify(store, seen(session("one"))) == known


def test_a_tab_of_its_own_is_recognised_without_a_write_too(store: Store, child: StartChild) -> None:
    identify(store, seen(session("one"), harness=child().process))
    copy = seen(session("one"), harness=child().process)
    known = identify(store, copy)

    with store.write("agents"):
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
