"""What an agent that is new to conch sees: the same few facts in the object and in the text, and what to do next.

Some harnesses show a model only `structuredContent`, some only the text, some both.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.conftest import Child, Client, Enter
from tests.contract.test_margin import PLAIN, closing, everything_said, filled

from conch.calls import Call
from conch.host import processes
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.replies import Reply

# The fields that the specifications of the tools type `| null`.
NULLABLE = {
    *("owner", "reserved_for", "pending_handoff_event_seq", "lease_id", "lease_expires_at", "claim_expires_at"),
    *("handoff", "from_agent_id", "reply_to", "metadata", "client_message_id"),
    *("bead_id", "from_agent", "to_agent", "scope"),
}
NEVER = {"pid", "host_id", "process", "process_started_at", "session_kind", "display_name"}
AN_ID = re.compile(r"\b(?:room|topic|lease|msg|proto|res|evt)_[0-9a-f]{8,}\b")
A_FACT = re.compile(r"(?<!\S)([a-z_]+)=([0-9]+)(?!\S)")
TEXT = "src/plain"


@pytest.fixture(params=["sqlite"])
def environ(tmp_path: Path) -> dict[str, str]:
    """What a reply says does not depend on the engine."""
    return {"HOME": str(tmp_path / "home"), "CONCH_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def replies(enter: Enter, workspace: str, child: Callable[[], Child]) -> list[tuple[str, Reply]]:
    """Replies of every tool to agents that use all of them."""
    Path(workspace, "src").mkdir()
    Path(workspace, TEXT).write_text("unfinished")
    found = list(everything_said(enter, workspace, child(), TEXT))
    bob = enter("bob:2", None, workspace)
    found += [(tool, client.call(tool, **filled(client, given))) for client, tool, given in closing(bob, TEXT)]
    assert {tool for tool, _ in found} == set(TOOLS)
    return found


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, name)
    else:
        yield name, value


def is_in(text: str, name: str, value: Any) -> bool:
    if isinstance(value, bool) or value is None or value == "":
        return True  # words say that something is true; if it is not, they are missing
    if isinstance(value, str) and not value.isdecimal():
        return all(line.strip() in text for line in value.splitlines())
    numbered = "|#" if name.endswith("seq") else '|"' if name == "cursor" else "|[:-]" if name == "lines" else ""
    return re.search(rf"(?:{name}={numbered}){re.escape(str(value))}\b", text) is not None


def missing_facts(replies: list[tuple[str, Reply]]) -> list[tuple[str, str, Any]]:
    return [
        (tool, name, value)
        for tool, reply in replies
        for name, value in leaves({key: each for key, each in reply.data.items() if key != "sent"})
        if not is_in(reply.text, name, value)
    ]


def test_every_fact_of_every_object_is_in_the_text(replies: list[tuple[str, Reply]]) -> None:
    assert missing_facts(replies) == []


def test_a_fact_with_the_same_value_as_another_is_in_the_text_too(enter: Enter) -> None:
    ada, bob = enter("ada:1"), enter("bob:2")  # at the same moment
    ada.data("wait_for_turn")
    bob.data("wait_for_turn", max_wait_ms=0)

    rooms, state = (
        ada.call("list_rooms", context_path=ada.joined["canonical_path"]).text,
        bob.call("get_room_state").text,
    )
    log = bob.call("get_room_events").text

    moment = "2027-01-15T08:00:00.000Z"
    assert "members=ada:1 members=bob:2" in rooms and f"updated_at={moment}" in rooms
    assert state.count(f"joined {moment}, last seen {moment}") == 2 and f"updated_at={moment}" in state
    assert log.count("turn_id=") == 3


def test_a_text_whose_first_line_is_a_word_of_ours_is_shown_whole(enter: Enter) -> None:
    ada = enter("ada:1")

    closed = ada.call("topic_close", topic_id=ada.data("topic_create")["topic_id"], reason="closed\nbecause of rain")
    refused = ada.call(
        "sync", topic_id=ada.home, wait_seconds=0, outbox=[{"content_markdown": "a", "metadata": {"to": "b"}}]
    )

    assert "because of rain" in closed.text
    assert "UNKNOWN_ADDRESSEE: No peer of this topic is called 'b'." in refused.text


def test_every_warning_is_in_the_text_with_its_code(enter: Enter) -> None:
    ada, bob = enter("ada:1"), enter("bob:2")
    ada.data("wait_for_turn")
    topic_id = ada.data("topic_create", name="pink")["topic_id"]
    ada.join(topic_id, "red")
    message = {"content_markdown": "a", "client_message_id": "c"}
    answer = {"question_id": "msg_x", "answer_markdown": "a", "suggested_followups": ["f"]}
    asked = ada.data("ask", topic_id=ada.home, question="Why?", wait_seconds=0)["question_id"]
    ada.data("ask_cancel", topic_id=ada.home, question_id=asked)

    replies = [
        ("scope_reserve", bob.call("scope_reserve", scope="src")),
        ("topic_create", ada.call("topic_create", name="pink", metadata={"a": 1})),
        *(("sync", ada.call("sync", topic_id=ada.home, outbox=[message], ack_through=0, wait_seconds=0)) for _ in "12"),
        ("answer", bob.call("answer", topic_id=bob.home, responses=[answer])),
        ("ask_cancel", ada.call("ask_cancel", topic_id=ada.home, question_id=asked)),
        *(("topic_close", ada.call("topic_close", topic_id=topic_id)) for _ in "12"),
        ("pending_list", ada.call("pending_list", topic_id=topic_id, wait_seconds=0)),
    ]

    codes = {warning["code"] for _, reply in replies for warning in reply.data["warnings"]}
    expected = {"STICK_HELD", "METADATA_IGNORED", "ACK_IGNORED", "ALREADY_SENT", "QUESTION_NOT_FOUND"}
    assert codes == expected | {"ALREADY_CANCELLED", "ALREADY_CLOSED", "TOPIC_CLOSED"}
    assert missing_facts(replies) == []


def test_every_id_and_number_in_a_text_is_in_the_object(replies: list[tuple[str, Reply]]) -> None:
    missing = [
        (tool, found.group(), reply.data)
        for tool, reply in replies
        for found in [*AN_ID.finditer(reply.text), *A_FACT.finditer(reply.text)]
        if found.group().rpartition("=")[2] not in json.dumps(reply.data)
    ]

    assert missing == []


def test_what_to_do_next_is_in_both(replies: list[tuple[str, Reply]]) -> None:
    for _, reply in replies:
        assert ("Next: " in reply.text) <= ("next" in reply.data)
        assert reply.data.get("next", "") in reply.text


def test_no_reply_has_a_null_that_no_specification_asks_for(replies: list[tuple[str, Reply]]) -> None:
    nulls = {(tool, name) for tool, reply in replies for name, value in leaves(reply.data) if value is None}

    assert {each for each in nulls if each[1] not in NULLABLE} == set()


def test_no_reply_tells_processes_and_hosts(replies: list[tuple[str, Reply]]) -> None:
    names = {(tool, name) for tool, reply in replies for name, _ in leaves(reply.data)}

    assert {each for each in names if each[1] in NEVER} == set()


def test_only_sync_echoes_what_was_just_sent(enter: Enter) -> None:
    ada, bob = enter("ada:1"), enter("bob:2")
    notice = {"subject": "ECHO", "summary": "ECHO", "next_action": "ECHO"}
    turn = ada.data("wait_for_turn", max_wait_ms=0)
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    question = bob.data("ask", topic_id=bob.home, question="Why?", wait_seconds=0)["question_id"]
    response = {"question_id": question, "answer_markdown": "ECHO", "suggested_followups": ["ECHO"]}

    replies = [
        ada.call("append_note", note="ECHO"),
        ada.call("event_send", event_type="HANDOFF", to_agent="bob:2", payload=notice),
        ada.call("ask", topic_id=ada.home, question="ECHO", wait_seconds=0),
        ada.call("answer", topic_id=ada.home, responses=[response]),
        ada.call("release_stick", **lease, handoff={"status": "ECHO", "next_action": "ECHO"}),
    ]

    assert not any(reply.is_error for reply in replies)
    assert [reply.data for reply in replies if "ECHO" in json.dumps(reply.data) + reply.text] == []


@pytest.mark.parametrize("blank", [" ", "\u3000", "\n", "\t \n"])
def test_a_blank_text_does_not_cost_the_reply(enter: Enter, blank: str) -> None:
    ada = enter("ada:1")

    assert ada.call("ask_cancel", topic_id=ada.home, question_id="x", **{blank: 1}).is_error
    assert not ada.call("topic_close", topic_id=ada.data("topic_create")["topic_id"], reason=blank).is_error


def test_what_to_do_next_fits_an_agent_that_has_the_stick_or_is_next(enter: Enter, workspace: str) -> None:
    ada, bob = enter("ada:1"), enter("bob:2")
    turn = ada.data("wait_for_turn", max_wait_ms=0)
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    holder = ada.data("join_path", context_path=workspace)["next"]
    unknown = ada.refused("pass_stick", **lease, to_agent_id="cy", handoff={"status": "s", "next_action": "n"})
    ada.data("release_stick", **lease, handoff={"status": "s", "next_action": "n"})

    heir = [bob.data("join_path", context_path=workspace)["next"], bob.data("get_room_state")["next"]]

    assert holder == "You hold the stick: call wait_for_turn to go on with your turn."
    assert heir == ["The stick is reserved for you: call wait_for_turn to claim it."] * 2
    assert unknown["message"].endswith(f" Active members: bob·{bob.name}.")


# -- who is who

NAMES = {"sender", "agent_name", "answered_by", "asked_by", "from_agent", "to_agent", "former_name", "from"}
# What a program reads, and a name that is spoken about as a name, not as an agent.
A_FACT_OR_A_NAME = re.compile(r"\b[a-z_.]+=\S+|'[^'\n]*'")


def test_every_text_calls_every_agent_by_its_label(replies: list[tuple[str, Reply]]) -> None:
    found = {str(value) for _, reply in replies for name, value in leaves(reply.data) if name in NAMES}
    names = found - {"None", "conch", TEXT, PLAIN}

    bare = [
        (tool, name, line)
        for tool, reply in replies
        for line in A_FACT_OR_A_NAME.sub("", reply.text).splitlines()
        for name in names
        if re.search(rf"(?<![\w·-]){re.escape(name)}(?![\w-])", line)
    ]

    assert len(names) > 4
    assert bare == []


# -- few facts


TYPICAL = "/home/user/projects/a-typical-backend"


def size(reply: Reply, folder: Path) -> int:
    """The bytes of `structuredContent` as a client gets it in a typical folder, without mail."""
    data = {name: value for name, value in reply.data.items() if name != "mail"}
    return len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace(str(folder), TYPICAL).encode())


def test_typical_replies_stay_within_their_budgets(enter: Enter, tmp_path: Path) -> None:
    folder = tmp_path / "a-typical-backend"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("")
    process = processes.look_up(os.getpid())
    owner, waiting, third = (
        enter(each, process, str(folder)) for each in ("claude-code:a3f1c2", "codex:9b22d1", "gemini:1c4e77")
    )
    turn = owner.data("wait_for_turn")
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}

    sizes = {
        "join_path": size(third.call("join_path", context_path=str(folder)), folder),
        "get_room_state": size(owner.call("get_room_state"), folder),
        "not_yet": size(waiting.call("wait_for_turn", max_wait_ms=0), folder),
        "heartbeat": size(owner.call("heartbeat", **lease), folder),
    }

    budgets = {"join_path": 1_600, "get_room_state": 1_150, "not_yet": 450, "heartbeat": 250}
    assert {tool: size for tool, size in sizes.items() if size > budgets[tool]} == {}


# -- the opening of a session, as each harness shows it

KINDS = {"room_id": "room", "topic_id": "topic", "lease_id": "lease", "question_id": "msg", "event_id": "proto"}
SHOWS: dict[str, Callable[[Reply], str]] = {
    "only the object (Claude Code, Codex)": lambda reply: json.dumps(reply.data),
    "only the text (OpenCode, Gemini CLI, Kilo)": lambda reply: reply.text,
    "both (Copilot, Qwen Code, Cline)": lambda reply: f"{reply.text}\n{json.dumps(reply.data)}",
}


class Newcomer:
    """An agent that knows only what its harness has just shown it."""

    def __init__(self, client: Client, shows: Callable[[Reply], str]) -> None:
        self._session = client.session
        self._shows = shows
        self.sees = ""

    def call(self, tool: str, **arguments: Any) -> None:
        reply = call_tool(TOOLS[tool], self._session, arguments, Call())
        assert not reply.is_error, reply.text
        reply.delivery.sent()
        self.sees = self._shows(reply)

    def find(self, name: str) -> str:
        """A value that can be seen, by its name or by how it looks."""
        found = re.search(rf'\b{name}"?(?:=|: )"?([\w:.-]+)', self.sees)
        if found is None and name in KINDS:
            found = re.search(rf"\b({KINDS[name]}_[0-9a-f]+)", self.sees)
        assert found is not None, f"no {name} in {self.sees}"
        return found[1]

    def lease(self) -> dict[str, Any]:
        return {
            "room_id": self.find("room_id"),
            "lease_id": self.find("lease_id"),
            "expected_turn_id": int(self.find("turn_id")),
        }


@pytest.mark.parametrize("shows", SHOWS.values(), ids=SHOWS)
def test_a_newcomer_sees_all_that_its_next_call_needs(
    enter: Enter, workspace: str, shows: Callable[[Reply], str]
) -> None:
    bob, client = enter("bob:2"), enter("new:1")
    agent = Newcomer(client, shows)

    agent.call("join_path", context_path=workspace)
    assert "Call wait_for_turn" in agent.sees
    topic_id = agent.find("topic_id")
    agent.call("wait_for_turn", room_id=agent.find("room_id"))
    assert "your_turn" in agent.sees and "release_stick" in agent.sees
    lease = agent.lease()
    bob.send(bob.home, "Mind the tests.", metadata={"to": client.name})
    bob.data("ask", topic_id=bob.home, question="Which branch?", wait_seconds=0)
    agent.call("heartbeat", **lease)
    for seen in ("to_you", "Mind the tests.", bob.name, "questions", "Which branch?", topic_id):
        assert seen in agent.sees
    agent.call("sync", topic_id=agent.find("topic_id"), wait_seconds=0)
    assert "Mind the tests." in agent.sees and "message_type=answer" in agent.sees
    agent.call("pending_list", topic_id=agent.find("topic_id"), wait_seconds=0)
    assert "Call answer" in agent.sees
    answer = {"question_id": agent.find("question_id"), "answer_markdown": "main", "suggested_followups": ["So?"]}
    agent.call("answer", topic_id=topic_id, responses=[answer])
    agent.call("scope_reserve", room_id=lease["room_id"], scope="src")
    assert "scope_release" in agent.sees and "2027-" in agent.sees
    agent.call("release_stick", **lease, handoff={"status": "did it", "next_action": "check it"})
    assert "bob:2" in agent.sees and "wait_for_turn" in agent.sees
    agent.call("wait_for_turn", room_id=lease["room_id"], max_wait_ms=0)
    assert "not_yet" in agent.sees and "End your turn" in agent.sees

    assert bob.data("wait_for_turn")["handoff"]["status"] == "did it"


def test_the_receiver_of_a_handoff_sees_all_of_it(enter: Enter) -> None:
    bob, client = enter("bob:2"), enter("new:1")
    turn = bob.data("wait_for_turn")
    handoff = {"status": "half done", "next_action": "finish", "artifacts": [{"path": "src/a.py", "role": "edit"}]}
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    bob.data("release_stick", **lease, handoff=handoff)

    reply = client.call("wait_for_turn")

    for shows in SHOWS.values():
        assert all(part in shows(reply) for part in ("half done", "finish", "src/a.py", "bob:2", "Read the handoff"))
