"""Topics and the names on them, through the command line; and a whole topic as a file."""

from __future__ import annotations

import json
import re
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.callers import named
from tests.process.cli.conftest import typed

from conch.agents.records import Caller
from conch.app import App, open_app
from conch.bus.drafts import Draft
from conch.errors import AgentNameInUse

Conch = Callable[..., Any]
Start = Callable[..., Any]
Look = Callable[[str], Any]

SOON = 60
MANY = 2_345
EVIL = "\x1b]0;owned\x07 \x9b31m \u202e"


@pytest.fixture
def ada(conch: Conch) -> str:
    """The name of ada:1, who is in a room."""
    name: str = conch("join", "--json").data["name"]
    return name


@pytest.fixture
def plan(conch: Conch) -> str:
    """A topic beside the rooms, named plan."""
    topic_id: str = conch("topics", "create", "plan", "--json").data["topic_id"]
    return topic_id


def adopt(app: App, agent_id: str) -> Caller:
    return named(app.store, agent_id)


# -- create, list, show


def test_a_topic_is_made_once_and_found_after_that(conch: Conch) -> None:
    made, found = conch("topics", "create", "plan"), conch("topics", "create", "plan")
    listed = conch("topics", "list", "--json").data["topics"]

    topic_id = listed[0]["topic_id"]
    assert (made.out, found.out) == (f"Created topic {topic_id} (plan).\n", f"Found topic {topic_id} (plan).\n")
    assert [topic["name"] for topic in listed] == ["plan"]


def test_open_topics_are_listed_newest_first_and_others_on_request(conch: Conch, ada: str, workspace: Path) -> None:
    for name in ("first", "second"):
        conch("topics", "create", name)
        conch("send", "hello", "--topic", name)
    conch("topics", "close", "first")

    lines = conch("topics", "list").out.splitlines()
    closed = conch("topics", "list", "--status", "closed", "--json").data["topics"]
    everything = conch("topics", "list", "--status", "all", "--json").data["topics"]

    assert [line.split()[1:3] for line in lines[1::2]] == [["open", "1"], ["open", "0"]]
    assert [line.strip() for line in lines[2::2]] == ["second", str(workspace)]
    assert [(topic["name"], topic["status"], topic["message_count"]) for topic in closed] == [("first", "closed", 1)]
    assert [topic["name"] for topic in everything] == ["second", "first", str(workspace)]


def test_a_list_that_is_cut_says_that_there_is_more(conch: Conch, ada: str) -> None:
    for name in ("one", "two"):
        conch("topics", "create", name)
        conch("ask", f"{name}?", "--wait", "0")

    cut, whole = conch("topics", "list", "--limit", "2"), conch("topics", "list", "--limit", "3")

    assert ("There are more: run the same command with --after topic_" in cut.out, "There are more" in whole.out) == (
        True,
        False,
    )
    for words, name in ((("topics", "list"), "topics"), (("questions",), "questions")):
        data = conch(*words, "--limit", "1", "--json").data
        assert (len(data[name]), data["has_more"]) == (1, True)
        assert conch(*words, "--json").data["has_more"] is False


def test_where_there_are_no_topics_the_list_says_so(conch: Conch) -> None:
    assert conch("topics", "list").out == "No topics.\n"
    assert conch("topics", "list", "--json").data == {"topics": [], "has_more": False}


def test_a_topic_is_shown_with_who_is_on_it_and_how_far_they_have_read(conch: Conch, ada: str, workspace: Path) -> None:
    bob = conch("join", "--json", agent="bob:2").data["name"]
    conch("send", "hello")
    conch("read", agent="bob:2")

    lines = conch("topics", "show").out.splitlines()
    data = conch("topics", "show", "--json").data

    assert lines[0] == f"{data['topic_id']}: {workspace}"
    assert lines[1].startswith("open since ")
    assert {tuple(line.split()[:2]) for line in lines[4:]} == {(f"ada·{ada}", "#0"), (f"bob·{bob}", "#1")}
    assert {peer["agent_name"]: peer["last_seq"] for peer in data["peers"]} == {ada: 0, bob: 1}


