"""Everything that can go wrong. Each error has one class and one code.

ConchError
+-- InvalidArgument ............ invalid_argument         a field is missing, of the wrong type or out of range
|   +-- LimitExceeded .......... limit_exceeded           a text or a list is too long
|   +-- InvalidHandoff ......... invalid_handoff          the handoff lacks a field, or a field is wrong
+-- InvalidSetting ............. invalid_setting          a CONCH_* variable has an invalid value
+-- UnknownRoom ................ unknown_room
+-- UnknownMember .............. unknown_member           not a member, or not an active one
+-- RoomClosed ................. room_closed
+-- StickHeld .................. stick_held               the owner must release or pass the stick first
+-- SemanticUnavailable ........ SEMANTIC_UNAVAILABLE     no installed model can search by meaning
+-- FencingError                                          carries current_owner, current_turn_id, room_state
|   +-- TurnMismatch ........... turn_mismatch            another turn has started; checked before the lease
|   +-- StaleLease ............. stale_lease              the right turn, but the wrong holder or lease
+-- TakeoverNotAvailable ....... takeover_not_available
+-- PersonRequired ............. person_required          only a person may step in, and conch sees no person
+-- TopicNotFound .............. TOPIC_NOT_FOUND
+-- TopicClosed ................ TOPIC_CLOSED
+-- AgentNameInUse ............. AGENT_NAME_IN_USE        the name is taken, and the reclaim_token is missing or wrong
+-- AgentNotJoined ............. AGENT_NOT_JOINED         the caller has no name on this topic yet
+-- QuestionNotFound ........... QUESTION_NOT_FOUND
+-- TopicMismatch .............. TOPIC_MISMATCH           the question belongs to another topic
+-- ForbiddenSelfAnswer ........ FORBIDDEN_SELF_ANSWER
+-- ForbiddenAlreadyAnswered ... FORBIDDEN_ALREADY_ANSWERED
+-- ForbiddenNotAsker .......... FORBIDDEN_NOT_ASKER      only the asker can cancel or close a question
+-- InvalidAgentName ........... INVALID_AGENT_ID         a name has 3 to 48 characters: a-z, 0-9, single hyphens
+-- DuplicateAgentName ......... DUPLICATE_AGENT_ID
+-- AgentNotFound .............. AGENT_NOT_FOUND
+-- AdoptionRejected ........... ADOPTION_REJECTED        the agent is still running, or left no unfinished work
+-- DecisionNeeded ............. DECISION_NEEDED          a person must answer, or an option such as --yes must decide
+-- OtherToolNeeded ............ OTHER_TOOL_NEEDED        another program does this; the details have its command
+-- ReservationConflict ........ RESERVATION_CONFLICT     an active agent has reserved the scope or part of it
+-- ReservationStale ........... RESERVATION_STALE_FOUND  no active agent has reserved it; takeover_stale takes it
+-- ReservationNotFound ........ RESERVATION_NOT_FOUND
+-- ReleaseForbidden ........... RELEASE_FORBIDDEN        only its owner can release a reservation
+-- UnknownRecipient ........... UNKNOWN_RECIPIENT        no agent in the room has that name
+-- EventNotFound .............. EVENT_NOT_FOUND
+-- MarkForbidden .............. MARK_FORBIDDEN           only its recipient can mark an event
+-- DuplicateListener .......... duplicate_listener       the agent is already listening, in a living process
+-- RateLimited ................ RATE_LIMITED             too many notices; retry_after_seconds says when to try again
+-- Cancelled .................. cancelled                the caller cancelled the call
+-- StoreError
|   +-- StoreBusy .............. DB_BUSY
|   +-- SchemaMismatch ......... DB_SCHEMA_MISMATCH
|   +-- ForeignStore ........... DB_SCHEMA_MISMATCH
|   +-- StoreFull .............. DB_FULL
|   +-- StoreReadOnly .......... DB_READ_ONLY
|   +-- StoreCorrupt ........... DB_CORRUPT
|   +-- StoreNotLocal .......... DB_NOT_LOCAL
|   +-- StoreUnavailable ....... DB_UNAVAILABLE
|   |   +-- StoreInterrupted                              the same code; the call ended before its commit
|   |       +-- StoreReplaced                             the same code; another store is there now
|   +-- StoreUncertain ......... DB_UNCERTAIN             a commit failed, and the change may have been made
+-- ResourcesExhausted ......... resources_exhausted      the process has no memory, descriptor or thread left
+-- InternalError .............. internal_error           a defect in conch, or a damaged store; the log has more
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from errno import EMFILE, ENFILE, ENOMEM

from conch.lean import Any, NamedTuple


class Advice(NamedTuple):
    """What the caller can do next: a step that each door words in its own way, and the values to fill in."""

    step: str
    about: Mapping[str, str] = {}


_LONGEST = 1_000  # characters of a message or a detail


def _bounded(text: str) -> str:
    """The beginning of the text: an error often repeats what the caller sent, which may be of any length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def how_to_add(extra: str) -> str:
    return f"Install conch with it, as in `pipx install --force '.[{extra}]'` in a clone of conch."


