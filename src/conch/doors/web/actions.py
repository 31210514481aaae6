"""What a person can do in the console. Everything is done under the person's name, by the same rules as elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from conch.bus.drafts import check_outbox
from conch.bus.peers import Peer
from conch.doors.web.replies import refused
from conch.doors.web.views import notice_view
from conch.doors.web.work import ID, REASON, TEXT, Action, Desk
from conch.errors import ConchError, InvalidArgument
from conch.lean import Any
from conch.tools import bus_view, fields
from conch.tools.replies import Object
from conch.tools.schema import check_arguments
from conch.warnings import Warnings

_NAMES: Object = {"type": "array", "items": {"type": "string"}}
_PLACE: Object = {"topic_id": fields.TOPIC_ID, "room_id": fields.ROOM_ID}


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
            "seen": Action(lambda given: self._mark(given, "seen"), fields.takes({"event_id": ID})),
            "accept": Action(lambda given: self._mark(given, "accepted"), fields.takes({"event_id": ID})),
            "create_topic": Action(self._create_topic, fields.takes({"name": TEXT})),
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
        return await self._desk.run(f"act/{name}", lambda: self._run(name, action, _read(body)))

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
        return self._app.peers.join_as_itself(self._desk.person.caller(), topic_id)

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

    # -- notices, names and topics

    def _mark(self, given: Object, mark: str) -> Object:
        caller = self._desk.person.caller()
        return {"notice": notice_view(self._app.notices.mark(caller, given["event_id"], mark), caller.agent_id)}

    def _free_name(self, given: Object) -> Object:
        who = self._desk.person.caller().label
        return {"name": self._app.messages.free_name(given["topic_id"], given["name"], who)}

    def _create_topic(self, given: Object) -> Object:
        topic, is_new = self._app.topics.create(given["name"], None, "reuse")
        return {"topic": bus_view.topic(topic), "is_new": is_new}

    def _close_topic(self, given: Object) -> Object:
        topic, was_open = self._app.topics.close(given["topic_id"], given.get("reason"))
        return {"topic": bus_view.topic(topic), "was_open": was_open}


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
