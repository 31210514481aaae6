"""The data of other programs comes into the store once, whole, and without a change to their files."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from tests.contract.conftest import Client, Enter
from tests.contract.foreign import NOON, ForeignFile, bus_file, event, message, stick_file

from conch.app import App
from conch.errors import InvalidArgument, StoreCorrupt
from conch.importing import topics
from conch.importing.importing import import_file
from conch.importing.outcome import Outcome
from conch.storage.base import Store
from conch.upkeep.verify import verify_store


def take(app: App, file: ForeignFile | Path, is_dry_run: bool = False) -> Outcome:
    path = file.path if isinstance(file, ForeignFile) else file
    return import_file(app.store, app.settings, str(path), is_dry_run=is_dry_run)


def dump(app: App) -> dict[str, list[dict[str, Any]]]:
    with app.store.read() as tx:
        return {table: sorted(tx.dump(table), key=repr) for table in tx.tables()}


def require_sound(app: App) -> None:
    assert [problem.sentence for problem in verify_store(app.store).problems] == []


@pytest.fixture
def bus(tmp_path: Path) -> ForeignFile:
    """Two peers that talk, one question with an answer, and a name with a token."""
    file = bus_file(tmp_path / "bus.sqlite")
    file.insert(
        "messages",
        message(1, "red-squirrel", "hello", client_message_id="k1", metadata_json='{"to": "blue-fox"}'),
        message(2, "blue-fox", "why?", message_type="question"),
        message(3, "red-squirrel", "because", message_type="answer", reply_to="m2"),
    )
    token = {"topic_id": "t1", "agent_name": "red-squirrel", "reclaim_token": "secret", "created_at": NOON}
    file.insert("agent_name_reservations", {**token, "last_claimed_at": NOON})
    file.insert("cursors", {"topic_id": "t1", "agent_name": "red-squirrel", "last_seq": 2, "updated_at": NOON})
    return file


# -- a message bus


def test_a_bus_of_version_6_comes_with_its_messages_names_and_cursors(app: App, bus: ForeignFile, ada: Client) -> None:
    outcome = take(app, bus)

    topic = ada.data("topic_resolve", name="pink")["topic_id"]
    joined = ada.join(topic, "red-squirrel", reclaim_token="secret")
    unread = ada.data("sync", topic_id=topic, wait_seconds=0, include_self=True)["received"]
    ada.data("cursor_reset", topic_id=topic)
    everything = ada.data("sync", topic_id=topic, wait_seconds=0, include_self=True)["received"]
    assert outcome.added == {"topics": 1, "messages": 3, "names": 2, "cursors": 1}
    assert joined["reclaim_token"] == "secret"
    assert [each["content_markdown"] for each in unread] == ["because"]
    assert [each["content_markdown"] for each in everything] == ["hello", "why?", "because"]
    assert [each["sender"] for each in everything] == ["red-squirrel", "blue-fox", "red-squirrel"]
    assert everything[2]["reply_to"] == everything[1]["message_id"]
    assert everything[0]["created_at"] == NOON + 1
    require_sound(app)


def test_a_bus_in_which_two_names_have_one_token_leaves_a_sound_store(app: App, bus: ForeignFile) -> None:
    token = {"topic_id": "t1", "agent_name": "blue-fox", "reclaim_token": "secret", "created_at": NOON}
    bus.insert("agent_name_reservations", {**token, "last_claimed_at": NOON})

    take(app, bus)

    require_sound(app)


def test_a_bus_of_version_5_comes_with_its_questions_and_answers(app: App, tmp_path: Path, ada: Client) -> None:
    file = bus_file(tmp_path / "bus.sqlite", version=5)
    asked = {"topic_id": "t1", "asked_by": "red", "asked_at": NOON}
    file.insert(
        "questions",
        {**asked, "question_id": "q1", "question_text": "open?", "status": "pending"},
        {**asked, "question_id": "q2", "question_text": "gone?", "status": "cancelled", "cancel_reason": "moot"},
    )
    payload = {"answer_markdown": "yes", "repo_pointers": ["a.py"], "suggested_followups": ["and b?"]}
    answer = {"answer_id": "a1", "topic_id": "t1", "question_id": "q1", "answered_by": "blue"}
    file.insert("answers", {**answer, "answered_at": NOON - 5, "payload_json": json.dumps(payload)})

    take(app, file)

    topic = ada.data("topic_resolve", name="pink")["topic_id"]
    ada.join(topic, "red")
    stream = ada.data("sync", topic_id=topic, wait_seconds=0, include_self=True)["received"]
    polled = {each["content_markdown"]: each["message_id"] for each in stream if each["message_type"] == "question"}
    first = ada.data("ask_poll", topic_id=topic, question_id=polled["open?"])
    second = ada.data("ask_poll", topic_id=topic, question_id=polled["gone?"])
    assert [(each["answered_by"], each["answer_markdown"]) for each in first["answers"]] == [("blue", "yes")]
    assert first["answers"][0]["repo_pointers"] == ["a.py"]
    assert second["question_status"] == "cancelled"
    require_sound(app)


def test_importing_a_bus_again_changes_nothing(app: App, bus: ForeignFile) -> None:
    take(app, bus)
    before = dump(app)

    outcome = take(app, bus)

    assert not any(outcome.added.values())
    assert outcome.known == {"topics": 1, "messages": 3, "names": 2}
    assert dump(app) == before


def test_a_bus_that_has_grown_adds_only_what_is_new(app: App, bus: ForeignFile, ada: Client) -> None:
    take(app, bus)
    topic = ada.data("topic_resolve", name="pink")["topic_id"]
    ada.join(topic, "ada-here")
    ada.send(topic, "said here", client_message_id="k9")
    bus.insert("messages", message(4, "blue-fox", "later"), message(5, "ada-here", "not ada", reply_to="m4"))
    late = {"topic_id": "t1", "agent_name": "late-owl", "last_seq": 5, "updated_at": NOON}
    bus.insert("cursors", late)

    outcome = take(app, bus)

    stream = ada.data("sync", topic_id=topic, wait_seconds=0, include_self=True)["received"]
    assert outcome.added["messages"] == 2
    assert [each["content_markdown"] for each in stream][3:] == ["said here", "later", "not ada"]
    assert stream[5]["sender"].startswith("peer-"), "the name is taken here by another agent"
    ada.join(topic, "late-owl")
    unread = ada.data("sync", topic_id=topic, wait_seconds=0)["received"]
    assert unread[0]["content_markdown"] == "said here", "a cursor never passes what was said here"
    require_sound(app)


class Watched:
    """A store that does something before each of its write transactions."""

    def __init__(self, store: Store, before: Callable[[], object]) -> None:
        self._store = store
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, *locks: str) -> Any:
        self._before()
        return self._store.write(*locks)


class Killed(BaseException):
    pass


@pytest.fixture
def in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_AT_ONCE", 1)


@pytest.mark.usefixtures("in_small_steps")
@pytest.mark.parametrize("steps", [1, 2, 4, 5, 6])
def test_an_import_that_was_killed_goes_on_as_if_it_had_not_been(
    app: App, bus: ForeignFile, ada: Client, steps: int
) -> None:
    bus.insert("messages", message(4, "red-squirrel", "again", client_message_id="k1"))
    left = iter([None] * steps)

    def kill() -> None:
        if next(left, Killed) is Killed:
            raise Killed

    with pytest.raises(Killed):
        import_file(cast(Store, Watched(app.store, kill)), app.settings, str(bus.path), is_dry_run=False)
    closed = ada.data("topic_list", status="closed")["topics"]
    require_sound(app)
    outcome = take(app, bus)

    assert "run it again" in closed[0]["close_reason"]
    topic = ada.data("topic_resolve", name="pink")["topic_id"]
    assert ada.join(topic, "red-squirrel", reclaim_token="secret")["status"] == "open"
    assert ada.read(topic, include_self=True) == ["because", "again"]
    ada.data("cursor_reset", topic_id=topic)
    everything = ada.data("sync", topic_id=topic, wait_seconds=0, include_self=True)["received"]
    assert [each["seq"] for each in everything] == [1, 2, 3, 4]
    assert [each["client_message_id"] for each in everything] == ["k1", None, None, None]
    assert (outcome.count("messages"), outcome.count("names")) == (4, 2)
    assert not any(take(app, bus).added.values())
    require_sound(app)


@pytest.mark.usefixtures("in_small_steps")
def test_agents_write_while_a_topic_is_imported(app: App, bus: ForeignFile, ada: Client) -> None:
    said: list[str] = []

    def say() -> None:
        said.append(f"meanwhile {len(said)}")
        ada.send(ada.home, said[-1])

    import_file(cast(Store, Watched(app.store, say)), app.settings, str(bus.path), is_dry_run=False)

    assert len(said) == 6  # the topic, three messages, the name, and the end
    assert ada.read(ada.home, include_self=True) == said


def test_a_dry_run_says_the_same_and_changes_nothing(app: App, bus: ForeignFile) -> None:
    with app.store.write("schema"):
        pass
    before = dump(app)

    dry = take(app, bus, is_dry_run=True)
    after = dump(app)

    assert after == before
    assert take(app, bus).added == dry.added


def test_a_source_is_not_changed_and_its_log_is_read(app: App, bus: ForeignFile) -> None:
    def facts() -> dict[Path, tuple[bytes, int]]:
        return {each: (each.read_bytes(), each.stat().st_mtime_ns) for each in bus.path.parent.glob("bus*")}

    writer = sqlite3.connect(bus.path)  # while it is open, the newest message is in the log beside the file
    writer.execute("UPDATE messages SET content_markdown = 'in the log'")
    writer.commit()
    before = facts()

    take(app, bus)

    assert facts() == before
    assert len(before) == 3, "the file, its log and the index of the log"
    with app.store.read() as tx:
        assert {row["content_markdown"] for row in tx.dump("messages")} == {"in the log"}
    writer.close()


def test_a_link_leads_to_the_file_and_to_the_log_beside_it(app: App, bus: ForeignFile, tmp_path: Path) -> None:
    writer = sqlite3.connect(bus.path)
    writer.execute("UPDATE messages SET content_markdown = 'in the log'")
    writer.commit()
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "bus"
    link.symlink_to(bus.path)

    take(app, link)

    with app.store.read() as tx:
        assert {row["content_markdown"] for row in tx.dump("messages")} == {"in the log"}
    writer.close()


NAMES = ["", "conch", "Human:eve", "RED-SQUIRREL", "x" * 65, "two\nlines", "p\u0430ypal", "ada:1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_conch_refuses_is_replaced_and_reported(app: App, bus: ForeignFile, ada: Client, name: str) -> None:
    bus.insert("messages", message(4, name, "who?"), message(5, name, "still me"))

    outcome = take(app, bus)
    again = take(app, bus)

    topic = ada.data("topic_resolve", name="pink")["topic_id"]
    stream = ada.data("sync", topic_id=topic, wait_seconds=0) if ada.join(topic, "reader") else {}
    senders = [each["sender"] for each in stream["received"]][3:]
    assert senders == [outcome.changes[0].became] * 2
    assert outcome.changes[0].given == name
    assert outcome.changes[0].reason
    assert not any(again.added.values())
    require_sound(app)


@pytest.mark.parametrize("name", ["/elsewhere", "system", "PINK", "", "a\tb"])
def test_a_topic_name_that_conch_refuses_is_replaced_and_reported(app: App, bus: ForeignFile, name: str) -> None:
    bus.insert("topics", {"topic_id": "t2", "name": name, "created_at": NOON + 1, "status": "open"})

    outcome = take(app, bus)

    assert [(change.what, change.given) for change in outcome.changes] == [("topic", name)]
    assert app.topics.resolve(outcome.changes[0].became).name == outcome.changes[0].became
    require_sound(app)


def test_rows_that_do_not_fit_are_mended(app: App, bus: ForeignFile) -> None:
    bus.insert(
        "messages",
        message(7, "red-squirrel", "gap in the numbers", reply_to="m99", client_message_id="k1"),
        message(8, "red-squirrel", "nul \0 and bytes", metadata_json="not json", message_type=""),
        message(9, "blue-fox", "times", created_at="soon", metadata_json='{"to": [{"a": 1}]}'),
        message(10, "blue-fox", "numbers", created_at=1e300, metadata_json='{"n": NaN}'),
        message(11, "blue-fox", "surrogates", metadata_json=r'{"s": "\ud800"}', reply_to="m11"),
        message(12, "blue-fox", "deep", metadata_json="[" * 100_000),
        message(13, "nobody", "lost", topic_id="t99"),
        {**message(14, "blue-fox", "blob"), "content_markdown": b"\xff\xfe"},
    )

    outcome = take(app, bus)

    assert outcome.added["messages"] == 10
    assert [(change.what, change.given) for change in outcome.changes] == [("messages", "1")]
    require_sound(app)


def test_bytes_are_read_as_text(app: App, bus: ForeignFile) -> None:
    given = {**message(4, "red-squirrel", ""), "content_markdown": b"caf\xc3\xa9 \xff", "metadata_json": b'{"a": 1}'}
    bus.insert("messages", given)

    take(app, bus)

    with app.store.read() as tx:
        row = next(row for row in tx.dump("messages") if row["seq"] == 4)
    assert (row["content_markdown"], row["metadata_json"]) == ("caf\xe9 \N{REPLACEMENT CHARACTER}", '{"a": 1}')


def test_a_name_without_a_cursor_has_read_nothing(app: App, bus: ForeignFile) -> None:
    bus.insert("messages", message(-7, "blue-fox", "before the first"))

    take(app, bus)

    with app.store.read() as tx:
        assert sorted(row["last_seq"] for row in tx.dump("cursors")) == [0, 3]
    require_sound(app)


def test_a_topic_with_the_name_of_one_that_is_here_comes_beside_it(app: App, bus: ForeignFile, ada: Client) -> None:
    here = ada.data("topic_create", name="pink")["topic_id"]

    take(app, bus)

    assert ada.data("topic_resolve", name="pink")["topic_id"] == here
    assert len([each for each in ada.data("topic_list")["topics"] if each["name"] == "pink"]) == 2
    require_sound(app)


def test_what_is_no_such_file_is_refused(app: App, environ: dict[str, str], bus: ForeignFile, tmp_path: Path) -> None:
    text, empty, other, folder = tmp_path / "a.txt", tmp_path / "empty", tmp_path / "other.sqlite", tmp_path / "folder"
    text.write_text("not a database, but long enough to be read as one " * 20)
    empty.touch()
    ForeignFile(other, "CREATE TABLE meta (key, value); CREATE TABLE topics (topic_id);")
    folder.mkdir()
    newer = bus_file(tmp_path / "newer.sqlite")
    newer.run(lambda connection: connection.execute("UPDATE meta SET value = '7'"))

    for path in (empty, other, folder, newer.path, tmp_path / "missing"):
        with pytest.raises(InvalidArgument):
            take(app, path)
    with pytest.raises(StoreCorrupt):
        take(app, text)


def test_a_pipe_in_place_of_the_log_is_refused_by_its_name(app: App, bus: ForeignFile) -> None:
    os.mkfifo(f"{bus.path}-wal")

    with pytest.raises(InvalidArgument, match="-wal is not a regular file"):
        take(app, bus)


def test_a_file_that_cannot_be_copied_is_not_called_unreadable(
    app: App, bus: ForeignFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))

    with pytest.raises(InvalidArgument, match=r"could not be copied to a temporary folder, .*: No such file or dir"):
        take(app, bus)


def test_a_damaged_file_is_refused_whole(app: App, bus: ForeignFile) -> None:
    bus.insert("messages", *(message(number, "red-squirrel", "x" * 500) for number in range(10, 200)))
    before = dump(app)
    raw = bytearray(bus.path.read_bytes())
    raw[8192:40960] = os.urandom(32768)
    bus.path.write_bytes(raw)

    with pytest.raises(StoreCorrupt):
        take(app, bus)

    assert dump(app) == before


# -- a talking stick


@pytest.fixture
def stick(tmp_path: Path, workspace: str) -> ForeignFile:
    file = stick_file(tmp_path / "stick.sqlite", workspace, ["codex:9b22", "claude-code:a3f1"])
    file.insert(
        "room_events",
        event(1, "claim", 1, None, "codex:9b22"),
        event(2, "release", 1, "codex:9b22", "claude-code:a3f1"),
        event(3, "claim", 2, "codex:9b22", "claude-code:a3f1"),
    )
    return file


def test_a_room_comes_with_its_members_and_its_log(app: App, stick: ForeignFile, enter: Enter) -> None:
    outcome = take(app, stick)

    ada = enter("ada:1")
    events = ada.data("get_room_events", after="0", limit=50)["events"]
    kinds = [each["event_type"] for each in events]
    assert outcome.added == {"rooms": 1, "agents": 2, "members": 2, "events": 3}
    assert kinds == ["join", "join", "claim", "release", "claim", "join"]
    assert events[3]["handoff"] == {"status": "did 2", "next_action": "go on after 2"}
    assert events[3]["created_at"] == "2025-06-15T12:02:00.000Z"
    assert [each.get("reason") for each in events if each["event_type"] == "claim"] == ["open_claim", "sequence"]
    assert not ada.joined["created"]
    require_sound(app)


def test_the_holder_of_an_imported_stick_can_be_relieved_at_once(app: App, stick: ForeignFile, enter: Enter) -> None:
    take(app, stick)
    ada = enter("ada:1")

    waited = ada.data("wait_for_turn", max_wait_ms=0)
    taken = ada.data("takeover_stick", expected_turn_id=waited["turn_id"], reason="it works elsewhere")

    assert waited["status"] == "takeover_available"
    assert taken["turn_id"] == 3
    require_sound(app)


def test_importing_a_room_again_changes_nothing(app: App, stick: ForeignFile) -> None:
    take(app, stick)
    before = dump(app)

    outcome = take(app, stick)

    assert not any(outcome.added.values())
    assert dump(app) == before


def test_a_path_is_brought_into_its_usual_form(app: App, tmp_path: Path, ada: Client) -> None:
    path = ada.joined["canonical_path"]

    take(app, stick_file(tmp_path / "stick.sqlite", f"{path}/./", ["codex:9b22"]))

    with app.store.read() as tx:
        assert [row["canonical_path"] for row in tx.all("all_rooms")] == [path]


def test_an_imported_member_can_be_resumed_in_a_sound_store(
    app: App, stick: ForeignFile, enter: Enter, workspace: str
) -> None:
    stick.insert("room_events", event(4, "pass", 2, "claude-code:a3f1", "codex:9b22"))
    take(app, stick)
    ada = enter("ada:1")
    prior = next(each["name"] for each in ada.data("agent_list")["agents"] if each["agent_id"] == "codex:9b22")

    app.adoption.adopt(ada.session.caller(), ada.room_id, prior, ".", confirmed=True)

    require_sound(app)
    assert ada.data("wait_for_turn", max_wait_ms=0)["reason"] == "direct_pass"
    ada.send(ada.home, "hello")
    require_sound(app)


def test_a_log_that_has_grown_goes_on(app: App, stick: ForeignFile, ada: Client) -> None:
    del ada  # the room is new in the store, and agents have joined it here
    stick.insert("room_events", event(4, "pass", 2, "claude-code:a3f1", "codex:9b22"))

    outcome = take(app, stick)

    assert outcome.added["events"] == 4
    require_sound(app)


def test_events_that_come_later_follow_those_that_are_there(app: App, stick: ForeignFile) -> None:
    take(app, stick)
    stick.insert("room_events", event(4, "pass", 2, "claude-code:a3f1", "codex:9b22"))

    outcome = take(app, stick)

    with app.store.read() as tx:
        room = tx.all("all_rooms")[0]
    assert outcome.added == {"events": 1}
    assert (room["state"], room["reserved_for"], room["turn_id"]) == ("reserved", "codex:9b22", 2)
    require_sound(app)


def test_the_stick_of_a_room_in_use_stays_where_it_is(app: App, stick: ForeignFile, ada: Client) -> None:
    ada.data("wait_for_turn", max_wait_ms=0)

    take(app, stick)

    events = ada.data("get_room_events", after="0", limit=50)["events"]
    assert ada.data("get_room_state")["room"]["owner"] == "ada:1"
    assert [each["event_type"] for each in events].count("note") == 3
    require_sound(app)


def test_importing_again_into_a_room_in_use_changes_nothing(
    app: App, tmp_path: Path, ada: Client, workspace: str
) -> None:
    file = stick_file(tmp_path / "stick.sqlite", workspace, ["codex:9b22", "claude-code:a3f1"])
    file.insert("room_events", event(1, "claim", 1, "codex:9b22", None))
    take(app, file)
    before = dump(app)

    outcome = take(app, file)

    assert not any(outcome.added.values())
    assert dump(app) == before


def test_what_happens_elsewhere_later_moves_no_stick_of_a_room_in_use(
    app: App, stick: ForeignFile, enter: Enter
) -> None:
    take(app, stick)
    ada = enter("ada:1")
    stick.insert("room_events", event(4, "dance", 2, "claude-code:a3f1", None))
    take(app, stick)
    stick.insert("room_events", event(5, "pass", 2, "claude-code:a3f1", "codex:9b22"))
    before = ada.data("get_room_state")["room"]

    take(app, stick)

    now = ada.data("get_room_state")["room"]
    assert {**now, "updated_at": ""} == {**before, "updated_at": ""}
    require_sound(app)


def test_a_time_of_zero_is_no_time(app: App, bus: ForeignFile) -> None:
    bus.insert("messages", message(7, "red-squirrel", "Why?", message_type="question", created_at=0))

    take(app, bus)

    require_sound(app)


def test_a_log_with_holes_comes_as_notes(app: App, tmp_path: Path, workspace: str) -> None:
    file = stick_file(tmp_path / "stick.sqlite", workspace, ["codex:9b22"])
    file.insert(
        "room_events",
        event(1, "release", 4, "codex:9b22", None, handoff_json="{"),
        event(2, "dance", 4, "gone:1", None),
        event(3, "claim", 5, "codex:9b22", None),
        event(4, "release", 5, "codex:9b22", None, handoff_json='{"status": "odd", "extra": 1}'),
        event(5, "close", 5, None, None, created_at="never"),
    )

    outcome = take(app, file)

    assert outcome.added["events"] == 4
    assert [(change.what, change.given) for change in outcome.changes] == [("event", "close")]
    require_sound(app)


@pytest.mark.parametrize("agent_id", ["human:eve:s003", "ada:1", "ADA:1", "two words", ""])
def test_no_agent_here_gets_what_another_did_elsewhere(
    app: App, tmp_path: Path, enter: Enter, workspace: str, agent_id: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ada = enter("ada:1")
    file = stick_file(tmp_path / "stick.sqlite", str(elsewhere), [agent_id])
    file.insert("room_events", event(1, "claim", 1, None, agent_id or "ada:1"))

    outcome = take(app, file)

    changed = [change.became for change in outcome.changes if change.what == "agent"]
    assert changed
    assert all(each.startswith("imported:") for each in changed)
    assert ada.data("list_rooms", context_path=str(elsewhere))["rooms"][0]["owner"] != "ada:1"
    require_sound(app)