def test_a_topic_can_be_named_by_its_id_from_where_there_is_no_room(conch: Conch, plan: str) -> None:
    assert conch("topics", "show", plan).out.startswith(f"{plan}: plan\n")
    assert conch("topics", "show", "plan", "--json").data["topic_id"] == plan


# -- close, rename


def test_a_closed_topic_says_why_and_closing_again_is_harmless(conch: Conch, plan: str) -> None:
    closed = conch("topics", "close", "plan", "--reason", "all\ndone", "--json").data
    again = conch("topics", "close", "plan", "--reason", "other")

    assert (closed["status"], closed["close_reason"]) == ("closed", "all\ndone")
    assert again.status == 0
    assert re.fullmatch(r"closed .* ago\): all done", conch("topics", "show", "plan").out.splitlines()[1])


def test_the_topic_of_a_room_ends_only_with_its_room(conch: Conch, ada: str) -> None:
    topic_id = conch("topics", "show", "--json").data["topic_id"]
    closed = conch("topics", "close", topic_id, "--json")
    renamed = conch("topics", "rename", topic_id, "ours", "--json")

    assert (closed.error["code"], closed.error["field"]) == ("INVALID_ARGUMENT", "topic")
    assert "`conch close`" in closed.error["message"]
    assert (renamed.error["code"], renamed.error["field"]) == ("INVALID_ARGUMENT", "topic")
    conch("close", "--yes")
    assert conch("topics", "show", topic_id, "--json").data["status"] == "closed"


def test_a_topic_gets_another_name_unless_an_open_one_has_it(conch: Conch, plan: str) -> None:
    conch("topics", "create", "taken")

    refused = conch("topics", "rename", "plan", "taken", "--json")
    renamed = conch("topics", "rename", plan, "release plan")

    assert (refused.error["code"], refused.error["field"]) == ("INVALID_ARGUMENT", "name")
    assert renamed.out == f"{plan} is now called release plan.\n"
    assert conch("topics", "rename", "release plan", "plan", "--json").data["name"] == "plan"
    assert conch("topics", "show", "release plan", "--json").error["code"] == "TOPIC_NOT_FOUND"


# -- names free


def test_a_name_that_a_person_frees_can_be_taken_and_the_topic_shows_who_freed_it(
    conch: Conch, terminal: Callable[[], Any], plan: str, env: dict[str, str]
) -> None:
    app = open_app(env)
    app.peers.join(adopt(app, "bob:2"), "scout", plan, None, None)
    with pytest.raises(AgentNameInUse):
        app.peers.join(adopt(app, "cyd:3"), "scout", plan, None, None)

    freed = terminal().run("names", "free", "scout", "--topic", "plan")

    assert f"scout is free on {plan}." in freed
    assert app.peers.join(adopt(app, "cyd:3"), "scout", plan, None, None).reclaim_token
    app.close()
    told = conch("read", "--topic", "plan", "--json", agent="bob:2").data["received"]
    assert [(each["sender"], each["message_type"]) for each in told] == [("conch", "notice")]
    assert re.match(r"human·\S+ freed the name scout", told[0]["content_markdown"])


@pytest.mark.usefixtures("ada")
def test_a_member_whose_name_was_freed_comes_back_and_reads_from_the_beginning(
    conch: Conch, terminal: Callable[[], Any]
) -> None:
    bob = conch("join", "--json", agent="bob:2").data["name"]
    conch("send", "before")
    conch("read", agent="bob:2")

    assert f"{bob} is free on" in terminal().run("names", "free", bob)

    read = conch("read", "--json", agent="bob:2").data
    assert [each["message_type"] for each in read["received"]] == ["message", "notice"]
    assert conch("send", "still here", "--json", agent="bob:2").data["message"]["sender"] == bob


# -- export


Fill = Callable[[int, int], None]


@pytest.fixture
def fill(env: dict[str, str], plan: str) -> Fill:
    """Put so many messages of so many characters on the topic plan."""

    def fill(count: int, size: int) -> None:
        app = open_app(env)
        peer = app.peers.join(adopt(app, "bob:2"), "scout", plan, None, None).peer
        for first in range(0, count, 50):
            numbers = range(first, min(first + 50, count))
            app.messages.send(peer, [Draft(f"text {number} ".ljust(size, "x")) for number in numbers])
        app.close()

    return fill


