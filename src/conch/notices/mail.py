"""What waits for an agent: messages to it, open questions, notices. Looking moves no cursor and marks nothing as seen.

It leaves out what a hook, a listener (see `delivery.py`) or an earlier reply has shown. But an open question is counted
until it is answered, and a notice until it is accepted, or until it is seen if it need not be accepted; only their
lines are not repeated.

Every reply includes it, so an agent that only works and renews its lease still learns of messages to it. If nothing
waits, as almost always, it costs one small query of indexes. Otherwise it costs one more, whatever waits.
"""

from __future__ import annotations

from collections.abc import Collection

from conch.agents.records import label
from conch.lean import Any, NamedTuple, json
from conch.storage.base import Answered, Query, Row, Store

_LONGEST_LINE = 120
_MOST = 100  # counting stops here
_TALK = ("unread", "to_you", "shown")
_COLUMNS = ("kind", "place", "last_seq", "number", "id", "sender", "sender_agent_id", "line", "event_type")


class Waiting(NamedTuple):
    """Things of one kind that wait, and the newest of them."""

    number: int
    place: str
    """Its topic_id, or the room_id of a notice."""
    id: str
    sender: str
    sender_agent_id: str | None
    """None for conch itself, and for senders of imported messages."""
    line: str
    """Empty for a question or a notice that was shown already."""
    event_type: str

    @property
    def sender_label(self) -> str:
        """What people call the sender."""
        return label(self.sender_agent_id, self.sender)


class Mail(NamedTuple):
    hand_over: Waiting | None
    """A nudge by a person, or a BLOCKED notice from a member, since the agent got the stick that it holds."""
    to_you: Waiting | None
    questions: Waiting | None
    notices: Waiting | None
    reserved: Waiting | None
    """What others have reserved since the agent got the stick, in the rooms whose stick it holds."""
    others: int
    """Unread messages that are not to the agent."""

    def __bool__(self) -> bool:
        return any(self)

    def shortened(self, longest: int) -> Mail:
        """The same mail with shorter lines and names of senders."""
        short: dict[str, Any] = {
            name: each._replace(line=each.line[:longest], sender=each.sender[:longest])
            for name, each in self._asdict().items()
            if isinstance(each, Waiting)
        }
        return self._replace(**short)


_NOTHING = Mail(None, None, None, None, None, 0)


def mail_query(
    agent_id: str,
    topic_id: str = "",
    through: int = 0,
    ids: tuple[str, ...] = (),
    brought: Collection[tuple[str, int]] = (),
    asked: tuple[str, ...] = (),
) -> Query:
    """What `read_mail` asks with the same arguments."""
    given = {
        "agent_id": agent_id,
        "topic_id": topic_id,
        "through": through,
        "ids": list(ids) or [""],
        "brought": sorted(f"{place} {seq}" for place, seq in brought) or [""],
        "shown": list(asked) or [""],
        "most": _MOST,
    }
    return "find_mail", given


def read_mail(
    store: Store,
    agent_id: str,
    topic_id: str = "",
    through: int = 0,
    ids: tuple[str, ...] = (),
    brought: Collection[tuple[str, int]] = (),
    asked: tuple[str, ...] = (),
    returned: Collection[tuple[int, str]] = (),
    seen: Answered | None = None,
) -> Mail:
    """What waits for an agent, apart from what this reply returns and what earlier replies have returned.

    This reply returns the messages of a topic `through` a number, and the questions and notices in `ids`. Earlier
    replies have `brought` single messages, each named by its topic and its number, and the questions in `asked`. A
    caller that has just `seen` the answer to a `mail_query` of this agent passes it, to save time. It also passes the
    numbers of the messages of others that are `returned` now, each with the message_id if it is to the agent.
    """
    if seen is None and not store.is_server:  # a server is far away, so it is asked only once
        waits = store.glance("mail_waits", agent_id=agent_id, topic_id=topic_id, through=through)
        if not waits:  # as almost always
            return _NOTHING
    statement, given = query = mail_query(agent_id, topic_id, through, ids, brought, asked)
    found = None
    if seen and seen[0][1]["agent_id"] == agent_id:
        if seen[0] == query or not has_mail(seen):  # if nothing waits at all, nothing waits besides this reply
            found = _by_kind(seen[1])
        elif seen[0] == mail_query(agent_id, brought=brought, asked=asked):
            fresh = [(seq, "" if (topic_id, seq) in brought else to_agent) for seq, to_agent in returned]
            found = _besides(_by_kind(seen[1]), topic_id, through, ids, fresh)
    if found is None:
        found = _by_kind(store.glance(statement, **given))
    if not found:
        return _NOTHING
    unread, to_agent = 0, found.get("to_you", []) + found.get("shown", [])
    # Where counting stopped, nobody knows how many of the rest are to the agent.
    uncounted = {row["place"] for row in to_agent if int(row["number"]) >= _MOST}
    for row in found.get("unread", ()):
        if row["place"] in uncounted:
            continue
        passed = sum(place == row["place"] and seq > row["last_seq"] for place, seq in brought)
        unread += int(row["number"]) - passed
    unread -= sum(int(row["number"]) for row in to_agent if row["place"] not in uncounted)
    return Mail(
        hand_over=_newest(found.get("nudge", [])) or _newest(found.get("hand_over", [])),
        to_you=_newest(found.get("to_you", [])),
        questions=_newest(found.get("question", [])),
        notices=_newest(found.get("notice", [])),
        reserved=_newest(found.get("reserved", [])),
        others=max(0, unread),
    )


