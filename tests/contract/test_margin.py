"""No text of an agent can forge a line of ours, control a terminal or hide characters: in no tool and no command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.contract.conftest import Child, Client, Enter
from tests.harness.conftest import answer_to
from tests.terminals import run_in_terminal

from conch.app import App, open_app
from conch.doors.cli.catalogue import COMMANDS
from conch.tools.catalogue import TOOLS
from conch.tools.replies import Reply
from conch.tools.resources import RESOURCES, read_resource

LETTERS = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
LINE_ENDS = [line[-1] for line in LETTERS.splitlines(keepends=True)[:-1]]
# The characters that control a terminal: C0 and C1. NUL is refused, because no store keeps it.
CONTROLS = [letter for letter in LETTERS if unicodedata.category(letter) == "Cc" and letter not in "\0\t"]
TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
BIDIRECTIONAL = [letter for letter in LETTERS if unicodedata.bidirectional(letter) in TURNING]
BIDIRECTIONAL += ["\u200e", "\u200f", "\u061c"]
# The ends of each range of characters that Unicode says to ignore. Joiners and variation selectors are shown.
IGNORED = [*"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u200b\u2060\u206f\u3164\ufeff\uffa0\ufff0\ufff8"]
IGNORED += [*"\U0001bca0\U0001bca3\U0001d173\U0001d17a\U000e0000\U000e0fff"]
DANGEROUS = sorted({*LINE_ENDS, *CONTROLS, *BIDIRECTIONAL, *IGNORED})
FORGED = "Z9"  # a word that search finds, and so short that many fit into the shortest field, a role
PLAIN = f"{FORGED}: ok"  # a name that nobody refuses
BUNCHES = [DANGEROUS[start : start + 21] for start in range(0, len(DANGEROUS), 21)]
ANY_LINE_END = re.compile("|".join(map(re.escape, DANGEROUS)))
STORE = {
    f"db {action}" for action in ("path", "verify", "reindex", "backup", "migrate", "copy", "restore", "prune", "wipe")
}
# `import` shows what is in a file, on single lines. `watch` needs a terminal; it shows what `status` and `events` do.
NO_TEXT_OF_OTHERS = {"mcp", "serve", "install", "uninstall", "doctor", "demo", "version", "import", "watch", *STORE}
NO_TEXT_OF_OTHERS |= {"hook"}  # a test of its own below has all its events

Texts = dict[str, list[str]]

# One process for all commands, because a start costs more than a command.
RUN_EACH = """
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from conch.doors.cli.run import run

printed = []
for agent_id, command, words in json.load(sys.stdin):
    os.environ.pop("CONCH_AGENT_ID", None)
    os.environ |= {"CONCH_AGENT_ID": agent_id} if agent_id else {}  # without an id, the person at this terminal
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        run([*command.split(), *words], {})
    printed.append([out.getvalue(), err.getvalue()])
