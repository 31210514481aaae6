"""Everything that can go wrong, one class and one code each.

ConchError
+-- InvalidArgument ............ invalid_argument         a field is missing, of the wrong type or out of range
|   +-- LimitExceeded .......... limit_exceeded           a text is longer than a setting allows
|   +-- InvalidHandoff ......... invalid_handoff          the handoff does not say enough, or says it wrongly
+-- InvalidSetting ............. invalid_setting          a CONCH_* variable has a value that cannot be used
+-- UnknownRoom ................ unknown_room
+-- UnknownMember .............. unknown_member           not a member, or not an active one
+-- RoomClosed ................. room_closed
+-- StickHeld .................. stick_held               the owner must release or pass before this
+-- SemanticUnavailable ........ SEMANTIC_UNAVAILABLE     no model is installed that can search by meaning
+-- FencingError                                          carries current_owner, current_turn_id, room_state
|   +-- TurnMismatch ........... turn_mismatch            wrong epoch; comes before stale_lease
|   +-- StaleLease ............. stale_lease              right epoch, wrong holder or token
+-- TakeoverNotAvailable ....... takeover_not_available
+-- TopicNotFound .............. TOPIC_NOT_FOUND
+-- TopicClosed ................ TOPIC_CLOSED
+-- AgentNameInUse ............. AGENT_NAME_IN_USE        the name is reserved, and no matching reclaim_token was given
+-- AgentNotJoined ............. AGENT_NOT_JOINED         the caller has no name on this topic yet
+-- QuestionNotFound ........... QUESTION_NOT_FOUND
+-- TopicMismatch .............. TOPIC_MISMATCH           the question belongs to another topic
+-- ForbiddenSelfAnswer ........ FORBIDDEN_SELF_ANSWER
+-- ForbiddenAlreadyAnswered ... FORBIDDEN_ALREADY_ANSWERED
+-- ForbiddenNotAsker .......... FORBIDDEN_NOT_ASKER      only the asker cancels or closes a question
+-- InvalidAgentName ........... INVALID_AGENT_ID         names are 3 to 48 of a-z, 0-9 and single hyphens
+-- DuplicateAgentName ......... DUPLICATE_AGENT_ID
+-- AgentNotFound .............. AGENT_NOT_FOUND
+-- AdoptionRejected ........... ADOPTION_REJECTED        the identity lives, or left no unfinished work
+-- DecisionNeeded ............. DECISION_NEEDED          `conch init` cannot decide this safely by itself
+-- ReservationConflict ........ RESERVATION_CONFLICT     an active agent has reserved it, or part of it
+-- ReservationStale ........... RESERVATION_STALE_FOUND  stale agents have, and takeover_stale was not given
+-- ReservationNotFound ........ RESERVATION_NOT_FOUND
+-- ReleaseForbidden ........... RELEASE_FORBIDDEN        only its owner releases a reservation
+-- UnknownRecipient ........... UNKNOWN_RECIPIENT        nobody of that name is in the room
+-- EventNotFound .............. EVENT_NOT_FOUND
+-- MarkForbidden .............. MARK_FORBIDDEN           only its recipient marks an event
+-- Cancelled .................. cancelled                the caller went away; nothing was changed
+-- StoreError
|   +-- StoreBusy .............. DB_BUSY
|   +-- SchemaMismatch ......... DB_SCHEMA_MISMATCH
|   +-- StoreFull .............. DB_FULL
|   +-- StoreReadOnly .......... DB_READ_ONLY
|   +-- StoreCorrupt ........... DB_CORRUPT
|   +-- StoreNotLocal .......... DB_NOT_LOCAL
|   +-- StoreUnavailable ....... DB_UNAVAILABLE
|   |   +-- StoreInterrupted                              the same, and nothing was changed: worth another try
|   +-- StoreUncertain ......... DB_UNCERTAIN             the connection was lost in the middle of a commit
+-- InternalError .............. internal_error           a defect of ours; the details stay in the log
"""

from __future__ import annotations

from collections.abc import Mapping

from conch.lean import Any, NamedTuple


class Advice(NamedTuple):
    """What the caller can do next: a step that each door puts into its own words, and what these words need."""

    step: str
    about: Mapping[str, str] = {}


