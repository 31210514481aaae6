"""Names, roles and liveness: a name means one agent in a room, and another room may have another of that name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.agents.identity import load_caller
from conch.agents.petnames import propose_names
from conch.app import App, open_app
from conch.errors import InvalidSetting
from conch.ids import digest

# -- names


def test_a_registered_name_and_role_are_told_to_everybody(ada: Any, bob: Any) -> None:
    registered = ada.data("agent_register", name="amber-otter", role="reviewer")

    assert registered == {
        "agent_id": "ada:1",
        "name": "amber-otter",
        "kind": "agent",
        "role": "reviewer",
        "liveness": "active",
        "last_seen_at": "2027-01-15T08:00:00.000Z",
    }
    assert bob.data("agent_list")["agents"][0] == registered
    assert ada.name == "amber-otter"
    assert [member["name"] for member in bob.data("get_room_state")["members"]] == ["amber-otter", bob.name]


def test_without_a_name_the_generated_one_stays(ada: Any) -> None:
    generated = ada.name

    registered = ada.data("agent_register", role="tester")

    assert (registered["name"], registered["role"]) == (generated, "tester")
    assert len(generated.split("-")) == 2


def test_registering_again_changes_only_what_is_given(ada: Any) -> None:
    ada.data("agent_register", name="amber-otter", role="reviewer")

    again = ada.data("agent_register", name="amber-otter")
    renamed = ada.data("agent_register", name="cobalt-harbor")

    assert again["role"] == renamed["role"] == "reviewer"
    assert renamed["name"] == "cobalt-harbor"


@pytest.mark.parametrize("name", ["abc", "a-b", "007", "x" * 48, "amber-otter-2"])
def test_these_can_be_names(ada: Any, name: str) -> None:
    assert ada.data("agent_register", name=name)["name"] == name


@pytest.mark.parametrize(
    "name",
    ["", "ab", "x" * 49, "Amber", "amber_otter", "-amber", "amber-", "amber--otter", "amber otter", "ämber", "abc\n"],
)
def test_these_cannot_be_names(ada: Any, name: str) -> None:
    before = ada.name

    refusal = ada.refused("agent_register", name=name)

    assert (refusal["error"], refusal["field"]) == ("INVALID_AGENT_ID", "name")
    assert ada.data("agent_list")["agents"][0]["name"] == before


def test_a_name_belongs_to_one_agent(ada: Any, bob: Any) -> None:
    ada.data("agent_register", name="amber-otter")

    refusal = bob.refused("agent_register", name="amber-otter")

    assert (refusal["error"], refusal["agent_id"]) == ("DUPLICATE_AGENT_ID", "ada:1")


def test_a_new_name_is_the_agents_own_on_its_topics_too(app: App, ada: Any) -> None:
    former = ada.name

    ada.data("agent_register", name="amber-otter")

    with app.store.read() as tx:
        (peer,) = tx.dump("peers")
        assert (peer["name"], peer["agent_id"], peer["is_own"]) == ("amber-otter", "ada:1", 1)
        names = {row["agent_name"]: row["peer_id"] for row in tx.dump("agent_name_reservations")}
        assert names == {"amber-otter": peer["peer_id"], former: peer["peer_id"]}


# -- liveness


def test_a_heartbeat_may_come_as_often_as_it_likes(ada: Any, clock: Any) -> None:
    first = ada.data("agent_heartbeat")
    assert ada.data("agent_heartbeat") == first
    clock.advance(minutes=10)

    assert ada.data("agent_heartbeat")["last_seen_at"] == "2027-01-15T08:10:00.000Z"


@pytest.mark.parametrize(
    ("setting", "minutes", "expected"),
    [
        ({}, 14.9, "active"),
        ({}, 15, "stale"),
        ({}, 29.9, "stale"),
        ({}, 30, "evicted"),
        ({"CONCH_STALE_MINUTES": "0.5"}, 0.4, "active"),
        ({"CONCH_STALE_MINUTES": "0.5"}, 0.5, "stale"),
        ({"CONCH_STALE_MINUTES": "0.5"}, 1, "evicted"),
        ({"BB_AGENT_STALE_MINUTES": "2"}, 3, "stale"),
        ({"CONCH_STALE_MINUTES": "60", "BB_AGENT_STALE_MINUTES": "2"}, 59, "active"),
    ],
)
def test_liveness_follows_from_the_last_call(
    environ: dict[str, str], ada: Any, clock: Any, setting: dict[str, str], minutes: float, expected: str
) -> None:
    clock.advance(minutes=minutes)
    app = open_app({**environ, **setting}, clock)

    (agent,) = app.registration.list_agents(None, ada.room_id)

    app.close()
    assert agent.liveness == expected


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf", "20000"])
def test_a_threshold_that_makes_no_sense_is_refused(environ: dict[str, str], value: str) -> None:
    with pytest.raises(InvalidSetting, match="CONCH_STALE_MINUTES must be a number from"):
        open_app({**environ, "CONCH_STALE_MINUTES": value})


def test_a_process_that_is_gone_is_evicted_at_once(enter: Any, bob: Any, child: Callable[[], Any]) -> None:
    process = child()
    enter("ada:1", process.process)

    process.kill()

    assert {a["agent_id"]: a["liveness"] for a in bob.data("agent_list")["agents"]} == {
        "bob:2": "active",
        "ada:1": "evicted",
    }


# -- whose a name is


def test_a_name_never_stands_for_two(enter: Any) -> None:
    alice, mallory = enter("alice"), enter("mallory:1")

    assert mallory.refused("agent_register", name="alice")["error"] == "DUPLICATE_AGENT_ID"
    assert alice.data("agent_heartbeat")["agent_id"] == "alice"


def test_a_notice_to_a_former_name_reaches_the_agent_that_had_it(ada: Any, bob: Any) -> None:
    former = bob.name
    bob.data("agent_register", name="blue-fox")

    notice = {"subject": "s", "summary": "s", "next_action": "n"}
    sent = ada.data("event_send", event_type="HANDOFF", to_agent=former, payload=notice)["event"]

    assert sent["to_agent"] == "blue-fox"
    assert former in ada.refused("agent_register", name=former)["message"]


def test_a_name_that_conch_gives_out_can_be_registered(ada: Any, bob: Any, enter: Any) -> None:
    longest = "a" * 46 + "-b"
    ada.data("agent_register", name=longest)
    ada.data("leave_path")
    bob.app.messages.free_name(bob.home, longest, "an operator")
    bob.data("agent_register", name=longest)

    given = enter("ada:1").joined["name"]

    assert (len(given) <= 48, given) == (True, "a" * 46 + "-2")


def test_nobody_can_be_called_like_the_system(enter: Any) -> None:
    assert enter("codex:1").refused("agent_register", name="conch")["error"] == "INVALID_AGENT_ID"


def test_the_agent_that_lists_the_agents_is_listed(enter: Any, clock: Any) -> None:
    codex = enter("codex:1")
    clock.advance(minutes=60)

    assert [agent["liveness"] for agent in codex.data("agent_list")["agents"]] == ["active"]


# -- one name in two rooms


@pytest.fixture
def elsewhere(enter: Any, tmp_path: Path) -> Any:
    """Connect as an agent in the room of another workspace."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("")
    return lambda agent_id: enter(agent_id, folder=str(folder))


