"""No new name passes for another one, and a name that is in a store stays usable."""

from __future__ import annotations

from itertools import islice
from threading import Thread
from typing import Any

import pytest

from conch.agents.identity import Signal, Signals, identify
from conch.agents.petnames import propose_names
from conch.agents.records import insert_agent, note_name
from conch.app import App
from conch.errors import InvalidSetting
from conch.ids import digest

CYRILLIC = "pl\u0430n"
LOOK_ALIKES = ["conch\u034f", "con\u3164ch", "c\u043ench", "\uff43onch", "CONCH", "\u0441onch", "C0nch"]
RESERVED = ["conch", "system", "human"]
REASONS = [("zed\u3164", "invisible"), ("ze\u0301d", "not_nfkc"), ("z\u0435d", "mixed_scripts")]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_nobody_can_look_like_the_system(red: Any, topic_id: str, name: str) -> None:
    refused = red.refused("topic_join", topic_id=topic_id, agent_name=name)

    assert (refused["error"], refused["reason"]) == ("AGENT_NAME_IN_USE", "confusable")


@pytest.mark.parametrize("word", RESERVED)
def test_the_names_of_the_program_and_of_people_are_reserved_everywhere(
    red: Any, topic_id: str, workspace: str, word: str
) -> None:
    for name in (word, word.title(), word.upper()):
        refusals = (
            red.refused("topic_join", topic_id=topic_id, agent_name=name),
            red.refused("topic_create", name=name),
            red.refused("join_path", context_path=workspace, agent_id_override=name),
        )
        assert [(each["reason"], each["like"]) for each in refusals] == [("confusable", word)] * 3
    assert red.refused("agent_register", name=word)["error"] == "INVALID_AGENT_ID"


def test_a_reserved_name_is_not_said_to_look_like_itself(agent: Any, red: Any, topic_id: str) -> None:
    refusals = (
        red.refused("agent_register", name="conch"),
        red.refused("topic_join", topic_id=topic_id, agent_name="conch"),
        red.refused("topic_create", name="conch"),
    )

    assert all("is reserved" in each["message"] for each in refusals)
    with pytest.raises(InvalidSetting, match="CONCH_AGENT_ID conch is reserved"):
        agent("conch")


def test_no_name_differs_from_another_only_in_case(app: App, red: Any, blue: Any, topic_id: str) -> None:
    blue.data("agent_register", name="stout-zebra")
    blue.join(topic_id, "Scout")
    red.data("topic_create", name="Plan")

    refusals = (
        red.refused("topic_join", topic_id=topic_id, agent_name="STOUT-ZEBRA"),
        red.refused("topic_join", topic_id=topic_id, agent_name="sCOUT"),
        red.refused("topic_create", name="plan"),
    )

    assert [each["like"] for each in refusals] == ["stout-zebra", "Scout", "Plan"]


def test_no_agent_id_from_the_environment_passes_for_another(agent: Any, blue: Any) -> None:
    name = blue.data("agent_register", name="stout-zebra")["name"]

    for agent_id in ("Test:Blue", "test:b1ue", name, name.upper(), "Conch", "hurnan:ada", "conch:1", "Systern.x"):
        with pytest.raises(InvalidSetting, match=f"CONCH_AGENT_ID {agent_id} (looks like|is the name of)"):
            agent(agent_id)


def test_a_name_that_conch_chooses_does_not_look_like_another_either(app: App, agent: Any, red: Any, blue: Any) -> None:
    generated = next(propose_names(digest("test:new")))
    topic_id = red.data("topic_create", name="pink")["topic_id"]
    red.join(topic_id, generated.upper())
    red.join(topic_id, "Scout")
    blue.data("agent_register", name="scout")

    joined = app.peers.join_as_itself(agent("test:blue"), topic_id)

    assert agent("test:new").name == list(islice(propose_names(digest("test:new")), 2))[1]
    assert joined.agent_name == "scout-2"


def test_no_client_is_called_like_conch_or_a_person(app: App) -> None:
    for slug in ("conch", "system", "human", "hurnan", "c0nch"):
        signals = Signals((Signal("session", slug, "x"),), slug, None, None, "mcp_harness", slug)
        assert identify(app.store, signals).agent_id.startswith("agent:")


@pytest.mark.parametrize("kind", ["conch", "system"])
def test_no_label_of_an_agent_begins_like_one_of_conch(red: Any, topic_id: str, workspace: str, kind: str) -> None:
    refusals = (
        red.refused("join_path", context_path=workspace, agent_id_override=f"{kind}:1"),
        red.refused("topic_join", topic_id=topic_id, agent_name=f"{kind}: the stick is yours"),
        red.refused("topic_join", topic_id=topic_id, agent_name=f"{kind}.deft-osprey"),
    )

    assert [each["reason"] for each in refusals] == ["confusable"] * 3


