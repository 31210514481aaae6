"""One plain message, sent in a single round trip where the store is a server.

Most messages are plain. The others ask, reply, or are addressed to someone, so more is stored with them.
"""

from __future__ import annotations

from conch.bells.base import topic_channel
from conch.bus.drafts import Draft
from conch.bus.peers import Peer, Standing, is_fresh
from conch.ids import new_id
from conch.lean import NamedTuple
from conch.storage.base import Afterwards, Query, Reader, Row, Store


class Posted(NamedTuple):
    peer: Peer
    standing: Standing
    """As it was before the message."""
    message: Row
    """The fields of the message."""
    reader: Reader
    """Has the answers to the queries that were asked after the message."""


def is_plain(draft: Draft) -> bool:
    addressed = draft.metadata_json is not None and '"to"' in draft.metadata_json
    return draft.reply_to is None and draft.message_type != "question" and not addressed


def post(store: Store, peer: Peer, peer_id: int, draft: Draft, number: int, *afterwards: Query) -> Posted | None:
    """Send a plain message, and ask these queries afterwards.

    None if nothing was sent: the store is not a server, or it refuses the message. A transaction then says why.
    `number` is how many times the store has been replaced so far. `peer_id` may be a guess: if it is wrong, nothing is
    sent.
    """
    columns: Row = {
        "message_id": new_id("msg"),
        "topic_id": peer.topic_id,
        "message_type": draft.message_type,
        "content_markdown": draft.content_markdown,
        "metadata_json": draft.metadata_json,
        "client_message_id": draft.client_message_id,
    }
    own: Row = {"peer_id": peer_id, "agent_id": peer.agent_id if peer.peer_id is None else None}
    rings = [] if draft.message_type == "ack" else [topic_channel(peer.topic_id)]  # an acknowledgement wakes no waiter
    again: Query = ("posted_message", {"message_id": columns["message_id"]})
    asked = [again] if draft.client_message_id else []  # it may be a repeated one, and is then not stored
    rows = store.write_at_once([peer.topic_id], [("post_message", columns | own)], rings, [*afterwards, *asked])
    if rows is None:
        return None
    found, *answers = rows
    # There is no row either if an earlier attempt has stored the message, and only the answer was lost.
    row = next(iter(found or (answers[-1] if asked and answers else store.glance(again[0], **again[1]))), None)
    if row is None:
        return None
    message = columns | {
        "seq": row["seq"],
        "sender": row["name"],
        "reply_to": None,
        "created_at": row["created_at"],
        "sender_agent_id": peer.agent_id or None,
    }
    fresh = is_fresh(row["updated_at"], row["created_at"])
    standing = Standing("open", row["seq"] - 1, row["last_seq"], fresh, row["resets"], number)
    reader = Afterwards(store, row["created_at"], zip(afterwards, answers, strict=False))
    return Posted(peer._replace(peer_id=peer_id, agent_name=row["name"]), standing, message, reader)
