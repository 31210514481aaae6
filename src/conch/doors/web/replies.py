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
from conch.tools.advice import STEPS
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
    body: Object = {**error.to_dict(), "message": error.advised({step: STEPS.get(step, "")})}
    return JSON(body, next((status for kinds, status in _STATUSES if isinstance(error, kinds)), _CONFLICT))
