"""Verifies a whole store: its files, its schema, the log of every room, and every rule that its rows keep.

The rules are in `storage/checks`, one query each. Nothing that time alone brings about is a problem: expired leases,
lapsed reservations and agents that are gone are as they should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

from conch.bus.stream import indexed_addressees
from conch.errors import StoreBusy, StoreError, StoreInterrupted
from conch.host.paths import is_key_of, shows_path
from conch.lean import Any, NamedTuple, json
from conch.letters.names import skeletons
from conch.notices.events import is_whole
from conch.rooms.verify import verify_rooms
from conch.search.embedders import MOST_VECTORS
from conch.storage.base import DERIVED, Check, Problem, Row, Store, Transaction

_MOST_PER_CHECK = 20
_Errors = tuple[type[StoreError], ...]


class Verification(NamedTuple):
    rooms: int
    checks: int
    problems: list[Problem]


def verify_store(store: Store) -> Verification:
    """Check everything and change nothing. All rows are read in one view of the store, so writers do not matter."""
    problems, checks, rooms = store.integrity_problems(), store.checks(), 0
    temporary = _find_temporary(problems)
    try:
        with store.read() as tx:
            tx.take_time()
            rooms, found = _replay(tx, problems)
            problems += found
            for check in checks:
                problems += _run(tx, check, temporary)
    except temporary:
        raise
    except StoreError as error:
        if not problems:
            raise
        problems.append(_unchecked("", f"Not all rows could be read. {error.message}"))
    return Verification(rooms, len(checks), problems)


def _replay(tx: Transaction, problems: list[Problem]) -> tuple[int, list[Problem]]:
    """Replay the rooms, unless the tables that have them were changed."""
    changed = {problem.table for problem in problems if problem.kind == "schema"}
    if changed & {"path_rooms", "room_events", "room_members"}:
        return 0, [_unchecked("room_events", "The rooms could not be replayed, because their tables were changed.")]
    return verify_rooms(tx)


def _find_temporary(problems: list[Problem]) -> _Errors:
    """The errors that say nothing about the store, so the caller tries again.

    On a server, a missing table looks like an interruption, so with a changed schema an interruption does not count.
    """
    return (StoreBusy,) if any(problem.kind == "schema" for problem in problems) else (StoreBusy, StoreInterrupted)


def _run(tx: Transaction, check: Check, temporary: _Errors) -> list[Problem]:
    parameters = {"most_vectors": MOST_VECTORS} if ":most_vectors" in check.query else {}
    try:
        with closing(tx.scan(check, **parameters)) as rows:
            return [_to_problem(check, row) for row in islice(_broken(check, rows), _MOST_PER_CHECK)]
    except temporary:
        raise
    except StoreError as error:
        return [_unchecked(check.table, f"Not checked: {check.sentence!r}. {error.message}")]


def _broken(check: Check, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows that break a rule: all that its query finds, or those that fail its test."""
    return (row for row in rows if not check.test or not _passes(_TESTS[check.test], row))


def _passes(test: Callable[[Row], bool], row: Row) -> bool:
    try:
        return test(row)
    except (TypeError, AttributeError, LookupError):  # a damaged row can have values of any type
        return False


# -- tests of one row. Only the first test fails for a text that is not a JSON object; the others skip such a text.


def _has_object(row: Row) -> bool:
    return _parsed(row.pop("json")) is not None


def _has_own_shape(row: Row) -> bool:
    return row["skeleton"] in skeletons(row["name"])


def _has_all_shapes(row: Row) -> bool:
    return bool(len(skeletons(row["name"])) == row["listed"])


def _has_own_key(row: Row) -> bool:
    return is_key_of(row["scope_key"], row["scope"])


def _is_as_granted(row: Row) -> bool:
    granted = _parsed(row.pop("details_json"))
    if granted is None:
        return True
    scope, path = row["given"] or row["scope"], row["scope"]
    is_there = granted["path"] == path if "path" in granted else shows_path(scope, path)
    return is_there and (granted.get("scope"), granted.get("expires_at")) == (scope, row["expires_at"])


def _has_first_recipient(row: Row) -> bool:
    given = _parsed(row.pop("details_json"))  # older versions did not say it
    return given is None or given.get("to_agent_id", row["to_agent_id"]) == row["to_agent_id"]


def _is_whole_notice(row: Row) -> bool:
    payload = _parsed(row.pop("payload_json"))
    return payload is None or is_whole(row["event_type"], payload, row["priority"])


def _is_addressed(row: Row) -> bool:
    named = _named_in(row)
    return named is None or row["addressee"] in named


def _is_listed(row: Row) -> bool:
    named = _named_in(row)
    return named is None or len(named) == row["listed"]


def _named_in(row: Row) -> set[str] | None:
    metadata = row.pop("metadata_json")
    return indexed_addressees(metadata) if metadata is None or _parsed(metadata) is not None else None


_TESTS: dict[str, Callable[[Row], bool]] = {
    "json": _has_object,
    "shape": _has_own_shape,
    "shapes": _has_all_shapes,
    "scope": _has_own_key,
    "grant": _is_as_granted,
    "recipient": _has_first_recipient,
    "notice": _is_whole_notice,
    "addressee": _is_addressed,
    "addressees": _is_listed,
}


def _parsed(text: str | None) -> dict[str, Any] | None:
    """The JSON object in a text, if it is one."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _to_problem(check: Check, row: Row) -> Problem:
    is_derived = check.table.startswith(DERIVED)
    shown = {name: repr(value) if isinstance(value, bytes) else value for name, value in row.items()}
    return Problem("index" if is_derived else "row", check.table, check.sentence.format(**shown), shown)


def _unchecked(table: str, sentence: str) -> Problem:
    return Problem("unchecked", table, sentence)
