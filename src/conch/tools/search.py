"""The search tool of the group `bus`."""

from __future__ import annotations

from conch.calls import Call
from conch.clock import SECOND
from conch.search.search import DEFAULT_LIMIT, LONGEST_QUERY, MODES, MOST_RESULTS, Found, Hit
from conch.tools import fields
from conch.tools.registry import Tool, grouped
from conch.tools.replies import Object, Reply
from conch.tools.session import Session
from conch.tools.text import behind_margin, one_line

_FILTERS = ("topic_id", "mode", "limit", "model", "sender", "message_type", "since", "until")


def messages_search(session: Session, given: Object, call: Call) -> Reply:
    options = {name: given[name] for name in _FILTERS if name in given}
    found = session.app.search.search(given["query"], **options)
    with_content = given.get("include_content", False)
    results = [_result(hit, with_content) for hit in found.hits]
    return Reply({"results": results, "mode": found.mode, "warnings": found.warnings}, _text(found, with_content))


def _result(hit: Hit, with_content: bool) -> Object:
    result = {**hit._asdict(), "created_at": hit.created_at / SECOND}
    if not with_content:
        del result["content_markdown"]
    return result


def _text(found: Found, with_content: bool) -> str:
    lines = [_line(hit, with_content) for hit in found.hits] or ["No messages found."]
    lines += [behind_margin(warning["message"], first=f"{warning['code']}: ") for warning in found.warnings]
    return "\n".join(lines)


def _line(hit: Hit, with_content: bool) -> str:
    line = one_line(f"{hit.topic_name} ({hit.topic_id}) #{hit.seq} {hit.sender}: {hit.snippet}")
    return f"{line}\n{behind_margin(hit.content_markdown)}" if with_content else line


_NAME: Object = {"type": "string", "minLength": 1, "maxLength": fields.LONGEST_ID}

TOOLS = grouped(
    "bus",
    Tool(
        messages_search,
        "Search messages",
        "Find messages in one topic or in all, best match first. A match contains all the words; quotes make a "
        "phrase; the last word may be a prefix of 3 letters or more. hybrid also finds similar meanings. "
        "Works without topic_join.",
        fields.takes(
            {"query": {"type": "string", "minLength": 1, "maxLength": LONGEST_QUERY}},
            topic_id=_NAME,
            mode={"type": "string", "enum": list(MODES), "description": "Default hybrid."},
            limit={
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_RESULTS,
                "description": f"Default {DEFAULT_LIMIT}.",
            },
            model=_NAME,
            include_content={"type": "boolean", "description": "Include whole messages."},
            sender=_NAME,
            message_type=_NAME,
            since={"type": "number", "description": "Unix seconds."},
            until={"type": "number"},
        ),
        fields.READS,
    ),
)
