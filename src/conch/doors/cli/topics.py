"""The commands about topics: create, list, show, close, rename, export."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from conch.bus.peers import NO_PEER, Presence
from conch.bus.topics import Topic
from conch.doors.cli.context import Context
from conch.doors.cli.messages import whole_json
from conch.doors.cli.output import Report, as_report, give_up, moment_text, short_duration
from conch.doors.cli.paging import page, rows
from conch.doors.cli.tables import table
from conch.errors import InvalidArgument, StoreInterrupted, StoreUnavailable
from conch.lean import TextIO
from conch.tools import bus_view
from conch.tools.exporting import export_markdown, export_objects
from conch.tools.fields import parse_cursor
from conch.tools.text import MARGIN, one_line

_WINDOW_SECONDS = 3_600
_LONGEST_ECHO = 200


def create(context: Context) -> Report:
    return as_report(context.tool("bus.topic_create", name=context.options.name))


def list_topics(context: Context) -> Report:
    options = context.options
    found = context.app.topics.list(bus_view.STATUSES[options.status], rows(context), options.after)
    return page(context, found, _topics, lambda each: each[0].topic_id)


def _topics(found: Sequence[tuple[Topic, int]]) -> Report:
    data = {"topics": [{**bus_view.topic(topic), "message_count": count} for topic, count in found]}
    cells = [(topic.topic_id, topic.status, str(count), moment_text(topic.created_at)) for topic, count in found]
    if not cells:
        return Report(data, "No topics.")
    names = [topic.name for topic, _ in found]
    return Report(data, table(("TOPIC", "STATUS", "MESSAGES", "SINCE"), cells, below=names))


def show(context: Context) -> Report:
    topic_id = context.topic_id
    topic = context.app.topics.find(topic_id)
    place = parse_cursor("after", context.options.after)
    peers = context.app.peers.list_present(
        topic_id, _WINDOW_SECONDS, rows(context), NO_PEER if place is None else place
    )
    return page(context, peers, lambda few: _topic(topic, few), lambda peer: peer.peer_id)


def _topic(topic: Topic, present: Sequence[Presence]) -> Report:
    peers = sorted(present, key=lambda peer: peer.age_seconds)
    data = {**bus_view.topic(topic), "peers": [bus_view.presence(peer) for peer in peers]}
    lines = [f"{topic.topic_id}: {one_line(topic.name)}", f"{topic.status} since {moment_text(topic.created_at)}"]
    if topic.closed_at is not None:
        lines[-1] = f"closed {moment_text(topic.closed_at)}" + (
            f": {one_line(topic.close_reason)}" if topic.close_reason else ""
        )
    cells = [(peer.label, f"#{peer.last_seq}", short_duration(peer.age_seconds) + " ago") for peer in peers]
    return Report(
        data, "\n".join([*lines, "", table(("AGENT", "READ UP TO", "SEEN"), cells, margin=MARGIN)] if cells else lines)
    )


def close(context: Context) -> Report:
    return as_report(context.tool("bus.topic_close", topic_id=context.topic_id, reason=context.options.reason))


def rename(context: Context) -> Report:
    topic = context.app.topics.rename(context.topic_id, context.options.new_name)
    return Report(bus_view.topic(topic), f"{topic.topic_id} is now called {one_line(topic.name)}.")


# -- `conch topics export`


def export(context: Context) -> Report:
    """Read page by page, so that a topic of any size fits into memory."""
    options, topic_id = context.options, context.topic_id
    if options.output is None and options.json:
        raise InvalidArgument(
            "--json needs --output FILE, because standard output carries the JSON object.", field="output"
        )
    whole = (f"{whole_json(each)}\n" for each in export_objects(context.app, topic_id))
    lines = whole if options.format == "jsonl" else export_markdown(context.app, topic_id)
    if options.output is not None:
        return _export_to_file(topic_id, lines, options.output)
    try:
        _write(sys.stdout, lines)
    except StoreInterrupted as lost:  # some lines are already printed, so the command must not run again
        raise StoreUnavailable(lost.message, **lost.details) from lost
    except OSError as problem:
        return Report(None, "", status=give_up(problem), is_printed=True)
    return Report(None, "", is_printed=True)


def _export_to_file(topic_id: str, lines: Iterator[str], path: str) -> Report:
    shown = repr(path[:_LONGEST_ECHO])
    try:
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            count = _write_whole(file, lines, path)
    except FileExistsError:
        raise InvalidArgument(f"{shown} already exists; name a new file.", field="output") from None
    except OSError as problem:
        raise InvalidArgument(f"{shown} cannot be written: {problem.strerror}.", field="output") from None
    data = {"topic_id": topic_id, "messages": count, "path": os.path.abspath(path)}
    return Report(data, f"Wrote {count} message{'s' * (count != 1)} to {one_line(path)}.")


def _write_whole(file: TextIO, lines: Iterator[str], path: str) -> int:
    try:
        return _write(file, lines)
    except BaseException:
        os.unlink(path)  # half an export must not look complete
        raise


def _write(file: TextIO, lines: Iterator[str]) -> int:
    """Write the lines; returns how many messages they hold."""
    count = -1  # the first line is the topic itself
    for line in lines:
        file.write(line)
        count += 1
    file.flush()
    return count
