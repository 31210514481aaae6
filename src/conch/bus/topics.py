"""Topics: named streams of messages, and the home topic of every room."""

from __future__ import annotations

import os
from functools import partial

from conch.agents.records import find_like, likeness, note_name
from conch.bells.base import directory_channel, topic_channel
from conch.config import Settings, check_length
from conch.errors import Advice, InvalidArgument, LimitExceeded, TopicClosed, TopicNotFound, no_cursor
from conch.ids import new_id
from conch.lean import Any, Literal, NamedTuple, json
from conch.storage.base import LAST, Row, Store, Transaction

NAMES_LOCK = "topic names"  # held to create or rename a topic, so that two writers cannot take the same name
_LONGEST_NAME = 200

_Mode = Literal["reuse", "new"]


class Topic(NamedTuple):
    topic_id: str
    name: str
    created_at: int
    status: str
    closed_at: int | None
    close_reason: str | None
    metadata_json: str | None
    mode: str

    @property
    def metadata(self) -> dict[str, Any] | None:
        return None if self.metadata_json is None else json.loads(self.metadata_json)

    @property
    def is_home(self) -> bool:
        """Whether it is the topic of a room, which closes with the room."""
        return self.mode == "home"


class Topics:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    def create(self, name: str | None, metadata: dict[str, Any] | None, mode: _Mode) -> tuple[Topic, bool]:
        """A topic with this name, and whether it is new. `reuse` returns the newest open one if there is one."""
        topic_id, is_named = new_id("topic"), name is not None
        name = f"topic-{topic_id.partition('_')[2]}" if name is None else check_topic_name(name)
        text = dump_metadata("metadata", metadata, self._settings)
        # Usually the topic exists, so look without the lock first.
        if mode == "reuse" and (found := self._find_open(name)):
            return found, False

        def make() -> tuple[Topic, bool]:
            with self._store.write(NAMES_LOCK) as tx:
                found = None if mode == "new" else _newest_named(tx, name, "open")
                if found is not None:
                    return found, False
                if is_named:
                    require_distinct(tx, name)
                insert_topic(tx, topic_id, name, text, mode, tx.now)
                return Topic(topic_id, name, tx.now, "open", None, None, text, mode), True

        return self._store.briefly(make)

    def _find_open(self, name: str) -> Topic | None:
        with self._store.look() as tx:
            return _newest_named(tx, name, "open")

    def list(self, statuses: list[str], limit: int, after: str | None = None) -> list[tuple[Topic, int]]:
        """Newest first, each with the number of its messages; with `after`, those that follow this topic."""
        with self._store.read() as tx:
            moment = LAST if after is None else _moment_of(tx, after)
            given = {"moment": moment, "after": after or "", "limit": limit}
            rows = tx.all("topics_newest_first", statuses=statuses, **given)
        return [(_topic(row), count) for row in rows for count in [row.pop("message_count")]]

    def find(self, topic_id: str) -> Topic:
        with self._store.look() as tx:
            return find_topic(tx, topic_id)

    def resolve(self, name: str, allow_closed: bool = False) -> Topic:
        """The newest open topic with this name. If none is open, `allow_closed` returns the newest closed one."""
        with self._store.read() as tx:
            return resolve(tx, name, allow_closed)

    def close(self, topic_id: str, reason: str | None) -> tuple[Topic, bool]:
        """End a topic: it takes no new messages or names. Also returns whether it was open."""
        check_length("reason", reason or "", self._settings.max_reason_chars, "max_reason_chars")
        with self._store.write(topic_id) as tx:
            topic = find_topic(tx, topic_id)
            if topic.is_home and topic.status == "open":
                message = f"{topic_id} is the home topic of a room and closes with the room."
                raise InvalidArgument(message, Advice("close_room"), field="topic_id")
            close_topic(tx, topic_id, reason)
            if topic.status != "open":
                return topic, False
            return topic._replace(status="closed", closed_at=tx.now, close_reason=reason), True

    def rename(self, topic_id: str, name: str) -> Topic:
        return self._store.briefly(partial(self._rename, topic_id, check_topic_name(name)))

    def _rename(self, topic_id: str, name: str) -> Topic:
        with self._store.write(NAMES_LOCK) as tx:
            topic = find_topic(tx, topic_id)
            if topic.is_home:
                raise InvalidArgument("The home topic of a room is named after its path.", field="topic_id")
            # `resolve` finds only the newest open topic of a name, so the other one would be hidden.
            other = _newest_named(tx, name, "open")
            if other is not None and other.topic_id != topic_id and topic.status == "open":
                message = f"An open topic already has this name: {other.topic_id}."
                raise InvalidArgument(message, field="name", topic_id=other.topic_id)
            require_distinct(tx, name)
            tx.run("rename_topic", topic_id=topic_id, name=name)
            tx.ring(topic_channel(topic_id))
            note_name(tx, name)
            return topic._replace(name=name)


