"""The Python API: one agent in a room, with the rules of the tools, for blocking and for async programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from tests.contract.conftest import in_background

import conch
from conch.api import AsyncRoom, Room, join, join_async
from conch.errors import ConchError

DONE = {"status": "wrote it", "next_action": "review it"}
Join = Callable[[str], Room]


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
    bob._call("answer", None, topic_id=bob.topic_id, responses=[_response(question.message_id)])
    assert [(each.answered_by, each.text) for each in answers()] == [(bob.name, "main")]


def _response(question_id: str) -> dict[str, object]:
    return {"question_id": question_id, "answer_markdown": "main", "suggested_followups": ["why?"]}


def test_a_reserved_file_is_refused_to_another_program(enter: Join) -> None:
    ada, bob = enter("script:ada"), enter("script:bob")
    assert ada.reserve("src/parser.py").scope == "src/parser.py"

    with pytest.raises(ConchError) as refusal:
        bob.reserve("src")

    assert refusal.value.code == "RESERVATION_CONFLICT"
    ada.unreserve("src/parser.py")
    assert bob.reserve("src").scope == "src"


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


def test_the_package_offers_the_api_by_name() -> None:
    assert (conch.join, conch.ConchError) == (join, ConchError)
    with pytest.raises(AttributeError):
        conch.nothing  # noqa: B018
