"""Any call and any wait keeps an agent active, however soon a silent agent counts as stale."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.contract.conftest import DEADLINE, in_background

from conch.app import App, open_app
from conch.calls import Call
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session

SHORTEST_MINUTES = 0.01
WITHIN_MS = 400  # later than the sign of life must be renewed, sooner than its agent would be stale


@pytest.fixture
def app(environ: dict[str, str], clock: Any) -> Iterator[App]:
    app = open_app({**environ, "CONCH_STALE_MINUTES": str(SHORTEST_MINUTES)}, clock)
    yield app
    app.close()


def liveness(app: App, client: Any) -> str:
    """The agent's liveness as others see it. Looking does not change it."""
    agents = app.registration.list_agents(None, client.room_id)
    return next(agent.liveness for agent in agents if agent.agent_id == client.agent_id)


def last_seen(app: App, client: Any) -> int:
    agents = app.registration.list_agents(None, client.room_id)
    return next(agent.last_seen_at for agent in agents if agent.agent_id == client.agent_id)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_room_state", {}),
        ("get_room_events", {}),
        ("list_rooms", {"context_path": "workspace"}),
        ("wait_for_turn", {"max_wait_ms": 0}),
        ("scope_list", {}),
        ("agent_list", {}),
        ("event_inbox", {}),
    ],
)
def test_calling_often_keeps_an_agent_active(
    app: App, red: Any, blue: Any, clock: Any, workspace: str, tool: str, arguments: dict[str, Any]
) -> None:
    given = {**arguments, "context_path": workspace} if "context_path" in arguments else arguments
    blue.data("wait_for_turn", max_wait_ms=0)
    red.reserve("src")

    for _ in range(4):
        clock.advance(milliseconds=WITHIN_MS)
        red.data(tool, **given)

    assert liveness(app, red) == "active"
    assert blue.refused("scope_reserve", scope="src", takeover_stale=True)["error"] == "RESERVATION_CONFLICT"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("wait_for_turn", {"max_wait_ms": 30_000}),
        ("sync", {"wait_seconds": 30}),
        ("ask", {"wait_seconds": 30, "question": "Why?"}),
        ("pending_list", {"wait_seconds": 30}),
    ],
)
def test_a_waiting_agent_stays_active(
    app: App, red: Any, blue: Any, clock: Any, tool: str, arguments: dict[str, Any]
) -> None:
    blue.data("wait_for_turn", max_wait_ms=0)
    call = Call()
    given = arguments if tool == "wait_for_turn" else {"topic_id": red.home, **arguments}
    ended: Callable[[], Any] = in_background(lambda: red.call(tool, call=call, **given))

    for _ in range(4):
        clock.advance(milliseconds=WITHIN_MS)
        deadline = time.monotonic() + DEADLINE
        while last_seen(app, red) != clock.now and time.monotonic() < deadline:
            pass
        assert liveness(app, red) == "active"

    assert last_seen(app, red) == clock.now
    call.cancel()
    ended()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("ping", {}),
        ("topic_list", {}),
        ("topic_presence", {"topic_id": "home"}),
        ("messages_search", {"topic_id": "home", "query": "x"}),
        ("agent_register", {"name": "NO NAME"}),
        ("scope_reserve", {"scope": "/elsewhere"}),
        ("heartbeat", {"lease_id": "x", "expected_turn_id": "not a number"}),
    ],
)
def test_every_call_keeps_an_agent_active_whatever_becomes_of_it(
    app: App, red: Any, clock: Any, tool: str, arguments: dict[str, Any]
) -> None:
    given = {**arguments, "topic_id": red.home} if "topic_id" in arguments else arguments
    clock.advance(milliseconds=WITHIN_MS)

    deadline = time.monotonic() + DEADLINE
    while last_seen(app, red) != clock.now and time.monotonic() < deadline:
        red.call(tool, **given)

    assert last_seen(app, red) == clock.now


def test_a_call_that_asks_for_no_caller_makes_none(app: App) -> None:
    stranger = Session(app, "mcp")

    call_tool(TOOLS["ping"], stranger, {}, Call())

    with app.store.read() as tx:
        assert list(tx.dump("agents")) == []


def test_waiting_writes_no_more_often_than_a_sign_of_life_is_due(app: App, red: Any, clock: Any) -> None:
    before = last_seen(app, red)
    clock.advance(milliseconds=100)

    red.data("sync", topic_id=red.home, wait_seconds=1, auto_advance=False)

    assert app.settings.stale_minutes == SHORTEST_MINUTES
    assert last_seen(app, red) == before