def names(client: Any) -> dict[str, str]:
    return {agent["agent_id"]: agent["name"] for agent in client.data("agent_list")["agents"]}


def test_two_rooms_can_each_have_an_agent_of_one_name(ada: Any, elsewhere: Any) -> None:
    bob = elsewhere("bob:2")
    ada.data("agent_register", name="blue-fox")

    assert bob.data("agent_register", name="blue-fox")["name"] == "blue-fox"

    assert names(ada) == {"ada:1": "blue-fox"}
    assert names(bob) == {"bob:2": "blue-fox"}


def test_a_name_means_the_agent_of_its_own_room(ada: Any, enter: Any, elsewhere: Any) -> None:
    bob, cleo = elsewhere("bob:2"), elsewhere("cleo:3")
    ada.data("agent_register", name="blue-fox")
    bob.data("agent_register", name="blue-fox")
    notice = {"subject": "s", "summary": "s", "next_action": "n"}

    cleo.data("event_send", event_type="HANDOFF", to_agent="blue-fox", payload=notice)
    cleo.send(cleo.home, "hello", metadata={"to": "blue-fox"})
    reserved = bob.reserve("src")
    refusal = cleo.refused("scope_reserve", scope="src")

    assert [event["to_agent"] for event in bob.inbox()][:1] == ["blue-fox"] and ada.inbox() == []
    assert bob.data("sync", topic_id=bob.home, wait_seconds=0)["received"][0]["addressed"]
    assert reserved["name"] == refusal["holders"][0]["owner"] == "blue-fox"
    assert bob.send(bob.home, "hi")[0]["sender"] == "blue-fox"


def test_an_agent_that_joins_where_its_name_is_taken_gets_the_next_one_like_it(ada: Any, elsewhere: Any) -> None:
    bob = elsewhere("bob:2")
    ada.data("agent_register", name="blue-fox")
    bob.data("agent_register", name="blue-fox")

    joined = elsewhere("ada:1")

    assert joined.joined["name"] == "blue-fox-2"
    assert names(bob) == {"bob:2": "blue-fox", "ada:1": "blue-fox-2"}
    assert joined.send(joined.home, "hi")[0]["sender"] == "blue-fox-2"
    assert names(ada) == {"ada:1": "blue-fox"}


def test_a_name_that_is_registered_in_one_room_changes_none_in_another(ada: Any, elsewhere: Any) -> None:
    there = elsewhere("ada:1")
    before = names(there)["ada:1"]

    ada.data("agent_register", name="blue-fox")

    assert names(there) == {"ada:1": before}
    assert there.send(there.home, "hi")[0]["sender"] == before


