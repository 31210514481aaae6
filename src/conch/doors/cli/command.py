"""What the parser and the help know about a command."""

from __future__ import annotations

from collections.abc import Callable

from conch.lean import Any, NamedTuple


class Option(NamedTuple):
    """One option or argument of a command."""

    name: str
    """`--limit` for an option; without dashes, a positional argument."""
    value: str
    """What the help calls the value. A flag without a value is a switch."""
    help: str
    parse: Callable[[str], Any] = str
    default: Any = None
    choices: tuple[str, ...] = ()
    many: bool = False
    required: bool = False
    field: str = ""
    """The attribute that the handler reads, if it differs from the name."""
    heading: str = "options"
    unless: str = ""
    """The flag that cannot be combined with this one."""

    @property
    def is_flag(self) -> bool:
        return self.name.startswith("--")

    @property
    def is_switch(self) -> bool:
        return not self.value

    @property
    def names_files(self) -> bool:
        """Whether the value may hold bytes that are not UTF-8. Names of files may."""
        return self.value in ("DIR", "FILE", "SCOPE", "STORE", "WORD") or self.name == "scope"

    @property
    def shown(self) -> str:
        """What the help and the errors call it."""
        return self.name if self.is_flag else self.value

    @property
    def key(self) -> str:
        return self.field or self.name.removeprefix("--").replace("-", "_")


class Group(NamedTuple):
    """Commands under one heading of the overview, or with the same first word."""

    name: str
    invalid: str = ""
    """The error code for a bad argument, if it is not the usual one."""
    heading: str = ""
    """The heading in the overview, if the group is a first word such as `topics`."""
    summary: str = ""


class Command(NamedTuple):
    """One entry of the catalogue. `handler` is imported when the command runs: `rooms.join` of this package."""

    name: str
    handler: str
    summary: str
    """One line for the overview."""
    about: str
    options: tuple[Option, ...] = ()
    examples: str = ""
    invalid: str = ""
    """The error code for a bad argument, if it is not the group's."""
    group: Group = Group("")
    reads: bool = False
    """Without options it claims and destroys nothing, so it is always safe to suggest."""
    needs_store: bool = True
    """Without a store, the handler gets the options instead of a context."""


def grouped(group: Group, *commands: Command) -> dict[str, Command]:
    """The commands of a group, by name."""
    return {command.name: command._replace(group=group) for command in commands}


# -- shorthands for the catalogue


def flag(name: str, value: str, about: str, parse: Callable[[str], Any] = str, **more: Any) -> Option:
    return Option(name, value, about, parse, **more)


def switch(name: str, about: str, **more: Any) -> Option:
    return Option(name, "", about, default=False, **more)


def word(name: str, value: str, about: str, *, required: bool = True) -> Option:
    return Option(name, value, about, required=required)


def words(name: str, value: str, about: str, *, required: bool = True) -> Option:
    return Option(name, value, about, many=True, required=required)


# -- parsers of values. Their ValueError says what they accept.


def require_utf8(given: str) -> None:
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid UTF-8") from None


def integer(given: str) -> int:
    try:
        return int(_plain(given))
    except ValueError:
        raise ValueError(f"must be a whole number, not {given[:80]!r}") from None


def port(given: str) -> int:
    number = integer(given)
    if not 0 <= number <= 65_535:
        raise ValueError(f"must be from 0 to 65535, not {given[:80]!r}")
    return number


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parse_duration(given: str) -> float | None:
    """The seconds of a duration with its unit, such as 90s, 5m, 2h or 3d; None if it is not one."""
    number, factor = given[:-1], _UNITS.get(given[-1:])
    if factor is None or not number.isascii() or not number.replace(".", "", 1).isdecimal() or len(number) > 9:
        return None
    return float(number) * factor


def seconds(given: str) -> float:
    """A duration. A bare number counts seconds."""
    number = _duration(given, 1)
    if number is None:
        raise ValueError(f"must be a duration such as 90s, 5m or 2h, or a number of seconds, not {given[:80]!r}")
    return number


def ttl_minutes(given: str) -> int:
    """How long a reservation lasts, in minutes, rounded up to whole ones. A bare number counts minutes."""
    number = _duration(given, 60)
    found = -1 if number is None else -int(-number // 60)
    if not 5 <= found <= 24 * 60:  # a test compares this with `scopes.reservations`, which takes long to import
        raise ValueError(f"must be from 5 minutes to 24 hours, such as 30m or 2h, not {given[:80]!r}")
    return found


def age(given: str) -> int:
    """A duration in microseconds. A bare number counts days."""
    number = _duration(given, 86_400)
    if number is None:
        raise ValueError(f"must be a time such as 90d or 36h, or a number of days, not {given[:80]!r}")
    return int(number * 1_000_000)


def _duration(given: str, unit: int) -> float | None:
    """The seconds of a duration, whose unit may be missing; None if it is not one."""
    number = parse_duration(given)
    if number is None:
        try:
            number = float(_plain(given)) * unit
        except ValueError:
            return None
    return number if 0 <= number < 1e9 else None  # refuses NaN and infinity too


def _plain(given: str) -> str:
    """Refuse digits of other scripts and `1_000`, which Python would read as numbers."""
    if not given.isascii() or "_" in given:
        raise ValueError
    return given
