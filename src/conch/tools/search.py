"""The search tool of the group `bus`."""

from __future__ import annotations

from conch.agents.records import label
from conch.calls import Call
from conch.clock import SECOND
from conch.search.search import DEFAULT_LIMIT, LONGEST_QUERY, MODES, MOST_RESULTS, Cursor, Hit
from conch.tools import fields
from conch.tools.registry import Tool, grouped
from conch.tools.replies import Object, Reply, known
from conch.tools.session import Session
from conch.tools.text import behind_margin, one_line

_FILTERS = ("topic_id", "mode", "model", "sender", "message_type", "since", "until")


def messages_search(session: Session, given: Object, call: Call) -> Reply:
    options = {name: given[name] for name in _FILTERS if name in given}
    budget, with_content = session.budget(), given.get("include_content", False)
    after, limit = _cursor(given.get("after")), given.get("limit", DEFAULT_LIMIT)
    found = session.app.search.search(given["query"], **options, limit=limit, after=after)
    warnings = budget.warn(found.warnings)
    page = budget.fill(found.hits, lambda hit: _result(hit, with_content), lambda hit: _line(hit, with_content))
    page = page._replace(has_more=page.has_more or found.has_more)
    rank = (after.rank if after else 0) + page.length
    cursor = f"{found.moment}.{rank}" if page.has_more else None
    data = known(results=page.counted, mode=found.mode, has_more=page.has_more, cursor=cursor, warnings=warnings)
    return Reply(data, page.text("No messages found."), next=page.next(cursor), shown=found.hits[: page.length])


def _cursor(text: str | None) -> Cursor | None:
    if text is None:
        return None
    moment, _, rank = text.partition(".")
    return Cursor(fields.parse_cursor("after", moment) or 0, fields.parse_cursor("after", rank) or 0)


def _result(hit: Hit, with_content: bool) -> Object:
    result = {**hit._asdict(), "created_at": hit.created_at / SECOND}
    del result["sender_agent_id"]
    if not with_content:
        del result["content_markdown"]
    return result


def _line(hit: Hit, with_content: bool) -> str:
    line = one_line(
        f"- {hit.topic_name} ({hit.topic_id}) #{hit.seq} {label(hit.sender_agent_id, hit.sender)}: {hit.snippet}"
    )
    return f"{line}\n{behind_margin(hit.content_markdown)}" if with_content else line


def _name(description: str) -> Object:
    return {**fields.AGENT, "description": description}


TOOLS = grouped(
    "bus",
    Tool(
        messages_search,
        "Search messages",
        "Find messages in one topic or in all, best match first. A match has all the words; quotes make a phrase; the "
        "last word may be a prefix of 3 or more letters. hybrid also finds similar meanings.",
        fields.takes(
            {"query": {"type": "string", "minLength": 1, "maxLength": LONGEST_QUERY}},
            topic_id=_name("Default: all topics."),
            mode={"type": "string", "enum": list(MODES), "description": "Default hybrid."},
            limit=fields.limit(MOST_RESULTS, DEFAULT_LIMIT),
            model=_name("Default: the best that is installed."),
            include_content=fields.flag("Return whole messages."),
            sender=_name("From this name."),
            message_type=_name("Of this type."),
            since={"type": "number", "description": "Unix seconds."},
            until={"type": "number", "description": "Unix seconds."},
            after=fields.AFTER,
        ),
        fields.READS,
    ),
)
