"""What a room costs does not depend on how many members it has, or how many it once had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.arguments import HANDOFF, NOTICE
from tests.contract.conftest import Child, Client, Enter

from conch.agents.records import live_by_timer, process_columns
from conch.app import App
from conch.doors.hook.actions import _Scene
from conch.harnesses.hooks import Happening
from conch.host.processes import Process
from conch.storage.base import Row, Store, Transaction
from conch.upkeep.verify import verify_store

FEW, MANY = 20, 1_000
PAGE = 200  # more members than fit into a reply
Object = dict[str, Any]


class Cost(NamedTuple):
    statements: int
    rows: int


class Counting:
    """A store that counts the statements of its transactions, and the rows that they return."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def read(self) -> Iterator[Any]:
        with self._store.read() as tx:
            yield CountingTransaction(tx, self.asked)

    @contextmanager
    def look(self) -> Iterator[Any]:
        with self._store.look() as tx:
            yield CountingTransaction(tx, self.asked)

    @contextmanager
    def write(self, *locks: str) -> Iterator[Any]:
        with self._store.write(*locks) as tx:
            yield CountingTransaction(tx, self.asked)

    def glance(self, statement: str, **parameters: Any) -> list[Row]:
        found = self._store.glance(statement, **parameters)
        self.asked.append(len(found))
        return found


class CountingTransaction:
    def __init__(self, tx: Transaction, asked: list[int]) -> None:
        self._tx = tx
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def one(self, statement: str, **parameters: Any) -> Row | None:
        self._asked.append(1)
        return self._tx.one(statement, **parameters)

    def all(self, statement: str, **parameters: Any) -> list[Row]:
        rows = self._tx.all(statement, **parameters)
        self._asked.append(len(rows))
        return rows

    def run(self, statement: str, **parameters: Any) -> None:
        self._asked.append(0)
        self._tx.run(statement, **parameters)


def fill(client: Client, number: int, process: Process | None = None) -> None:
    """Add members to the client's room, as if they had just joined."""
    with client.app.store.write(client.room_id) as tx:
        who = [
            {"agent_id": f"{client.room_id}:{n}", "name": f"{client.room_id}-{n}", **process_columns(process)}
            for n in range(number)
        ]
        agent = {"harness": "crowd", "session_kind": "mcp_harness", "created_at": tx.now, "last_seen_at": tx.now}
        tx.load("agents", [{**each, **agent} for each in who])
        member = {"room_id": client.room_id, "joined_at": tx.now, "session_kind": "mcp_harness"}
        tx.load("room_members", [{**each, **member, "ordinal": n + 1} for n, each in enumerate(who)])


class Measured:
    """A client in a folder of its own, and what its calls cost."""

    def __init__(self, app: App, folder: Path, agent_id: str = "ada:1") -> None:
        folder.mkdir(exist_ok=True)
        (folder / "AGENTS.md").touch()
        self._store: Any = Counting(app.store)
        self.client = Client(App(self._store, app.bell, app.settings), agent_id, str(folder))

    def rows(self, act: Callable[[], object]) -> int:
        """How many rows something reads."""
        self._store.asked.clear()
        act()
        return sum(self._store.asked)

    def cost(self, tool: str, **arguments: Any) -> Cost:
        self._store.asked.clear()
        self.client.data(tool, **arguments)
        return Cost(len(self._store.asked), sum(self._store.asked))

    def join_cost(self) -> Cost:
        return self.cost("join_path", context_path=self.client.joined["canonical_path"])

    def turn_costs(self) -> dict[str, Cost]:
        claim = self.cost("wait_for_turn", max_wait_ms=0)
        turn = self.client.data("wait_for_turn", max_wait_ms=0)
        lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
        heartbeat = self.cost("heartbeat", **lease)
        release = self.cost("release_stick", **lease, handoff=HANDOFF)
        waiting = self.cost("wait_for_turn", max_wait_ms=0)
        return {"claim": claim, "heartbeat": heartbeat, "release": release, "waiting": waiting}


Measure = Callable[[str], Measured]


@pytest.fixture
def measure(app: App, tmp_path: Path) -> Measure:
    return lambda folder: Measured(app, tmp_path / folder)