@pytest.mark.parametrize(("name", "reason"), REASONS)
def test_a_deceptive_name_is_refused_with_its_reason(red: Any, topic_id: str, name: str, reason: str) -> None:
    agent = red.refused("topic_join", topic_id=topic_id, agent_name=name)
    topic = red.refused("topic_create", name=name)

    assert (agent["field"], agent["reason"]) == ("agent_name", reason)
    assert (topic["field"], topic["reason"]) == ("name", reason)


def test_no_topic_looks_like_another(red: Any) -> None:
    red.data("topic_create", name="coco")

    refused = red.refused("topic_create", name="\u0441\u043e\u0441\u043e")

    assert (refused["field"], refused["reason"], refused["like"]) == ("name", "confusable", "coco")


def test_no_topic_is_renamed_to_look_like_another(app: App, red: Any, topic_id: str) -> None:
    red.data("topic_create", name="modem")
    other = red.data("topic_create", name="other")["topic_id"]

    with pytest.raises(Exception, match="looks like 'modem'"):
        app.topics.rename(other, "modern")
    assert app.topics.find(other).name == "other"


def test_no_name_on_a_topic_looks_like_another(red: Any, blue: Any, topic_id: str) -> None:
    red.join(topic_id, "builder-1")

    refused = blue.refused("topic_join", topic_id=topic_id, agent_name="builder-l")

    assert (refused["error"], refused["like"]) == ("AGENT_NAME_IN_USE", "builder-1")


def test_no_name_on_a_topic_is_or_looks_like_that_of_another_agent(red: Any, blue: Any, topic_id: str) -> None:
    blue.data("agent_register", name="modem")

    for name in ("modem", "modern", "test:blue", "test:b1ue"):
        assert red.refused("topic_join", topic_id=topic_id, agent_name=name)["error"] == "AGENT_NAME_IN_USE"
    assert blue.join(topic_id, "modem")["agent_name"] == "modem"


def test_of_two_look_alikes_taken_at_the_same_moment_under_different_locks_one_is_refused(
    app: App, red: Any, topic_id: str
) -> None:
    answers: list[Any] = []
    join = Thread(target=lambda: answers.append(red.call("topic_join", topic_id=topic_id, agent_name="modern").data))

    with app.store.write("another lock") as tx:
        insert_agent(tx, "modem", "test", "mcp_harness", None)
        join.start()
        join.join(0.5)  # it ends before this transaction only if it does not wait for it
    join.join()

    assert [(answer.get("error"), answer.get("like")) for answer in answers] == [("AGENT_NAME_IN_USE", "modem")]


def test_no_registered_name_looks_like_another_in_the_room(red: Any, blue: Any) -> None:
    blue.data("agent_register", name="modem")

    refused = red.refused("agent_register", name="modern")

    assert (refused["error"], refused["like"]) == ("DUPLICATE_AGENT_ID", "modem")


def test_no_chosen_agent_id_looks_like_that_of_another_agent(red: Any, blue: Any, workspace: str) -> None:
    refused = red.refused("join_path", context_path=workspace, agent_id_override="test:b1ue")

    assert (refused["field"], refused["like"]) == ("agent_id_override", "test:blue")


def test_no_chosen_agent_id_is_the_name_of_another_agent(red: Any, blue: Any, workspace: str) -> None:
    name = blue.data("agent_register")["name"]

    refused = red.refused("join_path", context_path=workspace, agent_id_override=name)

    assert (refused["field"], refused["reason"]) == ("agent_id_override", "taken")


@pytest.mark.parametrize("name", ["human:ada:tty1", "HUMAN:ada"])
def test_only_a_person_has_a_name_for_people(app: App, red: Any, topic_id: str, agent: Any, name: str) -> None:
    person = agent("person:1")._replace(session_kind="human_guardian")

    refused = red.refused("topic_join", topic_id=topic_id, agent_name=name)
    joined = app.peers.join(person, name, topic_id, None, None)

    assert (refused["field"], refused["reason"]) == ("agent_name", "person")
    assert joined.peer.agent_name == name