def make_home(tx: Transaction, topic_id: str, path: str) -> None:
    """Create the topic of a new room, named after its path."""
    tx.run("insert_home", topic_id=topic_id)
    tx.run("insert_home_seq", topic_id=topic_id)
    _note_topic(tx, path)


def insert_topic(
    tx: Transaction, topic_id: str, name: str, metadata_json: str | None, mode: str, created_at: int
) -> None:
    tx.run("insert_topic", topic_id=topic_id, name=name, metadata_json=metadata_json, mode=mode, now=created_at)
    tx.run("insert_topic_seq", topic_id=topic_id, now=created_at)
    _note_topic(tx, name)


def _note_topic(tx: Transaction, name: str) -> None:
    note_name(tx, name)
    tx.ring(directory_channel())


def close_topic(tx: Transaction, topic_id: str, reason: str | None) -> None:
    """Close a topic, unless it is closed, and wake the agents that wait on it."""
    tx.ring(topic_channel(topic_id))
    tx.run("close_topic", topic_id=topic_id, reason=reason, now=tx.now)


def find_topic(tx: Transaction, topic_id: str) -> Topic:
    row = tx.one("find_topic", topic_id=topic_id)
    if row is None:
        message = f"There is no topic {topic_id!r}."
        raise TopicNotFound(message, Advice("find_topics"), field="topic_id", topic_id=topic_id)
    return _topic(row)


def _moment_of(tx: Transaction, topic_id: str) -> int:
    row = tx.one("find_topic", topic_id=topic_id)
    if row is None:
        raise no_cursor()
    return int(row["created_at"])


def _newest_named(tx: Transaction, name: str, status: str) -> Topic | None:
    row = tx.one("newest_topic_named", name=name, status=status)
    return None if row is None else _topic(row)


def resolve(tx: Transaction, name: str, allow_closed: bool) -> Topic:
    topic = _newest_named(tx, name, "open") or (_newest_named(tx, name, "closed") if allow_closed else None)
    if topic is None:
        message = f"There is no open topic named {name[:80]!r}."
        raise TopicNotFound(message, Advice("create_topic"), field="name", name=name[:_LONGEST_NAME])
    return topic


def require_open(topic_id: str, status: str) -> None:
    if status != "open":
        message = f"Topic {topic_id} is closed: you can read it, but not send messages or take a name."
        raise TopicClosed(message, Advice("read_closed_topic"), topic_id=topic_id)


def _topic(row: Row) -> Topic:
    return Topic(**row)


# -- what a name and metadata may be


def check_name(field: str, name: str, longest: int) -> str:
    """A name must be one printable line without spaces at its ends."""
    if not name.strip():
        raise InvalidArgument(f"{field} must be non-empty.", field=field)
    if name != name.strip() or not name.isprintable():
        message = f"{field} must be one line of printable characters, with no spaces at its start or end."
        raise InvalidArgument(message, field=field)
    if len(name) > longest:
        message = f"{field} is {len(name)} characters long; at most {longest} are allowed."
        raise LimitExceeded(message, field=field, limit=longest, actual=len(name))
    return name


def require_fit(field: str, name: str) -> None:
    """InvalidArgument if nobody may take such a name, whatever other names there are."""
    from conch.letters.names import find_flaw  # only a new name needs it

    flaw = find_flaw(name)
    if flaw is not None:
        message = f"{field} {flaw.words}. Choose another name."
        raise InvalidArgument(message, field=field, reason=flaw.reason)


def check_topic_name(name: str) -> str:
    """Check the name of a topic that is not a home topic. Absolute paths are names of home topics."""
    if os.path.isabs(name):
        message = "name must not be an absolute path: absolute paths are reserved for home topics."
        raise InvalidArgument(message, Advice("find_home_topic"), field="name")
    return check_name("name", name, _LONGEST_NAME)


def require_distinct(tx: Transaction, name: str) -> None:
    """InvalidArgument if the name is new and could pass for that of another topic."""
    if _newest_named(tx, name, "open") or _newest_named(tx, name, "closed"):
        return
    like = find_like(tx, "topic_like", name)
    if like is not None:
        words = likeness(name, like, "which is another topic or a reserved name")
        message = f"{name!r} {words}. Choose another name."
        raise InvalidArgument(message, field="name", reason="confusable", like=like)
    require_fit("name", name)


def dump_metadata(field: str, metadata: Any, settings: Settings) -> str | None:
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise InvalidArgument(f"{field} must be an object.", field=field)
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise InvalidArgument(f"{field} contains NaN or Infinity, which JSON does not allow.", field=field) from None
    size, limit = len(text.encode()), settings.max_metadata_bytes
    if size > limit:
        message = f"{field} is {size} bytes of JSON; at most {limit} are allowed (CONCH_MAX_METADATA_BYTES)."
        raise LimitExceeded(message, field=field, limit=limit, actual=size)
    return text