def test_a_name_that_nobody_else_has_is_the_agents_own_on_free_topics(app: App, ada: Any, elsewhere: Any) -> None:
    bob = elsewhere("bob:2")
    own = bob.name
    topic_id = ada.data("topic_create", name="pink")["topic_id"]
    for client in (ada, bob):
        client.session.take_name(app.peers.join_as_itself(client.session.caller(), topic_id))

    ada.data("agent_register", name="blue-fox")
    bob.data("agent_register", name="blue-fox")

    assert ada.send(topic_id, "hi")[0]["sender"] == "blue-fox"
    assert bob.send(topic_id, "hi")[0]["sender"] == own


def test_the_name_of_one_who_left_can_be_taken_once_an_operator_frees_it(
    app: App, ada: Any, bob: Any, enter: Any
) -> None:
    ada.data("agent_register", name="blue-fox")
    ada.send(ada.home, "by the first")
    ada.data("leave_path")
    refusal = bob.refused("agent_register", name="blue-fox")
    app.messages.free_name(bob.home, "blue-fox", "an operator")

    bob.data("agent_register", name="blue-fox")
    back = enter("ada:1")

    assert (refusal["error"], refusal["agent_id"]) == ("DUPLICATE_AGENT_ID", "ada:1")
    assert "conch names free" in refusal["message"]
    assert names(bob) == {"bob:2": "blue-fox", "ada:1": "blue-fox-2"}
    assert bob.read(bob.home)[0] == "by the first"
    bob.send(bob.home, "mine now")
    assert back.read(back.home)[-1] == "mine now"


def test_one_who_left_comes_back_to_its_name(ada: Any, bob: Any, enter: Any) -> None:
    ada.data("agent_register", name="blue-fox")
    ada.data("leave_path")

    assert enter("ada:1").joined["name"] == "blue-fox"


def test_the_name_of_one_who_is_gone_but_has_not_left_cannot_be_taken(ada: Any, bob: Any, clock: Any) -> None:
    ada.data("agent_register", name="blue-fox")
    clock.advance(minutes=31)

    refusal = bob.refused("agent_register", name="blue-fox")

    assert (refusal["error"], refusal["agent_id"]) == ("DUPLICATE_AGENT_ID", "ada:1")
    assert "agent_adopt" in refusal["message"]


def test_a_name_that_somebody_chose_on_the_home_topic_is_taken(ada: Any, bob: Any) -> None:
    ada.join(ada.home, "blue-fox")

    assert bob.refused("agent_register", name="blue-fox")["error"] == "DUPLICATE_AGENT_ID"
    assert "you took it on the home topic" in ada.refused("agent_register", name="blue-fox")["message"]


def test_nobody_takes_a_members_name_on_the_home_topic(app: App, ada: Any, bob: Any) -> None:
    ada.data("agent_register", name="blue-fox")
    app.messages.free_name(ada.home, "blue-fox", "an operator")

    refusal = bob.refused("topic_join", topic_id=bob.home, agent_name="blue-fox")

    assert refusal["error"] == "AGENT_NAME_IN_USE"


def test_a_member_whose_name_was_freed_on_the_home_topic_comes_back_to_it(app: App, ada: Any, elsewhere: Any) -> None:
    bob = elsewhere("bob:2")
    ada.data("agent_register", name="blue-fox")
    bob.data("agent_register", name="blue-fox")
    app.messages.free_name(bob.home, "blue-fox", "an operator")

    newcomer, back = elsewhere("ada:1"), elsewhere("bob:2")

    assert names(back) == {"bob:2": "blue-fox", "ada:1": "blue-fox-2"}
    assert newcomer.send(newcomer.home, "hi")[0]["sender"] == "blue-fox-2"
    assert back.send(back.home, "hi")[0]["sender"] == "blue-fox"


def test_a_name_that_was_chosen_on_a_topic_stays_when_another_is_registered(ada: Any) -> None:
    topic_id = ada.data("topic_create", name="pink")["topic_id"]
    chosen = ada.name
    ada.join(topic_id, chosen)

    ada.data("agent_register", name="blue-fox")

    assert ada.send(topic_id, "hi")[0]["sender"] == chosen


def test_a_name_on_the_command_line_means_the_agent_of_the_room(app: App, ada: Any, elsewhere: Any) -> None:
    bob = elsewhere("bob:2")
    ada.data("agent_register", name="blue-fox")
    bob.data("agent_register", name="blue-fox")

    found = [load_caller(app.store, "blue-fox", topic_id).agent_id for topic_id in (ada.home, bob.home, None)]

    assert found == ["ada:1", "bob:2", "ada:1"]


def test_a_generated_name_is_one_that_no_room_has(app: App, ada: Any, elsewhere: Any) -> None:
    bob, generated = elsewhere("bob:2"), next(propose_names(digest("cleo:3")))
    ada.data("agent_register", name=generated)
    bob.data("agent_register", name=generated)
    ada.data("agent_register", name="blue-fox")

    assert elsewhere("cleo:3").name != generated