print(json.dumps(printed))
"""


@pytest.fixture(params=["sqlite"])
def environ(tmp_path: Path) -> dict[str, str]:
    """How a text reads does not depend on the engine."""
    return {"HOME": str(tmp_path / "home"), "CONCH_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def app(environ: dict[str, str]) -> Iterator[App]:
    """With the real clock, because the commands use it too."""
    app = open_app(environ)
    yield app
    app.close()


@pytest.fixture
def folder(tmp_path: Path, letters: list[str]) -> str:
    """A workspace with the characters in its own name."""
    root = tmp_path / forgery(letters)
    root.mkdir()
    subprocess.run(["git", "init", "--quiet", root], check=True)
    (root / forgery(letters)).write_text("left unfinished")
    return os.path.realpath(root)


def forgery(letters: list[str]) -> str:
    """Begins with the forged word, and has it again after each character."""
    return FORGED + "".join(f"{letter}{FORGED}" for letter in letters)


def name_of(letters: list[str]) -> str:
    return f"U+{ord(letters[0]):04X} to U+{ord(letters[-1]):04X}"


def forged_lines(texts: Texts) -> list[tuple[str, str]]:
    return [
        (source, line)
        for source, found in texts.items()
        for text in found
        for line in ANY_LINE_END.split(text)
        if line.startswith((FORGED, f"**{FORGED}"))  # search marks what it has found
    ]


def raw(texts: Texts, letters: list[str]) -> list[tuple[str, str]]:
    return [
        (source, letter)
        for source, found in texts.items()
        for letter in letters
        if letter != "\n" and any(letter in text for text in found)
    ]


@pytest.mark.parametrize("letters", BUNCHES, ids=name_of)
def test_no_text_of_a_tool_has_a_line_that_another_agent_forged(
    enter: Enter, folder: str, child: Callable[[], Child], letters: list[str]
) -> None:
    texts: Texts = {}

    for tool, reply in everything_said(enter, folder, child(), forgery(letters)):
        texts.setdefault(tool, []).append(reply.text)
    bob = enter("bob:2", None, folder)
    for client, tool, arguments in closing(bob, forgery(letters)):
        texts.setdefault(tool, []).append(client.call(tool, **filled(client, arguments)).text)

    assert set(texts) == set(TOOLS)
    assert any(FORGED in text for found in texts.values() for text in found)
    assert forged_lines(texts) == []
    assert raw(texts, letters) == []


@pytest.mark.parametrize("letters", BUNCHES, ids=name_of)
def test_no_resource_has_a_line_that_another_agent_forged(
    enter: Enter, folder: str, child: Callable[[], Child], letters: list[str]
) -> None:
    for _ in everything_said(enter, folder, child(), forgery(letters)):
        pass
    bob, eve = enter("bob:2", None, folder), enter("eve:3", None, folder)
    message = {"content_markdown": forgery(letters), "metadata": {"to": "eve:3"}}
    bob.data("sync", topic_id=bob.home, outbox=[message], wait_seconds=0)
    home = bob.joined["canonical_path"]
    addresses = ["conch://room", "conch://inbox", f"conch://room/{bob.room_id}", f"conch://topic/{quote(home)}"]

    texts = {uri: [read_resource(RESOURCES, eve.session, uri)["contents"][0]["text"]] for uri in addresses}

    assert all(FORGED in text for found in texts.values() for text in found), texts
    assert forged_lines(texts) == []
    assert raw(texts, letters) == []


@pytest.mark.parametrize("letters", BUNCHES, ids=name_of)
def test_no_command_prints_a_line_that_another_agent_forged(
    enter: Enter,
    folder: str,
    child: Callable[[], Child],
    letters: list[str],
    environ: dict[str, str],
) -> None:
    for _ in everything_said(enter, folder, child(), forgery(letters)):
        pass
    commands = list(every_command(forgery(letters)))

    done = subprocess.run(
        [sys.executable, "-c", RUN_EACH],
        cwd=folder,
        env=environ,
        input=json.dumps(commands).encode(),
        capture_output=True,
    )

    texts: Texts = {}
    for (_, command, _), printed in zip(commands, json.loads(done.stdout), strict=True):
        texts.setdefault(command, []).extend(printed)
    assert set(texts) == set(COMMANDS) - NO_TEXT_OF_OTHERS
    assert any(FORGED in text for found in texts.values() for text in found)
    assert forged_lines(texts) == []
    assert raw(texts, letters) == []


@pytest.mark.parametrize("letters", BUNCHES, ids=name_of)
def test_no_hook_shows_a_line_that_another_agent_forged(
    enter: Enter, folder: str, letters: list[str], environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    evil, texts = forgery(letters), Texts()

    def hook(event: str, **fields: Any) -> None:
        given = {"session_id": "eve", "cwd": folder, "hook_event_name": event, **fields}
        texts.setdefault(event, []).extend(strings_in(answer_to([event, "--harness", "claude-code"], given)))

    bob = enter("bob:2", None, folder)
    bob.data("agent_register", name="planner", role=evil[:64])
    bob.data("scope_reserve", scope=evil, bead_id=evil)
    hook("SessionStart")
    eve = next(each for each in bob.data("agent_list")["agents"] if each["agent_id"] != "bob:2")["name"]
    payload = {"subject": evil, "summary": evil, "next_action": evil}
    bob.data("event_send", event_type="HANDOFF", to_agent=eve, payload=payload, bead_id=evil, scope=evil)
    message = {"content_markdown": evil, "metadata": {"to": eve}}
    bob.data("sync", topic_id=bob.home, outbox=[message, {**message, "message_type": "question"}], wait_seconds=0)
    hook("PreToolUse", tool_name="Write", tool_input={"file_path": os.path.join(folder, evil), "content": ""})
    hook("PostToolUse", tool_name="Read", tool_input={})
    hook("Stop")

    assert all(any(FORGED in text for text in said) for said in texts.values()), texts
    assert forged_lines(texts) == []
    assert raw(texts, letters) == []


@pytest.mark.parametrize("letters", [DANGEROUS[:60]], ids=["controls"])
def test_installing_for_a_workspace_prints_no_line_that_its_path_forged(folder: str, environ: dict[str, str]) -> None:
    Path(folder, ".mcp.json").write_text("not JSON")

    done = subprocess.run(
        [sys.executable, "-c", RUN_EACH],
        cwd=folder,
        env=environ,
        input=json.dumps([[None, "install", ["claude-code", "--project"]]]).encode(),
        capture_output=True,
    )

    texts = {"install": json.loads(done.stdout)[0]}
    assert f"cannot change: {os.path.dirname(folder)}" in texts["install"][1]
    assert forged_lines(texts) == []


def strings_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inside for text in strings_in(each)]


def test_an_answer_that_a_command_waited_for_has_no_line_that_looks_like_ours(
    environ: dict[str, str], enter: Enter, workspace: str
) -> None:
    bob, evil = enter("bob:2", None, workspace), forgery(DANGEROUS)
    asking = subprocess.Popen(
        [sys.executable, "-m", "conch", "ask", "Why?", "--wait", "60"],
        cwd=workspace,
        env={**environ, "CONCH_AGENT_ID": "eve:3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    asked = bob.data("sync", topic_id=bob.home, wait_seconds=60)["received"][0]["message_id"]
    answer = {"question_id": asked, "answer_markdown": evil, "repo_pointers": [evil], "suggested_followups": [evil]}
    bob.data("answer", topic_id=bob.home, responses=[answer])

    texts = {"ask": [asking.communicate()[0].decode()]}

    assert texts["ask"][0].count(FORGED) >= 3 * len(DANGEROUS)
    assert forged_lines(texts) == []
    assert raw(texts, DANGEROUS) == []


def test_nobody_forges_a_line_for_a_person_who_steps_in_or_for_an_agent_that_lost_something(
    enter: Enter, workspace: str, environ: dict[str, str]
) -> None:
    evil = forgery(DANGEROUS)
    ada, bob = enter("ada:1", None, workspace), enter("bob:2", None, workspace)
    claimed = ada.data("wait_for_turn", max_wait_ms=0)
    held = {"lease_id": claimed["lease_id"], "expected_turn_id": claimed["turn_id"]}
    ada.data("append_note", note=evil)
    ada.data("scope_reserve", scope=evil)

    done = run_in_terminal(
        [sys.executable, "-c", RUN_EACH], workspace, environ, json.dumps([[None, *step] for step in steering(evil)])
    )
    lost = [client.call("heartbeat", **held).text for client in (ada, bob)]
    seen = [bob.call(tool).text for tool in ("get_room_state", "get_room_events", "wait_for_turn")]

    texts = {"a person": [text for printed in json.loads(done.stdout) for text in printed], "lost": lost, "seen": seen}
    assert not any("person_required" in text for text in texts["a person"])
    assert all(FORGED in text for text in lost)
    assert forged_lines(texts) == []
    assert raw(texts, DANGEROUS) == []


def test_no_text_of_a_tool_has_a_letter_that_is_not_seen(enter: Enter, workspace: str) -> None:
    ada = enter("ada:1", None, workspace)

    registered = ada.call("agent_register", role="re\u034fview\u3164")
    listed = ada.call("agent_list")

    assert not registered.is_error
    assert (registered.text + listed.text).replace("·", "").isascii()


@pytest.mark.parametrize("letters", BUNCHES, ids=name_of)
def test_no_field_of_a_tool_makes_its_refusal_look_like_ours(enter: Enter, folder: str, letters: list[str]) -> None:
    ada, evil, texts = enter("ada:1", None, folder), forgery(letters), Texts()
    known = {"room_id": ada.room_id, "topic_id": ada.home, "context_path": folder, "lease_id": "x", "name": "plan"}

    for tool in TOOLS.values():
        properties = tool.input_schema["properties"]
        required = {name: filled_in(properties[name], "x") for name in tool.input_schema.get("required", ())}
        given = {
            **required,
            **{name: value for name, value in known.items() if name in properties},
            **brief(properties),
        }
        for field, schema in properties.items():
            text = ada.call(tool.name, **{**given, field: filled_in(schema, evil)}).text
            texts.setdefault(tool.name, []).append(text)

    assert set(texts) == {tool.name for tool in TOOLS.values() if tool.input_schema["properties"]}
    assert forged_lines(texts) == []
    assert raw(texts, letters) == []


def test_structures_keep_the_text_as_it_was_written(enter: Enter, workspace: str) -> None:
    evil = forgery(DANGEROUS)
    ada, bob = enter("ada:1", None, workspace), enter("bob:2", None, workspace)
    ada.send(ada.home, evil)
    ada.data("append_note", note=evil)

    assert bob.read(bob.home) == [evil]
    assert bob.data("get_room_events")["events"][-1]["details"] == {"note": evil}


def filled_in(schema: Any, text: str) -> Any:
    """A value that fits the schema, with the text wherever a text can be."""
    match schema.get("anyOf", [schema])[0]:
        case {"enum": [first, *_]}:
            return first
        case {"type": "array", **rest}:
            return [filled_in(rest.get("items", {"type": "string"}), text)]
        case {"type": "object", **rest}:
            inside = rest.get("properties", {text: {"type": "string"}})
            return {name: filled_in(each, text) for name, each in inside.items()}
        case {"type": "integer" | "number", **rest}:
            return rest.get("minimum", 1)
        case {"type": "boolean"}:
            return False
    return text


def brief(properties: Any) -> dict[str, int]:
    """Without waiting."""
    return {name: 0 for name in ("wait_seconds", "max_wait_ms") if name in properties}


MARKUP = "<!-- <b>x</b> [link](http://x) ![](y) `a` ``b ** | ~~~ &lt; # H"
# Wherever a definition is, it turns brackets anywhere in the document into links.
DEFINITIONS = ["[a]: http://x", "> [a]: x", "- [a]: x", "1. [a]: x", "[^1]: x", "[a\u2028b]: x", "x\r[a]:", "\t[a]: x"]
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


def test_no_text_is_markup_of_ours_in_an_export(environ: dict[str, str], enter: Enter, workspace: str) -> None:
    ada, bob = enter("ada:1", None, workspace), enter("bob:2", None, workspace)
    topic_id = ada.data("topic_create", name=MARKUP, metadata={"note": MARKUP})["topic_id"]
    ada.join(topic_id, MARKUP[:59])
    bob.join(topic_id, "bob-1")
    body = "\n".join(["</blockquote>", MARKUP, "# forged", "===", *DEFINITIONS, "---", "```", "- item", "<script>"])
    metadata = {
        "to": ["bob-1", MARKUP[5:59]],
        "repo_pointers": ["# forged", MARKUP],
        "suggested_followups": ["- forged"],
    }
    asked = ada.data("ask", topic_id=topic_id, question=body, wait_seconds=0)["question_id"]
    ada.data("ask_cancel", topic_id=topic_id, question_id=asked, reason=MARKUP)
    ada.data("sync", topic_id=topic_id, outbox=[{"content_markdown": body, "metadata": metadata}], wait_seconds=0)
    ada.data("topic_close", topic_id=topic_id, reason=MARKUP)

    done = subprocess.run(
        [sys.executable, "-m", "conch", "topics", "export", topic_id],
        env={**environ, "CONCH_AGENT_ID": "eve:3"},
        capture_output=True,
        text=True,
    )

    lines = done.stdout.splitlines()
    ours = [CODE.sub("", line) for line in lines if not line.startswith("> ")]
    assert sum(line.startswith("> ") for line in lines) == 2 * len(body.splitlines())
    assert not re.search(r"(?m)^[> \d.)*+-]*\[[^\[\]]+\]:", done.stdout)
    assert [line for line in ours if re.search(r"[<\[\]|~]|- [#-]|!\[", line)] == []
    assert not any(re.search("<[a-z/!]", line) for line in lines if line.startswith("> "))


# -- the story


def everything_said(enter: Enter, folder: str, gone: Child, evil: str) -> Iterator[tuple[str, Reply]]:
    """The reply of every tool, with the text in every field that an agent can write."""
    ada, bob = enter("ada:1", gone.process, folder), enter("bob:2", None, folder)
    for client, tool, arguments in [*turns(ada, bob, evil), *talk(ada, bob, evil), *scopes(ada, bob, evil)]:
        yield tool, client.call(tool, **filled(client, arguments))
    gone.kill()
    for client, tool, arguments in ending(bob, evil):
        yield tool, client.call(tool, **filled(client, arguments))


Step = tuple[Client, str, dict[str, Any]]


def filled(client: Client, arguments: dict[str, Any]) -> dict[str, Any]:
    """An argument that is known only when the step runs is given as a function."""
    return {name: value(client) if callable(value) else value for name, value in arguments.items()}


def lease(client: Client) -> str:
    return str(client.data("get_room_state")["room"]["lease_id"])


def turn(client: Client) -> int:
    return int(client.data("get_room_state")["room"]["turn_id"])


def first_event(client: Client) -> str:
    return str(client.inbox(state="all")[0]["id"])


def plan(client: Client) -> str:
    return str(client.data("topic_resolve", name="plan", allow_closed=True)["topic_id"])


def plain(client: Client) -> str:
    return str(client.data("topic_resolve", name=PLAIN)["topic_id"])


def questions(client: Client) -> list[str]:
    received = client.data("sync", topic_id=client.home, wait_seconds=0, include_self=True, auto_advance=False)
    return [str(each["message_id"]) for each in received["received"] if each["message_type"] == "question"]


def question(client: Client) -> str:
    return questions(client)[0]


def other_question(client: Client) -> str:
    return questions(client)[1]


def turns(ada: Client, bob: Client, evil: str) -> list[Step]:
    held = {"lease_id": lease, "expected_turn_id": turn}
    handoff = {
        "status": evil,
        "next_action": evil,
        "artifacts": [{"path": evil, "role": "review", "note": evil}],
        "open_questions": [evil],
        "do_not": [evil],
    }
    return [
        (ada, "list_rooms", {"context_path": ada.joined["canonical_path"]}),
        (ada, "join_path", {"context_path": ada.joined["canonical_path"]}),
        (ada, "wait_for_turn", {"max_wait_ms": 0}),
        (bob, "wait_for_turn", {"max_wait_ms": 0}),
        (ada, "heartbeat", held),
        (ada, "append_note", {"note": evil}),
        (ada, "reorder_members", {"order": ["ada:1", "bob:2"]}),
        (ada, "set_room_policy", {"policy": {"claim_ttl_ms": 60_000}}),
        (ada, "set_room_policy", {"policy": {evil: 1}}),
        (ada, "release_stick", {**held, "handoff": handoff}),
        (bob, "wait_for_turn", {"max_wait_ms": 0}),
        (bob, "pass_stick", {**held, "to_agent_id": evil, "handoff": handoff}),
        (bob, "pass_stick", {**held, "to_agent_id": "ada:1", "handoff": handoff}),
        (ada, "wait_for_turn", {"max_wait_ms": 0}),
        (bob, "get_room_state", {}),
        (bob, "get_room_events", {}),
        (bob, "listen", {"wait_seconds": 0}),
    ]


def talk(ada: Client, bob: Client, evil: str) -> list[Step]:
    message = {"content_markdown": evil, "metadata": {evil: evil}}
    here = {"topic_id": ada.home, "wait_seconds": 0}
    response = {"answer_markdown": evil, "repo_pointers": [evil], "suggested_followups": [evil]}
    return [
        (ada, "ping", {}),
        (ada, "topic_create", {"name": evil}),
        (ada, "topic_create", {"name": "plan", "metadata": {evil: evil}}),
        (ada, "topic_create", {"name": "plan", "metadata": {evil: evil}}),
        (ada, "topic_list", {}),
        (ada, "topic_resolve", {"name": evil}),
        (ada, "topic_resolve", {"name": ada.joined["canonical_path"]}),
        (ada, "topic_join", {"topic_id": plan, "agent_name": evil}),
        (ada, "topic_join", {"name": "plan", "agent_name": "scout"}),
        (ada, "topic_create", {"name": PLAIN}),
        (ada, "topic_list", {}),
        (ada, "topic_join", {"name": PLAIN, "agent_name": PLAIN}),
        (
            ada,
            "sync",
            {"topic_id": plain, "outbox": [message, {**message, "message_type": "question"}], "wait_seconds": 0},
        ),
        (bob, "topic_join", {"name": PLAIN, "agent_name": f"{PLAIN} too"}),
        (bob, "sync", {"topic_id": plain, "wait_seconds": 0}),
        (bob, "pending_list", {"topic_id": plain, "wait_seconds": 0}),
        (bob, "topic_presence", {"topic_id": plain}),
        (bob, "messages_search", {"query": FORGED, "topic_id": plain}),
        (bob, "topic_join", {"topic_id": bob.home, "agent_name": PLAIN}),
        (ada, "sync", {"topic_id": plan, "outbox": [message], "wait_seconds": 0}),
        (ada, "sync", {"topic_id": ada.home, "outbox": [message, message], "wait_seconds": 0}),
        (ada, "sync", {**here, "outbox": [{**message, "metadata": {"to": [evil, bob.name]}}]}),
        (ada, "sync", {**here, "outbox": [{**message, "client_message_id": evil}]}),
        (ada, "sync", {**here, "outbox": [{**message, "message_type": evil}]}),
        (ada, "sync", {**here, "outbox": [{**message, evil: evil}]}),
        (bob, "listen", {"wait_seconds": 0}),
        (bob, "sync", {"topic_id": bob.home, "wait_seconds": 0}),
        (bob, "cursor_reset", {"topic_id": bob.home}),
        (bob, "topic_presence", {"topic_id": bob.home}),
        (ada, "ask", {"topic_id": ada.home, "question": evil, "wait_seconds": 0}),
        (ada, "ask", {"topic_id": ada.home, "question": evil, "wait_seconds": 0}),
        (bob, "pending_list", {"topic_id": bob.home, "wait_seconds": 0}),
        (
            bob,
            "answer",
            {
                "topic_id": bob.home,
                "responses": lambda bob: [{"question_id": question(bob), **response}],
                "wait_seconds": 0,
            },
        ),
        (bob, "answer", {"topic_id": bob.home, "responses": [{"question_id": evil, **response}]}),
        (ada, "ask_poll", {"topic_id": ada.home, "question_id": question}),
        (ada, "question_mark_answered", {"topic_id": ada.home, "question_id": question}),
        (ada, "ask_cancel", {"topic_id": ada.home, "question_id": other_question, "reason": evil}),
        (ada, "ask_poll", {"topic_id": ada.home, "question_id": other_question}),
        (bob, "messages_search", {"query": FORGED}),
        (bob, "messages_search", {"query": FORGED, "include_content": True}),
        (ada, "topic_close", {"topic_id": plan, "reason": evil}),
    ]


def scopes(ada: Client, bob: Client, evil: str) -> list[Step]:
    notice = {"subject": evil, "summary": evil, "next_action": evil}
    blocked = {"subject": evil, "blocker": evil, "requested_action": evil, "urgency": "high"}
    to_bob = {"to_agent": "bob:2", "bead_id": evil, "scope": evil}
    return [
        (ada, "agent_register", {"name": "scout", "role": evil}),
        (ada, "agent_register", {"name": evil}),
        (bob, "agent_register", {"name": "planner", "role": evil}),
        (ada, "agent_heartbeat", {}),
        (bob, "agent_list", {}),
        (ada, "scope_reserve", {"scope": evil, "bead_id": evil}),
        (bob, "scope_reserve", {"scope": evil, "bead_id": evil}),
        (bob, "scope_release", {"scope": evil}),
        (bob, "scope_check", {"path": evil}),
        (bob, "scope_list", {}),
        (ada, "scope_release", {"scope": evil}),
        (ada, "scope_reserve", {"scope": evil}),
        (ada, "event_send", {"event_type": "HANDOFF", "payload": notice, **to_bob}),
        (ada, "event_send", {"event_type": "BLOCKED", "payload": blocked, **to_bob}),
        (ada, "event_send", {"event_type": "HANDOFF", "payload": notice, **to_bob, "to_agent": evil}),
        (ada, "event_inbox", {"state": "all"}),
        (bob, "event_inbox", {"state": "all"}),
        (bob, "listen", {"wait_seconds": 0}),
        (bob, "event_mark", {"event_id": first_event, "mark": "seen"}),
    ]


def ending(bob: Client, evil: str) -> list[Step]:
    return [
        (bob, "wait_for_turn", {"max_wait_ms": 0}),
        (bob, "takeover_stick", {"expected_turn_id": turn, "reason": evil}),
        (bob, "leave_path", {}),
    ]


def closing(bob: Client, evil: str) -> list[Step]:
    return [
        (bob, "agent_adopt", {"name": "scout", "scope": evil}),
        (bob, "event_inbox", {"state": "all"}),
        (bob, "close_room", {"lease_id": lease, "expected_turn_id": turn, "reason": evil}),
        (bob, "get_room_events", {"limit": 500}),
    ]


def steering(evil: str) -> list[tuple[str, tuple[str, ...]]]:
    """The commands of a person: ada holds the stick and loses it to bob, who loses it to the person."""
    why = ("--reason", evil)
    return [
        ("nudge", (evil,)),
        ("nudge", ("bob:2", evil)),
        ("nudge", ("ada:1", evil)),
        ("unreserve", ("--of", "ada:1", "src", *why)),
        ("unreserve", ("--of", "ada:1", evil, *why)),
        ("pass", ("--for", "ada:1", "--to", evil, *why)),
        ("pass", ("--for", "ada:1", "--to", "bob:2", *why)),
        ("take", ("--force", *why)),
        ("status", ()),
        ("release", ("--status", evil, "--next", evil)),
        ("kick", ("ada:1", *why)),
        ("events", ("--limit", "500")),
    ]


def every_command(evil: str) -> Iterator[tuple[str, str, list[str]]]:
    """As two agents of the room: bob holds the stick and hands it to eve."""
    ours = ("--status", evil, "--next", evil, "--question", evil, "--do-not", evil)
    notice = ("--subject", evil, "--summary", evil, "--next", evil, "--bead", evil)
    for agent_id, command, *words in (
        ("eve:3", "join"),
        ("eve:3", "rooms"),
        ("eve:3", "whoami"),
        ("eve:3", "whoami", "--explain"),
        ("eve:3", "init", "--non-interactive"),
        ("eve:3", "agent register", "--role", evil),
        ("eve:3", "agent register", evil),
        ("eve:3", "agent heartbeat"),
        ("eve:3", "agent list"),
        ("eve:3", "agent show", "scout"),
        ("eve:3", "agent show", evil),
        ("eve:3", "agent status"),
        ("eve:3", "agent status", evil),
        ("eve:3", "agent reserve", evil),
        ("eve:3", "agent reserve", evil, "--takeover-stale"),
        ("eve:3", "agent release", evil),
        ("eve:3", "reserve", evil),
        ("eve:3", "reserve", "fine", evil, "--takeover-stale"),
        ("eve:3", "unreserve", evil),
        ("eve:3", "reservations"),
        ("eve:3", "reservations", evil),
        ("eve:3", "who"),
        ("eve:3", "help", evil),
        ("eve:3", "completion", "candidates", "--", "pass", ""),
        ("eve:3", "completion", "candidates", "--", "read", "--topic", ""),
        ("bob:2", "agent send", "eve:3", *notice),
        ("bob:2", "agent send", evil, *notice),
        ("eve:3", "agent inbox"),
        ("bob:2", "agent inbox", "--state", "all"),
        ("eve:3", "agent seen", evil),
        ("eve:3", "agent accept", evil),
        ("eve:3", "agent adopt", evil),
        ("bob:2", "state"),
        ("bob:2", "status"),
        ("bob:2", "note", evil),
        ("bob:2", "policy"),
        ("bob:2", "policy", evil),
        ("bob:2", "reorder", evil),
        ("bob:2", "pass", evil, *ours),
        ("bob:2", "pass", "eve:3", *ours, "--artifact", evil),
        ("bob:2", "pass", "eve:3", *ours),
        ("eve:3", "wait", "--timeout", "0"),
        ("bob:2", "wait", "--timeout", "0"),
        ("bob:2", "take", "--reason", evil),
        ("bob:2", "take", "--force", "--reason", evil),
        ("bob:2", "pass", "--for", evil, "--to", evil, "--reason", evil),
        ("bob:2", "unreserve", "--of", evil, evil, "--reason", evil),
        ("bob:2", "nudge", evil, evil),
        ("bob:2", "kick", evil, "--reason", evil),
        ("bob:2", "redact", evil, "--reason", evil),
        ("eve:3", "state"),
        ("eve:3", "release", *ours),
        ("eve:3", "send", evil, "--to", evil),
        ("eve:3", "send", evil),
        ("eve:3", "ask", evil, "--wait", "0"),
        ("eve:3", "answer", evil, evil),
        ("bob:2", "answer", "8", evil, "--pointer", evil, "--followup", evil),
        ("eve:3", "listen", "--timeout", "0"),
        ("bob:2", "listen", "--timeout", "0"),
        ("bob:2", "read"),
        ("bob:2", "read", "--since", "0"),
        ("bob:2", "guard install"),
        ("bob:2", "guard check"),
        ("bob:2", "guard uninstall"),
        ("bob:2", "instructions edit", evil),
        ("bob:2", "instructions show"),
        ("bob:2", "questions", "--all"),
        ("bob:2", "search", FORGED),
        ("bob:2", "search", FORGED, "--content"),
        ("bob:2", "topics create", evil),
        ("bob:2", "topics list", "--status", "all"),
        ("bob:2", "topics show", "plan"),
        ("bob:2", "topics show"),
        ("bob:2", "topics export", "plan"),
        ("bob:2", "topics export", PLAIN),
        ("bob:2", "topics show", PLAIN),
        ("bob:2", "read", "--since", "0", "--topic", PLAIN),
        ("bob:2", "questions", "--all", "--topic", PLAIN),
        ("bob:2", "topics export"),
        ("bob:2", "names free", evil, "--topic", "plan"),
        ("bob:2", "names free", "scout", "--topic", "plan"),
        ("bob:2", "topics rename", "plan", evil),
        ("bob:2", "topics close", "plan", "--reason", evil),
        ("eve:3", "leave"),
        ("bob:2", "events", "--limit", "500"),
        ("bob:2", "close", "--yes", "--reason", evil),
        ("bob:2", "events", "--after", "0", "--limit", "500"),
    ):
        yield agent_id, command, words
