"""How many round trips to the server a call takes. Over a network, they are what a call costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.arguments import NOTICE
from tests.process.postgres.counted import HANDOFF, KINDS, LATER, Caller, Clock, make_presence_due, post_from
from tests.process.postgres.flights import Flights

from conch.app import App, open_app
from conch.calls import Call
from conch.clock import SECOND
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS

Object = dict[str, Any]
Counting = Callable[[Callable[[], object]], list[list[str]]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(environ: dict[str, str], flights: Flights, database: str, clock: Clock) -> Iterator[App]:
    """In this process, with the proxy between it and the server."""
    url = f"postgresql://conch@127.0.0.1:{flights.port}/{database}?gssencmode=disable&sslmode=disable"
    app = open_app({**environ, "CONCH_STORE": url}, clock)
    yield app
    app.close()


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "AGENTS.md").write_text("")
    return os.path.realpath(root)


@pytest.fixture
def ada(app: App, workspace: str) -> Caller:
    return Caller(app, "codex:ada", workspace)


@pytest.fixture
def bob(app: App, workspace: str) -> Caller:
    return Caller(app, "claude:bob", workspace)


@pytest.fixture
def post(app: App, tmp_path: Path, ada: Caller, bob: Caller) -> Callable[[], None]:
    """Lets ada and bob get mail of every kind."""
    return post_from(Caller(app, "gemini:eve", os.path.realpath(tmp_path)), ada, bob)


@pytest.fixture(params=KINDS)
def counting(
    request: pytest.FixtureRequest, app: App, clock: Clock, flights: Flights, post: Callable[[], None]
) -> Counting:
    """Counts the round trips of a call, which may have to record presence and to tell of mail.

    The mail was there before the calls that warm up, or has come since then.
    """

    if request.param == "mail":
        post()

    def count(act: Callable[[], object]) -> list[list[str]]:
        if "new mail" in request.param:
            post()
        if "presence" in request.param:
            make_presence_due(app, clock)
        return flights.during(act)

    return count


def require(found: list[list[str]], most: int) -> None:
    """At most this many; otherwise, tell where they went."""
    lines = ["; ".join(" ".join(words.split())[:150] for words in flight) for flight in found]
    told = "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))
    assert len(found) <= most, f"{len(found)} round trips, not {most}:\n{told}"
    assert found, "the proxy has counted nothing"


def test_a_sync_that_sends(counting: Counting, ada: Caller) -> None:
    ada.sync("warm-up")

    found = counting(lambda: ada.sync("hello"))

    require(found, 2)
    (sending,) = [flight for flight in found if any("INSERT INTO messages" in words for words in flight)]
    assert any("pg_advisory_xact_lock" in words for words in sending)  # so the lock is held for one round trip only
    assert "COMMIT" in sending


@pytest.mark.parametrize("to", ["{agent_id}", "claude·{name}"])
def test_a_sync_that_sends_to_someone(counting: Counting, ada: Caller, bob: Caller, to: str) -> None:
    note = {"content_markdown": "hello", "metadata": {"to": to.format(**bob.joined)}}
    send: Callable[[], Object] = lambda: ada.call(  # noqa: E731
        "sync", topic_id=ada.joined["topic_id"], outbox=[note], wait_seconds=0
    )
    send()

    require(counting(send), 3)


def test_a_sync_with_nothing_to_read(counting: Counting, ada: Caller) -> None:
    ada.sync()

    require(counting(ada.sync), 1)


def test_a_sync_that_receives_and_moves_its_cursor(counting: Counting, ada: Caller, bob: Caller) -> None:
    ada.sync("warm-up")
    bob.sync()
    ada.sync("hello")
    received: list[Object] = []

    found = counting(lambda: received.append(bob.sync()))

    assert [each["content_markdown"] for each in received[0]["received"]] == ["hello"]
    require(found, 3)


def test_a_sync_that_receives_all_that_waits(app: App, flights: Flights, ada: Caller, bob: Caller) -> None:
    ada.sync("warm-up")
    bob.sync()
    ada.sync("hello")

    found = flights.during(bob.sync)

    require(found, 2)
    assert len([words for flight in found for words in flight if "AS reservations" in words]) == 1, "mail, once"


def test_a_sync_that_receives_a_part_of_what_waits(app: App, flights: Flights, ada: Caller, bob: Caller) -> None:
    bob.sync()
    for text in ("one", "two", "three"):
        ada.sync(text)
    receive: Callable[[], Object] = lambda: bob.call(  # noqa: E731
        "sync", topic_id=bob.joined["topic_id"], wait_seconds=0, max_items=1
    )
    receive()

    found = flights.during(receive)

    require(found, 2)
    assert len([words for flight in found for words in flight if "AS reservations" in words]) == 1, "mail, once"


def test_a_claim_a_heartbeat_and_a_release(counting: Counting, ada: Caller, bob: Caller) -> None:
    for caller in (ada, bob):
        caller.claim()
        caller.call("heartbeat")
        caller.release()

    claiming = counting(ada.claim)
    claiming_again = counting(ada.claim)
    beating = counting(lambda: ada.call("heartbeat"))
    releasing = counting(ada.release)

    require(claiming, 4)
    require(claiming_again, 4)
    require(beating, 2)
    require(releasing, 3)


def test_a_join_of_a_known_room(counting: Counting, ada: Caller, bob: Caller) -> None:
    ada.join()

    require(counting(ada.join), 4)


@pytest.mark.parametrize("reserved", ["src", "docs"])
def test_a_check_of_a_path(counting: Counting, ada: Caller, bob: Caller, reserved: str) -> None:
    bob.call("scope_reserve", scope=reserved)
    check: Callable[[], Object] = lambda: ada.call("scope_check", scope="src/a.py")  # noqa: E731
    check()

    require(counting(check), 1)


def test_a_pass(counting: Counting, ada: Caller, bob: Caller) -> None:
    ada.claim()

    require(counting(lambda: ada.call("pass_stick", to_agent_id=bob.joined["agent_id"], handoff=HANDOFF)), 3)


@pytest.mark.parametrize(
    ("tool", "given", "most"),
    [
        ("get_room_events", {}, 2),
        ("event_inbox", {}, 4),
        ("ask", {"question": "Why?", "wait_seconds": 0}, 2),
        ("set_room_policy", {"policy": {"claim_ttl_ms": 60_000}}, 2),
        ("append_note", {"note": "so far"}, 2),
        ("get_room_state", {}, 4),
        ("scope_list", {}, 3),
        ("messages_search", {"query": "hello"}, 7),
        ("messages_search", {"query": "hello", "mode": "fts"}, 6),
    ],
)
def test_other_calls(flights: Flights, ada: Caller, bob: Caller, tool: str, given: Object, most: int) -> None:
    topic = {"topic_id": ada.joined["topic_id"]} if tool == "ask" else {}
    ada.sync("hello")
    call: Callable[[], Object] = lambda: ada.call(tool, **given, **topic)  # noqa: E731
    ada.claim()
    call()

    require(flights.during(call), most)


def test_a_reservation_and_its_end(counting: Counting, ada: Caller, bob: Caller) -> None:
    bob.call("scope_reserve", scope="docs")
    for tool in ("scope_reserve", "scope_release"):
        ada.call(tool, scope="warm-up")

    reserving = counting(lambda: ada.call("scope_reserve", scope="src/a.py"))
    releasing = counting(lambda: ada.call("scope_release", scope="src/a.py"))

    require(reserving, 2)
    require(releasing, 2)


def test_a_notice(flights: Flights, ada: Caller, bob: Caller) -> None:
    send: Callable[[], Object] = lambda: ada.call(  # noqa: E731
        "event_send", event_type="HANDOFF", to_agent=bob.joined["agent_id"], payload=NOTICE
    )

    require(flights.during(send), 4)


def test_a_join_of_a_topic(flights: Flights, ada: Caller, bob: Caller) -> None:
    topics = [bob.call("topic_create", name=name)["topic_id"] for name in ("one", "another")]
    ada.call("topic_join", topic_id=topics[0], agent_name="ada-there")

    known = flights.during(lambda: ada.call("topic_join", topic_id=topics[0], agent_name="ada-there"))
    new = flights.during(lambda: ada.call("topic_join", topic_id=topics[1], agent_name="ada-here"))

    require(known, 2)
    require(new, 6)


def test_presence_that_travels_along_is_recorded(ada: Caller, clock: Clock, app: App) -> None:
    ada.sync()
    make_presence_due(app, clock)
    late = clock()

    reply = call_tool(TOOLS["sync"], ada.session, {"topic_id": ada.joined["topic_id"], "wait_seconds": 0}, Call())

    with app.store.read() as tx:  # before the reply is delivered
        (agent,), (cursor,) = tx.dump("agents"), tx.dump("cursors")
    assert not reply.is_error
    assert min(agent["last_seen_at"], cursor["updated_at"]) >= late


def test_a_sign_of_life_never_waits_for_another_transaction(ada: Caller, clock: Clock, app: App) -> None:
    clock.ahead += LATER
    told: list[list[Object]] = []
    renew = {"agent_id": "codex:ada", "interval": SECOND}

    with app.store.write("a") as tx:
        tx.run("touch_agent", agent_id="codex:ada", now=tx.now)
        assert tx.one("agent_seen", agent_id="codex:ada")
        with app.store.beforehand("renew_agent", told.append, **renew), app.store.look() as other:
            assert other.one("agent_seen", agent_id="codex:ada")

    assert told == [[{"is_fresh": False}]]


def test_a_sign_of_life_that_fails_fails_nothing_else(ada: Caller, app: App) -> None:
    told: list[list[Object]] = []
    wrong = {"agent_id": "codex:ada", "interval": "no number"}

    with app.store.beforehand("renew_agent", told.append, **wrong), app.store.look() as tx:
        found = tx.one("agent_seen", agent_id="codex:ada")

    assert found is not None
    assert told == []


def test_a_ring_without_a_change(app: App, flights: Flights, ada: Caller) -> None:
    app.store.ring("activity")

    require(flights.during(lambda: app.store.ring("activity")), 1)


def test_a_call_without_the_topic_that_is_meant(app: App, flights: Flights, ada: Caller) -> None:
    for name in ("one", "two", "three"):
        ada.call("topic_join", topic_id=ada.call("topic_create", name=name)["topic_id"], agent_name=f"ada-{name}")
    replies: list[Object] = []

    found = flights.during(lambda: replies.append(call_tool(TOOLS["ask"], ada.session, {"question": "?"}, Call()).data))

    assert replies[0]["field"] == "topic_id"
    require(found, 1)
