"""The Python API: one agent in a room, with the rules of the tools, for blocking and for async programs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.contract.conftest import in_background

import conch
from conch.doors.api import AsyncRoom, Message, Reservation, Room, join, join_async
from conch.errors import ConchError

DONE = {"status": "wrote it", "next_action": "review it"}
Join = Callable[[str], Room]
Result = TypeVar("Result")


@pytest.fixture
def enter(environ: dict[str, str], workspace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Join]:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    rooms: list[Room] = []

    def make(agent_id: str) -> Room:
        rooms.append(join(workspace, agent_id=agent_id))
        return rooms[-1]

    yield make
    for room in rooms:
        room.close()


def test_the_stick_goes_from_one_program_to_another_with_its_handoff(enter: Join) -> None:
    ada, bob = enter("script:ada"), enter("script:bob")
    assert ada.wait(0)
    assert bob.wait(0) is None

    assert ada.release(**DONE) == bob.agent_id

    turn = bob.wait()
    assert turn is not None and turn.handoff is not None
    assert turn.handoff["status"] == "wrote it"
    assert bob.heartbeat()


def test_a_message_wakes_a_program_that_waits_for_one(enter: Join) -> None:
    ada, bob = enter("script:ada"), enter("script:bob")
    received = in_background(lambda: bob.sync(timeout=20))

    ada.sync("hello", to=[bob.name])

    (message,) = received()
    assert (message.sender, message.text, message.addressed) == (ada.name, "hello", True)


def test_a_listener_hears_a_question_and_the_asker_gets_the_answer(enter: Join) -> None:
    ada, bob = enter("script:ada"), enter("script:bob")
    answers = in_background(lambda: ada.ask("Which branch?", timeout=20))

    heard = bob.listen(20)

    (question,) = heard.questions
    assert question.text == "Which branch?"
    assert bob.answer(question, "main")
    assert not bob.answer("msg_unknown", "main")
    assert [(each.answered_by, each.text) for each in answers()] == [(bob.name, "main")]


def test_a_program_reads_all_that_is_new_however_much_it_is(enter: Join) -> None:
    ada, bob = enter("script:ada"), enter("script:bob")
    bob.sync()
    ada.sync(*[f"number {number}" for number in range(45)])

    assert [each.text for each in bob.sync()] == [f"number {number}" for number in range(45)]


def test_a_stick_is_taken_over_only_when_it_may_be(enter: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bob = enter("script:ada"), enter("script:bob")
    ada.wait(0)
    ada.release(**DONE)
    turn = bob.wait()

    with pytest.raises(ConchError) as refusal:
        ada.take_over("impatient")

    assert refusal.value.code == "takeover_not_available"
    assert "Call listen()" in str(refusal.value)
    assert turn is not None and bob.heartbeat()


def test_a_reserved_file_is_refused_to_another_program(enter: Join) -> None:
    ada, bob = enter("script:ada"), enter("script:bob")
    assert ada.reserve("src/parser.py").scope == "src/parser.py"

    with pytest.raises(ConchError) as refusal:
        bob.reserve("src")

    assert refusal.value.code == "RESERVATION_CONFLICT"
    ada.unreserve("src/parser.py")
    assert bob.reserve("src").scope == "src"


def test_a_wait_lasts_as_long_as_the_program_wants(enter: Join) -> None:
    ada, bob = enter("script:ada"), enter("script:bob")
    ada.wait(0)
    ada._call("set_room_policy", None, room_id=ada.room_id, policy={"wait_for_turn_max_wait_ms": 1})
    began = time.monotonic()

    assert bob.wait(0.3) is None
    assert time.monotonic() - began >= 0.3


def test_a_closed_room_ends_a_wait_for_messages(enter: Join) -> None:
    ada, bob = enter("script:ada"), enter("script:bob")
    turn = ada.wait(0)
    assert turn is not None
    ada._call("close_room", None, room_id=ada.room_id)
    bob.sync()
    began = time.monotonic()

    assert bob.sync(timeout=60) == []
    assert time.monotonic() - began < 20


def test_async_programs_have_the_same_room_and_a_cancelled_wait_claims_nothing(enter: Join, workspace: str) -> None:
    ada = enter("script:ada")
    ada.wait(0)

    async def work() -> tuple[bool, str]:
        async with await join_async(workspace, agent_id="script:bob") as bob:
            assert isinstance(bob, AsyncRoom)
            waiting = asyncio.create_task(bob.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            ada.release(**DONE)
            heard = await bob.listen(20)
            assert heard.turn is not None
            await bob.release(**DONE)
            return waiting.cancelled(), heard.status

    assert asyncio.run(work()) == (True, "your_turn")


class Ending(Room):
    """A room that tells when a call has ended, before the event loop knows."""

    ended: threading.Event

    def reserve(self, scope: str, **options: Any) -> Reservation:
        return self._end(super().reserve(scope, **options))

    def sync(self, *texts: str, **options: Any) -> list[Message]:
        return self._end(super().sync(*texts, **options))

    def _end(self, found: Result) -> Result:
        self.ended.set()
        return found


async def cancel_at_its_end(call: Coroutine[Any, Any, object], ended: threading.Event) -> None:
    ended.clear()
    task = asyncio.create_task(call)
    await asyncio.sleep(0)  # starts it
    ended.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_a_cancelled_call_has_brought_is_taken_back(enter: Join, workspace: str) -> None:
    ada = enter("script:ada")
    room = Ending(workspace, "script:bob")
    room.ended = threading.Event()
    bob = AsyncRoom(room)

    async def work() -> list[str]:
        await bob.sync()
        ada.sync(*[f"number {number}" for number in range(45)])
        await cancel_at_its_end(bob.sync(), room.ended)
        await cancel_at_its_end(bob.reserve("src"), room.ended)
        async with bob:
            return [each.text for each in await bob.sync()]

    assert asyncio.run(work()) == [f"number {number}" for number in range(45)]
    assert ada.reserve("src/parser.py").scope == "src/parser.py"


def test_many_async_agents_of_one_program_can_wait_at_the_same_time(
    workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCH_DATA_DIR", str(tmp_path / "data"))
    names = [f"script:number-{number}" for number in range(40)]  # more than the threads of an event loop

    async def relay(name: str, entered: asyncio.Barrier) -> str:
        async with await join_async(workspace, agent_id=name) as room:
            await entered.wait()
            await room.wait()
            await room.release(**DONE)
            return room.agent_id

    async def work() -> list[str]:
        entered = asyncio.Barrier(len(names))
        return await asyncio.wait_for(asyncio.gather(*(relay(name, entered) for name in names)), 60)

    assert asyncio.run(work()) == names


def test_the_package_offers_the_api_by_name() -> None:
    assert (conch.join, conch.ConchError) == (join, ConchError)
    with pytest.raises(AttributeError):
        conch.nothing  # noqa: B018
