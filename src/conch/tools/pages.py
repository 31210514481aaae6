"""Keeps every reply within a number of bytes: a list that does not fit comes in pages.

The bytes are those that the client receives: the object and the text together, as JSON. A page holds at least one item,
and every item is whole. So a reply is larger than its budget only because of one large item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from conch.lean import TYPE_CHECKING, Any, NamedTuple, TypeVar, json, lazy_module
from conch.tools.replies import Object, Told

if TYPE_CHECKING:
    from conch.tools import facts
    from conch.warnings import Warnings
else:  # commands do not need it
    facts = lazy_module("conch.tools.facts")

_Item = TypeVar("_Item")

_ENVELOPE = 1_024  # the JSON-RPC envelope, and the fields that a tool returns beside its list
_SMALLEST_ITEM = 64  # no item of a list is smaller, so a page never needs more rows than this allows
_EVERYTHING = 2**31
_AT_ONCE = 20  # items that are counted together, if they fit

# Bytes that JSON writes as they are, and those that take one byte more: written as a pair, such as \n, or in UTF-8.
_UNESCAPED = bytes(range(0x20, 0x100)).translate(None, b'"\\')
_ASCII, _HIGHER = _UNESCAPED[:-128], _UNESCAPED[-128:]
_ONE_MORE = b'"\\\n\r\t\f\b' + _HIGHER

_Shown = tuple[Object, str]


class Counted(list[Object]):
    """Objects that were written as JSON to count them, so that they need not be written again. It never changes."""

    def __init__(self, objects: list[Object], spelled: str) -> None:
        super().__init__(objects)
        self.spelled = spelled


class Page(NamedTuple):
    """The leading items of a list that fit into a reply."""

    length: int
    objects: list[Object]
    lines: list[str]
    has_more: bool
    spelled: str = ""
    """The objects as JSON, if they were counted and all of them fit."""

    @property
    def counted(self) -> list[Object]:
        """The objects for a reply that leaves them as they are."""
        return Counted(self.objects, self.spelled) if self.spelled else self.objects

    def cursor(self, cursors: Sequence[Any]) -> str | None:
        """The position after the last item, if there are more. A page with more is never empty."""
        return str(cursors[self.length - 1]) if self.has_more else None

    def text(self, empty: str) -> str:
        return "\n".join(self.lines or [empty])

    def next(self, cursor: str | None, otherwise: str = "") -> str:
        """How to get the next page; `otherwise` if this is the last one."""
        return f'There is more: call again with after="{cursor}".' if self.has_more else otherwise


class Budget:
    """The bytes that one reply may still use. Without a limit, everything fits: a terminal needs no pages."""

    def __init__(self, limit: int | None, *, tells: bool = True) -> None:
        """`tells`: the text has all facts of the objects. A command has its own texts."""
        self._limit = limit
        self._tells = tells
        self._mail = 0 if limit is None else limit // 8
        self._unspent = 0 if limit is None else limit - _ENVELOPE - self._mail
        self._owed: list[Any] = []
        """What was spent, but not counted yet."""

    @property
    def is_limited(self) -> bool:
        return self._limit is not None

    @property
    def rows(self) -> int:
        """How many rows to read for a page: one more than can fit."""
        return self.rows_of(_SMALLEST_ITEM)

    def rows_of(self, smallest: int) -> int:
        """How many rows to read, if no item is smaller than this."""
        return _EVERYTHING if self._limit is None else self._limit // smallest + 1

    @property
    def chars(self) -> int:
        """More characters than this cannot fit."""
        return _EVERYTHING if self._limit is None else max(0, self._left())

    def spend(self, *shown: Any) -> None:
        """Spend the bytes of these objects and texts. They must not change any more.

        They are counted only when the rest matters: most replies end before that.
        """
        if self._limit is not None:
            self._owed += shown

    def _left(self) -> int:
        for each in self._owed:
            self._unspent -= _size(each)
        self._owed.clear()
        return self._unspent

    def fits_as_mail(self, mail: Object, lines: list[str]) -> bool:
        """Whether the mail fits into the part of every reply that is kept for it."""
        return self._limit is None or _size(mail) + _size("\n".join(lines)) <= self._mail

    def fits(self, objects: list[Object], lines: list[str]) -> bool:
        """Whether all of this fits into half of what is left. If so, those bytes are spent."""
        if self._limit is None:
            return True
        size = _size(objects) + _size("\n".join(lines))
        fits = size <= self._left() // 2
        self._unspent -= size if fits else 0
        return fits

    def fill(
        self,
        items: Sequence[_Item],
        as_object: Callable[[_Item], Object],
        as_text: Callable[[_Item], str],
        limit: int | None = None,
        is_extra: bool = False,
        told: Told | None = None,
    ) -> Page:
        """The page that starts with the first item, of at least one and at most `limit` items.

        Extra items accompany something that is in the reply anyway, so all of them may be left out.

        The line of an item has all facts of its object: those that are `told`, and those that are added here.
        """
        if not items:
            return Page(0, [], [], has_more=False)
        if self._limit is None:
            shown, spelled = [(as_object(item), as_text(item)) for item in items[:limit]], ""
        else:
            shown, spelled = self._fill(items[:limit], as_object, as_text, is_extra or len(items) > 1, is_extra, told)
        objects, lines = [each for each, _ in shown], [line for _, line in shown]
        return Page(len(shown), objects, lines, len(shown) < len(items), spelled)

    def _fill(
        self,
        items: Sequence[_Item],
        as_object: Callable[[_Item], Object],
        as_text: Callable[[_Item], str],
        counts: bool,
        is_extra: bool,
        told: Told | None,
    ) -> tuple[list[_Shown], str]:
        page: list[_Shown] = []
        pieces: list[str] = []
        for start in range(0, len(items), _AT_ONCE):
            shown: list[_Shown] = []
            for item in items[start : start + _AT_ONCE]:
                each, line = as_object(item), as_text(item)
                if self._tells and isinstance(each, dict):
                    line = facts.tell_item(each, line, told)
                shown.append((each, line))
            fitting = len(shown)
            if counts:
                objects = [each for each, _ in shown]
                spelled = _spell_to_send(objects)
                fitting = self._spend_fitting(shown, spelled or _encoder()(objects), not page and not is_extra)
                pieces.append(spelled if fitting == len(shown) else "")
            page += shown[:fitting]
            if fitting < len(shown):
                break
        return page, f"[{','.join([piece[1:-1] for piece in pieces])}]" if pieces and all(pieces) else ""

    def _spend_fitting(self, shown: list[_Shown], spelled: str, needs_one: bool) -> int:
        """Spend the leading items that fit, and return how many they are. Counting all at once is much faster."""
        size = _size_of_json(spelled) + _size("\n".join([line for _, line in shown]))
        left = self._left()
        if size <= left:
            self._unspent -= size
            return len(shown)
        for number, (each, line) in enumerate(shown):
            size = _size(each) + _size(line)
            if size > left and (number or not needs_one):
                return number
            left = self._unspent = left - size
        return len(shown)

    def cut_lists(self, data: Object) -> tuple[Object, list[str]]:
        """The same object with the lists in it cut to what fits, and a line for each object in them.

        `has_more` says that a list was cut.
        """
        cut, lines = dict(data), list[str]()
        for name, value in data.items():
            if isinstance(value, list):
                page = self.fill(value, lambda each: each, _line_of(name))
                cut |= {name: page.objects, "has_more": True} if page.has_more else {}
                lines += filter(None, page.lines)
        return cut, lines

    def warn(self, warnings: Warnings) -> Warnings:
        """The leading warnings, and one that counts those left out. They use at most a quarter of the budget."""
        if self._limit is None or not warnings:
            return warnings
        share = Budget(self._limit // 4 + _ENVELOPE)
        page = share.fill(warnings, lambda each: each, lambda each: f"{each['code']}: {each['message']}")
        if page.has_more:
            from conch.warnings import warning  # rarely needed

            rest = len(warnings) - page.length
            page.objects.append(warning("WARNINGS_LEFT_OUT", f"Warnings that do not fit: {rest}.", count=rest))
        self.spend(page.objects, "\n".join(page.lines))
        return page.objects


def _line_of(name: str) -> Callable[[Any], str]:
    """The line before the facts of each object in a list. Items that are not objects need none."""
    return lambda item: f"- {name}:" if isinstance(item, dict) else ""


def _size(value: Any) -> int:
    """The bytes of a value as JSON, with the comma after it. Text that is not valid Unicode counts, too."""
    if isinstance(value, str):
        return _size_of_text(value)
    return _size_of_json(_encoder()(value))


def _size_of_json(spelled: str) -> int:
    return (len(spelled) if spelled.isascii() else len(spelled.encode(errors="surrogatepass"))) + 1


def _size_of_text(text: str) -> int:
    """The same for a text, without making the JSON: with two quotes, a comma, and the backslashes."""
    try:
        spelled, short = text.encode("latin-1"), _ASCII  # much faster than UTF-8
    except UnicodeEncodeError:
        spelled, short = text.encode(errors="surrogatepass"), _UNESCAPED
    longer = spelled.translate(None, short)
    longest = longer.translate(None, _ONE_MORE)  # the control characters without a letter of their own: \u001b
    return len(spelled) + len(longer) + 4 * len(longest) + 3


def _spell_to_send(objects: list[Object]) -> str:
    """The objects as JSON; empty if they have numbers that JSON lacks, which are counted, but not sent."""
    try:
        return _encoder(allow_nan=False)(objects)
    except ValueError:
        return ""


@lru_cache(maxsize=2)
def _encoder(*, allow_nan: bool = True) -> Callable[[Any], str]:
    """Made once, at the first use: commands need no budget, and `json` is slow to import."""
    return speller(allow_nan=allow_nan)


def speller(*, allow_nan: bool) -> Callable[[Any], str]:
    """A function that returns a value as JSON. `JSONEncoder.encode` makes a new C encoder for each value."""
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=allow_nan)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    spell = make(None, encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, allow_nan)
    return lambda value: "".join(spell(value, 0))
