"""What a client can read and watch without calling a tool: the room, the inbox, a topic.

Reading moves no cursor and marks nothing as shown. A client that watches a resource gets a notice when it may have
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from conch.bells.base import activity_channel, directory_channel, room_channel, topic_channel
from conch.bells.waits import FOREVER, Pause, wait_for
from conch.calls import Call, retry_interrupted
from conch.errors import ConchError, InvalidArgument, StoreError
from conch.host.processes import Process
from conch.lean import NamedTuple
from conch.notices.delivery import find_news
from conch.overseeing.talk import read_messages
from conch.rooms.room import Room
from conch.storage.base import LAST
from conch.tools import bus_view, turns_view
from conch.tools.advice import STEPS
from conch.tools.facts import tell
from conch.tools.replies import Object, Reply
from conch.tools.schema import check_texts
from conch.tools.session import Session
from conch.tools.text import one_line, visible

LONGEST_URI = 1_000
_FEW = 20
_MOST_WATCHED = 50  # resources of one subscription
_MIME = "text/plain"


class Sight(NamedTuple):
    """Enough of a resource to see a change in it, and the bells that ring for a change."""

    sign: object
    channels: Sequence[str]
    process: Process | None = None
    """A process whose end is a change too: a dead process rings no bell."""


class Resource(NamedTuple):
    address: str
    """A URI, or a template: what stands for `{name}` is given to `read` and `look`."""
    name: str
    title: str
    description: str
    needs: str
    """Without this tool, a client cannot use the resource."""
    read: Callable[[Session, str], Reply]
    look: Callable[[Session, str], Sight]

    @property
    def is_template(self) -> bool:
        return "{" in self.address

    def listed(self) -> Object:
        kind = "uriTemplate" if self.is_template else "uri"
        about = {"name": self.name, "title": self.title, "description": self.description, "mimeType": _MIME}
        return {kind: self.address, **about}


# -- the room


def _own_room(session: Session) -> Room | None:
    """The room that the connection has joined, otherwise the one at its working directory."""
    joined = session.own.room
    if joined is not None:
        return joined
    try:
        found = session.app.rooms.list_rooms(session.path(None))
    except InvalidArgument:  # over HTTP there is no working directory
        return None
    return found[0].room if found else None


def _read_own_room(session: Session, _: str) -> Reply:
    room = _own_room(session)
    if room is None:
        return Reply({}, "You are in no room yet.", next="Call `join_path` to join the room of your workspace.")
    return _read_room(session, room.room_id)


def _look_at_own_room(session: Session, _: str) -> Sight:
    room = _own_room(session)
    return Sight(None, [directory_channel()]) if room is None else _look_at_room(session, room.room_id)


def _read_room(session: Session, room_id: str) -> Reply:
    caller, budget, app = session.caller(), session.budget(), session.app
    snapshot, shown = app.rooms.get_shown(caller, room_id, limit=turns_view.most_members(budget))
    can_take_over = app.claims.takeover_is_open(caller, snapshot)
    return turns_view.room_state(snapshot, shown, can_take_over, caller.agent_id, budget)


def _look_at_room(session: Session, room_id: str) -> Sight:
    with session.app.rooms.look(None, room_id) as (tx, snapshot):
        latest = tx.all("latest_activity", room_id=room_id, through=LAST, limit=1)
        sign = (room_id, snapshot.room.last_event_seq, snapshot.takeover_reason, [row["number"] for row in latest])
        expected = snapshot.find(snapshot.expected)
    return Sight(sign, [room_channel(room_id), activity_channel(room_id)], expected and expected.process)


# -- the inbox


def _read_inbox(session: Session, _: str) -> Reply:
    news = find_news(session.app.store, session.caller().agent_id, _FEW, to_all=True)
    return (
        bus_view.view_news(news, session.app.peers, session.budget()) if news else Reply({}, "Nothing is new for you.")
    )


def _look_at_inbox(session: Session, _: str) -> Sight:
    agent_id = session.caller().agent_id
    news = find_news(session.app.store, agent_id, _FEW, to_all=True)
    sign = [each.message_id for each in news.talk], [(each.event_id, each.times) for each in news.notices]
    return Sight(sign, session.app.listening.channels(agent_id))


# -- a topic


def _read_topic(session: Session, name: str) -> Reply:
    topic = session.app.topics.resolve(name, allow_closed=True)
    page = read_messages(session.app.store, topic.topic_id, None, None, _FEW)
    peer = session.peer(topic.topic_id)
    named = {name for each in page.messages for name in each.addressees}
    called = session.app.peers.find_called(topic.topic_id, named) if named else {}
    budget = session.budget()
    shown = budget.fill(page.messages[::-1], lambda _: {}, lambda each: bus_view.message_text(each, peer, called))
    head = f"The latest messages of {one_line(topic.name)} ({topic.topic_id}, {topic.status}), oldest first:"
    lines = (
        [head, *shown.lines[::-1]] if shown.lines else [f"{one_line(topic.name)} ({topic.topic_id}) has no messages."]
    )
    return Reply({}, "\n".join(lines))


def _look_at_topic(session: Session, name: str) -> Sight:
    topic = session.app.topics.resolve(name, allow_closed=True)
    page = read_messages(session.app.store, topic.topic_id, None, None, 1)
    sign = (topic.topic_id, topic.status, [each.seq for each in page.messages])
    return Sight(sign, [topic_channel(topic.topic_id)])


RESOURCES = (
    Resource(
        "conch://room",
        "room",
        "Your room",
        "Who holds the stick in your workspace's room, and who is there.",
        "get_room_state",
        _read_own_room,
        _look_at_own_room,
    ),
    Resource(
        "conch://inbox",
        "inbox",
        "Your inbox",
        "Messages, questions and notices that are new for you. Reading it marks nothing.",
        "listen",
        _read_inbox,
        _look_at_inbox,
    ),
    Resource(
        "conch://room/{room_id}",
        "room-by-id",
        "A room",
        "Who holds the stick in a room, and who is there.",
        "get_room_state",
        _read_room,
        _look_at_room,
    ),
    Resource(
        "conch://topic/{name}",
        "topic",
        "A topic",
        "The latest messages of a topic. Reading it moves no cursor.",
        "sync",
        _read_topic,
        _look_at_topic,
    ),
)


def offered_resources(offered: Container[str]) -> list[Resource]:
    """The resources for a client that is offered these tools."""
    return [resource for resource in RESOURCES if resource.needs in offered]


def _find(resources: Sequence[Resource], uri: str) -> tuple[Resource, str]:
    """The resource of a URI, and what stands for the name in its template."""
    for resource in resources if len(uri) <= LONGEST_URI else ():
        start = resource.address.partition("{")[0]
        if uri == resource.address and not resource.is_template:
            return resource, ""
        if resource.is_template and uri.startswith(start) and len(uri) > len(start):
            name = _unquoted(uri[len(start) :])
            check_texts("uri", name)
            return resource, name
    known = ", ".join(each.address for each in resources)
    raise InvalidArgument(f"There is no such resource. The resources are {known}.", field="uri")


def _unquoted(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote  # slow to import, and most names need no quotes

    return unquote(text)


def read_resource(resources: Sequence[Resource], session: Session, uri: str) -> Object:
    """The result of `resources/read`. ConchError if there is no such resource, StoreError if it cannot be read now."""
    resource, name = _find(resources, uri)
    session.begin_call()
    try:
        reply = retry_interrupted(lambda: resource.read(session, name))
    finally:
        session.note_call()
    following = session.say(reply.next)
    text = tell(reply.data, reply.text, *([f"Next: {following}"] if following else ()))
    return {"contents": [{"uri": uri, "mimeType": _MIME, "text": visible(text)}]}


def explain(session: Session, refusal: ConchError) -> str:
    """A refusal in one text, with what to do."""
    step = refusal.advice.step if refusal.advice else ""
    return f"{refusal.code}: {one_line(refusal.advised({step: session.say(STEPS.get(step, ''))}))}"


class Watch:
    """Some resources that a client watches. It starts before the client gets its reply, so that no change is missed."""

    def __init__(self, resources: Sequence[Resource], session: Session, uris: Sequence[str], strict: bool) -> None:
        """What cannot be read now is left out, or refused with a ConchError if the watch is `strict`."""
        if len(uris) > _MOST_WATCHED:
            raise InvalidArgument(f"At most {_MOST_WATCHED} resources can be watched together.", field="uri")
        self._session = session
        self._found: dict[str, tuple[Resource, str]] = {}
        self._sights: dict[str, Sight] = {}
        for uri in uris:
            try:
                self._found[uri] = _find(resources, uri)
                self._sights[uri] = self._look(uri)
            except StoreError:
                raise
            except ConchError:
                if strict:
                    raise

    @property
    def uris(self) -> list[str]:
        return list(self._sights)

    def run(self, call: Call, notify: Callable[[str], None]) -> None:
        """Call `notify` with the URI of each resource that changes, until the call is cancelled (raises Cancelled)."""
        bell, settings = self._session.app.bell, self._session.app.settings
        polls = (settings.poll_initial_ms / 1_000, settings.poll_max_ms / 1_000)
        while True:
            channels = sorted({channel for sight in self._sights.values() for channel in sight.channels})
            for uri in wait_for(bell, channels, self._find_changes, FOREVER, call, polls=polls) or ():
                if uri:
                    notify(uri)

    def _find_changes(self, pause: Pause) -> list[str] | None:
        """The resources that look different now. An empty name means that the bells of one have changed."""
        changed: list[str] = []
        for uri, before in self._sights.items():
            now = self._sights[uri] = self._glance(uri)
            if now.sign != before.sign:
                changed.append(uri)
            elif set(now.channels) != set(before.channels):
                changed.append("")
        pause.processes = tuple(sight.process for sight in self._sights.values())
        return changed or None

    def _glance(self, uri: str) -> Sight:
        try:
            return self._look(uri)
        except StoreError:
            raise
        except ConchError as gone:  # such as a room that was wiped
            return Sight(gone.code, self._sights[uri].channels)

    def _look(self, uri: str) -> Sight:
        resource, name = self._found[uri]
        return resource.look(self._session, name)