# The command, and then the most memory it had, in KB. (What the kernel tells a parent begins with the parent's own.)
MEASURED = """
import re, sys
from conch.main import main
status = main(sys.argv[1:])
sys.stderr.write(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
sys.exit(status)
"""


def test_an_export_is_complete_in_both_formats_and_holds_no_more_than_a_page_in_memory(
    conch: Conch, plan: str, fill: Fill, tmp_path: Path, env: dict[str, str]
) -> None:
    def export(topic_id: str, kind: str) -> float:
        words = [sys.executable, "-c", MEASURED, "topics", "export", topic_id, "--format", kind]
        with (tmp_path / f"{topic_id}.{kind}").open("wb") as file:
            done = subprocess.run(words, env=env, stdout=file, stderr=subprocess.PIPE, timeout=SOON, check=True)
        return int(done.stderr) / 1024

    fill(MANY, 20_000)
    small = conch("topics", "create", "small", "--json").data["topic_id"]

    least, as_json, as_markdown = export(small, "jsonl"), export(plan, "jsonl"), export(plan, "markdown")

    topic, *messages = map(json.loads, (tmp_path / f"{plan}.jsonl").read_text().splitlines())
    heads = re.findall(r"^## (\d+)\. \w+·scout$", (tmp_path / f"{plan}.markdown").read_text(), re.MULTILINE)
    assert (topic["kind"], topic["name"]) == ("topic", "plan")
    assert {message["kind"] for message in messages} == {"message"}
    assert [message["seq"] for message in messages] == list(range(1, MANY + 1))
    assert [message["content_markdown"].split()[1] for message in messages] == list(map(str, range(MANY)))
    assert heads == list(map(str, range(1, MANY + 1)))
    assert max(as_json, as_markdown) - least < 35, "megabytes, of 47 in the topic"


def test_an_export_that_fails_leaves_no_half_file(shell: Callable[[str], Any], fill: Fill, tmp_path: Path) -> None:
    fill(2_000, 1_000)
    harness, path = shell("claude"), tmp_path / "talk.md"

    words = [sys.executable, "-m", "conch", "topics", "export", "plan", "--output", str(path)]
    status = harness.bash(f"(ulimit -f 1000; {shlex.join(words)}) 2>{tmp_path}/err")

    assert status == 2
    assert f"'{path}' cannot be written: File too large. (INVALID_ARGUMENT)" in (tmp_path / "err").read_text()
    assert not path.exists()


def test_an_export_to_a_file_tells_how_much_it_wrote_and_only_its_owner_can_read_it(
    conch: Conch, ada: str, tmp_path: Path
) -> None:
    conch("send", "hello")

    people = conch("topics", "export", "--output", str(tmp_path / "talk.md"))
    programs = conch("topics", "export", "--format", "jsonl", "--output", str(tmp_path / "talk.jsonl"), "--json")

    assert people.out == f"Wrote 1 message to {tmp_path}/talk.md.\n"
    topic_id = conch("topics", "show", "--json").data["topic_id"]
    assert programs.data == {"topic_id": topic_id, "messages": 1, "path": str(tmp_path / "talk.jsonl")}
    assert stat.S_IMODE((tmp_path / "talk.md").stat().st_mode) == 0o600


def test_an_export_shows_who_answered_what_in_words_that_no_terminal_obeys(conch: Conch, ada: str) -> None:
    bob = conch("join", "--json", agent="bob:2").data["name"]
    question = conch("ask", EVIL, "--wait", "0", "--json").data["question_id"]
    conch("answer", "1", "# main\n\n- *now*", agent="bob:2")
    conch("send", "good", "--to", bob)

    markdown = conch("topics", "export").out
    exact = [json.loads(line) for line in conch("topics", "export", "--format", "jsonl").out.splitlines()]

    heads = [line for line in markdown.splitlines() if line.startswith("## ")]
    assert heads == [
        f"## 1. ada·{ada} (question)",
        f"## 2. bob·{bob} (answer)",
        f"## 3. ada·{ada} to bob·{bob}",
    ]
    assert "\n> # main\n> \n> - *now*\n" in markdown and f"*in reply to `{question}`, 20" in markdown
    assert not set(markdown) & set("\x1b\x07\x9b\u202e")
    assert [exact[1]["content_markdown"], exact[2]["reply_to"]] == [EVIL, question]


