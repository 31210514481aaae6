"""The last handoff survives the agent that got it: the agent that continues gets it again, with the notes since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conch.app import App
from conch.upkeep.verify import verify_store

HANDOFF = {"status": "Parser done; 2 tests fail", "next_action": "Fix test_cli"}


def claim(client: Any) -> Any:
    return client.data("wait_for_turn", max_wait_ms=0)


def release(client: Any, turn: Any, **handoff: Any) -> Any:
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    return client.data("release_stick", **lease, handoff={**HANDOFF, **handoff})


def take(client: Any, **options: Any) -> Any:
    turn_id = client.data("get_room_state")["room"]["turn_id"]
    return client.call("takeover_stick", expected_turn_id=turn_id, reason="it is gone", **options)


def start_and_die(enter: Any, child: Callable[[], Any], agent_id: str = "lost:9") -> Any:
    """An agent that waits for the stick once, and whose process then ends."""
    process = child()
    lost = enter(agent_id, process.process)
    lost.turn = claim(lost)
    lost.die = process.kill
    return lost


def test_a_takeover_returns_the_last_handoff_and_the_notes_since(ada: Any, enter: Any, child: Any) -> None:
    ada.data("append_note", note="before the handoff")
    released = release(ada, claim(ada))
    lost = start_and_die(enter, child)
    lost.data("append_note", note="half of test_cli works")
    ada.data("append_note", note="the schema changed")
    lost.die()

    taken = take(ada)

    last = {"event_seq": released["event_seq"], "from_agent_id": "ada:1", "handoff": HANDOFF}
    assert taken.data["last_handoff"] == last
    notes = [(note["from_agent_id"], note["note"]) for note in taken.data["notes"]]
    assert notes == [("lost:9", "half of test_cli works"), ("ada:1", "the schema changed")]
    for fact in ("Parser done; 2 tests fail", "Fix test_cli", "half of test_cli works", "the schema changed"):
        assert fact in taken.text
    assert claim(ada)["handoff"] == HANDOFF  # the owner can ask for it again


def test_a_takeover_before_any_handoff_has_none_to_return(ada: Any, enter: Any, child: Any) -> None:
    lost = start_and_die(enter, child)
    lost.die()

    taken = take(ada).data

    assert (taken["last_handoff"], taken["notes"]) == (None, [])


def test_the_handoff_for_a_recipient_that_died_goes_to_the_agent_that_takes_over(
    ada: Any, bob: Any, enter: Any, child: Any
) -> None:
    process = child()
    turn = claim(ada)
    enter("lost:9", process.process)
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.data("pass_stick", **lease, to_agent_id="lost:9", handoff=HANDOFF)
    process.kill()

    assert take(bob).data["last_handoff"]["handoff"] == HANDOFF


def test_the_last_handoff_survives_two_deaths(ada: Any, enter: Any, child: Any) -> None:
    release(ada, claim(ada))
    first = start_and_die(enter, child)
    first.die()
    process = child()
    second = enter("lost:8", process.process)
    take(second)
    process.kill()

    assert take(ada).data["last_handoff"]["handoff"] == HANDOFF


def test_a_takeover_that_was_not_delivered_leaves_the_last_handoff_to_the_next_owner(
    app: App, ada: Any, enter: Any, child: Any
) -> None:
    release(ada, claim(ada))
    lost = start_and_die(enter, child)
    lost.die()
    take(ada, arrives=False)

    turn = claim(enter("bob:2"))

    assert (turn["reason"], turn["handoff"], turn["from_agent_id"]) == ("open_claim", HANDOFF, "ada:1")
    assert verify_store(app.store).problems == []


def test_notes_that_do_not_fit_leave_out_the_oldest(ada: Any, enter: Any, child: Any) -> None:
    lost = start_and_die(enter, child)
    for number in range(30):
        ada.data("append_note", note=f"{number} {'x' * 3_000}")
    lost.die()

    taken = take(ada).data

    numbers = [int(note["note"].split()[0]) for note in taken["notes"]]
    assert taken["has_more"] and 1 <= len(numbers) < 30
    assert numbers == list(range(30 - len(numbers), 30))
