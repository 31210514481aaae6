"""conch for Python programs: `import conch`, then `conch.join()` or `await conch.join_async()`.

Each room that is returned acts as one agent, with the same rules as any other: it uses the tools of the MCP server. A
refused call raises `conch.ConchError` with the same code.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import TracebackType

from conch.app import open_app
from conch.bells.waits import FOREVER
from conch.calls import Call, retry_interrupted
from conch.errors import Cancelled, ConchError
from conch.lean import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from conch.tools.catalogue import TOOLS
from conch.tools.registry import run_tool
from conch.tools.replies import Delivery, Object
from conch.tools.session import Session

if TYPE_CHECKING:
    from asyncio import Future
    from concurrent.futures import Executor

_Result = TypeVar("_Result")

_MOST_CALLS = 1_000  # of async code at the same time
_ONE_WAIT = 25.0  # seconds of one call of a tool; a longer wait makes several
# What a program can do after a refusal. A step that is missing here names no method of a room.
_STEPS = {
    "stop": "Stop changing files, and call wait() to get the next turn.",
    "await_takeover": "Call listen(): it says when you may take over.",
    "claim_stick": "Call wait() to claim it.",
    "come_back": "Call conch.join() to join again.",
    "hand_over": "Call release() first, so that the next agent gets your handoff.",
    "join_room": "Call conch.join() first.",
    "keep_stick": "Call wait() to claim or keep the stick.",
    "open_room": "Call conch.join() to open a new one there.",
}


class Turn(NamedTuple):
    """The stick is yours, until you release it or its lease expires."""

    turn_id: int
    lease_id: str
    reason: str
    handoff: Object | None
    """What the agent before you wrote, or None."""


class Message(NamedTuple):
    message_id: str
    topic_id: str
    seq: int
    sender: str
    text: str
    message_type: str
    reply_to: str | None
    addressed: bool
    """The message is addressed to you."""


class Answer(NamedTuple):
    answered_by: str
    text: str


class Reservation(NamedTuple):
    scope: str
    expires_at: str


class Heard(NamedTuple):
    """What a listener heard: `your_turn`, `takeover_available`, `news` or `timeout`."""

    status: str
    turn: Turn | None
    messages: list[Message]
    questions: list[Message]
    notices: list[Object]


class _Call(Call):
    """One call of a room, and what it has brought so far."""

    def __init__(self) -> None:
        super().__init__()
        self._brought: list[Delivery] = []

    def bring(self, delivery: Delivery) -> None:
        delivery.sent()
        delivery.read()
        self._brought.append(delivery)

    def take_back(self) -> None:
        for delivery in reversed(self._brought):
            with suppress(ConchError):  # a stick or a reservation then lapses by itself
                delivery.retracted(lambda task: task())


class Room:
    """The room of a workspace, as one agent. Close it, or use it in a `with` statement."""

    def __init__(self, path: str | os.PathLike[str] | None, agent_id: str | None, call: _Call | None = None) -> None:
        self._app = open_app(os.environ)
        self._session = Session(self._app, "cli")
        try:
            given: Object = {"context_path": os.fspath(path or os.getcwd()), "agent_id_override": agent_id}
            joined = self._call("join_path", call, **given)
        except BaseException:
            self._app.close()
            raise
        self.agent_id: str = joined["agent_id"]
        self.name: str = joined["name"]
        self.room_id: str = joined["room_id"]
        self.topic_id: str = joined["topic_id"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection to the store. The agent stays a member, and keeps a stick that it holds."""
        self._session.close()
        self._app.close()

    # -- the stick

    def wait(self, timeout: float | None = None, *, call: _Call | None = None) -> Turn | None:
        """Wait for the stick; None if the time is up, or if only a takeover could get it."""

        def attempt(seconds: float) -> Object | None:
            found = self._call("wait_for_turn", call, room_id=self.room_id, max_wait_ms=int(seconds * 1_000))
            return None if found["status"] == "not_yet" else found

        return _turn(_until(timeout, attempt) or {})

    def heartbeat(self) -> str:
        """Extend the lease; returns until when. Call it every few minutes while you work."""
        return str(self._call("heartbeat", None, room_id=self.room_id)["lease_expires_at"])

    def release(self, status: str, next_action: str, *, to: str | None = None, **more: Any) -> str | None:
        """Hand over the stick, to the next member or `to` one. Returns the agent_id that it is reserved for, if any.

        `more` may have artifacts, open_questions and do_not, as in the handoff of the tools.
        """
        handoff = {"status": status, "next_action": next_action, **more}
        given: Object = {"room_id": self.room_id, "handoff": handoff}
        if to is None:
            released = self._call("release_stick", None, **given)
        else:
            released = self._call("pass_stick", None, to_agent_id=to, **given)
        reserved_for: str | None = released.get("reserved_for")
        return reserved_for

    def take_over(self, reason: str, *, call: _Call | None = None) -> Turn:
        """Take the stick from an agent that does not answer. Refused unless takeover is available."""
        turn_id = self._call("get_room_state", None, room_id=self.room_id)["room"]["turn_id"]
        given: Object = {"room_id": self.room_id, "expected_turn_id": turn_id, "reason": reason}
        found = self._call("takeover_stick", call, **given)
        last = found["last_handoff"]
        return Turn(found["turn_id"], found["lease_id"], "takeover", last["handoff"] if last else None)

    # -- messages and questions

    def sync(
        self, *texts: str, to: list[str] | None = None, timeout: float = 0, call: _Call | None = None
    ) -> list[Message]:
        """Send these texts to the home topic, then return what is new to you. With a timeout, wait for a message."""
        outbox = [{"content_markdown": text, **({"metadata": {"to": to}} if to else {})} for text in texts]

        def attempt(seconds: float) -> list[Message] | None:
            given = {"topic_id": self.topic_id, "outbox": list(outbox), "wait_seconds": int(seconds + 0.999)}
            outbox.clear()  # the next attempt must not send them again
            page = self._call("sync", call, **given)
            found = [_message(each) for each in page["received"]]
            while page["has_more"]:
                page = self._call("sync", call, topic_id=self.topic_id, wait_seconds=0)
                found += [_message(each) for each in page["received"]]
            is_closed = any(each["code"] == "TOPIC_CLOSED" for each in page["warnings"])
            return found if found or is_closed else None

        return _until(timeout, attempt) or []

    def ask(self, question: str, timeout: float | None = None, *, call: _Call | None = None) -> list[Answer]:
        """Ask the others, and wait for the first answer; none if the time is up. The question stays open then."""
        asked = self._call("ask", call, topic_id=self.topic_id, question=question, wait_seconds=0)
        seconds = FOREVER if timeout is None else timeout
        found = self._app.questions.wait(self.topic_id, asked["question_id"], seconds, call or _Call())
        return [Answer(each.sender, each.content_markdown) for each in found.answers] if found else []

    def answer(self, question: Message | str, text: str) -> bool:
        """Answer a question that you heard, or the one with this id. False if it no longer takes answers."""
        question_id = question if isinstance(question, str) else question.message_id
        peer = self._session.peer(self.topic_id if isinstance(question, str) else question.topic_id)
        response = {"question_id": question_id, "answer_markdown": text}
        answered = retry_interrupted(lambda: self._app.questions.answer(peer, [response], needs_followups=False))
        return bool(answered.saved)

    def listen(self, timeout: float | None = None, *, call: _Call | None = None) -> Heard:
        """Wait for the first of: your turn, a takeover, messages for you, questions, notices. Each is shown once."""
        given = {} if timeout is None else {"wait_seconds": int(timeout + 0.999)}
        found = self._call("listen", call, **given)
        talk = [[_message(each) for each in found.get(kind, ())] for kind in ("messages", "questions")]
        return Heard(found["status"], _turn(found), talk[0], talk[1], found.get("notices", []))

    # -- files

    def reserve(self, scope: str, *, ttl_minutes: int = 120, call: _Call | None = None) -> Reservation:
        """Reserve a file or a directory before you change it."""
        found = self._call("scope_reserve", call, room_id=self.room_id, scope=scope, ttl_minutes=ttl_minutes)
        return Reservation(found["reservation"]["scope"], found["reservation"]["expires_at"])

    def unreserve(self, scope: str) -> None:
        self._call("scope_release", None, room_id=self.room_id, scope=scope)

    def _call(self, tool: str, call: _Call | None, /, **given: Any) -> Object:
        """Run a tool. What it brings is taken back if the caller no longer waits for it."""
        call = call or _Call()
        try:
            reply = retry_interrupted(lambda: run_tool(TOOLS[tool], self._session, given, call))
        except ConchError as refusal:
            step = refusal.advice.step if refusal.advice else ""
            refusal.args = (refusal.advised({step: _STEPS.get(step, "")}),)
            raise
        if call.cancelled:
            reply.delivery.not_sent()
            raise Cancelled("The call was cancelled.")
        call.bring(reply.delivery)
        return reply.data


