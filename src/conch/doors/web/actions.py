"""What a person can do in the console. Everything is done under the person's name, by the same rules as elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from conch.bus.drafts import Draft, check_outbox
from conch.bus.peers import Peer
from conch.bus.questions import Question
from conch.config import check_length
from conch.doors.web.replies import refused
from conch.doors.web.requests import ID, REASON, TEXT, Action, Desk
from conch.doors.web.views import notice_view
from conch.errors import ConchError, InvalidArgument
from conch.lean import Any
from conch.overseeing.steering import Steering
from conch.tools import bus_view, fields
from conch.tools.replies import Object
from conch.tools.schema import check_arguments
from conch.warnings import Warnings

_NAMES: Object = {"type": "array", "items": {"type": "string"}}
_PLACE: Object = {"topic_id": fields.TOPIC_ID, "room_id": fields.ROOM_ID}
_REDACTING_SECONDS = 120.0  # rewriting the files of a large store takes long


class Actions:
    def __init__(self, desk: Desk, others: Mapping[str, Action]) -> None:
        """`others` are actions that are not about talk."""
        self._desk = desk
        self._app = desk.app
        self.known: dict[str, Action] = {
            "send": Action(
                self._send,
                fields.takes({"content_markdown": TEXT}, **_PLACE, to=_NAMES, reply_to=ID, message_type=ID),
            ),
            "ask": Action(self._ask, fields.takes({"question": TEXT}, **_PLACE)),
            "answer": Action(self._answer, fields.takes({"question_id": ID, "answer_markdown": TEXT}, **_PLACE)),
            "cancel_question": Action(
                self._cancel_question, fields.takes({"question_id": ID}, **_PLACE, reason=REASON)
            ),
            "mark_answered": Action(self._mark_answered, fields.takes({"question_id": ID}, **_PLACE)),
            "redact": Action(
                self._redact,
                fields.takes({"message_id": ID, "reason": TEXT}, secret=REASON),
                "The text of the message is removed from the store for good, and so is everything that repeats it.",
                patience=_REDACTING_SECONDS,
            ),
            "seen": Action(lambda given: self._mark(given, "seen"), fields.takes({"event_id": ID})),
            "accept": Action(lambda given: self._mark(given, "accepted"), fields.takes({"event_id": ID})),
            "create_topic": Action(self._create_topic, fields.takes({"name": TEXT})),
            "rename_topic": Action(self._rename_topic, fields.takes({"topic_id": ID, "name": TEXT})),
            "free_name": Action(
                self._free_name,
                fields.takes({"topic_id": ID, "name": TEXT}),
                "Any agent can then take this name. A message on the topic says so.",
            ),
            "close_topic": Action(
                self._close_topic,
                fields.takes({"topic_id": ID}, reason=REASON),
                "Nobody can send messages to a closed topic. It stays readable.",
            ),
            **others,
        }

    async def act(self, request: Request) -> Response:
        """`POST /api/act/NAME`."""
        name = request.path_params["name"]
        action = self.known.get(name)
        if action is None:
            names = ", ".join(self.known)
            return refused("NOT_FOUND", f"There is no action {name[:80]!r}. The actions: {names}.", 404, field="name")
        body = await request.body()
        return await self._desk.run(f"act/{name}", lambda: self._run(name, action, _read(body)), action.patience)

    def _run(self, name: str, action: Action, given: Object) -> Object:
        confirmed = given.pop("confirm", None)
        if confirmed not in (None, True, False):
            raise InvalidArgument("confirm must be true or false.", field="confirm")
        checked = check_arguments(name, action.schema, given)
        if action.warning and not confirmed:
            raise _NotConfirmed(action.warning, field="confirm")
        self._desk.viewer_id()
        return {"ok": True, **action.run(checked)}

    # -- talking

    def _peer(self, given: Object) -> Peer:
        """The person on a topic, or on the home topic of a room."""
        if ("topic_id" in given) == ("room_id" in given):
            raise InvalidArgument("Give topic_id or room_id.", field="topic_id")
        topic_id = given.get("topic_id") or self._app.rooms.get_state(None, given["room_id"]).room.topic_id
        return self._app.peers.join_as_itself(self._desk.caller(), topic_id)

    def _send(self, given: Object) -> Object:
        item: Object = {name: given[name] for name in ("content_markdown", "message_type", "reply_to") if name in given}
        if given.get("to"):
            item["metadata"] = {"to": given["to"]}
        drafts = check_outbox([item], self._app.settings)
        peer = self._peer(given)
        sent = self._app.messages.send(peer, drafts)
        warnings = bus_view.sent_warnings(self._app.peers, peer.topic_id, sent)
        return {"message": bus_view.message(sent[0].message), "warnings": warnings}

    def _ask(self, given: Object) -> Object:
        asked = self._app.questions.ask(self._peer(given), given["question"])
        return {"question_id": asked.question.question_id}

    def _answer(self, given: Object) -> Object:
        response = {name: given[name] for name in ("question_id", "answer_markdown")}
        answered = self._app.questions.answer(self._peer(given), [response], needs_followups=False)
        if not answered.saved:
            raise _refusal_of(answered.warnings)
        return {"question_id": given["question_id"], "warnings": answered.warnings}

    def _cancel_question(self, given: Object) -> Object:
        peer, reason = self._peer(given), given.get("reason")
        question, was_open = self._app.questions.cancel(peer, given["question_id"], reason)
        said = f"I cancelled this question: {reason}" if reason else "I cancelled this question."
        return self._ended(peer, question, was_open, said)

    def _mark_answered(self, given: Object) -> Object:
        peer = self._peer(given)
        question, was_open = self._app.questions.mark_answered(peer, given["question_id"])
        return self._ended(peer, question, was_open, "I marked this question as answered.")

    def _ended(self, peer: Peer, question: Question, was_open: bool, said: str) -> Object:
        if was_open and self._app.topics.find(peer.topic_id).status == "open":
            self._announce(peer.topic_id, said, question.question_id)
        return {"question_id": question.question_id, "was_open": was_open}

    def _redact(self, given: Object) -> Object:
        """As `conch redact` does. The reply says where the text may still be."""
        person, store = self._desk.person(), self._app.store
        done = Steering(self._app).redact(person, given["message_id"], given["reason"], given.get("secret") or None)
        return {
            "seq": done.message.seq,
            "repeats": done.repeats,
            "kept": done.kept,
            "is_clean": store.tidy(True),
            "copies": store.copies(),
        }

    # -- notices, names and topics

    def _mark(self, given: Object, mark: str) -> Object:
        caller = self._desk.caller()
        return {"notice": notice_view(self._app.notices.mark(caller, given["event_id"], mark), caller.agent_id)}

    def _free_name(self, given: Object) -> Object:
        person = self._desk.person()
        return {"name": Steering(self._app).free_name(person, given["topic_id"], given["name"])}

    def _create_topic(self, given: Object) -> Object:
        topic, is_new = self._app.topics.create(given["name"], None, "reuse")
        if is_new:
            self._announce(topic.topic_id, "I created this topic.")
        return {"topic": bus_view.topic(topic), "is_new": is_new}

    def _rename_topic(self, given: Object) -> Object:
        former = self._app.topics.find(given["topic_id"])
        topic = self._app.topics.rename(former.topic_id, given["name"])
        if topic.name != former.name and topic.status == "open":
            self._announce(topic.topic_id, f"I renamed this topic: it was {former.name}.")
        return {"topic": bus_view.topic(topic)}

    def _close_topic(self, given: Object) -> Object:
        topic_id, reason = given["topic_id"], given.get("reason")
        check_length("reason", reason or "", self._app.settings.max_reason_chars, "max_reason_chars")
        before = self._app.topics.find(topic_id)
        if before.status == "open" and not before.is_home:
            self._announce(topic_id, f"I closed this topic: {reason}" if reason else "I closed this topic.")
        topic, was_open = self._app.topics.close(topic_id, reason)
        return {"topic": bus_view.topic(topic), "was_open": was_open}

    def _announce(self, topic_id: str, text: str, reply_to: str | None = None) -> None:
        """A topic has no log, so its messages say who did what to it."""
        self._app.messages.send(self._peer({"topic_id": topic_id}), [Draft(text, reply_to=reply_to)])


class _NotConfirmed(ConchError):
    """The action is dangerous, so the person must confirm it."""

    code = "CONFIRM"


def _refusal_of(warnings: Warnings) -> InvalidArgument:
    """Why an answer was not stored."""
    first = warnings[0]
    refusal = InvalidArgument(first["message"], field="question_id")
    refusal.code = first["code"]
    return refusal


def _read(body: bytes) -> Object:
    try:
        given: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidArgument("The body must be a JSON object.", field="body") from None
    if not isinstance(given, dict):
        raise InvalidArgument("The body must be a JSON object.", field="body")
    return given
