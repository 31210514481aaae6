"""Long lists on the command line: one command prints as much as fits into a reply, and says how to go on.

What is measured is what is printed: the text, or with `--json` the object. With `--limit`, that
many items are printed, however long they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conch.doors.cli.output import Report, presentable
from conch.errors import InvalidArgument, no_cursor
from conch.lean import TYPE_CHECKING, Any, Protocol, TypeVar, json

if TYPE_CHECKING:
    from conch.app import App

_Item = TypeVar("_Item")

_SMALLEST_ITEM = 32  # bytes; so a page never needs more rows than this allows
_ENVELOPE = 512  # bytes, with the line that says how to go on
_MOST = 100_000


class Listing(Protocol):
    """What a list needs of the context of its command."""

    app: App
    options: Any


def rows(context: Listing, default: int | None = None, most: int = _MOST) -> int:
    """How many items to read for a page: one more than can be printed."""
    return _most_items(context, default, most) + 1


def page(
    context: Listing,
    items: Sequence[_Item],
    render: Callable[[Sequence[_Item]], Report],
    cursor: Callable[[_Item], object],
    *,
    default: int | None = None,
    most: int = _MOST,
    option: str = "--after",
) -> Report:
    """The leading items that fit, at least one, as `render` shows them, and the cursor after the last one."""
    wanted = items[: _most_items(context, default, most)]
    length = fitting(context, len(wanted), lambda number: render(wanted[:number]))
    report = render(wanted[:length])
    if length == len(items):
        return report._replace(data={**(report.data or {}), "has_more": False})
    place = str(cursor(wanted[length - 1]))
    data = {**(report.data or {}), "has_more": True, "cursor": place}
    return report._replace(data=data, text=with_more(report.text, place, option))


def with_more(text: str, cursor: str | None, option: str = "--after") -> str:
    """The text, and how to go on after it if there is a cursor."""
    return text if cursor is None else f"{text}\nThere are more: run the same command with {option} {cursor}."


def fitting(context: Listing, length: int, render: Callable[[int], Report]) -> int:
    """The largest number of items, at least one, whose report fits into a reply. `--limit` decides it if given."""
    limit = context.app.settings.max_reply_bytes * 7 // 8 - _ENVELOPE  # an eighth is for the mail of the caller
    if length <= 1 or _limit(context) is not None or _size(context, render(length)) <= limit:
        return length
    fits, too_many = 1, length
    while too_many - fits > 1:
        number = (fits + too_many) // 2
        if _size(context, render(number)) <= limit:
            fits = number
        else:
            too_many = number
    return fits


def after(items: Sequence[_Item], key: Callable[[_Item], str], cursor: str | None) -> Sequence[_Item]:
    """The items after a cursor, for a list that is always read whole."""
    if cursor is None:
        return items
    for number, item in enumerate(items, start=1):
        if key(item) == cursor:
            return items[number:]
    raise no_cursor()


def _most_items(context: Listing, default: int | None, most: int) -> int:
    given = _limit(context)
    if given is None:
        return default or context.app.settings.max_reply_bytes // _SMALLEST_ITEM
    if not 1 <= given <= most:
        raise InvalidArgument(f"--limit must be from 1 to {most}.", field="limit")
    return given


def _limit(context: Listing) -> int | None:
    """The value of `--limit`. Some commands with a list in their result do not have it."""
    given: int | None = getattr(context.options, "limit", None)
    return given


def _size(context: Listing, report: Report) -> int:
    printed = json.dumps(presentable(report.data)) if context.options.json else report.text
    return len(printed.encode(errors="surrogatepass"))
