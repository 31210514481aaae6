"""What two agents do while something fails, and the judgement of what they were answered.

Each step is one tool call. A step that adds a row has a query that counts such rows. It is run before and after every
call, past the fault, and the judge compares the answer with the counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.callers import named

from conch.app import App
from conch.calls import Call, retry_interrupted
from conch.errors import ConchError, StoreError
from conch.host import processes
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session
from conch.upkeep.verify import verify_store

Object = dict[str, Any]
Count = Callable[[str], int]
"""Runs a query past the fault; 0 while there is no store yet."""

UNCERTAIN = "DB_UNCERTAIN"
HANDOFF = {"status": "first part done", "next_action": "do the second"}
BLOCKED = {"subject": "blocked one", "blocker": "b", "requested_action": "r", "urgency": "low"}


class Step(NamedTuple):
    agent: str
    tool: str
    arguments: Callable[[Object], Object]
    effect: str = ""
    """Counts the rows that the call makes."""
    keeps: tuple[str, ...] = ()
    """The fields of the answer that later steps need."""
    is_contended: bool = False
    """Another process holds the writers' queue meanwhile."""


def _events(kind: str, more: str) -> str:
    return f"SELECT COUNT(*) FROM room_events WHERE event_type = '{kind}' AND {more}"


def _messages(text: str) -> str:
    return f"SELECT COUNT(*) FROM messages WHERE content_markdown = '{text}'"


def _here(facts: Object) -> Object:
    return {"room_id": facts["room_id"]}


def _lease(facts: Object) -> Object:
    return {**_here(facts), "lease_id": facts["lease_id"], "expected_turn_id": facts["turn_id"]}


def _topic(facts: Object, **more: Any) -> Object:
    return {"topic_id": facts["topic_id"], **more}


_MEMBER = "SELECT COUNT(*) FROM room_members WHERE agent_id = '{}'"
_NOTE = "SELECT COUNT(*) FROM room_events WHERE event_type = 'note' AND details_json LIKE '%{}%'"
_OUTBOX = [{"content_markdown": "message one", "client_message_id": "one"}]
_RESPONSE = {"answer_markdown": "answer one", "suggested_followups": ["and then?"]}
A, B = "codex:1", "gemini:1"

STORY = (
    Step(A, "join_path", lambda f: {"context_path": f["path"]}, _MEMBER.format(A), ("room_id", "topic_id")),
    Step(B, "join_path", lambda f: {"context_path": f["path"]}, _MEMBER.format(B)),
    Step(A, "wait_for_turn", lambda f: {**_here(f), "max_wait_ms": 0}, _events("claim", f"to_agent_id = '{A}'"),
         ("lease_id", "turn_id")),
    Step(B, "wait_for_turn", lambda f: {**_here(f), "max_wait_ms": 1}),
    Step(A, "heartbeat", _lease),
    Step(A, "append_note", lambda f: {**_here(f), "note": "note one"}, _NOTE.format("note one")),
    Step(A, "sync", lambda f: _topic(f, outbox=_OUTBOX, wait_seconds=0), _messages("message one")),
    Step(B, "sync", lambda f: _topic(f, wait_seconds=0)),
    Step(B, "ask", lambda f: _topic(f, question="question one", wait_seconds=0), _messages("question one"),
         ("question_id",)),
    Step(A, "answer", lambda f: _topic(f, responses=[{"question_id": f["question_id"], **_RESPONSE}]),
         _messages("answer one")),
    Step(A, "scope_reserve", lambda f: {**_here(f), "scope": "one.py"}, "SELECT COUNT(*) FROM reservations"),
    Step(A, "event_send", lambda f: {**_here(f), "event_type": "BLOCKED", "to_agent": B, "payload": BLOCKED},
         "SELECT COUNT(*) FROM protocol_events WHERE event_type = 'BLOCKED'"),
    Step(A, "append_note", lambda f: {**_here(f), "note": "note two"}, _NOTE.format("note two"), is_contended=True),
    Step(A, "messages_search", lambda f: {"query": "message", "mode": "fts"}),
    Step(A, "release_stick", lambda f: {**_lease(f), "handoff": HANDOFF}, _events("release", "turn_id = 1")),
    Step(B, "wait_for_turn", lambda f: {**_here(f), "max_wait_ms": 0}, _events("claim", f"to_agent_id = '{B}'")),
    Step(A, "get_room_state", _here),
)  # fmt: skip


