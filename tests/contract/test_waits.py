"""A wait costs the store nothing until the bell rings, on every engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conch.app import App
from conch.bells import waits
from conch.bells.waits import FOREVER, Pause, wait_for
from conch.calls import Call
from conch.errors import Cancelled, StoreBusy, StoreError, StoreFull, StoreUnavailable

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
