"""The commands around topics and the names on them."""

from __future__ import annotations

from conch.clock import SECOND
from conch.doors.cli.context import Context
from conch.doors.cli.output import MORE, Report, duration, local_time, table
from conch.tools import bus_view
from conch.tools.text import one_line

_MOST_TOPICS = 100_000
_MOST_PEERS = 1_000
_WINDOW_SECONDS = 3_600
_STATUSES = {"open": ["open"], "closed": ["closed"], "all": ["open", "closed"]}


def create(context: Context) -> Report:
    result = context.tool("bus.topic_create", name=context.options.name)
    return Report(result.data, result.text)


def list_topics(context: Context) -> Report:
    limit = context.limit(_MOST_TOPICS)
    found = context.app.topics.list(_STATUSES[context.options.status], limit + 1)
    has_more, found = len(found) > limit, found[:limit]
    topics = [{**bus_view.topic(topic), "message_count": count} for topic, count in found]
    data = {"topics": topics, "has_more": has_more}
    rows = [(topic.topic_id, topic.status, str(count), local_time(topic.created_at)) for topic, count in found]
    if not rows:
        return Report(data, "No topics.")
    text = table(("TOPIC", "STATUS", "MESSAGES", "SINCE"), rows, below=[topic.name for topic, _ in found])
    return Report(data, f"{text}\n{MORE}" if has_more else text)


def show(context: Context) -> Report:
    topic_id = context.topic_id
    topic = context.app.topics.find(topic_id)
    peers = context.app.peers.list_present(topic_id, _WINDOW_SECONDS, _MOST_PEERS)
    present = [{**peer._asdict(), "updated_at": peer.updated_at / SECOND} for peer in peers]
    data = {**bus_view.topic(topic), "peers": present}
    lines = [f"{topic.topic_id}: {one_line(topic.name)}", f"{topic.status} since {local_time(topic.created_at)}"]
    if topic.closed_at is not None:
        lines[-1] = f"closed {local_time(topic.closed_at)}" + (
            f": {one_line(topic.close_reason)}" if topic.close_reason else ""
        )
    rows = [(peer.agent_name, f"#{peer.last_seq}", duration(peer.age_seconds) + " ago") for peer in peers]
    return Report(data, "\n".join([*lines, "", table(("NAME", "HAS READ TO", "SEEN"), rows)] if rows else lines))


def close(context: Context) -> Report:
    result = context.tool("bus.topic_close", topic_id=context.topic_id, reason=context.options.reason)
    return Report(result.data, result.text)


def rename(context: Context) -> Report:
    topic = context.app.topics.rename(context.topic_id, context.options.new_name)
    return Report(bus_view.topic(topic), f"{topic.topic_id} is now called {one_line(topic.name)}.")


def free(context: Context) -> Report:
    caller, name = context.caller, context.options.name
    topic_id = context.topic_id
    context.app.messages.free_name(topic_id, name, f"{caller.agent_id} ({caller.name})")
    return Report({"topic_id": topic_id, "agent_name": name}, f"{one_line(name)} is free on {topic_id}.")
