"""What the pages read about topics, messages and search."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from conch.agents.records import label
from conch.bus.stream import Message
from conch.clock import to_iso
from conch.doors.web.requests import Desk
from conch.doors.web.sizes import Texts, count_fitting
from conch.doors.web.views import agent_view, asked_view
from conch.host.workspaces import below_home
from conch.overseeing.talk import Asked, TopicLine, list_topics, read_messages, show_topic
from conch.search.search import DEFAULT_LIMIT, LONGEST_QUERY, MOST_RESULTS, Hit
from conch.search.snippets import MARK
from conch.tools import fields
from conch.tools.bus_view import STATUSES
from conch.tools.exporting import export_markdown, export_objects
from conch.tools.replies import Object, known

_MOST_TOPICS = 200
_FEW_TOPICS = 100
_MOST_MESSAGES = 200
_FEW_MESSAGES = 50
_MOST_PEERS = 200
_MOST_QUESTIONS = 100
_HOUR_SECONDS = 3_600
_TOPIC: Object = {"topic_id": fields.TOPIC_ID}
_SEQ: Object = {"type": "integer", "minimum": 0, "maximum": fields.LARGEST}

LIST = fields.takes(
    status={"type": "string", "enum": list(STATUSES)},
    after=fields.TOPIC_ID,
    limit=fields.limit(_MOST_TOPICS, _FEW_TOPICS),
)
ONE = fields.takes(_TOPIC)
MESSAGES = fields.takes(_TOPIC, before=_SEQ, after=_SEQ, limit=fields.limit(_MOST_MESSAGES, _FEW_MESSAGES))
EXPORT = fields.takes(_TOPIC, format={"type": "string", "enum": ["markdown", "jsonl"]})
SEARCH = fields.takes(
    {"q": {"type": "string", "minLength": 1, "maxLength": LONGEST_QUERY}},
    topic=fields.TOPIC_ID,
    mode={"type": "string", "enum": ["hybrid", "fts", "semantic"]},
    limit=fields.limit(MOST_RESULTS, DEFAULT_LIMIT),
)


class TalkPages:
    def __init__(self, desk: Desk) -> None:
        self._app = desk.app

    def list_topics(self, given: Object) -> Object:
        limit = given.get("limit", _FEW_TOPICS)
        found = list_topics(self._app.store, STATUSES[given.get("status", "open")], limit + 1, given.get("after"))
        cursor = found[limit - 1].topic_id if len(found) > limit else None
        return known(topics=[_topic(each) for each in found[:limit]], has_more=cursor is not None, cursor=cursor)

    def show(self, given: Object) -> Object:
        app, topic_id = self._app, given["topic_id"]
        topic = show_topic(app.store, topic_id)
        peers = app.peers.list_present(topic_id, _HOUR_SECONDS, _MOST_PEERS)
        questions, texts = app.questions.list_all(topic_id, ["pending"], _MOST_QUESTIONS), Texts()
        return {
            "topic": _topic(topic),
            "peers": [
                {**agent_view(each.agent_id, each.agent_name), "last_seen_at": to_iso(each.updated_at)}
                for each in peers
            ],
            "questions": [asked_view(row, texts) for row in questions],
        }

    def messages(self, given: Object) -> Object:
        after = given.get("after")
        page = read_messages(
            self._app.store, given["topic_id"], given.get("before"), after, given.get("limit", _FEW_MESSAGES)
        )
        shown = [_message(each, page.questions.get(each.message_id)) for each in page.messages]
        fitting = count_fitting(shown if after is not None else shown[::-1])
        is_whole = fitting == len(shown)
        return {
            "messages": shown[:fitting] if after is not None else shown[len(shown) - fitting :],
            "has_older": page.has_older or (after is None and not is_whole),
            "has_newer": page.has_newer or (after is not None and not is_whole),
        }

    def export(self, given: Object) -> Iterator[str]:
        """A whole topic, piece by piece."""
        topic_id = given["topic_id"]
        self._app.topics.find(topic_id)  # refuses an unknown one before the reply begins
        if given.get("format") == "jsonl":
            return (f"{json.dumps(each)}\n" for each in export_objects(self._app, topic_id))
        return export_markdown(self._app, topic_id)

    def search(self, given: Object) -> Object:
        limit = given.get("limit", DEFAULT_LIMIT)
        mode = given.get("mode", "hybrid")
        found = self._app.search.search(given["q"], topic_id=given.get("topic"), limit=limit, mode=mode)
        hits = [_hit(each) for each in found.hits]
        fitting = count_fitting(hits)
        has_more = found.has_more or fitting < len(hits)
        return {"hits": hits[:fitting], "mode": found.mode, "has_more": has_more, "warnings": found.warnings}


def _topic(topic: TopicLine) -> Object:
    return known(
        topic_id=topic.topic_id,
        name=os.path.basename(topic.name) or topic.name if topic.room_id else topic.name,
        shown_path=below_home(topic.name) if topic.room_id else None,
        status=topic.status,
        created_at=to_iso(topic.created_at),
        closed_at=to_iso(topic.closed_at),
        close_reason=topic.close_reason,
        last_seq=topic.last_seq,
        last_at=to_iso(topic.updated_at) if topic.last_seq else None,
        room_id=topic.room_id,
    )


def _message(message: Message, question: Asked | None) -> Object:
    return known(
        message_id=message.message_id,
        topic_id=message.topic_id,
        seq=message.seq,
        sender=message.sender_label,
        agent_id=message.sender_agent_id,
        message_type=message.message_type,
        reply_to=message.reply_to,
        to=message.addressees or None,
        content_markdown=message.content_markdown,
        metadata=message.metadata,
        created_at=to_iso(message.created_at),
        question=question and known(**question._asdict()),
    )


def _hit(hit: Hit) -> Object:
    facts = hit._asdict()
    del facts["sender_agent_id"]
    return {
        **facts,
        "sender": label(hit.sender_agent_id, hit.sender),
        "created_at": to_iso(hit.created_at),
        "snippet": _parts(hit.snippet),
    }


def _parts(snippet: str) -> list[Object]:
    """A snippet as texts, every second of which is a match. A page must not read marks as Markdown."""
    texts = snippet.split(MARK)
    return [{"text": text, "hit": place % 2 == 1} for place, text in enumerate(texts) if text]