class Answer(NamedTuple):
    """One call, and how many rows proved it before and after."""

    step: Step
    data: Object
    before: int
    after: int

    @property
    def code(self) -> str:
        return str(self.data.get("error", "ok"))

    def __str__(self) -> str:
        return f"{self.step.agent} {self.step.tool} -> {self.code}: {self.data.get('message', '')}"


class Teller:
    """Plays the story on one store. A call that is refused is made again, once: the trouble has passed by then."""

    def __init__(self, app: App, path: str, count: Count, contention: Callable[[], Any]) -> None:
        """`contention` returns a context that holds the writers' queue."""
        self._app, self._count, self._contention = app, count, contention
        self._facts: Object = {"path": path}
        self._sessions: dict[str, Session] = {}
        self.answers: list[Answer] = []

    def tell(self) -> None:
        for step in STORY:
            self._make(step)
            if self.answers[-1].code != "ok":
                self._make(step)
            if self.answers[-1].code != "ok" and not _was_made(self.answers[-2]):
                return  # it did not recover: the judge says so

    def _make(self, step: Step) -> None:
        before = self._count(step.effect)
        if step.is_contended:
            with self._contention():
                data = self._call(step)
        else:
            data = self._call(step)
        self._facts |= {name: data[name] for name in step.keeps if name in data}
        self.answers.append(Answer(step, data, before, self._count(step.effect)))

    def _call(self, step: Step) -> Object:
        try:
            session = self._session(step.agent)
        except ConchError as refusal:
            return refusal.to_dict()
        reply = call_tool(TOOLS[step.tool], session, step.arguments(self._facts), Call())
        try:
            reply.delivery.sent()
        except StoreError:
            pass  # as at a door: the reply is out, and messages whose cursor did not move come again
        return reply.data

    def _session(self, agent_id: str) -> Session:
        if agent_id not in self._sessions:
            session = Session(self._app, "mcp")
            here = processes.look_up(os.getpid())
            caller = retry_interrupted(lambda: named(self._app.store, agent_id, here))
            session.speak_as(caller._replace(overridden=True))
            self._sessions[agent_id] = session
        return self._sessions[agent_id]


def judge(answers: list[Answer], count: Count) -> list[str]:
    """What the answers claim and the store denies, or the other way round."""
    found: list[str] = []
    earlier: Answer | None = None
    for answer in answers:
        again = earlier if earlier is not None and earlier.step is answer.step else None
        found += [f"{problem}: {answer}" for problem in _problems(answer, again, count)]
        earlier = answer
    return found


def _was_made(answer: Answer) -> bool:
    """Whether a call that could not say so took effect."""
    return answer.code == UNCERTAIN and answer.after > answer.before


def _problems(answer: Answer, again: Answer | None, count: Count) -> Iterator[str]:
    """`again` is the refusal after which the same call was made once more."""
    made = answer.after - answer.before
    may_be_made = again is not None and again.code == UNCERTAIN
    if answer.code not in ("ok", "internal_error") and again is not None and _was_made(again) and not made:
        return  # what is done already may be refused: a stick is released once
    if answer.code == "ok":
        if answer.step.effect and not (made == 1 or (made == 0 and may_be_made and answer.after > 0)):
            yield f"acknowledged, but made {made} times"
        if answer.step.effect and count(answer.step.effect) == 0:
            yield "acknowledged and lost"
        return
    if not answer.code.startswith("DB_"):
        yield "not an error of the store"
    if made and answer.code != UNCERTAIN:
        yield "refused, but made"
    if again is not None:
        yield "did not recover"


def unsound(app: App) -> list[str]:
    """What the store's own checks find afterwards."""
    return list(map(str, verify_store(app.store).problems))
