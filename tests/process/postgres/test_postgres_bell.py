"""The bell between processes of several hosts: heard at once, silent without listeners, and it recovers by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from conch.app import App, open_app
from conch.bells import postgres as bells
from conch.bells.base import notification

SOON = 15.0
OURS = "datname = current_database() AND usename = 'conch'"


def ring(app: App, channel: str) -> None:
    with app.store.write(channel) as tx:
        tx.ring(channel)


def test_a_ring_is_sent_only_when_somebody_may_hear_it(app: App, server: Any, database: str) -> None:
    with psycopg.connect(server.url(database), autocommit=True) as spy:
        spy.execute(f"LISTEN {notification('a')}; LISTEN over")
        ring(app, "a")
        with app.bell.listen("a") as ear:
            ring(app, "a")
            heard = ear.wait(SOON)

        spy.execute("NOTIFY over")
        notices = [notice.channel for notice in spy.notifies(timeout=SOON, stop_after=2)]

    assert heard
    assert notices == [notification("a"), "over"]


@pytest.mark.parametrize("is_shared", [False, True], ids=["new channels", "one channel, again and again"])
def test_nobody_misses_a_change_however_listening_and_ringing_overlap(
    app: App, environ: dict[str, str], is_shared: bool
) -> None:
    other = open_app(environ)
    rounds = [f"round-{number}" for number in range(150)]
    start = threading.Barrier(2)

    def change() -> None:
        for channel in rounds:
            start.wait(SOON)
            with other.store.write(channel) as tx:
                tx.run("insert_room", room_id=channel, canonical_path=channel, topic_id=channel, now=tx.now)
                tx.ring(rounds[0] if is_shared else channel)

    def look(channel: str) -> bool:
        with app.store.read() as tx:
            return tx.one("find_room", room_id=channel) is not None

    changer = threading.Thread(target=change, daemon=True)
    changer.start()
    missed = []
    for channel in rounds:
        start.wait(SOON)
        with app.bell.listen(announce=rounds[0] if is_shared else channel) as ear:
            while not look(channel):  # it may hear the ring of the round before
                if not ear.wait(SOON):
                    missed.append(channel)
                    break
    changer.join(SOON)
    other.close()

    assert missed == []


def test_a_waiter_asks_the_server_nothing_while_it_waits(app: App, server: Any, database: str) -> None:
    activity = f"SELECT pid, state_change FROM pg_stat_activity WHERE {OURS} ORDER BY pid"
    with app.bell.listen("a") as ear:
        waiter = threading.Thread(target=ear.wait, args=(SOON,))
        waiter.start()

        before = server.ask(activity, database)
        server.ask("SELECT pg_sleep(0.7)")
        after = server.ask(activity, database)
        ear.wake()
        waiter.join()

    assert before == after


def test_an_ear_that_has_closed_leaves_no_lock_behind(app: App, until: Callable[..., Any]) -> None:
    for _ in range(20):
        with app.bell.listen("a"):
            pass
    with app.bell.listen("a"):
        heard = app.bell.hears("a")

    assert heard
    until(lambda: not app.bell.hears("a"))


def test_the_second_ear_on_a_channel_is_as_good_as_the_first(app: App) -> None:
    with app.bell.listen("a") as first:
        with app.bell.listen("a") as second:
            ring(app, "a")
            assert second.wait(SOON)
        assert first.wait(SOON)
        ring(app, "a")
        assert first.wait(SOON)


def test_listening_to_a_server_that_is_down_holds_nobody_up_and_everybody_looks_when_it_is_back(
    app: App, server: Any
) -> None:
    with app.bell.listen("earlier"):
        server.stop()
        with app.bell.listen("a", announce="b") as ear:
            assert not ear.wait(0)
            server.start()

            assert ear.wait(SOON)
            ring(app, "a")
            assert ear.wait(SOON)


def test_everybody_looks_at_once_when_the_server_goes_away_and_once_more_when_it_is_back(app: App, server: Any) -> None:
    with app.bell.listen("a") as ear:
        server.stop()

        assert ear.wait(SOON)
        assert not ear.wait(0)
        assert app.bell.recheck_seconds(1.0) == 1.0
        server.start()
        assert ear.wait(SOON)
        assert app.bell.recheck_seconds(1.0) > 1.0


def test_a_lost_connection_is_made_anew_and_everybody_looks_again(app: App, server: Any, database: str) -> None:
    with app.bell.listen("a") as ear:
        server.ask(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}", database)

        assert ear.wait(SOON)
        ring(app, "a")
        assert ear.wait(SOON)


def test_a_bell_that_nobody_needs_gives_its_connection_back(
    app: App, server: Any, database: str, until: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bells, "IDLE_SECONDS", 0.05)
    count = f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}"
    with app.bell.listen("a"):
        during = server.ask(count, database)

    until(lambda: server.ask(count, database) == [(0,)])
    with app.bell.listen("a") as ear:
        ring(app, "a")
        heard = ear.wait(SOON)

    assert during == [(1,)]
    assert heard


def test_a_closed_bell_leaves_no_thread_and_no_connection(
    environ: dict[str, str], server: Any, database: str, until: Callable[..., Any]
) -> None:
    for _ in range(20):
        app = open_app(environ)
        with app.bell.listen("a"):
            pass
        app.close()
        assert [thread.name for thread in threading.enumerate() if thread.name == "conch-bell"] == []

    until(lambda: server.ask(f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}", database) == [(0,)])
