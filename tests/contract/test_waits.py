"""A wait costs the store nothing until the bell rings, on every engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.contract.conftest import Client, MovableClock

from conch.app import App
from conch.bells import waits
from conch.bells.waits import FOREVER, Pause, wait_for
from conch.calls import Call
from conch.errors import Cancelled, StoreBusy, StoreError, StoreFull, StoreUnavailable
from conch.overseeing.survey import survey

LONG = 20.0
RARELY = (LONG, LONG)


def after(reports: int, act: Callable[[], None]) -> Call:
    """A call that does something when this many reports have come."""
    come: list[str] = []

    def report(text: str) -> None:
        come.append(text)
        if len(come) == reports:
            act()

    return Call(report, every=0.01)


def test_a_wait_reports_progress_without_reading_the_store(app: App) -> None:
    looks: list[None] = []
    call = after(5, lambda: call.cancel())

    with pytest.raises(Cancelled):
        wait_for(app.bell, ["topic-a"], lambda pause: looks.append(None), LONG, call, polls=RARELY)

    assert len(looks) == 1


def test_a_ring_between_two_reports_is_heard(app: App) -> None:
    looks: list[None] = []

    def look(pause: Pause) -> str | None:
        looks.append(None)
        return "rung" if len(looks) == 2 else None

    def ring() -> None:
        with app.store.write("a") as tx:
            tx.ring("topic-a")

    assert wait_for(app.bell, ["topic-a"], look, LONG, after(3, ring), polls=RARELY) == "rung"


def test_a_crowd_looks_once_per_linger_however_often_it_reports(app: App) -> None:
    looks: list[bool] = []

    def look(pause: Pause) -> None:
        looks.append(pause.is_last)
        if len(looks) == 1:
            with app.store.write("a") as tx:
                tx.ring("room-a")

    call = Call(lambda text: None, every=0.01)
    wait_for(app.bell, ["room-a"], look, 0.3, call, announce="seat-a", linger=FOREVER)

    assert looks == [False, True]


def test_a_store_that_did_not_answer_is_asked_again_unrung(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "RETRY_SECONDS", 0.01)
    looks: list[None] = []

    def look(pause: Pause) -> str | None:
        looks.append(None)
        if len(looks) <= 3:
            raise StoreUnavailable("The server restarts.")
        return "back"

    assert wait_for(app.bell, ["topic-a"], look, FOREVER, Call()) == "back"
    assert len(looks) == 4


def test_a_store_that_stays_away_is_asked_less_and_less_often(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "RETRY_SECONDS", 0.01)
    looks: list[None] = []

    def look(pause: Pause) -> None:
        looks.append(None)
        raise StoreUnavailable("The server is down.")

    with pytest.raises(StoreUnavailable):
        wait_for(app.bell, ["topic-a"], look, 1.0, Call())
    assert len(looks) <= 9, "the pauses double, so there is time for eight looks and the last"


def test_a_wait_ends_with_its_time(app: App) -> None:
    assert wait_for(app.bell, ["topic-a"], lambda pause: None, 0.05, Call()) is None


def test_the_last_look_says_what_there_is_when_the_time_is_over(app: App) -> None:
    found = wait_for(app.bell, ["topic-a"], lambda pause: "as it is" if pause.is_last else None, 0.05, Call())

    assert found == "as it is"


def test_trouble_that_lasts_is_raised_when_the_time_is_over(app: App) -> None:
    def look(pause: Pause) -> None:
        raise StoreUnavailable("The server is gone.")

    with pytest.raises(StoreUnavailable):
        wait_for(app.bell, ["topic-a"], look, 0.05, Call())


@pytest.mark.parametrize(("trouble", "looks"), [(StoreUnavailable, 1), (StoreBusy, 2)])
def test_a_store_that_never_answered_is_waited_for_only_if_it_is_busy(
    app: App, monkeypatch: pytest.MonkeyPatch, trouble: type[StoreError], looks: int
) -> None:
    monkeypatch.setattr(waits, "RETRY_SECONDS", 0.01)
    troubles = iter([trouble("not now"), StoreUnavailable("The server was never there.")])
    seen: list[None] = []

    def look(pause: Pause) -> None:
        seen.append(None)
        raise next(troubles)

    with pytest.raises(StoreUnavailable):
        wait_for(app.bell, ["topic-a"], look, LONG, Call(), has_answered=False)

    assert len(seen) == looks


def test_trouble_that_does_not_pass_ends_a_wait_at_once(app: App) -> None:
    def look(pause: Pause) -> None:
        raise StoreFull("The disk is full.")

    with pytest.raises(StoreFull):
        wait_for(app.bell, ["topic-a"], look, LONG, Call())


def test_a_wait_renews_the_sign_of_life_of_its_caller(app: App) -> None:
    renewals: list[None] = []
    call = Call()

    def renew() -> None:
        renewals.append(None)
        if len(renewals) == 3:
            call.cancel()

    call.renew_with(renew)

    with pytest.raises(Cancelled):
        wait_for(app.bell, ["topic-a"], lambda pause: None, LONG, call, renewal=0.01)


# -- since when an agent waits


def waiting_since(client: Client, tool: str = "wait_for_turn") -> int:
    """What a person sees while this agent waits."""
    found: list[int] = []

    def look(_: str) -> None:
        app = client.session.app
        seen = survey(app.store, app.bell, app.rooms, client.room_id, "human:1", [])
        found.extend(each.since for each in seen.standings if each.doing == "waiting")
        call.cancel()

    call = Call(look, every=0.001)
    client.call(tool, call=call)
    return found[0]


@pytest.mark.parametrize("tool", ["wait_for_turn", "listen"])
def test_an_agent_waits_since_its_first_wait_and_not_since_it_joined(
    ada: Client, bob: Client, clock: MovableClock, tool: str
) -> None:
    clock.advance(minutes=9)
    ada.data("wait_for_turn")
    began = clock()

    first = waiting_since(bob, tool)
    clock.advance(minutes=1.5)
    soon_again = waiting_since(bob, tool)
    clock.advance(minutes=5)
    much_later = waiting_since(bob, tool)

    assert (first, soon_again, much_later) == (began, began, clock())


def test_an_agent_that_had_a_turn_waits_since_it_handed_over(ada: Client, bob: Client, clock: MovableClock) -> None:
    ada.data("wait_for_turn")
    waiting_since(bob)
    ada.data("release_stick", handoff={"status": "s", "next_action": "n"})
    bob.data("wait_for_turn")
    clock.advance(milliseconds=500)
    bob.data("release_stick", handoff={"status": "s", "next_action": "n"})
    ada.data("wait_for_turn")

    assert waiting_since(bob) == clock()