def join(path: str | os.PathLike[str] | None = None, *, agent_id: str | None = None) -> Room:
    """Join the room of a workspace: that of a path, or of the working directory.

    `agent_id` names the agent, such as `script:nightly`; without it, conch finds out who is calling.
    """
    return Room(path, agent_id)


class AsyncRoom:
    """The same room for `async` code. If a call is cancelled, what it has brought is taken back, such as the stick."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.agent_id, self.name, self.room_id, self.topic_id = room.agent_id, room.name, room.room_id, room.topic_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await _in_thread(lambda call: self.room.close())

    async def wait(self, timeout: float | None = None) -> Turn | None:
        return await _in_thread(lambda call: self.room.wait(timeout, call=call))

    async def heartbeat(self) -> str:
        return await _in_thread(lambda call: self.room.heartbeat())

    async def release(self, status: str, next_action: str, *, to: str | None = None, **more: Any) -> str | None:
        return await _in_thread(lambda call: self.room.release(status, next_action, to=to, **more))

    async def take_over(self, reason: str) -> Turn:
        return await _in_thread(lambda call: self.room.take_over(reason, call=call))

    async def sync(self, *texts: str, to: list[str] | None = None, timeout: float = 0) -> list[Message]:
        return await _in_thread(lambda call: self.room.sync(*texts, to=to, timeout=timeout, call=call))

    async def ask(self, question: str, timeout: float | None = None) -> list[Answer]:
        return await _in_thread(lambda call: self.room.ask(question, timeout, call=call))

    async def answer(self, question: Message | str, text: str) -> bool:
        return await _in_thread(lambda call: self.room.answer(question, text))

    async def listen(self, timeout: float | None = None) -> Heard:
        return await _in_thread(lambda call: self.room.listen(timeout, call=call))

    async def reserve(self, scope: str, *, ttl_minutes: int = 120) -> Reservation:
        return await _in_thread(lambda call: self.room.reserve(scope, ttl_minutes=ttl_minutes, call=call))

    async def unreserve(self, scope: str) -> None:
        await _in_thread(lambda call: self.room.unreserve(scope))


async def join_async(path: str | os.PathLike[str] | None = None, *, agent_id: str | None = None) -> AsyncRoom:
    """Like `join`, for `async` code."""
    return AsyncRoom(await _in_thread(lambda call: Room(path, agent_id, call)))


async def _in_thread(act: Callable[[_Call], _Result]) -> _Result:
    """Run blocking work in a thread. If the task is cancelled, the call ends and is taken back before this returns."""
    import asyncio  # slow to import, and only async programs need it

    call = _Call()
    work = asyncio.get_running_loop().run_in_executor(_threads(), act, call)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.shield(_take_back(call, work))
        raise


async def _take_back(call: _Call, work: Future[_Result]) -> None:
    """Cancel a call, and take back what it has brought. It may have ended just before its task was cancelled."""
    import asyncio

    call.cancel()
    await asyncio.wait([work])
    work.exception()  # nobody else asks for it
    await asyncio.get_running_loop().run_in_executor(_threads(), call.take_back)


@cache
def _threads() -> Executor:
    """Threads of our own. In the event loop's few threads, waits would leave no room for the calls that end them."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_MOST_CALLS, thread_name_prefix="conch")


def _until(timeout: float | None, attempt: Callable[[float], _Result | None]) -> _Result | None:
    """Try in waits of bounded length, until there is a result or the time is up."""
    deadline = FOREVER if timeout is None else time.monotonic() + timeout
    while True:
        left = max(0.0, deadline - time.monotonic())
        found = attempt(min(left, _ONE_WAIT))
        if found is not None or time.monotonic() >= deadline:
            return found


def _turn(found: Object) -> Turn | None:
    if found.get("status") != "your_turn":
        return None
    return Turn(found["turn_id"], found["lease_id"], found["reason"], found["handoff"])


def _message(found: Object) -> Message:
    names = ("message_id", "topic_id", "seq", "sender", "content_markdown", "message_type", "reply_to", "addressed")
    return Message(*(found[name] for name in names))