def test_an_export_has_where_to_look_what_to_ask_next_and_what_became_of_a_question(conch: Conch, ada: str) -> None:
    for text in ("Where?", "When?", "Who?"):
        conch("ask", text, "--wait", "0")
    answer = ("answer", "1", "Here.", "--pointer", "src/a.py:3", "--followup", "Why?")
    conch("join", agent="bob:2")
    assert conch(*answer, agent="bob:2").status == 0
    conch("questions", "--done", "1")
    conch("questions", "--cancel", "2")

    markdown = conch("topics", "export").out
    exact = [json.loads(line) for line in conch("topics", "export", "--format", "jsonl").out.splitlines()][1:]

    assert "Here.\n\nSee:\n\n- src/a.py:3\n\nAsk next:\n\n- Why?\n" in markdown
    assert re.findall(r"`, (\w+)\*$", markdown, re.MULTILINE) == ["answered", "cancelled", "pending"]
    assert [each.get("question_status") for each in exact] == ["answered", "cancelled", "pending", None]
    assert exact[3]["metadata"] == {"repo_pointers": ["src/a.py:3"], "suggested_followups": ["Why?"]}


def test_a_markdown_export_leaves_out_no_metadata_and_no_reason(env: dict[str, str], conch: Conch, plan: str) -> None:
    app = open_app(env)
    peer = app.peers.join(adopt(app, "bob:2"), "scout", plan, None, None).peer
    asked = app.questions.ask(peer, "Why?").question
    app.questions.cancel(peer, asked.question_id, f"found {EVIL}")
    app.messages.send(peer, [Draft("hello", metadata_json='{"to": "ada", "ticket": 7}')])
    app.topics.close(plan, "all done")
    app.close()

    markdown = conch("topics", "export", "plan").out

    assert "\nClosed: all done\n" in markdown
    assert ", cancelled: `found " in markdown  # an escape has a backslash, so the reason is shown as code
    assert "\n## 2. bob·scout to ada\n" in markdown and 'hello\n\nMetadata: `{"ticket": 7}`\n' in markdown
    assert not set(markdown) & set("\x1b\x07\x9b\u202e")


def test_an_export_never_overwrites_a_file(conch: Conch, ada: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep me")

    refused = conch("topics", "export", "--output", str(tmp_path / "precious"), "--json")

    assert (refused.error["code"], refused.error["field"]) == ("INVALID_ARGUMENT", "output")
    assert "already exists" in refused.error["message"]
    assert (tmp_path / "precious").read_text() == "keep me"


def test_an_export_onto_a_full_disk_says_so(conch: Conch, ada: str, start: Start) -> None:
    conch("send", "hello")

    with open("/dev/full", "w") as disk:
        child = start("topics", "export", stdout=disk)
    _, err = child.communicate(timeout=SOON)

    assert (child.returncode, err) == (1, "conch: the output could not be written: No space left on device.\n")


def test_an_export_whose_reader_leaves_ends_quietly(fill: Fill, start: Start) -> None:
    fill(1_000, 1_000)
    child = start("topics", "export", "plan")
    assert child.stdout.readline() == "# plan\n"
    child.stdout.close()

    assert child.wait(timeout=SOON) == 1
    assert child.stderr.read() == ""


def test_an_interrupted_export_ends_without_a_trace(fill: Fill, start: Start) -> None:
    fill(1_000, 1_000)
    child = start("topics", "export", "plan")
    child.stdout.readline()

    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=SOON)

    assert (child.returncode, err) == (130, "")


# -- what one types wrongly

NOT_UTF8 = b"\xff\xfe"
LONG = "x" * 5_000