def test_a_turn_costs_the_same_with_few_and_with_many_members(measure: Measure) -> None:
    few, many = measure("few"), measure("many")
    fill(few.client, FEW)
    fill(many.client, MANY)

    costs = few.turn_costs(), many.turn_costs()

    assert costs[0] == costs[1]


def test_an_agent_of_a_large_room_registers_and_stays_active_without_reading_the_others(measure: Measure) -> None:
    few, many = measure("few"), measure("many")
    fill(few.client, FEW)
    fill(many.client, MANY)

    costs = [(each.cost("agent_register", role="lead"), each.cost("agent_heartbeat")) for each in (few, many)]

    assert costs[0] == costs[1]


def test_joining_and_looking_read_one_page_of_the_members(measure: Measure) -> None:
    few, many = measure("few"), measure("many")
    fill(few.client, FEW)
    fill(many.client, MANY)

    joining, looking = many.join_cost(), many.cost("get_room_state")

    assert (joining.statements, looking.statements) == (
        few.join_cost().statements,
        few.cost("get_room_state").statements,
    )
    assert max(joining.rows, looking.rows) < PAGE


def test_a_session_that_begins_in_a_large_room_reads_few_of_its_members(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = measure("many")
    fill(many.client, MANY)
    monkeypatch.setenv("CONCH_AGENT_ID", "ada:1")
    path = many.client.joined["canonical_path"]
    start = Happening("claude", "SessionStart", "start", "s1", path, "", {}, "startup", False, False, False, "")
    answers = []

    rows = many.rows(lambda: answers.append(_Scene(many.client.app, start).begin()[0]))

    assert rows < PAGE
    assert "and more" in (answers[0].context or "")


@pytest.mark.parametrize("process", ["none", "alive"])
def test_finding_a_room_reads_some_of_its_members(measure: Measure, child: Callable[[], Child], process: str) -> None:
    """Nobody can tell whether a member without a process is gone, so a room may have many of them for ever."""
    many = measure("many")
    fill(many.client, MANY, child().process if process == "alive" else None)
    rooms, path = many.client.app.rooms, many.client.joined["canonical_path"]

    found = [
        many.rows(lambda: rooms.list_rooms(path)[0].member("ada:1")),
        many.rows(lambda: rooms.get_state(None, many.client.room_id).called(f"{many.client.room_id}:{MANY - 1}")),
        many.rows(lambda: many.client.refused("event_send", event_type="HANDOFF", to_agent="eve", payload=NOTICE)),
    ]

    assert max(found) < MANY // 2


def test_a_room_with_many_members_that_are_gone_costs_what_a_new_one_costs(
    measure: Measure, child: Callable[[], Child]
) -> None:
    new, old, dead = measure("new"), measure("old"), child()
    fill(old.client, MANY, dead.process)
    dead.kill()
    first = old.client.data("join_path", context_path=old.client.joined["canonical_path"])  # notes who is gone

    lists = [(each.join_cost(), each.cost("get_room_state")) for each in (new, old)]

    assert new.turn_costs() == old.turn_costs()
    # One statement more finds out which of those that are gone hold something.
    assert [cost.statements - 1 for cost in lists[1]] == [cost.statements for cost in lists[0]]
    assert [cost.rows for cost in lists[1]] == [cost.rows for cost in lists[0]]
    again = old.client.data("get_room_state")
    assert [found["members_gone"] for found in (first, again)] == [MANY, MANY]
    assert [[each["agent_id"] for each in found["members"]] for found in (first, again)] == [["ada:1"], ["ada:1"]]


def test_pages_of_a_room_with_many_members_list_each_of_them_once(measure: Measure, child: Callable[[], Child]) -> None:
    room, dead = measure("room").client, child()
    fill(room, MANY)
    dead.kill()
    with room.app.store.write(room.room_id) as tx:
        for n in range(0, MANY, 2):
            columns = {**process_columns(dead.process), "session_kind": "mcp_harness", "display_name": None}
            tx.run("update_member_process", room_id=room.room_id, agent_id=f"{room.room_id}:{n}", **columns)

    before, after = read_members(room), None
    room.data("join_path", context_path=room.joined["canonical_path"])
    after = read_members(room)

    assert before == after == ["ada:1", *(f"{room.room_id}:{n}" for n in range(1, MANY, 2))]


def read_members(client: Client) -> list[str]:
    page = client.data("get_room_state")
    found = page["members"]
    while page["has_more"]:
        page = client.data("get_room_state", after=page["cursor"])
        found = found + page["members"]
    return [member["agent_id"] for member in found]


# -- members marked as gone


def release(client: Client) -> Object:
    turn = client.data("wait_for_turn", max_wait_ms=0)
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    return client.data("release_stick", **lease, handoff=HANDOFF)


def mark(app: App, ada: Client, dead: Child, agent_id: str) -> None:
    """End the process of a member, and let another one join, which marks it."""
    dead.kill()
    ada.data("join_path", context_path=ada.joined["canonical_path"])
    with app.store.read() as tx:
        marks = {row["agent_id"]: row["is_gone"] for row in tx.all("room_members", room_id=ada.room_id)}
    assert marks[agent_id] == 1


def listed(client: Client) -> list[str]:
    return [member["agent_id"] for member in client.data("get_room_state")["members"]]


@pytest.mark.parametrize("tool", ["join_path", "append_note"])
def test_a_member_that_comes_back_in_another_process_takes_turns_again(
    app: App, enter: Enter, ada: Client, child: Callable[[], Child], workspace: str, tool: str
) -> None:
    first, second = child(), child()
    bob = enter("bob:2", first.process)
    mark(app, ada, first, "bob:2")
    assert listed(ada) == ["ada:1"]

    bob.session.speak_as(bob.session.caller()._replace(process=second.process))
    bob.data(tool, **({"context_path": workspace} if tool == "join_path" else {"note": "back"}))

    assert listed(ada) == ["ada:1", "bob:2"]
    assert release(ada)["reserved_for"] == "bob:2"


def test_a_member_marked_as_gone_lives_again_by_its_timer(
    app: App, enter: Enter, ada: Client, child: Callable[[], Child]
) -> None:
    first = child()
    enter("bob:2", first.process)
    mark(app, ada, first, "bob:2")

    with app.store.write("bob:2") as tx:
        live_by_timer(tx, "bob:2")

    assert listed(ada) == ["ada:1", "bob:2"]
    assert verify_store(app.store).problems == []


def test_a_release_marks_the_members_that_it_passes_over(
    app: App, enter: Enter, ada: Client, child: Callable[[], Child]
) -> None:
    first = child()
    enter("bob:2", first.process)
    eve = enter("eve:3")
    first.kill()

    offered = release(ada)

    assert offered["reserved_for"] == eve.agent_id
    with app.store.read() as tx:
        assert [row["is_gone"] for row in tx.all("room_members", room_id=ada.room_id)] == [0, 1, 0]


def test_a_member_marked_as_gone_that_holds_something_is_still_listed(
    app: App, enter: Enter, ada: Client, child: Callable[[], Child]
) -> None:
    working, holding = child(), child()
    enter("working:1", working.process).reserve("src")
    enter("holding:1", holding.process).data("wait_for_turn")
    working.kill()

    mark(app, ada, holding, "holding:1")

    state = ada.data("get_room_state")
    assert [member["agent_id"] for member in state["members"]] == ["ada:1", "working:1", "holding:1"]
    assert "members_gone" not in state
    assert (state["room"]["state"], state["takeover"]["reason"]) == ("owner_gone", "owner_gone")


def test_no_name_and_no_place_of_a_member_marked_as_gone_is_given_again(
    app: App, enter: Enter, ada: Client, child: Callable[[], Child]
) -> None:
    first = child()
    bob = enter("bob:2", first.process)
    mark(app, ada, first, "bob:2")

    eve = enter("eve:3")

    assert eve.name != bob.name
    assert [(m["agent_id"], m["ordinal"]) for m in eve.data("get_room_state")["members"]] == [
        ("ada:1", 0),
        ("eve:3", 2),
    ]
    refusal = ada.refused("agent_register", name=bob.name)
    assert refusal["agent_id"] == "bob:2"
