"""The numbers in the mail are those of a slow count of all tables, whatever agents and people have done."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.callers import person
from tests.contract.conftest import Client, Enter, MovableClock, Object

from conch.agents.people import Person
from conch.app import App
from conch.errors import ConchError
from conch.notices.delivery import find_news, mark_shown
from conch.notices.mail import Mail, read_mail
from conch.overseeing.steering import Steering
from conch.retention.retention import Retention
from conch.storage.base import Answered
from conch.tools import session

STEPS = 80
METADATA = ({}, {"note": {"to": "x"}}, {"to": []}, {"to": None}, {"said": '"to"'})
SCOPES = ("a", "b", "a/c", "d/*")


def rows(app: App, table: str) -> list[dict[str, Any]]:
    with app.store.read() as tx:
        statements = tx._statements  # type: ignore[attr-defined]
        statements[f"whole {table}"] = f"SELECT * FROM {table}"
        return tx.all(f"whole {table}")


class Count:
    """What waits for an agent, counted one by one as the module of mail promises it."""

    def __init__(self, app: App, agent_id: str) -> None:
        self._app, self._agent_id = app, agent_id
        self._read = {row["peer_id"]: row["last_seq"] for row in rows(app, "cursors")}
        peers = [row for row in rows(app, "peers") if row["agent_id"] == agent_id and row["peer_id"] in self._read]
        self._peers = {row["peer_id"]: row["topic_id"] for row in peers}
        self._names = {topic_id: {agent_id} for topic_id in self._peers.values()}
        for row in rows(app, "agent_name_reservations"):
            if row["peer_id"] in self._peers:
                self._names[row["topic_id"]].add(row["agent_name"])
        self._shown = {row["place"]: row["through"] for row in rows(app, "marks") if row["agent_id"] == agent_id}
        self._messages = {row["message_id"]: row for row in rows(app, "messages")}

    def all(self) -> Object:
        unread = [row for row in self._messages.values() if self._is_unread(row)]
        to_agent = [row for row in unread if self._is_meant(row)]
        to_you = [row for row in to_agent if row["seq"] > self._shown.get(row["topic_id"], 0)]
        return {
            "to_you": len(to_you),
            "newest": max(to_you, key=lambda row: int(row["number"]))["message_id"] if to_you else None,
            "others": len(unread) - len(to_agent),
            "questions": self._questions(),
            "notices": self._notices(),
            "reserved": self._reserved(),
        }

    def _is_unread(self, row: Object) -> bool:
        cursors = [self._read[peer] for peer, topic_id in self._peers.items() if topic_id == row["topic_id"]]
        return bool(cursors) and row["seq"] > max(cursors) and row["sender_id"] not in self._peers

    def _is_meant(self, row: Object) -> bool:
        return not self._names[row["topic_id"]].isdisjoint(addressees(row))

    def _questions(self) -> int:
        answered = {row["question_id"] for row in rows(self._app, "answers") if row["answered_by_id"] in self._peers}
        return sum(
            row["status"] == "pending"
            and row["topic_id"] in self._names
            and row["asked_by_id"] not in self._peers
            and row["question_id"] not in answered
            and (not addressees(asked := self._messages[row["question_id"]]) or self._is_meant(asked))
            for row in rows(self._app, "questions")
        )

    def _notices(self) -> int:
        mine = [row for row in rows(self._app, "protocol_events") if row["to_agent_id"] == self._agent_id]
        must_accept = [json.loads(row["payload_json"]).get("requires_ack") is True for row in mine]
        return sum(
            row["state"] == "unread" or (row["state"] == "seen" and must)
            for row, must in zip(mine, must_accept, strict=True)
        )

    def _reserved(self) -> int:
        seen = {row["agent_id"]: row["last_seen_at"] for row in rows(self._app, "agents")}[self._agent_id]
        held = {
            row["room_id"]: row["turn_id"] for row in rows(self._app, "path_rooms") if row["owner"] == self._agent_id
        }
        since = {
            row["room_id"]: row["created_at"]
            for row in rows(self._app, "room_events")
            if held.get(row["room_id"]) == row["turn_id"] and row["event_type"] in ("claim", "takeover")
        }
        return sum(
            row["state"] == "active"
            and row["room_id"] in since
            and row["agent_id"] != self._agent_id
            and row["created_at"] >= since[row["room_id"]]
            and row["expires_at"] > seen
            for row in rows(self._app, "reservations")
        )


def addressees(row: Object) -> set[str]:
    to = json.loads(row["metadata_json"] or "{}").get("to") or []
    return {to} if isinstance(to, str) else set(to)


def told(app: App, agent_id: str) -> Object:
    """The same numbers from the mail."""
    mail = read_mail(app.store, agent_id)
    numbers = {kind: getattr(mail, kind) for kind in ("to_you", "questions", "notices", "reserved")}
    counts = {kind: waiting.number if waiting else 0 for kind, waiting in numbers.items()}
    return {**counts, "others": mail.others, "newest": mail.to_you.id if mail.to_you else None}


class Crowd:
    """Agents and a person who do whatever they can."""

    def __init__(self, app: App, enter: Enter, clock: MovableClock, seed: int) -> None:
        self._app, self._clock, self._random = app, clock, random.Random(seed)
        self.agents = [enter(f"{name}:1") for name in ("ada", "bob", "cleo")]
        self._topics = [self.agents[0].home, self.agents[0].data("topic_create", name="pink")["topic_id"]]
        self._names = {client.name for client in self.agents} | {client.agent_id for client in self.agents}
        self._steering, self._eve = Steering(app), Person(person(app.store, "eve"))
        self._acts: list[Callable[[Client, str], object]] = [
            *(self._send, self._send, self._read, self._ask, self._answer, self._end, self._rename, self._join),
            *(self._notify, self._mark, self._reserve, self._turn, self._hand_over, self._show, self._step_in),
        ]

    def act(self) -> None:
        """One random act. Many of them are refused."""
        self._clock.advance(milliseconds=self._random.choice([0, 1, 700, 90_000]))
        try:
            self._random.choice(self._acts)(self._random.choice(self.agents), self._random.choice(self._topics))
        except ConchError:
            pass

    def _some_name(self) -> str:
        return self._random.choice(sorted(self._names))

    def _some_id(self, table: str, column: str) -> str:
        return str(self._random.choice([row[column] for row in rows(self._app, table)] or ["none"]))

    def _send(self, client: Client, topic_id: str) -> None:
        names = [self._some_name() for _ in range(self._random.choice([1, 2, 4]))]
        metadata = self._random.choice([*METADATA, {"to": names[0]}, {"to": names}, {"to": names}])
        kind = self._random.choice(["message", "question", "other"])
        message = {"content_markdown": "text", "message_type": kind, "metadata": metadata}
        client.call("sync", topic_id=topic_id, outbox=[message], wait_seconds=0, max_items=1, auto_advance=False)

    def _read(self, client: Client, topic_id: str) -> None:
        if self._random.random() < 0.2:
            client.call("cursor_reset", topic_id=topic_id, last_seq=self._random.randint(0, 5))
        client.call("sync", topic_id=topic_id, wait_seconds=0, max_items=self._random.choice([1, 20]))

    def _ask(self, client: Client, topic_id: str) -> None:
        client.call("ask", topic_id=topic_id, question="Why?", wait_seconds=0)

    def _answer(self, client: Client, topic_id: str) -> None:
        question_id = self._some_id("questions", "question_id")
        response = {"question_id": question_id, "answer_markdown": "Because.", "suggested_followups": ["So?"]}
        client.call("answer", topic_id=topic_id, responses=[response])

    def _end(self, client: Client, topic_id: str) -> None:
        tool = self._random.choice(["ask_cancel", "question_mark_answered"])
        client.call(tool, topic_id=topic_id, question_id=self._some_id("questions", "question_id"))

    def _rename(self, client: Client, topic_id: str) -> None:
        client.call("agent_register", name=f"name-{len(self._names)}")
        self._names.add(client.name)

    def _join(self, client: Client, topic_id: str) -> None:
        name = f"alias-{len(self._names)}"
        client.call("topic_join", topic_id=topic_id, agent_name=name)
        self._names.add(name)

    def _notify(self, client: Client, topic_id: str) -> None:
        payload = {"subject": '"requires_ack": true', "summary": "s", "next_action": "n"}
        payload |= {"requires_ack": self._random.random() < 0.5}
        client.call("event_send", event_type="HANDOFF", to_agent=self._some_name(), payload=payload)

    def _mark(self, client: Client, topic_id: str) -> None:
        event_id, mark = self._some_id("protocol_events", "event_id"), self._random.choice(["seen", "accepted"])
        client.call("event_mark", event_id=event_id, mark=mark)

    def _reserve(self, client: Client, topic_id: str) -> None:
        client.call("scope_reserve", scope=self._random.choice(SCOPES), ttl_minutes=self._random.choice([1, 60]))
        client.call("scope_release", scope=self._random.choice(SCOPES))

    def _turn(self, client: Client, topic_id: str) -> None:
        client.call("wait_for_turn", max_wait_ms=0)

    def _hand_over(self, client: Client, topic_id: str) -> None:
        client.call("release_stick", handoff={"status": "s", "next_action": "n"})

    def _show(self, client: Client, topic_id: str) -> None:
        if news := find_news(self._app.store, client.agent_id, 1, to_all=False):
            mark_shown(self._app.store, news)

    def _step_in(self, client: Client, topic_id: str) -> None:
        act = self._random.choice(["nudge", "redact", "free", "unreserve", "prune"])
        if act == "nudge":
            self._steering.nudge(self._eve, client.room_id, client.agent_id)
        elif act == "redact":
            self._steering.redact(self._eve, self._some_id("messages", "message_id"), "a secret")
        elif act == "free":
            self._steering.free_name(self._eve, topic_id, self._some_name())
        elif act == "unreserve":
            self._steering.unreserve(self._eve, client.room_id, client.agent_id, self._random.choice(SCOPES), "why")
        else:
            Retention(self._app.store, self._app.bell, self._app.settings).prune(1_000_000)


@pytest.fixture
def differences(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Mail, Mail]]:
    """Mail that a reply took from what its call had read anyway, wherever a new query finds something else."""
    found: list[tuple[Mail, Mail]] = []

    def read_twice(*args: Any, seen: Answered | None = None) -> Mail:
        mail, anew = read_mail(*args, seen=seen), read_mail(*args)
        if mail != anew:
            found.append((mail, anew))
        return mail

    monkeypatch.setattr(session, "read_mail", read_twice)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_mail_counts_as_a_slow_count_does(
    app: App, enter: Enter, clock: MovableClock, seed: int, differences: list[tuple[Mail, Mail]]
) -> None:
    crowd = Crowd(app, enter, clock, seed)

    for _ in range(STEPS):
        crowd.act()

        for client in crowd.agents:
            assert told(app, client.agent_id) == Count(app, client.agent_id).all()
    assert differences == []


@pytest.mark.parametrize("seed", range(3))
def test_mail_counts_what_is_left_of_a_topic_after_each_part_of_it(
    enter: Enter, seed: int, differences: list[tuple[Mail, Mail]]
) -> None:
    chance, (ada, bob) = random.Random(seed), (enter(f"{name}:1") for name in ("ada", "bob"))
    for _ in range(30):
        sender, to = (
            chance.choice([ada, bob, bob]),
            chance.choice([[], [ada.name], [ada.name, ada.agent_id], [bob.name]]),
        )
        sender.send(ada.home, "text", metadata={"to": to})

    told = [ada.call("sync", topic_id=ada.home, wait_seconds=0, max_items=3).data for _ in range(8)]

    assert differences == []
    assert told[0]["mail"]["to_you"]["count"] > 1