BAD = [
    (("topics", "create"), "INVALID_ARGUMENT", "name", 2),
    (("topics", "create", ""), "INVALID_ARGUMENT", "name", 2),
    (("topics", "create", " blank "), "INVALID_ARGUMENT", "name", 2),
    (("topics", "create", "two\nlines"), "INVALID_ARGUMENT", "name", 2),
    (("topics", "create", LONG), "INVALID_ARGUMENT", "name", 2),
    (("topics", "create", NOT_UTF8), "INVALID_ARGUMENT", "name", 2),
    (("topics", "list", "--status", "lost"), "INVALID_ARGUMENT", "status", 2),
    (("topics", "show", "nowhere"), "TOPIC_NOT_FOUND", "topic", 1),
    (("topics", "show", ""), "TOPIC_NOT_FOUND", "topic", 1),
    (("topics", "show", LONG), "TOPIC_NOT_FOUND", "topic", 1),
    (("topics", "show", NOT_UTF8), "INVALID_ARGUMENT", "topic", 2),
    (("topics", "close", "nowhere"), "TOPIC_NOT_FOUND", "topic", 1),
    (("topics", "close", "plan", "--reason", LONG), "INVALID_ARGUMENT", "reason", 2),
    (("topics", "close", "plan", "--reason", NOT_UTF8), "INVALID_ARGUMENT", "reason", 2),
    (("topics", "rename", "plan"), "INVALID_ARGUMENT", "name", 2),
    (("topics", "rename", "plan", ""), "INVALID_ARGUMENT", "name", 2),
    (("topics", "rename", "plan", LONG), "INVALID_ARGUMENT", "name", 2),
    (("topics", "rename", "plan", NOT_UTF8), "INVALID_ARGUMENT", "name", 2),
    (("topics", "rename", "nowhere", "new"), "TOPIC_NOT_FOUND", "topic", 1),
    (("topics", "export", "nowhere"), "TOPIC_NOT_FOUND", "topic", 1),
    (("topics", "export", "--format", "xml"), "INVALID_ARGUMENT", "format", 2),
    (("topics", "export"), "INVALID_ARGUMENT", "output", 2),
    (("topics", "export", "--output", ""), "INVALID_ARGUMENT", "output", 2),
    (("topics", "export", "--output", "/no/such/place"), "INVALID_ARGUMENT", "output", 2),
    (("topics", "export", "--output", "/proc/new"), "INVALID_ARGUMENT", "output", 2),
    (("topics", "export", "--output", LONG), "INVALID_ARGUMENT", "output", 2),
    (("names", "free"), "INVALID_ARGUMENT", "name", 2),
    (("names", "free", NOT_UTF8), "INVALID_ARGUMENT", "name", 2),
]


@pytest.fixture(scope="module")
def talker(shared_conch: Any) -> Any:
    """ada:1, who has a room, and a topic named plan."""
    shared_conch("join")
    shared_conch("topics", "create", "plan")
    shared_conch("send", "hello")
    return shared_conch


@pytest.mark.parametrize(("words", "code", "field", "status"), BAD, ids=[typed(row[0]) for row in BAD])
def test_bad_input_is_refused_with_its_field_and_changes_nothing(
    talker: Any, words: tuple[str | bytes, ...], code: str, field: str, status: int
) -> None:
    before = talker.contents()

    refused = talker(*words, "--json")

    assert (refused.error["code"], refused.error["field"]) == (code, field)
    assert (refused.status, refused.err) == (status, "")
    assert len(refused.out) < 2_000
    assert talker.contents() == before


def test_a_file_with_a_line_end_in_its_name_is_told_on_one_line(conch: Conch) -> None:
    conch("join")

    told = [
        conch("topics", "export", "--output", "a\nConch: all is well").out,
        conch("db", "backup", "b\nConch: all is well").out,
        conch("db", "copy", "--to", "./c\nConch: all is well").out,
    ]

    assert [line for text in told for line in text.splitlines() if line.startswith("Conch:")] == []
    assert [text.count("all is well") for text in told] == [1, 1, 1]