class ConchError(Exception):
    """A refusal: a code for programs, a message for readers, and details for both.

    The message says what happened and why. What to do next is in the advice if the doors have different words for it.
    """

    code = "internal_error"

    # Positional only, so that a detail may be called `message` or `advice`.
    def __init__(self, message: str, advice: Advice | None = None, /, **details: Any) -> None:
        super().__init__(message)
        self.message = _bounded(message)
        self.advice = advice
        self.details = {name: _bounded(value) if isinstance(value, str) else value for name, value in details.items()}

    def advised(self, steps: Mapping[str, str]) -> str:
        """The message, followed by what to do next, in the words of a door if it has some."""
        if self.advice is None:
            return self.message
        about = {name: _bounded(value) for name, value in self.advice.about.items()}
        return f"{self.message} {steps[self.advice.step].format(**about)}".rstrip()

    def add_cause(self, cause: str, **details: Any) -> None:
        """Say why it happened, after the message."""
        self.message = f"{self.message} {cause}"
        self.details |= details

    def to_dict(self) -> dict[str, Any]:
        return {"error": self.code, "message": self.message, **self.details}


def no_cursor(field: str = "after") -> InvalidArgument:
    return InvalidArgument(f"{field} must be a cursor from an earlier reply.", field=field)


def some_of(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are. A message stays short, however many there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


_LACKS_OF_IMPORTS = {
    "failed to map segment": "there is not enough memory",
    "cannot allocate memory": "there is not enough memory",
    "too many open files": "too many files are open",
}


def find_lack(error: Exception) -> str | None:
    """What the system has run out of, if that caused an unexpected error."""
    if isinstance(error, ImportError):  # of a module that is a shared library: only its text has the cause
        return next((lack for sign, lack in _LACKS_OF_IMPORTS.items() if sign in str(error).lower()), None)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM):
        return "there is not enough memory"
    if isinstance(error, OSError) and error.errno in (EMFILE, ENFILE):
        return "too many files are open"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "the system cannot start another thread"
    return None


IF_SOUND = "If `conch db verify` finds no damage in the store, this is a defect in conch"
"""What an unexpected error means: damaged rows can be of any type, and are not checked at every read."""


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


class PersonRequired(ConchError):
    code = "person_required"


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


class DuplicateListener(ConchError):
    code = "duplicate_listener"


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


class OtherToolNeeded(ConchError):
    code = "OTHER_TOOL_NEEDED"


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


class RateLimited(ConchError):
    code = "RATE_LIMITED"


class Cancelled(ConchError):
    code = "cancelled"


class StoreError(ConchError):
    code = "DB_ERROR"


class StoreBusy(StoreError):
    code = "DB_BUSY"


class SchemaMismatch(StoreError):
    code = "DB_SCHEMA_MISMATCH"


class ForeignStore(StoreError):
    """The file or schema in the place of the store belongs to another program."""

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


class StoreReplaced(StoreInterrupted):
    pass


class StoreUncertain(StoreError):
    code = "DB_UNCERTAIN"


class ResourcesExhausted(ConchError):
    code = "resources_exhausted"


class InternalError(ConchError):
    code = "internal_error"