class ConchError(Exception):
    """A refusal with a code for programs, a sentence for readers and details for both.

    The message says what happened and why. It names no tool and no command: these are for the advice.
    """

    code = "internal_error"

    def __init__(self, message: str, advice: Advice | None = None, /, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.details = details

    def advised(self, steps: Mapping[str, str]) -> str:
        """The message, and what to do next in the words of a door."""
        if self.advice is None:
            return self.message
        return f"{self.message} {steps[self.advice.step].format(**self.advice.about)}"

    def to_dict(self) -> dict[str, Any]:
        return {"error": self.code, "message": self.message, **self.details}


class InvalidArgument(ConchError):
    code = "invalid_argument"


class LimitExceeded(InvalidArgument):
    code = "limit_exceeded"


class InvalidHandoff(InvalidArgument):
    code = "invalid_handoff"


class InvalidSetting(ConchError):
    code = "invalid_setting"


class UnknownRoom(ConchError):
    code = "unknown_room"


class UnknownMember(ConchError):
    code = "unknown_member"


class RoomClosed(ConchError):
    code = "room_closed"


class StickHeld(ConchError):
    code = "stick_held"


class TopicNotFound(ConchError):
    code = "TOPIC_NOT_FOUND"


class TopicClosed(ConchError):
    code = "TOPIC_CLOSED"


class AgentNameInUse(ConchError):
    code = "AGENT_NAME_IN_USE"


class AgentNotJoined(ConchError):
    code = "AGENT_NOT_JOINED"


class QuestionNotFound(ConchError):
    code = "QUESTION_NOT_FOUND"


class TopicMismatch(ConchError):
    code = "TOPIC_MISMATCH"


class ForbiddenSelfAnswer(ConchError):
    code = "FORBIDDEN_SELF_ANSWER"


class ForbiddenAlreadyAnswered(ConchError):
    code = "FORBIDDEN_ALREADY_ANSWERED"


class ForbiddenNotAsker(ConchError):
    code = "FORBIDDEN_NOT_ASKER"


class SemanticUnavailable(ConchError):
    code = "SEMANTIC_UNAVAILABLE"


class FencingError(ConchError):
    pass


class TurnMismatch(FencingError):
    code = "turn_mismatch"


class StaleLease(FencingError):
    code = "stale_lease"


class TakeoverNotAvailable(ConchError):
    code = "takeover_not_available"


class InvalidAgentName(ConchError):
    code = "INVALID_AGENT_ID"


class DuplicateAgentName(ConchError):
    code = "DUPLICATE_AGENT_ID"


class AgentNotFound(ConchError):
    code = "AGENT_NOT_FOUND"


class AdoptionRejected(ConchError):
    code = "ADOPTION_REJECTED"


class DecisionNeeded(ConchError):
    code = "DECISION_NEEDED"


class ReservationConflict(ConchError):
    code = "RESERVATION_CONFLICT"


class ReservationStale(ConchError):
    code = "RESERVATION_STALE_FOUND"


class ReservationNotFound(ConchError):
    code = "RESERVATION_NOT_FOUND"


class ReleaseForbidden(ConchError):
    code = "RELEASE_FORBIDDEN"


class UnknownRecipient(ConchError):
    code = "UNKNOWN_RECIPIENT"


class EventNotFound(ConchError):
    code = "EVENT_NOT_FOUND"


class MarkForbidden(ConchError):
    code = "MARK_FORBIDDEN"


class Cancelled(ConchError):
    code = "cancelled"


class StoreError(ConchError):
    code = "DB_ERROR"


class StoreBusy(StoreError):
    code = "DB_BUSY"


class SchemaMismatch(StoreError):
    code = "DB_SCHEMA_MISMATCH"


class StoreFull(StoreError):
    code = "DB_FULL"


class StoreReadOnly(StoreError):
    code = "DB_READ_ONLY"


class StoreCorrupt(StoreError):
    code = "DB_CORRUPT"


class StoreNotLocal(StoreError):
    code = "DB_NOT_LOCAL"


class StoreUnavailable(StoreError):
    code = "DB_UNAVAILABLE"


class StoreInterrupted(StoreUnavailable):
    pass


class StoreUncertain(StoreError):
    code = "DB_UNCERTAIN"


class InternalError(ConchError):
    code = "internal_error"
