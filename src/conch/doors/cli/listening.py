"""The command that waits for anything: `conch listen`."""

from __future__ import annotations

from conch.calls import Call
from conch.doors.cli.context import Context
from conch.doors.cli.guardian import keep_lease
from conch.doors.cli.interruptions import Interruptions
from conch.doors.cli.messages import message_texts
from conch.doors.cli.output import Report, failure, local_moments
from conch.doors.cli.turns import interrupted, not_ours, your_turn_text
from conch.notices.delivery import News
from conch.tools.bus_view import reader
from conch.tools.replies import Delivery, Object, Reply
from conch.tools.scopes_view import event_text


def listen(context: Context) -> Report:
    """Wait for a turn, a takeover or news. What is printed counts as shown."""
    call, timeout = Call(), context.options.timeout
    context.session.is_bounded = True
    given: Object = {} if timeout is None else {"wait_seconds": int(timeout + 0.999)}
    interruptions = Interruptions(call)
    reply = interruptions.wait(lambda: context.tool("listening.listen", call, **given))
    if reply is None:
        return interrupted(interruptions)
    return _report(context, reply)._replace(printing=interruptions.raised)


def _report(context: Context, reply: Reply) -> Report:
    status, data, delivery = reply.data["status"], reply.data, reply.delivery
    if status == "timeout":
        free = " The stick is free; `conch wait` claims it." if "free_room_id" in data else ""
        return failure("timeout", f"Nothing is new for you.{free}", data)
    if status == "news":
        return Report(data, "\n".join(_news_texts(context, reply.shown)), delivery=delivery)
    if status == "takeover_available":
        return not_ours(reply)._replace(delivery=delivery)
    keeping = Delivery(sent=lambda: keep_lease(context, data), not_sent=delivery.not_sent)
    return Report(data, your_turn_text(context, reply), delivery=keeping)


def _news_texts(context: Context, news: News) -> list[str]:
    texts = [local_moments(event_text(event)) for event in news.notices]
    texts += message_texts(context, news.talk, reader(news)) if news.talk else []
    return [*texts, "There is more: run `conch listen` again."] if news.has_more else texts
