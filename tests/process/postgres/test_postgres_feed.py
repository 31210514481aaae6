"""Readers of the whole store miss nothing, although writers may commit in another order than they began."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conch.app import App, open_app
from conch.notices.feed import News, find_end, read_news
from conch.rooms.log import append_event
from conch.rooms.room import load_room
from conch.storage.base import Transaction


@pytest.fixture
def app(tmp_path: Path, postgres_url: str) -> Iterator[App]:
    app = open_app({"HOME": str(tmp_path), "CONCH_DATA_DIR": str(tmp_path / "data"), "CONCH_STORE": postgres_url})
    yield app
    app.close()


def write_note(tx: Transaction, room_id: str, text: str) -> None:
    append_event(tx, load_room(tx, room_id), "note", details={"note": text})


def make_room(app: App, path: Path) -> str:
    path.mkdir()
    (path / "AGENTS.md").write_text("")
    return app.membership._create(str(path))[0]


def test_a_writer_that_commits_late_is_not_passed_over(app: App, tmp_path: Path) -> None:
    slow, quick = make_room(app, tmp_path / "slow"), make_room(app, tmp_path / "quick")
    begin = find_end(app.store)

    with app.store.write(slow) as late:
        write_note(late, slow, "began first")
        with app.store.write(quick) as tx:
            write_note(tx, quick, "committed first")
        meanwhile = read_news(app.store, begin, begin)
        end_meanwhile = find_end(app.store)
    assert meanwhile is not None
    after = read_news(app.store, meanwhile.mark, meanwhile.mark)
    later = read_news(app.store, end_meanwhile, end_meanwhile)

    assert notes(meanwhile) == ["committed first"]
    assert meanwhile.mark == begin
    assert notes(after) == notes(later) == ["began first", "committed first"]


def notes(news: News | None) -> list[str]:
    assert news is not None
    return [entry.event.details["note"] for entry in news.entries if entry.event]
