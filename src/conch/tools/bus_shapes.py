"""The bus on the wire, as seeds 002 and 004 have it: times in unix seconds, warnings always there."""

from __future__ import annotations

from conch.bus.peers import Peer
from conch.bus.questions import Asked, extras
from conch.bus.stream import Message, Sent
from conch.bus.sync import Synced
from conch.bus.topics import Topic
from conch.clock import to_seconds
from conch.typed import Any
from conch.warnings import Warning, Warnings, warning

Object = dict[str, Any]

LONGEST_BODY = 4_000
"""Of one message in the text for models; the whole of it is in the object."""


def topic_closed() -> Warning:
    return warning("TOPIC_CLOSED", "The topic is closed; do not wait for more.")


def topic(topic: Topic) -> Object:
    return {
        "topic_id": topic.topic_id,
        "name": topic.name,
        "status": topic.status,
        "created_at": to_seconds(topic.created_at),
        "closed_at": to_seconds(topic.closed_at),
        "close_reason": topic.close_reason,
        "metadata": topic.metadata,
    }


def message(message: Message) -> Object:
    return {
        "message_id": message.message_id,
        "topic_id": message.topic_id,
        "seq": message.seq,
        "sender": message.sender,
        "message_type": message.message_type,
        "reply_to": message.reply_to,
        "content_markdown": message.content_markdown,
        "metadata": message.metadata,
        "client_message_id": message.client_message_id,
        "created_at": to_seconds(message.created_at),
    }


def received(each: Message, peer: Peer) -> Object:
    return {**message(each), "addressed": peer.is_meant(each.addressees)}


def answer(each: Message) -> Object:
    pointers, followups = extras(each)
    return {
        "answer_id": each.message_id,
        "answered_by": each.sender,
        "answered_at": to_seconds(each.created_at),
        "answer_markdown": each.content_markdown,
        "repo_pointers": pointers,
        "suggested_followups": followups,
    }


def asked(status: str, found: Asked) -> Object:
    question = found.question
    data = {
        "topic_id": question.topic_id,
        "question_id": question.question_id,
        "status": status,
        "question_status": question.status,
        "accepting_answers": question.status == "pending",
        "answers_count": len(found.answers),
        "answers": [answer(each) for each in found.answers],
        "warnings": [],
    }
    return data | ({"cancel_reason": question.cancel_reason} if question.cancel_reason is not None else {})


# -- the same for models that read text


def message_text(each: Message, peer: Peer) -> str:
    to = f" to {', '.join(each.addressees)}" if each.addressees else ""
    mark = " (to you)" if peer.is_meant(each.addressees) else ""
    reply = f" in reply to {each.reply_to}" if each.reply_to else ""
    head = f"#{each.seq} {each.sender}{to}{mark} [{each.message_type}] {each.message_id}{reply}:"
    body = each.content_markdown
    if len(body) > LONGEST_BODY:
        body = f"{body[:LONGEST_BODY]}... ({len(body) - LONGEST_BODY} more characters in content_markdown)"
    return head + "\n" + indented(body)


def synced_text(synced: Synced, cursor: int) -> str:
    lines = [message_text(each, synced.page.peer) for each in synced.page.received]
    lines += [f"Sent #{sent.message.seq} {sent.message.message_id}{_remark(sent)}" for sent in synced.sent]
    more = "; there is more, call sync again" if synced.page.has_more else ""
    return "\n".join([*lines, f"status={synced.status} cursor={cursor}{more}"])


def _remark(sent: Sent) -> str:
    if sent.obstacle is not None:
        return f" (it does not count as an answer: {sent.obstacle.reason})"
    return " (it was there already)" if sent.is_repeated else ""


def warning_lines(warnings: Warnings) -> list[str]:
    """Those that no line of a message tells already."""
    return [f"{each['code']}: {each['message']}" for each in warnings if "seq" not in each.get("context", {})]


def answers_text(found: Asked) -> str:
    """The answers, and an invitation to ask on."""
    bodies = [f"Answer from {each.sender}:\n\n{each.content_markdown}" for each in found.answers]
    pointers = dict.fromkeys(pointer for each in found.answers for pointer in extras(each)[0])
    if pointers:
        bodies.append("See: " + ", ".join(pointers))
    followups = dict.fromkeys(" ".join(followup.split()) for each in found.answers for followup in extras(each)[1])
    numbered = [f"{number}) {text}" for number, text in enumerate(followups, start=1)]
    return "\n".join(
        [
            "\n\n".join(bodies),
            "",
            "---",
            "FOLLOW_UP_REQUIRED",
            "Choose ONE follow-up question and call:",
            f'ask(topic_id="{found.question.topic_id}", question="<your question>")',
            "",
            "Suggested follow-ups:",
            *(numbered or ["(none)"]),
            "",
            "If you fully understand, reply with:",
            "NO_FOLLOWUP_NEEDED",
            "and provide a 3-5 bullet summary of what you learned.",
        ]
    )


def indented(text: str) -> str:
    """The words of one agent must not pass for a line of ours."""
    return "\n".join(f"  {line}" for line in text.splitlines())