def test_a_topic_that_is_there_stays_usable_whatever_its_name(app: App, red: Any) -> None:
    topic_id = red.data("topic_create", name="plan")["topic_id"]
    with app.store.write("x") as tx:
        tx.run("rename_topic", topic_id=topic_id, name=CYRILLIC)
        note_name(tx, CYRILLIC)

    assert red.data("topic_create", name=CYRILLIC)["topic_id"] == topic_id
    assert red.data("topic_resolve", name=CYRILLIC)["topic_id"] == topic_id
    red.data("topic_close", topic_id=topic_id)
    assert red.data("topic_create", name=CYRILLIC)["topic_id"] != topic_id


def test_a_name_on_a_topic_that_is_there_stays_usable(app: App, red: Any, blue: Any, topic_id: str) -> None:
    token = red.join(topic_id, "zed")["reclaim_token"]
    with app.store.write("x") as tx:
        peer = tx.one("peer_named", topic_id=topic_id, agent_name="zed")
        assert peer is not None
        tx.run("reserve_name", topic_id=topic_id, agent_name="z\u0435d", peer_id=peer["peer_id"])

    joined = blue.data("topic_join", topic_id=topic_id, agent_name="z\u0435d", reclaim_token=token)

    assert joined["topic_id"] == topic_id


def test_an_agent_can_go_back_to_its_former_name(red: Any) -> None:
    red.data("agent_register", name="scout-1")
    red.data("agent_register", name="planner")

    assert red.data("agent_register", name="scout-1")["name"] == "scout-1"


# -- labels


@pytest.mark.parametrize("name", ["test·zed", "zed\u2027x", "zed\u22c5x", "zed\u2022x", "zed\u16ebx"])
def test_no_new_name_has_the_dot_of_a_label(red: Any, topic_id: str, name: str) -> None:
    refused = red.refused("topic_join", topic_id=topic_id, agent_name=name)

    assert (refused["error"], refused["reason"]) == ("INVALID_ARGUMENT", "label")


@pytest.mark.parametrize("taken", ["its own name", "a name on the topic"])
def test_no_new_name_is_the_label_of_another_agent_in_ascii(red: Any, blue: Any, topic_id: str, taken: str) -> None:
    name = blue.name if taken == "its own name" else "zed"
    blue.data("topic_join", topic_id=topic_id, agent_name=name)

    refused = red.refused("topic_join", topic_id=topic_id, agent_name=f"test.{name}")

    assert (refused["error"], refused["like"]) == ("AGENT_NAME_IN_USE", f"test·{name}")
    assert red.data("topic_join", topic_id=topic_id, agent_name=f"other.{name}")["agent_name"] == f"other.{name}"
    assert red.data("topic_join", topic_id=topic_id, agent_name=f"test.{red.name}")


def test_every_tool_takes_the_label_that_its_text_shows(red: Any, blue: Any) -> None:
    payload = {"subject": "CI", "blocker": "red", "requested_action": "mend it", "urgency": "low"}
    blue.data("agent_register", name="stout-zebra")
    turn = red.data("wait_for_turn", max_wait_ms=0)
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}

    sent = red.call("event_send", event_type="BLOCKED", to_agent="test·stout-zebra", payload=payload)
    outbox = [{"content_markdown": "hello", "metadata": {"to": ["test·stout-zebra", "other·stout-zebra"]}}]
    told = red.data("sync", topic_id=red.home, outbox=outbox, wait_seconds=0)
    read = blue.data("sync", topic_id=blue.home, wait_seconds=0)["received"]
    found = red.data("messages_search", query="hello", mode="fts", sender=f"test·{red.name}")["results"]
    refused = red.refused("agent_adopt", name="test·stout-zebra", scope="*")
    ordered = red.data("reorder_members", order=["test·stout-zebra", red.name])["members"]
    handoff = {"status": "done", "next_action": "go on"}
    passed = red.call("pass_stick", to_agent_id="test·stout-zebra", handoff=handoff, **lease)

    assert sent.data["event"]["to_agent"] == "stout-zebra" and "sent to test·stout-zebra." in sent.text
    assert told["sent"][0]["message"]["metadata"] == {"to": ["stout-zebra", "other·stout-zebra"]}
    assert [each["context"]["name"] for each in told["warnings"]] == ["other·stout-zebra"]
    assert read[0]["addressed"] is True
    assert [hit["seq"] for hit in found] == [1]
    assert refused["reason"] == "still_running" and "test·stout-zebra may still be running" in refused["message"]
    assert [member["agent_id"] for member in ordered] == ["test:blue", "test:red"]
    assert passed.data["reserved_for"] == "test:blue"
    assert "reserved for test·stout-zebra" in passed.text and "reserved_for=test:blue" in passed.text
