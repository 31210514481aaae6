"""What hooks show to an agent between its tool calls: messages to it, open questions and notices, each once.

Hooks keep marks of their own. They move no cursor and mark no notice as seen, so `sync` and `event_inbox` still return
what a hook has shown. A mark is made only after the text was printed.
"""

from __future__ import annotations

from conch.agents.records import label
from conch.lean import Any, NamedTuple, json
from conch.storage.base import Row, Store

_MOST = 10  # things of one kind at once; the rest comes after the next tool
_LONGEST = 1_500


class Parcel(NamedTuple):
    """What an agent has neither read nor been shown."""

    messages: list[Row]
    notices: list[Row]

    def __bool__(self) -> bool:
        return bool(self.messages or self.notices)


class Duty(NamedTuple):
    """What an agent should do before it stops."""

    kind: str
    """HANDOFF, BLOCKED or question."""
    id: str
    sender: str
    """A label."""
    line: str


def read_parcel(store: Store, agent_id: str) -> Parcel:
    """What to show to an agent now; it costs one query if nothing waits."""
    (kinds,) = store.glance("mail_kinds", agent_id=agent_id)
    messages, notices = list[Row](), list[Row]()
    if kinds["messages"]:
        messages = store.glance("undelivered_messages", agent_id=agent_id, longest=_LONGEST + 1, most=_MOST)
    if kinds["notices"]:
        notices = store.glance("undelivered_notices", agent_id=agent_id, most=_MOST)
    return Parcel([_message(row) for row in messages], [_notice(row) for row in notices])


def _message(row: Row) -> Row:
    body = str(row["body"])
    is_cut = len(body) > _LONGEST
    return {**row, "body": body[:_LONGEST], "is_cut": is_cut, "from": label(row["sender_agent_id"], row["sender"])}


def _notice(row: Row) -> Row:
    sender = label(row["from_agent_id"], row["from_agent"]) if row["from_agent"] else "conch"
    return {**row, "payload": json.loads(row["payload_json"]), "from": sender}


def mark_shown(store: Store, agent_id: str, parcel: Parcel) -> None:
    """Remember that these were shown. Messages of a topic are shown in order, so the last one stands for all."""
    through: dict[str, int] = {}
    for row in parcel.messages:
        through[row["topic_id"]] = max(row["seq"], through.get(row["topic_id"], 0))
    with store.write(agent_id) as tx:
        for topic_id, seq in through.items():
            tx.run("mark_messages_shown", agent_id=agent_id, topic_id=topic_id, seq=seq)
        if parcel.notices:
            tx.run("mark_notices_shown", ids=[row["event_id"] for row in parcel.notices], now=tx.now)


def find_duties(store: Store, agent_id: str, room_ids: list[str]) -> list[Duty]:
    """Notices in these rooms that the agent must accept, and questions that name it."""
    duties = []
    for row in store.glance("notices_to_accept", agent_id=agent_id, room_ids=room_ids, most=_MOST):
        notice = _notice(row)
        payload: dict[str, Any] = notice["payload"]
        if payload.get("requires_ack", True):
            duties.append(Duty(row["event_type"], row["event_id"], notice["from"], str(payload.get("subject", ""))))
    for row in store.glance("questions_to_agent", agent_id=agent_id, longest=_LONGEST, most=_MOST):
        message = _message(row)
        duties.append(Duty("question", row["question_id"], message["from"], message["body"]))
    return duties
