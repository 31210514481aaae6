"""The command `send`. Agents run it often, so it imports little."""

from __future__ import annotations

from conch.bus.drafts import check_outbox
from conch.doors.cli.context import Context
from conch.doors.cli.messages import find_message, on_topic, read_text
from conch.doors.cli.output import Report
from conch.errors import InvalidArgument
from conch.tools import bus_view, fields
from conch.tools.replies import Object
from conch.tools.schema import check_arguments
from conch.tools.text import one_line

_OUTBOX = fields.takes(outbox={"type": "array", "items": {"type": "object"}})


def send(context: Context) -> Report:
    topic_id = context.topic_id
    outbox = [_outgoing(context, topic_id)]
    check_arguments("conch send", _OUTBOX, {"outbox": outbox})
    sent = context.app.messages.send(context.join_topic(topic_id), check_outbox(outbox, context.app.settings))
    warnings = [_warning(context, each) for each in bus_view.sent_warnings(context.app.peers, topic_id, sent)]
    if sent[0].is_repeated and context.app.topics.find(topic_id).status == "closed":  # a new one would be refused
        warnings.append(bus_view.topic_closed())
    message = bus_view.message(sent[0].message)
    verb, who = "Already sent" if sent[0].is_repeated else "Sent", sent[0].message.sender_label
    lines = [f"{verb} as {who}, number {message['seq']}."]
    lines += [f"Warning: {one_line(warning['message'])}" for warning in warnings]
    return Report({"message": message, "warnings": warnings}, "\n".join(lines))


def _outgoing(context: Context, topic_id: str) -> Object:
    options = context.options
    item: Object = {"content_markdown": read_text(options.text), "message_type": options.type}
    if options.reply_to is not None:
        item["reply_to"] = find_message(context, topic_id, options.reply_to)
        if item["reply_to"] is None:
            raise InvalidArgument(f"There is no message number {options.reply_to} on this topic.", field="reply_to")
    if options.to:
        known = context.app.peers.find_called(topic_id, set(options.to))
        item["metadata"] = {"to": [known[to].name if to in known else to for to in options.to]}
    if options.key is not None:
        item["client_message_id"] = options.key
    return item


def _warning(context: Context, warning: Object) -> Object:
    """The same warning in the words of the command line."""
    message = warning["message"]
    if warning["code"] == "UNKNOWN_ADDRESSEE":
        message += f" `{on_topic(context, 'conch topics show', '')}` lists the names."
    elif warning["code"] == "ALREADY_SENT":
        message = f"#{warning['context']['seq']} was already sent with this key, so nothing was sent."
    return {**warning, "message": message}
