"""JSON replies: what went well, and what was refused and why."""

from __future__ import annotations

import json

from starlette.responses import Response

from conch.errors import (
    AgentNotFound,
    ConchError,
    EventNotFound,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    QuestionNotFound,
    RateLimited,
    ReservationNotFound,
    ResourcesExhausted,
    StoreError,
    TopicNotFound,
    UnknownMember,
    UnknownRecipient,
    UnknownRoom,
)
from conch.lean import Any
from conch.tools.replies import Object

_MISSING = (
    AgentNotFound,
    EventNotFound,
    QuestionNotFound,
    ReservationNotFound,
    TopicNotFound,
    UnknownMember,
    UnknownRecipient,
    UnknownRoom,
)
# The first class that matches decides. Any other refusal is a conflict with the state of a room or a topic.
_STATUSES: tuple[tuple[type[ConchError] | tuple[type[ConchError], ...], int], ...] = (
    (_MISSING, 404),
    (LimitExceeded, 413),
    (InvalidArgument, 400),
    (RateLimited, 429),
    ((StoreError, ResourcesExhausted), 503),
    (InternalError, 500),
)
_CONFLICT = 409
# What a person can do in the console after a refusal. Other steps need nothing that a page offers.
_STEPS = {
    "adopt_name": "Choose another name. If that agent is gone and left unfinished work, adopt it.",
    "claim_stick": "Take the stick first.",
    "close_room": "Close the room instead.",
    "find_agents": "The page of the room lists its agents.",
    "find_notices": "The page of the room lists your notices.",
    "find_questions": "The page of the topic shows its questions.",
    "find_reservations": "The page of the room lists all reservations.",
    "find_rooms": "The first page lists the rooms.",
    "find_topics": "The page of the topics lists them all.",
    "fit_payload": "Its fields are {known}.",
    "free_name": "Choose another name, or free this one.",
    "free_name_of_leaver": "Choose another name. If that agent has left for good, free its name.",
    "hand_over": "Hand the stick over first, so that the next agent gets your handoff.",
    "keep_stick": "Take the stick first.",
    "leave_room": "Leave the room instead.",
    "take_over_reservation": "Its owner seems to be gone. End its reservation first.",
    "verify_store": "Run `conch db verify` for details.",
}


class JSON(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        # Text of agents may hold half a surrogate pair, which UTF-8 cannot encode. The escape `\ud800` can be sent.
        return json.dumps(content, separators=(",", ":")).encode()


def refused(code: str, message: str, status: int, **details: Any) -> JSON:
    return JSON({"error": code, "message": message, **details}, status)


def refusal(error: ConchError) -> JSON:
    """An error of the domains, with the same code, message and details as at every other door."""
    step = error.advice.step if error.advice else ""
    body: Object = {**error.to_dict(), "message": error.advised({step: _STEPS.get(step, "")})}
    return JSON(body, next((status for kinds, status in _STATUSES if isinstance(error, kinds)), _CONFLICT))