def has_mail(seen: Answered) -> bool:
    """Whether the answer to a `mail_query` has any mail."""
    _, (kinds,) = seen
    return any(kinds.values())


def _by_kind(answer: list[Row]) -> dict[str, list[Row]]:
    (kinds,) = answer
    found: dict[str, list[Row]] = {}
    for rows in filter(None, kinds.values()):
        for values in json.loads(rows):
            row = dict(zip(_COLUMNS, values, strict=True))
            found.setdefault(row["kind"], []).append(row)
    return found


def _besides(
    found: dict[str, list[Row]], topic_id: str, through: int, ids: tuple[str, ...], returned: list[tuple[int, str]]
) -> dict[str, list[Row]] | None:
    """What waits besides what a reply returns. None if that is not known without asking again.

    It is known only if no nudge waits, the reply returns no question that waits, and `_left` knows what is left of the
    topic.
    """
    here = {kind: [row for row in found.get(kind, ()) if row["place"] == topic_id] for kind in _TALK}
    if not here["unread"] or "nudge" in found or (ids and "question" in found):
        return None
    left = _left(here, through, returned)
    if left is None:
        return None
    kept = {kind: [row for row in rows if row["place"] != topic_id] for kind, rows in found.items() if kind in _TALK}
    merged = {kind: [*kept.get(kind, rows), *left.get(kind, ())] for kind, rows in found.items()}
    return {kind: rows for kind, rows in merged.items() if rows}


def _left(here: dict[str, list[Row]], through: int, returned: list[tuple[int, str]]) -> dict[str, list[Row]] | None:
    """What is left of the talk on a topic after a part of it was returned. None if that is not known."""
    (unread,), to_you = here["unread"], here["to_you"]
    if int(unread["id"]) <= through:
        return {}
    number = sum(int(row["number"]) for row in to_you)
    if not returned or number >= _MOST or here["shown"]:  # the rest was not counted, or some of it was shown
        return None
    new = [to_agent for seq, to_agent in returned if seq > unread["last_seq"]]
    number -= len([*filter(None, new)])
    later = [row for row in to_you if row["id"] not in new]  # each row has the newest message to one name
    return {
        "unread": [{**unread, "last_seq": through, "number": int(unread["number"]) - len(new)}],
        "to_you": [{**row, "number": 0 if place else number} for place, row in enumerate(later)],
    }


def _newest(rows: list[Row]) -> Waiting | None:
    """The newest of one kind, with the number of all. Messages to different names of an agent are in several rows."""
    if not rows:
        return None
    newest = max(rows, key=lambda row: (row["line"] is not None, int(row["last_seq"])))
    number = sum(int(row["number"]) for row in rows)
    sender, event_type = newest["sender"] or "conch", newest["event_type"] or ""
    line = _line(newest)
    return Waiting(number, newest["place"], newest["id"], sender, newest["sender_agent_id"], line, event_type)


def _line(row: Row) -> str:
    """The first line that says anything; of a notice, its subject or what it asks for."""
    text = str(row["line"] or "")
    if text and row["kind"] in ("notice", "hand_over"):
        payload = json.loads(text)
        wanted = "requested_action" if row["kind"] == "hand_over" else "subject"
        text = str(payload.get(wanted) or payload.get("resolution_hint") or payload.get("evidence") or "")
    return next(filter(None, map(str.strip, text.splitlines())), "")[:_LONGEST_LINE]
