"""The group `bus`: tools for topics and messages."""

from __future__ import annotations

from functools import partial

from conch import __version__
from conch.bus.drafts import FIELDS, check_outbox
from conch.bus.peers import NO_PEER
from conch.calls import Call
from conch.clock import to_seconds
from conch.lean import TYPE_CHECKING
from conch.tools import bus_view as view
from conch.tools import fields
from conch.tools.registry import Tool, grouped
from conch.tools.replies import NOTHING_DELIVERED, NOTHING_FOLLOWS, Delivered, Object, QueuedDelivery, Reply, known
from conch.tools.session import Session
from conch.tools.text import MARGIN, one_line
from conch.warnings import Warnings, warning

if TYPE_CHECKING:
    from conch.bus.sync import Synced

_SPEC_VERSION = "v6.3"
_JOIN_TOPIC = "Call `topic_join` to take a name there."
_MOST_ITEMS = 1_000
_FEW_ITEMS = 20
_MANY_PEERS = 200
_WINDOW = 300  # seconds


_PING_TOLD = frozenset(("ok", "spec_version", "package_version"))


def ping(session: Session, given: Object, call: Call) -> Reply:
    data = {"ok": True, "spec_version": _SPEC_VERSION, "package_version": __version__, "warnings": []}
    return Reply(data, f"ok, spec {_SPEC_VERSION}, conch {__version__}", told=_PING_TOLD)


