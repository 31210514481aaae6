"""What an import adds, and what it cannot add as it is."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b

from conch.clock import SECOND
from conch.lean import Any, NamedTuple, json

_MILLISECONDS = 1e11  # no time in seconds is this large


class Change(NamedTuple):
    """Something that is stored differently from the file, or not at all."""

    what: str
    given: str
    became: str
    """Empty if it was left out."""
    reason: str


class Outcome:
    """How many rows of each kind an import added, and what it changed on the way."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.added: dict[str, int] = {}
        self.known: dict[str, int] = {}
        self.changes: list[Change] = []

    def add(self, what: str, count: int = 1) -> None:
        self.added[what] = self.added.get(what, 0) + count

    def know(self, what: str, count: int = 1) -> None:
        """Count what is in the store already."""
        self.known[what] = self.known.get(what, 0) + count

    def count(self, what: str) -> int:
        """How many rows the file has."""
        return self.added.get(what, 0) + self.known.get(what, 0)

    @property
    def kinds(self) -> list[str]:
        """The kinds of rows that were added or known, in the order in which they came."""
        return list(dict.fromkeys([*self.added, *self.known]))

    def change(self, what: str, given: str, became: str, reason: str) -> None:
        self.changes.append(Change(what, given, became, reason))


def derived_id(kind: str, *key: object) -> str:
    """The same id for the same row of a file, so that importing it again finds what is there."""
    return f"{kind}_{blake2b(json.dumps(key).encode(), digest_size=8).hexdigest()}"


def to_text(value: object) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")  # not every engine stores NUL


def to_number(value: object) -> int:
    return value if isinstance(value, int) else 0


def to_moment(value: object, latest: int) -> int | None:
    """A time of another program in microseconds, never in the future. None if it is not a time."""
    try:
        seconds = _parse_iso(value) if isinstance(value, str) else value
        if not isinstance(seconds, int | float):
            return None
        micros = round(seconds * (1_000 if seconds > _MILLISECONDS else SECOND))
    except (ValueError, OverflowError):
        return None
    return min(micros, latest) if micros > 0 else None


def _parse_iso(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def to_object(text: object) -> dict[str, Any] | None:
    """The JSON object in a text. Anything else is kept as a text inside an object."""
    if text is None:
        return None
    try:
        found = json.loads(to_text(text))
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()  # refuses NaN and half a surrogate pair
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"imported": to_text(text)}
