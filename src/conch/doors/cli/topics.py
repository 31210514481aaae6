"""The commands around topics and the names on them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TextIO

from conch.clock import SECOND
from conch.doors.cli.context import Context
from conch.doors.cli.output import Report, clean, give_up, one_line, table
from conch.doors.cli.speech import whole_json
from conch.doors.cli.wording import duration, local_time
from conch.errors import InvalidArgument
from conch.messages import Message
from conch.tools import bus_shapes as shapes

MOST_TOPICS = 1_000
LONGEST_ECHO = 200
WINDOW_SECONDS = 3_600
STATUSES = {"open": ["open"], "closed": ["closed"], "all": ["open", "closed"]}


def create(context: Context) -> Report:
    result = context.tool("topic_create", name=context.options.name)
    return Report(result.data, result.text)


def list_topics(context: Context) -> Report:
    found = context.app.topics.list(STATUSES[context.options.status], MOST_TOPICS)
    data = {"topics": [{**shapes.topic(topic), "message_count": count} for topic, count in found]}
    rows = [(topic.topic_id, topic.status, str(count), local_time(topic.created_at)) for topic, count in found]
    if not rows:
        return Report(data, "No topics.")
    return Report(data, table(("TOPIC", "STATUS", "MESSAGES", "SINCE"), rows, below=[topic.name for topic, _ in found]))


def show(context: Context) -> Report:
    topic_id = context.topic_id()
    topic = context.app.topics.find(topic_id)
    peers = context.app.peers.list_present(topic_id, WINDOW_SECONDS, MOST_TOPICS)
    present = [{**peer._asdict(), "updated_at": peer.updated_at / SECOND} for peer in peers]
    data = {**shapes.topic(topic), "peers": present}
    lines = [f"{topic.topic_id}: {one_line(topic.name)}", f"{topic.status} since {local_time(topic.created_at)}"]
    if topic.closed_at is not None:
        lines[-1] = f"closed {local_time(topic.closed_at)}" + (
            f": {one_line(topic.close_reason)}" if topic.close_reason else ""
        )
    rows = [(peer.agent_name, f"#{peer.last_seq}", duration(peer.age_seconds) + " ago") for peer in peers]
    return Report(data, "\n".join([*lines, "", table(("NAME", "HAS READ TO", "SEEN"), rows)] if rows else lines))


def close(context: Context) -> Report:
    result = context.tool("topic_close", topic_id=context.topic_id(), reason=context.options.reason)
    return Report(result.data, result.text)


def rename(context: Context) -> Report:
    topic = context.app.topics.rename(context.topic_id(), context.options.new_name)
    return Report(shapes.topic(topic), f"{topic.topic_id} is now called {one_line(topic.name)}.")


def free(context: Context) -> Report:
    caller, name = context.session.caller(), context.options.name
    topic_id = context.topic_id()
    context.app.messages.free_name(topic_id, name, f"{caller.agent_id} ({caller.name})")
    return Report({"topic_id": topic_id, "agent_name": name}, f"{one_line(name)} is free on {topic_id}.")


# -- export


def export(context: Context) -> Report:
    """Page by page, so that a topic of any size fits."""
    options, topic_id = context.options, context.topic_id()
    if options.output is None and options.json:
        raise InvalidArgument("--json tells about the export; name a file for it with --output.", field="output")
    lines = _jsonl(context, topic_id) if options.format == "jsonl" else _markdown(context, topic_id)
    if options.output is not None:
        return _export_to_file(topic_id, lines, options.output)
    try:
        _write(sys.stdout, lines)
    except OSError as problem:
        return Report(None, "", status=give_up(problem), is_printed=True)
    return Report(None, "", is_printed=True)


def _export_to_file(topic_id: str, lines: Iterator[str], path: str) -> Report:
    shown = repr(path[:LONGEST_ECHO])
    try:
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            count = _write_whole(file, lines, path)
    except FileExistsError:
        raise InvalidArgument(f"{shown} exists already; name a new file.", field="output") from None
    except OSError as problem:
        raise InvalidArgument(f"{shown} cannot be written: {problem.strerror}.", field="output") from None
    data = {"topic_id": topic_id, "messages": count, "path": os.path.abspath(path)}
    return Report(data, f"Wrote {count} message{'s' * (count != 1)} to {path}.")


def _write_whole(file: TextIO, lines: Iterator[str], path: str) -> int:
    try:
        return _write(file, lines)
    except BaseException:
        os.unlink(path)  # half an export could pass for a whole one
        raise


def _write(file: TextIO, lines: Iterator[str]) -> int:
    """How many messages were written."""
    count = -1  # the first line is the topic itself
    for line in lines:
        file.write(line)
        count += 1
    file.flush()
    return count


def _jsonl(context: Context, topic_id: str) -> Iterator[str]:
    topic = context.app.topics.find(topic_id)
    yield whole_json({"kind": "topic", **shapes.topic(topic)}) + "\n"
    for message in context.app.messages.history(topic_id):
        yield whole_json({"kind": "message", **shapes.message(message)}) + "\n"


def _markdown(context: Context, topic_id: str) -> Iterator[str]:
    topic = context.app.topics.find(topic_id)
    yield f"# {one_line(topic.name)}\n\n`{topic.topic_id}`, {topic.status}, since {local_time(topic.created_at)}\n"
    for message in context.app.messages.history(topic_id):
        yield _section(message)


def _section(message: Message) -> str:
    """The words stay as they are, but whatever a terminal would obey."""
    to = f" to {', '.join(message.addressees)}" if message.addressees else ""
    kind = "" if message.message_type == "message" else f" ({message.message_type})"
    head = one_line(f"{message.seq}. {message.sender}{to}{kind}")
    reply = f"in reply to `{message.reply_to}`, " if message.reply_to else ""
    facts = f"*{reply}{local_time(message.created_at)}, `{message.message_id}`*"
    return f"\n## {head}\n\n{facts}\n\n{clean(message.content_markdown)}\n"


COMMANDS = {
    "topics create": create,
    "topics list": list_topics,
    "topics show": show,
    "topics close": close,
    "topics rename": rename,
    "topics export": export,
    "names free": free,
}
