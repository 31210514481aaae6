"""What is new for an agent: messages to it, open questions and notices. Each is shown once.

Hooks show it between tool calls, and `listen` in its reply. Both use the same marks, so each shows only what the other
has not. `event_inbox` marks the notices that it returns as shown, too. A mark moves no cursor and leaves a notice
unread: `sync` and `event_inbox` still return what was shown. Mail does not repeat it. A mark is made only after the
text was printed or sent.
"""

from __future__ import annotations

from conch.agents.records import label
from conch.lean import TYPE_CHECKING, Any, NamedTuple, json
from conch.storage.base import Row, Store

if TYPE_CHECKING:
    from conch.bus.stream import Message
    from conch.notices.events import ProtocolEvent

_MOST_DUTIES = 10
_LONGEST_LINE = 200


class News(NamedTuple):
    """What to show to an agent now. All messages and questions are of one topic."""

    agent_id: str
    messages: list[Message]
    questions: list[Message]
    """Those that it could answer."""
    notices: list[ProtocolEvent]
    has_more: bool
    to_all: bool
    """Whether messages to nobody in particular are among them."""
    store: int

    def __bool__(self) -> bool:
        return bool(self.messages or self.questions or self.notices)

    @property
    def talk(self) -> list[Message]:
        """Messages and questions, oldest first."""
        return sorted(self.messages + self.questions, key=lambda each: each.seq)

    def cut(self, talk: int, notices: int) -> News:
        """The same with only the first of these; the others are not shown yet."""
        if talk == len(self.messages) + len(self.questions) and notices == len(self.notices):
            return self
        kept = {each.seq for each in self.talk[:talk]}
        return self._replace(
            messages=[each for each in self.messages if each.seq in kept],
            questions=[each for each in self.questions if each.seq in kept],
            notices=self.notices[:notices],
            has_more=True,
        )


class Duty(NamedTuple):
    """What an agent should do before it stops."""

    kind: str
    """HANDOFF, BLOCKED or question."""
    id: str
    sender: str
    """A label."""
    line: str


def find_news(store: Store, agent_id: str, limit: int, *, to_all: bool) -> News:
    """What is new for an agent now.

    For a listener, `to_all` adds messages to nobody in particular. It leaves out the handoff of a stick that is offered
    to the agent, because the listener gets that handoff with the stick.
    """
    number = len(store.replacements)
    given = {"agent_id": agent_id, "limit": limit + 1, "to_all": int(to_all)}
    rows = store.glance("news_messages", **given)
    notices = store.glance("news_notices", **given)
    found = [row for row in rows[:limit] if row["topic_id"] == rows[0]["topic_id"]]
    return News(
        agent_id,
        [_message(row) for row in found if not row["is_open"]],
        [_message(row) for row in found if row["is_open"]],
        [_notice(row) for row in notices[:limit]],
        has_more=len(found) < len(rows) or len(notices) > limit,
        to_all=to_all,
        store=number,
    )


def _message(row: Row) -> Message:
    from conch.bus.stream import to_message  # mostly there is nothing new, and a hook must be quick

    return to_message({name: value for name, value in row.items() if name != "is_open"})


def _notice(row: Row) -> ProtocolEvent:
    from conch.notices.events import to_protocol_event

    return to_protocol_event(row)


def mark_shown(store: Store, news: News) -> None:
    """Note that the agent has got this. Call it once it was really printed or sent."""
    last = news.talk[-1].seq if news.talk else 0
    _mark(store, news, last, "set_mark", "mark_notices_shown")


def mark_unshown(store: Store, news: News) -> None:
    """Undo `mark_shown`, because the agent never read it."""
    before = news.talk[0].seq - 1 if news.talk else 0
    _mark(store, news, before, "set_mark_back", "mark_notices_unshown")


def _mark(store: Store, news: News, seq: int, mark_messages: str, mark_notices: str) -> None:
    with store.write(news.agent_id) as tx:
        if news.store != len(store.replacements):
            return  # another store has other messages under the same numbers
        if news.talk:
            given = {"agent_id": news.agent_id, "place": news.talk[0].topic_id, "through": seq, "now": tx.now}
            for kind in ("to_you", "all") if news.to_all else ("to_you",):
                tx.run(mark_messages, kind=kind, **given)
        if news.notices:
            tx.run(mark_notices, ids=[event.event_id for event in news.notices], now=tx.now)


def find_duties(store: Store, agent_id: str, room_ids: list[str]) -> list[Duty]:
    """Notices in these rooms that the agent must accept, and questions that name it."""
    duties = []
    for row in store.glance("notices_to_accept", agent_id=agent_id, room_ids=room_ids, most=_MOST_DUTIES):
        payload: dict[str, Any] = json.loads(row["payload_json"])
        sender = label(row["from_agent_id"], row["from_agent"]) if row["from_agent"] else "conch"
        if payload.get("requires_ack", True):
            duties.append(Duty(row["event_type"], row["event_id"], sender, str(payload.get("subject", ""))))
    for row in store.glance("questions_to_agent", agent_id=agent_id, longest=_LONGEST_LINE, most=_MOST_DUTIES):
        sender = label(row["sender_agent_id"], row["sender"])
        duties.append(Duty("question", row["question_id"], sender, str(row["body"])))
    return duties
