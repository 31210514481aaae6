"""What every refusal keeps to: one of our codes, the field it is about, few words, no row changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.fuzz.inputs import ToolCall
from tests.process.forking import Ended

from conch.errors import ConchError

Object = dict[str, Any]
LONGEST_REFUSAL = 16_384
# What may change rows although it fails.
NOTIFIES = {"RESERVATION_CONFLICT", "RESERVATION_STALE_FOUND"}  # a refused reservation leaves its owner a notice


def _codes(error: type[ConchError]) -> Iterator[str]:
    yield error.code
    for each in error.__subclasses__():
        yield from _codes(each)


INVALID = {"invalid_argument", "limit_exceeded", "invalid_handoff", "INVALID_ARGUMENT", "INVALID_ARGS"}
# How a command ends if nothing came while it waited, or if it checked and found something.
OUTCOMES = {"not_yet", "takeover_available", "timeout", "verification_failed"}
CODES = {*_codes(ConchError), *INVALID, *OUTCOMES} - {"internal_error", "DB_ERROR"}
NOT_JSON = -32700


def judge_reply(call: ToolCall, reply: Object, length: int, changes: dict[str, list[str]]) -> Iterator[str]:
    """All that is wrong with the reply to a call."""
    if "error" in reply:
        is_json = not {"nan", "inf"} & set(re.findall(r"\w+", repr(call.arguments)))
        if is_json or reply["error"]["code"] != NOT_JSON:
            yield f"a protocol error: {reply['error']}"
    elif reply["result"]["isError"]:
        error = reply["result"]["structuredContent"]
        yield from _judge_error(error, error["error"], length, changes)
        field = error.get("field")
        is_named = _names(field, call.damaged) or call.damaged in error["message"]
        if error["error"] in INVALID and not is_named:
            yield f"{call.damaged!r} is wrong, but the error names {field!r}: {error['message'][:200]}"


def _names(field: Any, damaged: str) -> bool:
    if damaged == "handoff":
        return bool(field)  # the error names the part: `status`, or `artifacts[0].role`
    damaged = damaged.replace("\ud800", "\ufffd")  # no reply can carry half of a surrogate pair
    return isinstance(field, str) and (field == damaged[:80] or field.startswith((f"{damaged}.", f"{damaged}[")))


def judge_ended(ended: Ended, changes: dict[str, list[str]]) -> Iterator[str]:
    """All that is wrong with the end of a command."""
    if b"Traceback" in ended.out + ended.err:
        yield "a traceback"
    try:
        envelope = json.loads(ended.out)
    except ValueError:
        yield f"no JSON, status {ended.status}: {ended.out[:200]!r} {ended.err[:200]!r}"
        return
    if (ended.status == 0) != (envelope["error"] is None):
        yield f"status {ended.status} with {envelope['error']}"
    if envelope["error"] is not None:
        error = envelope["error"]
        yield from _judge_error(error, error["code"], len(ended.out), changes)
        if error["code"] in INVALID and not error.get("field"):
            yield f"no field: {error}"


def _judge_error(error: Object, code: str, length: int, changes: dict[str, list[str]]) -> Iterator[str]:
    if code not in CODES:
        yield f"the code {code}: {error['message'][:300]}"
    if not error["message"].rstrip("`").endswith((".", "?", "!")):
        yield f"no sentence: {error['message'][-100:]!r}"
    if length > LONGEST_REFUSAL:
        yield f"a refusal of {length} bytes"
    if changes and code not in NOTIFIES:
        shown = {table: [row[:300] for row in rows[:4]] for table, rows in changes.items()}
        yield f"{code}, but rows changed: {shown}"
