"""Who is calling, during one connection or one command."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from conch.agents.connections import close_connection
from conch.agents.identity import Signals, identify, recognise
from conch.agents.records import Caller
from conch.agents.signals import gather_signals
from conch.errors import InvalidArgument, StoreError
from conch.host import processes
from conch.lean import TYPE_CHECKING, Any, Lock, lazy_module, threading
from conch.notices.mail import has_mail, mail_query, read_mail
from conch.tools.offers import recall
from conch.tools.own_ids import OwnIds
from conch.tools.replies import Brought, Delivered, QueuedDelivery, Reply, ReplyQueue, Settled
from conch.tools.text import one_line

if TYPE_CHECKING:
    from conch.app import App
    from conch.bus import peers
    from conch.bus.peers import Peer
    from conch.calls import Call
    from conch.notices.mail import Mail
    from conch.storage.base import Answered, Aside, Query, Replacement
    from conch.tools import pages, patience
    from conch.tools.pages import Budget
    from conch.tools.patience import Patience
else:  # few commands need them
    peers = lazy_module("conch.bus.peers")
    pages, patience = lazy_module("conch.tools.pages"), lazy_module("conch.tools.patience")

_Question = tuple[
    object, str, str, int, tuple[str, ...], set[tuple[str, int]], tuple[str, ...], tuple[tuple[int, str], ...]
]
_MOST_SESSIONS = 100  # of one connection; each is stored
_DAY_SECONDS = 86_400.0
_MOMENT_SECONDS = 0.05  # how long `ping` waits for the store, which it does not need


def _nothing() -> str | None:
    return None


def _report_trouble(message: str) -> None:
    """Write one line to standard error, if there is one."""
    try:
        print(f"conch: {one_line(message)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # closed, or full: the caller gets an error anyway
        pass


class _Glimpse:
    """Looks for mail on a thread of its own, so that a store that hangs keeps nobody waiting."""

    def __init__(self) -> None:
        self._looks: Any = None
        self._answers: Any = None
        self._unanswered = 0
        self._lock = Lock()

    def take(self, look: Callable[[], Mail | None]) -> Mail | None:
        """The mail, if it is found at once. While an earlier look still hangs, no new one begins."""
        with self._lock:
            self._start()
            while self._unanswered:
                self._answers.get_nowait()
                self._unanswered -= 1
            self._looks.put(look)
            self._unanswered += 1
            mail: Mail | None = self._answers.get(timeout=_MOMENT_SECONDS)
            self._unanswered -= 1
            return mail

    def _start(self) -> None:
        if self._looks is None:
            from _queue import SimpleQueue  # not from queue, which would import more

            queues: tuple[Any, Any] = SimpleQueue(), SimpleQueue()
            threading.Thread(target=_look_for_mail, args=queues, daemon=True).start()
            self._looks, self._answers = queues


def _look_for_mail(looks: Any, answers: Any) -> None:
    while True:
        try:
            answers.put(looks.get()())
        except Exception:  # no answer is better than a wait for one
            answers.put(None)


class Session:
    """One connection. The first call that needs the caller identifies it; later calls use the same caller."""

    def __init__(
        self,
        app: App,
        door: str,
        client_name: Callable[[], str | None] = _nothing,
        default_path: Callable[[], str | None] = _nothing,
        offered: Iterable[str] | None = None,
        signals: Callable[[tuple[str, ...]], Signals] | None = None,
    ) -> None:
        """`offered` are the names of the tools that the client can call; None means all of them.

        `signals` says who is calling, given the sessions that calls named. Without it, this process and its parents do.
        """
        self.app = app
        self._door = door
        self.is_bounded = door != "cli"
        """Whether long lists come in pages. Most commands print everything."""
        self._client_name = client_name
        self._default_path = default_path
        self._offered = None if offered is None else frozenset(offered)
        self._caller: Caller | None = None
        self._called_in: tuple[str, ...] = ()
        self._identified_in: tuple[str, ...] = ()
        self._identified_at = 0.0
        self._find_signals = signals
        self._signals: tuple[tuple[str, ...], Signals] | None = None
        self._peers: dict[str, Peer] = {}
        self._names: dict[str, str] = {}  # taken on a topic of a store that was replaced
        self._tokens: dict[tuple[str, str], str] = {}
        self._stores = 0
        self._reported = 0
        self._glimpse = _Glimpse()
        self._last_look: tuple[_Question | None, Mail | None] = None, None
        self.brought = Brought()
        self.replies = ReplyQueue()
        self.own = OwnIds(self.replies, self._find_own)

    def begin_call(self) -> int:
        """Before a call. Returns the number for `replacements`."""
        self.forget_replaced()
        return self._reported

    def forget_replaced(self) -> None:
        """Forget what belongs to a store that was replaced. A wait that goes on then needs this before it ends, too."""
        found = self.app.store.replacements
        if len(found) > self._stores:
            for replacement in found[self._stores :]:
                _report_trouble(replacement.message)
            self._stores = len(found)
            self._names |= {topic_id: peer.agent_name for topic_id, peer in self._peers.items()}
            self._caller, self._peers, self.brought = None, {}, Brought()
            self.own.doubt_all()

    def replacements(self, before: int) -> list[Replacement]:
        """The replacements of the store that a call has to report, by the number that `begin_call` returned."""
        found = self.app.store.replacements
        self._reported = len(found)
        return found[before:]

    def _find_own(self, rooms: Iterable[str], topics: Iterable[str]) -> set[str]:
        asked: list[Query] = [("find_room", {"room_id": room_id}) for room_id in rooms]
        asked += [("find_topic", {"topic_id": topic_id}) for topic_id in topics]
        with self.app.store.look() as tx:
            for statement, given in asked:
                tx.ahead(statement, **given)
            return {each for statement, given in asked for each in given.values() if tx.one(statement, **given)}

    @property
    def is_command(self) -> bool:
        return self._door == "cli"

    def say(self, text: str) -> str:
        """Our own text that names tools, without the sentences about tools that this client cannot call."""
        return recall(text, self._offered)

    def offers(self, tool: str) -> bool:
        """Whether the client can call this tool."""
        return self._offered is None or tool in self._offered

    def budget(self) -> Budget:
        """The bytes of one reply."""
        limit = self.app.settings.max_reply_bytes if self.is_bounded else None
        return pages.Budget(limit, tells=not self.is_command)

    def patience(self, call: Call) -> Patience:
        """How long a call may wait, and what to do instead of waiting again."""
        return patience.patience_of(self._client_name(), has_progress=call.report_every < float("inf"))

    def note_sessions(self, meta: dict[str, Any]) -> None:
        """Note the harness's sessions that a call comes from. Commands in these sessions are then the same agent.

        The root session comes first, so that a subagent with a thread of its own is its parent's agent.
        """
        if meta:
            for name in ("sessionId", "threadId"):
                self._note_session(meta.get(name))

    def _note_session(self, session_id: object) -> None:
        is_new = isinstance(session_id, str) and session_id != "" and session_id not in self._called_in
        if is_new and len(self._called_in) < _MOST_SESSIONS:
            self._called_in = (*self._called_in, str(session_id))

    def caller(self) -> Caller:
        if self._caller is None or self._is_outdated(self._caller):
            self._caller = self._identify()
        return self._caller

    def _is_outdated(self, caller: Caller) -> bool:
        # Of an agent's several processes, one counts as its own. When that one ends, another takes its place.
        if caller.stands_in and processes.check(caller.process) == "gone":
            return True
        # A prune forgets agents that were not seen for a week, if their processes are not known to run.
        is_old = time.time() - self._identified_at > _DAY_SECONDS
        return is_old or (self._called_in is not self._identified_in and not caller.overridden)

    def rejoin(self, override: str | None) -> Caller:
        """The caller of `join_path`. It is identified again, unless this call or an earlier one gave an override."""
        self._caller = self._identify() if override is None else self._overridden(self.caller(), override)
        return self._caller

    def _overridden(self, caller: Caller, override: str) -> Caller:
        from conch.agents.override import adopt_override  # few callers choose an id

        return adopt_override(self.app.store, caller, override, self.app.settings.policy.presence_ttl_ms)

    def take_name(self, peer: Peer) -> None:
        """Use this name on its topic until the connection ends."""
        self._peers[peer.topic_id] = peer
        self.own.join_topic(peer.topic_id)

    def keep_token(self, topic_id: str, agent_name: str, token: str) -> None:
        """Remember the token of a name that this connection took, in case the reply with the token gets lost."""
        self._tokens[topic_id, agent_name] = token

    def kept_token(self, topic_id: str, agent_name: str) -> str | None:
        return self._tokens.get((topic_id, agent_name))

    def peer(self, topic_id: str) -> Peer:
        """The peer with the name taken on this topic, otherwise the caller under its own name."""
        named = self._peers.get(topic_id) or self._reclaim(topic_id)
        if named is not None:
            return named
        return peers.Peer(topic_id, self.caller().agent_id)

    def _reclaim(self, topic_id: str) -> Peer | None:
        """The peer with the name taken before the store was replaced, if the store that is there now knows it."""
        name = self._names.get(topic_id)
        token = None if name is None else self.kept_token(topic_id, name)
        if name is None or token is None:
            return None
        peer = self.app.peers.find_by_token(self.caller(), topic_id, name, token)
        del self._names[topic_id]
        if peer is not None:
            self.take_name(peer)
        return peer

    def speak_as(self, caller: Caller) -> None:
        """Act as this agent from now on, whatever the signals say."""
        self._caller, self._identified_at = caller, float("inf")

    def stay_active(self) -> None:
        """Keep the caller active while one of its calls waits."""
        self.app.rooms.stay_active(self.caller())

    def note_call(self) -> None:
        """Keep the caller active after any call, if the caller is known."""
        if self._caller is not None:
            try:
                self.stay_active()
            except StoreError:
                pass  # failing to record presence must not fail the call

    def staying_active(self) -> AbstractContextManager[None]:
        """Keep the caller active with the first transaction of a call, if the caller is known and that saves time."""
        if self._caller is None or self._is_outdated(self._caller):
            return nullcontext()
        return self.app.rooms.renewing(self._caller)

    def expecting_mail(self) -> AbstractContextManager[Aside]:
        """Let the store look for mail while it works for the caller, if that saves time.

        `with` gives a function that returns what the store has seen, which is right unless the reply itself delivers
        some of that mail. Mail that comes while the call runs may be left to the next reply.
        """
        brought = self.brought

        def query() -> Query | None:
            caller = self._caller
            if caller is None:  # the call may find out
                return None
            return mail_query(caller.agent_id, brought=brought.messages(Delivered()), asked=brought.questions())

        return self.app.store.aside(query)

    def mail(
        self, delivered: Delivered, before: list[Settled], can_wait: bool, seen: Answered | None = None
    ) -> Mail | None:
        """What waits for the caller; None if the caller is new, or if the store does not answer.

        What this reply has delivered is left out, and so is what the replies `before` it brought. If it must not wait
        for the store, it gives up after a moment. `seen` is what the store has found meanwhile.
        """
        if seen and before and has_mail(seen):  # they may have brought some of it
            seen = None
        look = partial(self._look_for_mail, delivered, before, seen)
        try:
            if can_wait:
                return look()
            question, mail = self._last_look
            if not before and self._caller and question == self._question(self._caller.agent_id, delivered):
                return mail
            return self._glimpse.take(look)
        except Exception:  # mail is only a hint: a failure here, or an empty queue, must not fail the reply
            return None

    def remembering(self, reply: Reply) -> Reply:
        """The same reply. Once it is sent, later mail does not repeat its messages and questions."""
        brought, delivered = self.brought, reply.delivered
        add, drop = partial(brought.add, delivered), partial(brought.drop, delivered)
        return reply._replace(delivery=QueuedDelivery(self.replies, "mail", sent=add, retracted=drop))

    def mail_of_command(self, delivered: Delivered) -> Mail | None:
        """What waits for the caller of a command, even if the command did not need to know its caller."""
        return self.mail(delivered, [], can_wait=True)

    def _look_for_mail(self, delivered: Delivered, before: list[Settled], seen: Answered | None) -> Mail | None:
        self.replies.wait_for(before)  # what they brought is mail until it is recorded that they were sent
        agent_id = self.find_agent_id()
        if agent_id is None:
            return None
        last, mail = self._last_look
        question = self._question(agent_id, delivered)
        if question != last:
            mail = read_mail(self.app.store, *question[1:], seen=seen)
            if mail.others and not self.offers("sync"):
                mail = mail._replace(others=0)  # without `sync`, it cannot read messages to others
            if question[0] is not None:
                self._last_look = question, mail
        return mail

    def _question(self, agent_id: str, delivered: Delivered) -> _Question:
        """What the mail depends on: the version of the store, found before the mail, and what `read_mail` is given."""
        brought, asked = self.brought.messages(delivered), self.brought.questions()
        topic_id, through, returned, _, ids = delivered
        return self.app.store.version(), agent_id, topic_id, through, ids, brought, asked, returned

    @property
    def has_called(self) -> bool:
        """Whether a call has identified the caller."""
        return self._caller is not None

    def find_agent_id(self) -> str | None:
        """The caller's id, if the store knows the caller. Not every tool needs one, but any reply may have mail."""
        return self._caller.agent_id if self._caller else self._recognise()

    def _recognise(self) -> str | None:
        called_in = self._called_in
        if self._signals is None or self._signals[0] is not called_in:
            self._signals = called_in, self._gather_signals(called_in)
        return recognise(self.app.store, self._signals[1])

    def rename(self, name: str) -> None:
        """Remember the caller's new name."""
        self._caller = self.caller()._replace(name=name)

    def path(self, given: str | None) -> str:
        """The given path, otherwise the client's first root, otherwise the working directory."""
        try:
            return given or self._default_path() or os.getcwd()
        except OSError:
            message = "context_path is required here, because the working directory no longer exists."
            raise InvalidArgument(message, field="context_path") from None

    def close(self) -> None:
        """The client has closed the connection."""
        if self._caller is not None and self._caller.connection is not None:
            try:
                close_connection(self.app.store, self._caller.connection)
            except StoreError:
                pass  # the end of this process will show it too

    @property
    def sole_agent_id(self) -> str | None:
        """The agent that nothing but this session keeps alive; None if it has a process or a session of a harness."""
        caller = self._caller
        is_sole = caller is not None and caller.process is None and not self._called_in
        return caller.agent_id if caller is not None and is_sole else None

    def _identify(self) -> Caller:
        called_in, known = self._called_in, self._caller
        if known is not None and known.overridden:
            caller = self._overridden(known, known.agent_id)
        else:
            caller = identify(self.app.store, self._gather_signals(called_in), known.agent_id if known else None)
        self._identified_in, self._identified_at = called_in, time.time()
        return caller

    def _gather_signals(self, called_in: tuple[str, ...]) -> Signals:
        if self._find_signals is not None:
            return self._find_signals(called_in)
        return gather_signals(self._door, os.environ, self._client_name(), called_in)