def topic_create(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    topic, created = session.app.topics.create(given.get("name"), given.get("metadata"), given.get("mode", "reuse"))
    warnings = []
    if not created and given.get("metadata") is not None:
        warnings.append(warning("METADATA_IGNORED", "The topic already existed; its metadata was not changed."))
    data = {"topic_id": topic.topic_id, "name": topic.name, "status": topic.status, "created": created}
    text = f"{'Created' if created else 'Found'} topic {topic.topic_id} ({one_line(topic.name)})."
    return Reply({**data, "warnings": warnings}, text, next=_JOIN_TOPIC)


def topic_list(session: Session, given: Object, call: Call) -> Reply:
    budget, after = session.budget(), given.get("after")
    found = session.app.topics.list(view.STATUSES[given.get("status", "open")], budget.rows, after)
    page = budget.fill(
        found, lambda each: {**view.topic(each[0]), "message_count": each[1]}, lambda each: view.topic_line(*each)
    )
    cursor = page.cursor([topic.topic_id for topic, _ in found])
    data = known(topics=page.counted, has_more=page.has_more, cursor=cursor, warnings=[])
    following = page.next(cursor, "" if found or after else "Call `topic_create` to create one.")
    return Reply(data, page.text("No topics."), next=following)


def topic_resolve(session: Session, given: Object, call: Call) -> Reply:
    topic = session.app.topics.resolve(given["name"], given.get("allow_closed", False))
    data = {"topic_id": topic.topic_id, "name": topic.name, "status": topic.status, "warnings": []}
    return Reply(data, f"{topic.topic_id} ({one_line(topic.name)}, {topic.status})", next=_JOIN_TOPIC)


def topic_close(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    topic, was_open = session.app.topics.close(given["topic_id"], given.get("reason"))
    warnings = [] if was_open else [warning("ALREADY_CLOSED", "The topic was already closed; nothing changed.")]
    data = known(
        topic_id=topic.topic_id,
        status=topic.status,
        closed_at=to_seconds(topic.closed_at),
        close_reason=topic.close_reason,
        warnings=warnings,
    )
    return Reply(data, f"Topic {topic.topic_id} {'was already' if warnings else 'is now'} closed.")


def topic_join(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    joined = session.app.peers.join(
        session.caller(),
        given["agent_name"],
        given.get("topic_id"),
        given.get("name"),
        given.get("reclaim_token") or _kept_token(session, given),
        given.get("allow_closed", False),
    )
    session.take_name(joined.peer)
    session.keep_token(joined.topic.topic_id, joined.peer.agent_name, joined.reclaim_token)
    topic = joined.topic
    data = {
        "topic_id": topic.topic_id,
        "name": topic.name,
        "status": topic.status,
        "agent_name": joined.peer.agent_name,
        "reclaim_token": joined.reclaim_token,
        "warnings": [],
    }
    text = (
        f"You are {one_line(joined.peer.label)} on topic {topic.topic_id} ({one_line(topic.name)}). "
        f"Keep this token to get the name back after a restart: reclaim_token={joined.reclaim_token}"
    )
    following = session.say("Call `sync` to read the topic, and to send to it.")
    return Reply(data, text, next=following or "Call `pending_list` to find questions for you.")


def _kept_token(session: Session, given: Object) -> str | None:
    """The token of a name that this connection took before. Its reply may have been lost, so the client may lack it."""
    topic_id = given.get("topic_id")
    if topic_id is None and "name" in given:
        topic_id = session.app.topics.resolve(given["name"], given.get("allow_closed", False)).topic_id
    return session.kept_token(topic_id or "", given["agent_name"])


_LISTED = frozenset(("peers", "received", "sent"))  # each of their items has its own text


def topic_presence(session: Session, given: Object, call: Call) -> Reply:
    after, limit = fields.parse_cursor("after", given.get("after")), given.get("limit", _MANY_PEERS)
    window = given.get("window_seconds", _WINDOW)
    peers = session.app.peers.list_present(given["topic_id"], window, limit + 1, after or NO_PEER)
    page = session.budget().fill(peers, view.presence, view.presence_line, limit, told=view.PRESENCE_TOLD)
    cursor = page.cursor([peer.peer_id for peer in peers])
    data = known(topic_id=given["topic_id"], peers=page.counted, has_more=page.has_more, cursor=cursor, warnings=[])
    text = f"{page.text('No peer was active recently.')}\n{MARGIN}topic_id={one_line(given['topic_id'])}"
    return Reply(data, text, next=page.next(cursor), told=_PRESENCE_TOLD)


def cursor_reset(session: Session, given: Object, call: Call) -> Reply:
    call.check()
    topic_id = given["topic_id"]
    session.replies.wait(topic_id)  # a reply on its way out still moves the cursor
    cursor = session.app.peers.reset_cursor(session.peer(topic_id), given.get("last_seq", 0))
    data = {"topic_id": topic_id, "last_seq": cursor, "cursor": cursor, "warnings": []}
    return Reply(data, f"You have now read up to #{cursor}.", next="Call `sync` to read from there.")


_PRESENCE_TOLD = _LISTED | {"topic_id"}
_SYNC_TOLD = _LISTED | {"status", "cursor", "topic_id"}


def sync(session: Session, given: Object, call: Call) -> Reply:
    app, topic_id = session.app, given["topic_id"]
    auto_advance, ack_through = given.get("auto_advance", True), given.get("ack_through")
    outbox = check_outbox(given.get("outbox", []), app.settings)
    session.replies.wait(topic_id)  # otherwise the same messages might be returned twice
    budget = session.budget()
    synced = app.messages.sync(
        session.peer(topic_id),
        outbox,
        max_items=given.get("max_items", _FEW_ITEMS),
        max_chars=budget.chars,
        include_self=given.get("include_self", False),
        wait_seconds=session.patience(call).wait_seconds(given.get("wait_seconds", 60)),
        ack_through=None if auto_advance else ack_through,  # with auto_advance, the reply moves the cursor
        call=call,
    )
    warnings = budget.warn(_sync_warnings(session, synced, ignored_ack=auto_advance and ack_through is not None))
    sent, sent_lines = view.echo(synced.sent, budget)
    page, peer = synced.page, synced.page.peer
    called = page.called
    received = budget.fill(
        page.received,
        lambda each: view.received(each, peer),
        lambda each: view.received_text(each, peer, called),
        told=view.RECEIVED_TOLD,
    )
    page = page.cut(received.length)  # the others stay unread
    if page is not synced.page:
        synced = synced._replace(page=page)
    cursor = page.last_seq if auto_advance else page.standing.last_seq
    data = {
        "topic_id": topic_id,
        "status": synced.status,
        "received": received.counted,
        "sent": sent,
        "cursor": cursor,
        "has_more": page.has_more,
        "warnings": warnings,
    }
    end = f"status={synced.status} cursor={cursor}\n{MARGIN}topic_id={one_line(topic_id)}"
    text = "\n".join([*received.lines, *sent_lines, end])
    moves = auto_advance and bool(page.received)
    delivered = NOTHING_DELIVERED
    if page.received:
        questions = tuple([each.message_id for each in page.received if each.message_type == "question"])
        delivered = Delivered(topic_id, page.last_seq, page.sent_by_others(), ids=questions)

    def settle() -> None:
        app.messages.settle(synced, auto_advance)
        session.brought.add(delivered)

    delivery = NOTHING_FOLLOWS
    if page.received or not synced.is_settled(auto_advance):
        # A delivery is kept for a while, so this task must not hold on to the messages.
        retract = partial(app.messages.retract, peer, page.standing) if moves else None
        delivery = QueuedDelivery(session.replies, topic_id, sent=settle, retracted=retract)
    return Reply(data, text, delivery, next=view.after_sync(page), delivered=delivered, shown=page, told=_SYNC_TOLD)


def _sync_warnings(session: Session, synced: Synced, ignored_ack: bool) -> Warnings:
    warnings: Warnings = []
    if ignored_ack:
        warnings.append(warning("ACK_IGNORED", "ack_through was ignored: it needs auto_advance=false."))
    if synced.sent:
        warnings += view.sent_warnings(session.app.peers, synced.page.peer.topic_id, synced.sent)
    if synced.page.standing.status == "closed":
        warnings.append(view.topic_closed())
    if synced.trouble is not None:
        message = (
            f"The messages were sent. Then the store failed, so there may be more to read: {synced.trouble.message}"
        )
        warnings.append(warning(synced.trouble.code, message))
    return warnings


_NAME: Object = {"type": "string", "minLength": 1}
_TOPIC_ID: Object = {"type": "string", "minLength": 1, "maxLength": fields.LONGEST_ID}
_SEQ: Object = {"type": "integer", "minimum": 0, "maximum": fields.LARGEST}
_OUTGOING: Object = {
    "type": "object",
    "properties": {
        "content_markdown": {"type": "string"},
        "message_type": {
            "type": ["string", "null"],
            "enum": ["message", "question", "answer", "ack", None],
            "description": "Default message.",
        },
        "reply_to": {"type": ["string", "null"], "description": "The message_id that this answers."},
        "metadata": {"type": ["object", "null"], "description": "{to: the name or names it is for}"},
        "client_message_id": {
            "type": ["string", "null"],
            "description": "Your own id: a second message with it is not sent.",
        },
    },
    "required": ["content_markdown"],
}
assert tuple(_OUTGOING["properties"]) == FIELDS  # the schema must list what `check_outbox` accepts

TOOLS = grouped(
    "bus",
    Tool(
        ping,
        "Ping",
        "Check that the server answers; returns its versions.",
        fields.takes(),
        fields.READS,
        needs_store=False,
    ),
    Tool(
        topic_create,
        "Create a topic",
        "Create a topic, or return the newest open topic with that name.",
        fields.takes(
            name={**_NAME, "description": "Default: a generated name."},
            metadata={"type": "object", "description": "Anything about the topic."},
            mode={"type": "string", "enum": ["reuse", "new"], "description": "Default reuse."},
        ),
        fields.REPEATABLE,
    ),
    Tool(
        topic_list,
        "List topics",
        "List topics, newest first.",
        fields.takes(
            status={"type": "string", "enum": list(view.STATUSES), "description": "Default open."}, after=fields.AFTER
        ),
        fields.READS,
    ),
    Tool(
        topic_resolve,
        "Find a topic",
        "Find the newest open topic with this name.",
        fields.takes({"name": _NAME}, allow_closed=fields.flag("Find a closed one if none is open.")),
        fields.READS,
    ),
    Tool(
        topic_close,
        "Close a topic",
        "Close a topic. It stays readable, and pending questions can still be answered.",
        fields.takes({"topic_id": _TOPIC_ID}, reason={"type": "string"}),
        {**fields.DESTROYS, "idempotentHint": True},
    ),
    Tool(
        topic_join,
        "Take a name on a topic",
        "Take a name on a topic, to read it and to speak there. A room's home topic needs no name: `join_path` "
        "joined it. Keep the reclaim_token: it gets your name back after a restart.",
        fields.takes(
            {"agent_name": {**_NAME, "description": "Your name there."}},
            topic_id=_TOPIC_ID,
            name={**_NAME, "description": "The topic's name, instead of topic_id."},
            reclaim_token={**_TOPIC_ID, "description": "The token of a name you had."},
            allow_closed=fields.flag("Join it even if it is closed."),
        ),
        fields.WRITES,
    ),
    Tool(
        topic_presence,
        "Who is on a topic",
        "List the peers that were active recently.",
        fields.takes(
            topic_id=fields.TOPIC_ID,
            window_seconds={"type": "integer", "minimum": 1, "maximum": 2**31, "description": f"Default {_WINDOW}."},
            limit=fields.limit(_MOST_ITEMS, _MANY_PEERS),
            after=fields.AFTER,
        ),
        fields.READS,
    ),
    Tool(
        cursor_reset,
        "Read again",
        "Move your cursor, to read messages again or to skip some.",
        fields.takes(
            topic_id=fields.TOPIC_ID,
            last_seq={**_SEQ, "description": "The last seq to skip. Default 0: read all."},
        ),
        fields.REPEATABLE,
    ),
    Tool(
        sync,
        "Send and receive messages",
        "Check for messages: send the outbox, then receive what is new to you, oldest first. Waits if there is "
        "nothing. Answer a question with message_type=answer and reply_to. A message can arrive twice, with the same "
        "message_id.",
        fields.takes(
            topic_id=fields.TOPIC_ID,
            outbox={"type": "array", "items": _OUTGOING},
            max_items=fields.limit(_MOST_ITEMS, _FEW_ITEMS),
            include_self=fields.flag("Your own messages too."),
            wait_seconds=fields.WAIT_SECONDS,
            auto_advance=fields.flag("Default true: what you get counts as read."),
            ack_through={**_SEQ, "description": "The last seq you read, if auto_advance=false."},
        ),
        fields.WRITES,
    ),
)
