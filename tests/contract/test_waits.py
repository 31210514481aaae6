"""A wait costs the store nothing until the bell rings, on every engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conch.app import App
from conch.bus import waits
from conch.bus.waits import wait_for
from conch.calls import Call
from conch.errors import Cancelled, StoreUnavailable

LONG = 20.0


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits reports at once, and again and again."""
    monkeypatch.setattr(waits, "REPORT_EVERY_SECONDS", 0.01)


def after(reports: int, act: Callable[[], None]) -> Call:
    """A call that does something when this many reports have come."""
    come: list[str] = []

    def report(text: str) -> None:
        come.append(text)
        if len(come) == reports:
            act()

    return Call(report)


def test_whoever_waits_reports_without_a_look_at_the_store(app: App) -> None:
    looks: list[None] = []
    call = after(5, lambda: call.cancel())

    with pytest.raises(Cancelled):
        wait_for(app.bell, "topic-a", lambda: looks.append(None), LONG, call, app.settings)

    assert len(looks) == 1


def test_a_ring_between_two_reports_is_heard(app: App) -> None:
    looks: list[None] = []

    def look() -> str | None:
        looks.append(None)
        return "rung" if len(looks) == 2 else None

    def ring() -> None:
        with app.store.write("a") as tx:
            tx.ring("topic-a")

    assert wait_for(app.bell, "topic-a", look, LONG, after(3, ring), app.settings) == "rung"


def test_a_store_that_did_not_answer_is_asked_again_unrung(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "RETRY_SECONDS", 0.01)
    looks: list[None] = []

    def look() -> str | None:
        looks.append(None)
        if len(looks) == 1:
            raise StoreUnavailable("The server restarts.")
        return "back"

    assert wait_for(app.bell, "topic-a", look, LONG, Call(), app.settings) == "back"
    assert len(looks) == 2


def test_a_wait_ends_with_its_time(app: App) -> None:
    assert wait_for(app.bell, "topic-a", lambda: None, 0.05, Call(), app.settings) is None
