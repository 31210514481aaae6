"""Which messages are searched."""

from __future__ import annotations

from typing import NamedTuple

from conch.clock import SECOND
from conch.errors import InvalidArgument

FARTHEST_SECONDS = 10**11  # some three thousand years; its microseconds fit any store


class Filters(NamedTuple):
    """Every one that is given must fit. Moments are microseconds, both ends included."""

    topic_id: str | None
    sender: str | None
    message_type: str | None
    since: int
    until: int


def make_filters(
    topic_id: str | None, sender: str | None, message_type: str | None, since: float | None, until: float | None
) -> Filters:
    """Moments are given in seconds since the epoch."""
    earliest = -FARTHEST_SECONDS if since is None else since
    latest = FARTHEST_SECONDS if until is None else until
    return Filters(topic_id, sender, message_type, _moment("since", earliest), _moment("until", latest))


def _moment(field: str, seconds: float) -> int:
    if not abs(seconds) <= FARTHEST_SECONDS:  # not a number, too
        raise InvalidArgument(f"{field} must be a time in seconds since 1970.", field=field)
    return round(seconds * SECOND)
