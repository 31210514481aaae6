"""Agents talk through the command line: send, read, ask, answer, questions."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.process.cli.conftest import typed

Conch = Callable[..., Any]
Start = Callable[..., Any]
Look = Callable[[str], Any]
Until = Callable[[Callable[[], Any]], Any]

SOON = 30
MESSAGES = "SELECT count(*) FROM messages"
QUESTIONS = "SELECT count(*) FROM questions"
EVIL = "\x1b]0;owned\x07 \x1b[2J \x9b31m \r \u202e drow \x7f \x08"


@pytest.fixture
def names(conch: Conch) -> tuple[str, str]:
    """The names of ada:1 and bob:2, who share a room."""
    return conch("join", "--json").data["name"], conch("join", "--json", agent="bob:2").data["name"]


@pytest.fixture
def ada(names: tuple[str, str]) -> str:
    return names[0]


@pytest.fixture
def bob(names: tuple[str, str]) -> str:
    return names[1]


def texts(answer: Any) -> list[str]:
    return [message["content_markdown"] for message in answer.data["received"]]


# -- send


def test_a_message_reaches_the_other_member_on_the_rooms_own_topic(conch: Conch, ada: str) -> None:
    sent = conch("send", "The schema is in.")
    read = conch("read", agent="bob:2")

    assert sent.out == f"Sent as ada·{ada}, number 1.\n"
    head, body = read.out.splitlines()
    assert head.startswith("#1 ") and head.endswith(f" s ago) ada·{ada}")
    assert body == "    The schema is in."


def test_programs_get_what_was_sent_and_received_as_objects(conch: Conch, ada: str) -> None:
    topic_id = conch("join", "--json").data["topic_id"]

    sent = conch("send", "hello", "--json").data
    read = conch("read", "--json", agent="bob:2").data

    assert sent["message"]["topic_id"] == read["topic_id"] == topic_id
    assert sent["warnings"] == []
    assert read["received"] == [{**sent["message"], "addressed": False}]
    assert (sent["message"]["sender"], read["cursor"], read["has_more"]) == (ada, 1, False)


def test_the_room_can_be_named_from_elsewhere(conch: Conch, ada: str, tmp_path: Path) -> None:
    room_id = conch("join", "--json").data["room_id"]
    by_path = conch("send", "one", "--path", str(conch.workspace), "--json")  # type: ignore[attr-defined]
    (tmp_path / "elsewhere").mkdir()

    by_room = conch("send", "two", "--room", room_id, "--path", str(tmp_path / "elsewhere"), "--json")

    assert by_room.data["message"]["topic_id"] == by_path.data["message"]["topic_id"]


def test_where_there_is_no_room_it_says_how_to_make_one(conch: Conch) -> None:
    for words in (("send", "x"), ("read",), ("ask", "x"), ("answer", "1", "x"), ("questions",), ("topics", "show")):
        refused = conch(*words)

        assert (refused.status, refused.out) == (1, "")
        assert "`conch join` creates one. (unknown_room)" in refused.err


def test_another_topic_can_be_named_by_its_name_and_by_its_id(conch: Conch, ada: str) -> None:
    topic_id = conch("topics", "create", "release plan", "--json").data["topic_id"]

    conch("send", "by name", "--topic", "release plan")
    conch("send", "by id", "--topic", topic_id)

    assert texts(conch("read", "--topic", "release plan", "--json", agent="bob:2")) == ["by name", "by id"]
    assert texts(conch("read", "--json", agent="bob:2")) == []


def test_a_dash_sends_what_standard_input_has(conch: Conch, ada: str) -> None:
    conch("send", "-", stdin=" 1 file changed\n\n\tgrüße\n\n")

    assert texts(conch("read", "--json", agent="bob:2")) == [" 1 file changed\n\n\tgrüße"]


def test_the_addressee_is_told_so_and_everybody_sees_it(conch: Conch, names: tuple[str, str]) -> None:
    ada, bob = names
    conch("join", agent="cyd:3")

    sent = conch("send", "yours", "--to", bob, "--to", ada)

    assert "Warning" not in sent.out
    assert f" ada·{ada} to bob·{bob}, ada·{ada} (you)\n" in conch("read", agent="bob:2").out
    by_cyd = conch("read", "--json", agent="cyd:3").data["received"][0]
    assert (by_cyd["metadata"], by_cyd["addressed"]) == ({"to": [bob, ada]}, False)


def test_an_addressee_can_be_named_by_its_agent_id(conch: Conch, bob: str) -> None:
    conch("send", "yours", "--to", "bob:2")

    message = conch("read", "--json", agent="bob:2").data["received"][0]
    assert (message["metadata"], message["addressed"]) == ({"to": [bob]}, True)


def test_an_addressee_that_nobody_knows_is_warned_of_and_the_message_is_sent(conch: Conch, ada: str) -> None:
    sent = conch("send", "hello", "--to", "nobody")
    as_json = conch("send", "hello", "--to", "nobody", "--json").data

    assert "Warning: No peer of this topic is called 'nobody'. `conch topics show` lists the names.\n" in sent.out
    assert [warning["code"] for warning in as_json["warnings"]] == ["UNKNOWN_ADDRESSEE"]
    assert len(texts(conch("read", "--json", agent="bob:2"))) == 2


def test_a_type_and_the_number_of_what_is_replied_to_are_shown(conch: Conch, ada: str, bob: str) -> None:
    first = conch("send", "shall we?", "--type", "proposal", "--json").data["message"]["message_id"]
    conch("read", agent="bob:2")

    conch("send", "yes", "--reply-to", "1", agent="bob:2")
    conch("send", "really", "--reply-to", first, "--type", "ack", agent="bob:2")

    lines = conch("read").out.splitlines()
    assert lines[0].endswith(f" bob·{bob} re #1")
    assert lines[2].endswith(f" bob·{bob} [ack] re #1")
    assert conch("read", "--since", "1").out.splitlines()[0].endswith(f" ada·{ada} [proposal]")


def test_sending_again_under_the_same_key_sends_nothing_twice(conch: Conch, ada: str, look: Look) -> None:
    first = conch("send", "once", "--key", "k1", "--json").data["message"]

    again = conch("send", "once", "--key", "k1")

    assert again.status == 0
    assert again.out.splitlines()[0] == f"Already sent as ada·{ada}, number {first['seq']}."
    assert "was already sent with this key, so nothing was sent." in again.out
    assert look(MESSAGES) == 1


def test_sending_again_on_a_topic_closed_meanwhile_says_that_it_is_closed(conch: Conch, ada: str) -> None:
    conch("topics", "create", "plan")
    conch("send", "once", "--topic", "plan", "--key", "k1")
    conch("topics", "close", "plan")

    again = conch("send", "once", "--topic", "plan", "--key", "k1", "--json").data

    assert [warning["code"] for warning in again["warnings"]] == ["ALREADY_SENT", "TOPIC_CLOSED"]


def test_nothing_new_can_be_said_on_a_closed_topic(conch: Conch, ada: str, look: Look) -> None:
    conch("topics", "create", "plan")
    conch("send", "before", "--topic", "plan")
    conch("topics", "close", "plan")

    sent, asked = (conch(verb, "after", "--topic", "plan", "--json") for verb in ("send", "ask"))

    assert sent.error["code"] == asked.error["code"] == "TOPIC_CLOSED"
    assert look(MESSAGES) == 1
    assert texts(conch("read", "--topic", "plan", "--json", agent="bob:2")) == ["before"]


# -- read


def test_what_was_read_does_not_come_again(conch: Conch, ada: str) -> None:
    conch("send", "hello")
    conch("read", agent="bob:2")

    again = conch("read", agent="bob:2")

    assert (again.status, again.out) == (0, "Nothing new.\n")


def test_a_peek_counts_as_nothing(conch: Conch, ada: str) -> None:
    conch("send", "hello")

    peeked = conch("read", "--peek", "--json", agent="bob:2")

    assert texts(peeked) == texts(conch("read", "--json", agent="bob:2")) == ["hello"]
    assert peeked.data["cursor"] == 0


def test_an_advised_command_names_the_topic_of_this_one(conch: Conch, ada: str) -> None:
    topic_id = conch("topics", "create", "plans", "--json").data["topic_id"]
    on_it = ("--topic", "plans")

    asked = conch("ask", "why?", "--wait", "0", *on_it)
    timed_out = conch("ask", "why?", "--wait", "0.01", *on_it)
    unknown = conch("answer", "99", "because", *on_it)
    unaddressed = conch("send", "hello", "--to", "nobody", *on_it)

    assert f"`conch read --topic {topic_id}` shows the answer" in asked.out
    assert f"`conch read --topic {topic_id}` shows the answer" in timed_out.err
    assert f"`conch questions --all --topic {topic_id}` lists them" in unknown.err
    assert f"`conch topics show {topic_id}` lists the names" in unaddressed.out


def test_a_peek_at_many_messages_says_how_to_see_the_next(conch: Conch, ada: str) -> None:
    for text in ("one", "two"):
        conch("send", text)

    first = conch("read", "--peek", "--limit", "1", agent="bob:2")
    second = conch("read", "--peek", "--limit", "1", "--since", "2", agent="bob:2")

    assert first.out.endswith("There are more: run the same command with --since 2.\n")
    assert second.out.endswith("two\n")


def test_long_messages_come_in_pages_that_no_harness_cuts_and_none_is_lost(conch: Conch, ada: str) -> None:
    sent = [f"{number} " + "x" * 9_000 for number in range(6)]
    for text in sent:
        conch("send", "-", stdin=text)
    pages, is_last = [], False
    while not is_last:
        page = conch("read", agent="bob:2").out
        is_last = "There are more: run the same command again." not in page
        pages.append(page)

    assert [line.strip() for page in pages for line in page.splitlines() if "xxx" in line] == sent
    assert max(map(len, pages)) < 32 * 1024
    assert len(conch("read", "--since", "1", "--limit", "6", agent="bob:2").out) > 54_000


def test_one_reads_no_more_than_one_wants_and_learns_that_there_is_more(conch: Conch, ada: str) -> None:
    for number in range(3):
        conch("send", str(number))

    first = conch("read", "--limit", "2", agent="bob:2")
    rest = conch("read", "--limit", "2", "--json", agent="bob:2")

    assert first.out.endswith("There are more: run the same command again.\n")
    assert (texts(rest), rest.data["has_more"]) == (["2"], False)


def closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.parametrize("follows", [(), ("--follow",)], ids=["read", "read --follow"])
@pytest.mark.parametrize(
    ("place", "complaint"),
    [(closed_pipe, ""), (full_disk, "conch: the output could not be written: No space left on device.\n")],
    ids=["closed pipe", "full disk"],
)
def test_what_could_not_be_printed_comes_again(
    conch: Conch, ada: str, start: Start, follows: tuple[str, ...], place: Callable[[], int], complaint: str
) -> None:
    conch("send", "hello")
    stdout = place()

    unprinted = start("read", *follows, agent="bob:2", stdout=stdout)
    os.close(stdout)
    _, err = unprinted.communicate(timeout=SOON)

    assert (unprinted.returncode, err) == (1, complaint)
    assert texts(conch("read", "--json", agent="bob:2")) == ["hello"]


def test_since_a_number_brings_everything_from_it_on_once_more(conch: Conch, ada: str) -> None:
    for text in ("one", "two", "three"):
        conch("send", text)
    conch("read", agent="bob:2")

    for number in ("2", "#2"):
        again = conch("read", "--since", number, "--json", agent="bob:2")
        assert (texts(again), again.data["has_more"]) == (["two", "three"], False)
    assert texts(conch("read", "--since", "0", "--json", agent="ada:1")) == ["one", "two", "three"]
    assert conch("read", "--since", "4", agent="bob:2").out == "No messages since then.\n"


def test_since_does_not_move_ones_place(conch: Conch, ada: str) -> None:
    conch("send", "hello")

    conch("read", "--since", "1", agent="bob:2")

    assert texts(conch("read", "--json", agent="bob:2")) == ["hello"]


def test_since_tells_how_to_go_on_where_there_is_more(conch: Conch, ada: str) -> None:
    for text in ("one", "two", "three"):
        conch("send", text)

    first = conch("read", "--since", "1", "--limit", "2", agent="bob:2")

    assert first.out.splitlines()[-1] == "There are more: run the same command with --since 3."


def test_since_takes_an_age_and_a_time(conch: Conch, ada: str, database: Path) -> None:
    conch("send", "long ago")
    conch("send", "now")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE messages SET created_at = created_at - 7200000000 WHERE seq = 1")
    hour_ago = datetime.now() - timedelta(hours=1)
    in_utc = datetime.now(UTC) - timedelta(hours=1)
    spellings = [
        "90m",
        "3600s",
        hour_ago.isoformat(timespec="minutes"),
        hour_ago.isoformat(" ", timespec="seconds"),
        in_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
    ]

    for spelling in spellings:
        assert texts(conch("read", "--since", spelling, "--json", agent="bob:2")) == ["now"], spelling
    for spelling in ("3h", "1d", "999999999d", "1970-01-02", "1900-01-01T00:00"):
        assert len(texts(conch("read", "--since", spelling, "--json", agent="bob:2"))) == 2, spelling


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "PYTHONUNBUFFERED"])
def test_what_a_reader_did_not_take_any_more_comes_again(
    conch: Conch, ada: str, start: Start, env: dict[str, str], unbuffered: str
) -> None:
    for number in range(6):  # together more than a pipe takes
        conch("send", f"{number} " + "x" * 30_000)
    conch("join", agent="bob:2")
    env["PYTHONUNBUFFERED"] = unbuffered
    reading = start("read", "--limit", "6", agent="bob:2")
    assert reading.stdout.read(100)
    reading.stdout.close()
    reading.wait(timeout=SOON)

    received = conch("read", "--limit", "6", "--json", agent="bob:2").data["received"]

    assert (reading.returncode, len(received)) == (1, 6)


# -- read --follow


def test_follow_shows_messages_as_they_come_and_ctrl_c_ends_it(conch: Conch, ada: str, start: Start) -> None:
    conch("send", "before")
    follower = start("read", "--follow", agent="bob:2")
    first = [follower.stdout.readline() for _ in range(2)]

    conch("send", "while")
    second = [follower.stdout.readline() for _ in range(2)]
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate(timeout=SOON)

    assert [line.split()[-1] for line in first + second] == [f"ada·{ada}", "before", f"ada·{ada}", "while"]
    assert (follower.returncode, out, err) == (130, "", "")
    assert conch("read", agent="bob:2").out == "Nothing new.\n"


def test_follow_ends_after_as_many_as_are_wanted_and_the_rest_stays_unread(
    conch: Conch, ada: str, start: Start
) -> None:
    for number in range(3):
        conch("send", f"message {number}")
    follower = start("read", "--follow", "--limit", "2", agent="bob:2")

    out, _ = follower.communicate(timeout=SOON)

    assert (follower.returncode, out.count("message"), "message 1" in out) == (0, 2, True)
    received = conch("read", "--json", agent="bob:2").data["received"]
    assert [message["content_markdown"] for message in received] == ["message 2"]


# What a harness is to conch: a process by that name. It runs a command and waits for the end of its own input.
HARNESS = """
import subprocess, sys
with open(sys.argv[1], "w") as out:
    command = subprocess.Popen([sys.executable, "-m", "conch", *sys.argv[2:]], stdin=subprocess.DEVNULL, stdout=out)
print(command.pid, flush=True)
sys.stdin.read()
command.wait()
"""


def test_a_follower_that_outlives_its_harness_reads_nothing_for_the_resumed_session(
    conch: Conch, ada: str, environ: dict[str, str], workspace: str, tmp_path: Path, until: Until
) -> None:
    codex, followed, read = tmp_path / "codex", tmp_path / "followed", tmp_path / "read"
    codex.write_text(HARNESS)
    session = {"cwd": workspace, "env": {**environ, "CODEX_THREAD_ID": "thread-1"}, "text": True}
    first = subprocess.Popen(
        [sys.executable, codex, followed, "read", "--follow"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **session,
    )
    follower = int(first.stdout.readline())
    try:
        conch("send", "before")
        until(lambda: "before" in followed.read_text())

        first.kill()
        first.communicate()
        for text in ("while", "afterwards"):  # once the second is printed, the first was marked, if it ever is
            conch("send", text)
            until(lambda text=text: text in followed.read_text())
        subprocess.run([sys.executable, codex, read, "read"], stdin=subprocess.DEVNULL, check=True, **session)
    finally:
        os.kill(follower, signal.SIGKILL)

    assert "while" in read.read_text()


def test_a_follower_that_is_renamed_meanwhile_knows_what_is_for_it(conch: Conch, ada: str, start: Start) -> None:
    former = conch("join", "--json", agent="bob:2").data["name"]
    follower = start("read", "--follow", "--json", agent="bob:2")
    conch("send", "1", "--to", former)
    first = json.loads(follower.stdout.readline())

    conch("agent", "register", "foxtrot", agent="bob:2")
    for name in (former, "foxtrot"):
        conch("send", "2", "--to", name)

    rest = [json.loads(follower.stdout.readline()) for _ in range(2)]
    assert [each["addressed"] for each in (first, *rest)] == [True, True, True]


def test_a_follower_of_a_restored_store_begins_anew_at_its_cursor(
    conch: Conch, ada: str, start: Start, tmp_path: Path
) -> None:
    conch("join", agent="bob:2")
    conch("send", "first")
    conch("db", "backup", str(tmp_path / "copy"))
    conch("send", "lost")
    follower = start("read", "--follow", "--json", agent="bob:2")
    before = [json.loads(follower.stdout.readline()) for _ in range(2)]

    conch("db", "restore", str(tmp_path / "copy"), "--yes")
    for text in ("second", "third"):
        conch("send", text)

    after = json.loads(follower.stdout.readline())  # with numbers of the lost store, it would begin with the third
    assert [each["content_markdown"] for each in (*before, after)] == ["first", "lost", "first"]


def test_follow_gives_programs_one_object_per_line(conch: Conch, ada: str, start: Start) -> None:
    follower = start("read", "--follow", "--json", agent="bob:2")

    sent = conch("send", "two\nlines \N{SPIRAL SHELL}", "--json").data["message"]

    assert json.loads(follower.stdout.readline()) == {**sent, "addressed": False}


@pytest.mark.parametrize("option", [("--peek",), ("--since", "1")], ids=" ".join)
def test_follow_can_leave_ones_place_where_it_is(conch: Conch, ada: str, start: Start, option: tuple[str, ...]) -> None:
    conch("send", "hello")
    follower = start("read", "--follow", *option, agent="bob:2")
    shown = [follower.stdout.readline() for _ in range(2)]
    follower.send_signal(signal.SIGTERM)
    follower.communicate(timeout=SOON)

    assert shown[1] == "    hello\n"
    assert follower.returncode == 143
    assert texts(conch("read", "--json", agent="bob:2")) == ["hello"]


def test_follow_ends_with_the_topic(conch: Conch, ada: str, start: Start) -> None:
    conch("topics", "create", "plan")
    conch("send", "hello", "--topic", "plan")
    follower = start("read", "--follow", "--topic", "plan", agent="bob:2")
    shown = [follower.stdout.readline() for _ in range(2)]

    conch("topics", "close", "plan")
    out, err = follower.communicate(timeout=SOON)

    assert shown[1] == "    hello\n"
    assert (follower.returncode, out, err) == (0, "", "")


def test_a_follower_whose_reader_leaves_ends_at_the_next_message_and_loses_none(
    conch: Conch, ada: str, start: Start
) -> None:
    conch("send", "read")
    follower = start("read", "--follow", agent="bob:2")
    for _ in range(2):
        follower.stdout.readline()
    follower.stdout.close()

    conch("send", "unread")
    status = follower.wait(timeout=SOON)

    assert (status, follower.stderr.read()) == (1, "")
    assert texts(conch("read", "--json", agent="bob:2"))[-1] == "unread"


def test_a_follower_that_is_killed_loses_nothing_that_it_has_not_shown(conch: Conch, ada: str, start: Start) -> None:
    follower = start("read", "--follow", agent="bob:2")
    conch("send", "one")
    shown = [follower.stdout.readline() for _ in range(2)]
    follower.kill()
    follower.wait()

    conch("send", "two")

    assert shown[1] == "    one\n"
    assert texts(conch("read", "--json", agent="bob:2"))[-1] == "two"


# -- ask and answer


def test_an_asker_is_woken_by_the_answer_of_another_process(
    conch: Conch, bob: str, start: Start, look: Look, until: Until
) -> None:
    asker = start("ask", "Which branch?", "--json")
    until(lambda: look(QUESTIONS))

    answered = conch("answer", "1", "main", "--pointer", "docs/r.md", "--followup", "Why?", "--json", agent="bob:2")
    data = json.loads(asker.communicate(timeout=SOON)[0])["data"]

    assert asker.returncode == 0
    assert (answered.data["saved"], answered.data["question_id"]) == (1, data["question_id"])
    assert (data["status"], data["question_status"], data["answers_count"]) == ("answered", "pending", 1)
    answer = data["answers"][0]
    assert (answer["answered_by"], answer["answer_markdown"]) == (bob, "main")
    assert (answer["repo_pointers"], answer["suggested_followups"]) == (["docs/r.md"], ["Why?"])


def test_people_see_the_answer_who_gave_it_and_where_to_look(
    conch: Conch, bob: str, start: Start, look: Look, until: Until
) -> None:
    asker = start("ask", "-", stdin=subprocess.PIPE)
    asker.stdin.write("Which branch?\n")
    asker.stdin.close()
    asker.stdin = None
    until(lambda: look(QUESTIONS))

    conch("answer", "#1", "-", "--pointer", "docs/r.md", "--followup", "Why?", agent="bob:2", stdin="main,\nalways\n")

    out, _ = asker.communicate(timeout=SOON)
    assert out == f"Answer from bob·{bob}:\n    main,\n    always\n    see docs/r.md\n    ask next: Why?\n"


def test_people_see_every_answer_however_many_there_are(
    conch: Conch, ada: str, start: Start, look: Look, until: Until
) -> None:
    asker = start("ask", "Who is there?")
    until(lambda: look(QUESTIONS))
    asker.send_signal(signal.SIGSTOP)
    for number in range(50):
        conch("answer", "1", f"I am {number}", agent=f"peer:{number}")
    asker.send_signal(signal.SIGCONT)

    out, _ = asker.communicate(timeout=SOON)

    assert [line.strip() for line in out.splitlines() if "I am" in line] == [f"I am {number}" for number in range(50)]
    assert out.count("Answer from ") == 50


def test_a_question_that_nobody_answers_stays_open(conch: Conch, ada: str) -> None:
    asked = conch("ask", "Anybody?", "--wait", "0.2", "--json")
    people = conch("ask", "Anybody?", "--wait", "0.2")

    assert (asked.status, asked.error["code"]) == (3, "timeout")
    assert people.err == (
        "conch ask: No answer yet. The question stays open; `conch read` shows the answer when it comes. (timeout)\n"
    )
    open_ones = conch("questions", "--json", agent="bob:2").data["questions"]
    assert asked.error["question_id"] in [question["question_id"] for question in open_ones]


def test_without_waiting_a_question_is_just_asked_and_read_brings_its_answer(conch: Conch, bob: str) -> None:
    asked = conch("ask", "Which branch?", "--wait", "0")
    as_json = conch("ask", "Which one?", "--wait", "0", "--json").data

    assert asked.out == "Asked, number 1. `conch read` shows the answer when it comes.\n"
    assert (as_json["status"], as_json["accepting_answers"]) == ("queued", True)
    conch("answer", as_json["question_id"], "this one", agent="bob:2")
    assert conch("read").out.splitlines()[0].endswith(f" bob·{bob} [answer] re #2")


def test_an_interrupted_asker_leaves_its_question_open(
    conch: Conch, ada: str, start: Start, look: Look, until: Until
) -> None:
    asker = start("ask", "Anybody?")
    until(lambda: look(QUESTIONS))

    asker.send_signal(signal.SIGINT)
    out, err = asker.communicate(timeout=SOON)

    assert (asker.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert [each["status"] for each in conch("questions", "--json").data["questions"]] == ["pending"]


def test_nobody_answers_their_own_question_and_nobody_answers_twice(conch: Conch, ada: str, look: Look) -> None:
    conch("ask", "Which branch?", "--wait", "0")
    conch("answer", "1", "main", agent="bob:2")

    own = conch("answer", "1", "main", "--json")
    twice = conch("answer", "1", "master", "--json", agent="bob:2")

    assert (own.error["code"], own.error["field"]) == ("FORBIDDEN_SELF_ANSWER", "question")
    assert (twice.error["code"], twice.error["field"]) == ("FORBIDDEN_ALREADY_ANSWERED", "question")
    assert look(MESSAGES) == 2


def test_a_question_of_another_topic_is_refused_with_the_topic_it_belongs_to(conch: Conch, ada: str) -> None:
    topic_id = conch("topics", "create", "plan", "--json").data["topic_id"]
    question = conch("ask", "When?", "--topic", "plan", "--wait", "0", "--json").data["question_id"]

    refused = conch("answer", question, "now", "--json", agent="bob:2")

    assert (refused.error["code"], refused.error["field"]) == ("TOPIC_MISMATCH", "topic")
    assert topic_id in refused.error["message"]
    assert conch("answer", question, "now", "--topic", "plan", agent="bob:2").out == "Answered.\n"


def test_an_open_question_of_a_closed_topic_can_still_be_answered(conch: Conch, ada: str) -> None:
    conch("topics", "create", "plan")
    conch("ask", "When?", "--topic", "plan", "--wait", "0")
    conch("topics", "close", "plan")

    assert conch("answer", "1", "now", "--topic", "plan", agent="bob:2").out == "Answered.\n"


def test_questions_lists_the_open_ones_newest_first_and_with_all_the_ended_ones_too(
    conch: Conch, ada: str, database: Path
) -> None:
    assert conch("questions").out == "No open questions.\n"
    assert conch("questions", "--all").out == "No questions yet.\n"
    for text in ("cancelled", "first\nline", "last"):
        conch("ask", text, "--wait", "0")
    conch("answer", "2", "yes", agent="bob:2")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE questions SET status = 'cancelled' WHERE asked_at IN "
                           "(SELECT created_at FROM messages WHERE seq = 1)")  # fmt: skip

    lines = conch("questions").out.splitlines()
    everything = conch("questions", "--all", "--json").data["questions"]
    refused = conch("answer", "1", "too late", "--json", agent="bob:2")

    assert [line.split() for line in lines[1:]] == [
        ["3", "pending", "0", f"ada·{ada}"],
        ["last"],
        ["2", "pending", "1", f"ada·{ada}"],
        ["first", "line"],
    ]
    assert [(each["seq"], each["status"]) for each in everything] == [(3, "pending"), (2, "pending"), (1, "cancelled")]
    assert (refused.error["code"], refused.error["field"]) == ("QUESTION_NOT_PENDING", "question")
    assert len(conch("questions", "--limit", "1", "--json").data["questions"]) == 1


def test_the_asker_closes_or_takes_back_a_question(conch: Conch, ada: str) -> None:
    for text in ("first", "second"):
        conch("ask", text, "--wait", "0")

    closed = conch("questions", "--done", "1", "--json").data
    cancelled = conch("questions", "--cancel", "#2", "--json").data
    forbidden = conch("questions", "--done", "2", "--json", agent="bob:2")

    assert (closed["status"], cancelled["status"]) == ("answered", "cancelled")
    assert forbidden.error["code"] == "FORBIDDEN_NOT_ASKER"
    assert conch("questions").out == "No open questions.\n"
    assert conch("questions", "--done", "9", "--json").error["code"] == "QUESTION_NOT_FOUND"


# -- what others write, and what one types wrongly


def test_control_characters_of_others_never_reach_a_terminal_raw(conch: Conch, ada: str, start: Start) -> None:
    conch("send", EVIL)
    conch("ask", f"{EVIL}\nthen", "--wait", "0")
    conch("topics", "create", "plan")
    conch("topics", "close", "plan", "--reason", f"{EVIL}\n#1 a forged line")

    follower = start("read", "--follow", agent="bob:2")
    followed = "".join(follower.stdout.readline() for _ in range(5))
    words = [("read", "--since", "1"), ("questions",), ("topics", "show", "plan"), ("topics", "export"), ("read",)]
    shown = "".join(conch(*each, agent="bob:2").out for each in words) + followed

    assert not [letter for letter in shown if ord(letter) < 0x20 and letter != "\n"]
    assert not set(shown) & {"\x7f", "\x9b", "\u202e"}
    assert "\\x1b]0;owned\\x07" in followed
    assert "\n#1 a forged line" not in shown


NOT_UTF8 = b"\xff\xfe"
LONG = "x" * 5_000
SQL = "'; DROP TABLE messages; --"

# What is typed, the code of the refusal, the field that it names, and the exit status.
BAD = [
    (("send", ""), "INVALID_ARGUMENT", "text", 2),
    (("send", " \n"), "INVALID_ARGUMENT", "text", 2),
    (("send", "x" * 65_537), "INVALID_ARGUMENT", "text", 2),
    (("send", NOT_UTF8), "INVALID_ARGUMENT", "text", 2),
    (("send",), "INVALID_ARGUMENT", "text", 2),
    (("send", "two", "words"), "INVALID_ARGUMENT", "words", 2),
    (("send", "x", "--to", ""), "INVALID_ARGUMENT", "to", 2),
    (("send", "x", "--to", NOT_UTF8), "INVALID_ARGUMENT", "to", 2),
    (("send", "x", "--to", "x" * 20_000), "INVALID_ARGUMENT", "to", 2),
    (("send", "x", "--type", ""), "INVALID_ARGUMENT", "type", 2),
    (("send", "x", "--type", "a\nb"), "INVALID_ARGUMENT", "type", 2),
    (("send", "x", "--type", LONG), "INVALID_ARGUMENT", "type", 2),
    (("send", "x", "--key", ""), "INVALID_ARGUMENT", "key", 2),
    (("send", "x", "--key", LONG), "INVALID_ARGUMENT", "key", 2),
    (("send", "x", "--reply-to", "99"), "INVALID_ARGUMENT", "reply_to", 2),
    (("send", "x", "--reply-to", "0"), "INVALID_ARGUMENT", "reply_to", 2),
    (("send", "x", "--reply-to", ""), "INVALID_ARGUMENT", "reply_to", 2),
    (("send", "x", "--reply-to", "msg_0"), "INVALID_ARGUMENT", "reply_to", 2),
    (("send", "x", "--reply-to", LONG), "INVALID_ARGUMENT", "reply_to", 2),
    (("send", "x", "--reply-to", "9" * 40), "INVALID_ARGUMENT", "reply_to", 2),
    (("send", "x", "--topic", "nowhere"), "TOPIC_NOT_FOUND", "topic", 1),
    (("send", "x", "--topic", ""), "TOPIC_NOT_FOUND", "topic", 1),
    (("send", "x", "--topic", SQL), "TOPIC_NOT_FOUND", "topic", 1),
    (("send", "x", "--topic", LONG), "TOPIC_NOT_FOUND", "topic", 1),
    (("send", "x", "--topic", NOT_UTF8), "INVALID_ARGUMENT", "topic", 2),
    (("send", "x", "--room", "room_0"), "unknown_room", "room", 1),
    (("send", "x", "--path", "/no/such/place"), "INVALID_ARGUMENT", "path", 2),
    (("read", "--limit", "0"), "INVALID_ARGUMENT", "limit", 2),
    (("read", "--limit", "1001"), "INVALID_ARGUMENT", "limit", 2),
    (("read", "--limit", "many"), "INVALID_ARGUMENT", "limit", 2),
    (("read", "--since", "soon"), "INVALID_ARGUMENT", "since", 2),
    (("read", "--since", ""), "INVALID_ARGUMENT", "since", 2),
    (("read", "--since", "-5"), "INVALID_ARGUMENT", "since", 2),
    (("read", "--since", "2026-02-30"), "INVALID_ARGUMENT", "since", 2),
    (("read", "--since", "5y"), "INVALID_ARGUMENT", "since", 2),
    (("read", "--since", "9" * 40), "INVALID_ARGUMENT", "since", 2),
    (("read", "--since", NOT_UTF8), "INVALID_ARGUMENT", "since", 2),
    (("read", "--follow", "--since", "soon"), "INVALID_ARGUMENT", "since", 2),
    (("read", "--topic", "nowhere"), "TOPIC_NOT_FOUND", "topic", 1),
    (("ask",), "INVALID_ARGUMENT", "question", 2),
    (("ask", ""), "INVALID_ARGUMENT", "question", 2),
    (("ask", "x" * 8_001), "INVALID_ARGUMENT", "question", 2),
    (("ask", NOT_UTF8), "INVALID_ARGUMENT", "question", 2),
    (("ask", "x", "--wait", "-1"), "INVALID_ARGUMENT", "wait", 2),
    (("ask", "x", "--wait", "soon"), "INVALID_ARGUMENT", "wait", 2),
    (("ask", "x", "--topic", "nowhere"), "TOPIC_NOT_FOUND", "topic", 1),
    (("answer", "1"), "INVALID_ARGUMENT", "text", 2),
    (("answer", "1", ""), "INVALID_ARGUMENT", "text", 2),
    (("answer", "1", "x" * 65_537), "INVALID_ARGUMENT", "text", 2),
    (("answer", "1", NOT_UTF8), "INVALID_ARGUMENT", "text", 2),
    (("answer", "1", "x", "--pointer", ""), "INVALID_ARGUMENT", "pointer", 2),
    (("answer", "1", "x", "--pointer", "x" * 20_000), "INVALID_ARGUMENT", "pointer", 2),
    (("answer", "1", "x", "--followup", " "), "INVALID_ARGUMENT", "followup", 2),
    (("answer", "2", "x"), "QUESTION_NOT_FOUND", "question", 1),
    (("answer", "99", "x"), "QUESTION_NOT_FOUND", "question", 1),
    (("answer", "msg_0", "x"), "QUESTION_NOT_FOUND", "question", 1),
    (("answer", "", "x"), "QUESTION_NOT_FOUND", "question", 1),
    (("answer", LONG, "x"), "QUESTION_NOT_FOUND", "question", 1),
    (("answer", NOT_UTF8, "x"), "INVALID_ARGUMENT", "question", 2),
    (("questions", "--limit", "0"), "INVALID_ARGUMENT", "limit", 2),
    (("questions", "--topic", "nowhere"), "TOPIC_NOT_FOUND", "topic", 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def talkers(shared_conch: Any) -> Any:
    """ada:1, who has a question of bob:2, number 1, and a message, number 2, before her."""
    shared_conch("join")
    shared_conch("join", agent="bob:2")
    shared_conch("ask", "Which branch?", "--wait", "0", agent="bob:2")
    shared_conch("send", "hello", agent="bob:2")
    return shared_conch


@pytest.mark.parametrize(("words", "code", "field", "status"), BAD, ids=[typed(row[0]) for row in BAD])
def test_bad_input_is_refused_in_the_words_of_the_command_line_and_changes_nothing(
    talkers: Any, words: tuple[str | bytes, ...], code: str, field: str, status: int
) -> None:
    before = talkers.contents()

    refused = talkers(*words, "--json")

    assert (refused.error["code"], refused.error["field"]) == (code, field)
    assert (refused.status, refused.err) == (status, "")
    assert not [word for word in ("outbox", "responses", "_markdown", "_id") if word in refused.error["message"]]
    assert len(refused.out) < 2_000
    assert talkers.contents() == before


@pytest.mark.parametrize("words", [("send", "-"), ("ask", "-"), ("answer", "1", "-")], ids=" ".join)
@pytest.mark.parametrize("text", ["", "\n", "a\0b", b"\xff".decode(errors="surrogateescape"), "x" * 2**20],
                         ids=["empty", "blank", "NUL", "not UTF-8", "one megabyte"])  # fmt: skip
def test_bad_standard_input_is_refused_and_changes_nothing(talkers: Any, words: tuple[str, ...], text: str) -> None:
    before = talkers.contents()

    refused = talkers(*words, "--json", stdin=text)

    assert (refused.status, refused.error["code"]) == (2, "INVALID_ARGUMENT")
    assert refused.error["field"] in ("text", "question")
    assert talkers.contents() == before


@pytest.mark.parametrize(
    ("command", "code"),
    [("send -", "INVALID_ARGUMENT"), ("ask -", "INVALID_ARGUMENT"), ("guard check", "invalid_argument")],
)
def test_a_closed_standard_input_is_refused(
    shell: Callable[[str], Any], workspace: Path, command: str, code: str
) -> None:
    harness = shell("claude")
    harness.run("join")

    status = harness.bash(f"{sys.executable} -m conch {command} <&- 2>{workspace}/err")

    assert status == 2
    refusal = f"conch {command.removesuffix(' -')}: There is no standard input to read. ({code})\n"
    assert (workspace / "err").read_text() == refusal


def test_people_who_forget_the_quotes_are_told_so(conch: Conch) -> None:
    refused = conch("send", "hello", "big", "world")

    assert "hello" not in refused.err
    assert "big world (a text of several words needs quotes)" in refused.err


# -- on a server


def test_agents_talk_and_ask_on_postgresql(conch: Conch, postgres_url: str, env: dict[str, str], start: Start) -> None:
    env["CONCH_STORE"] = postgres_url
    conch("join")
    bob = conch("join", "--json", agent="bob:2").data["name"]
    follower = start("read", "--follow", "--json", agent="bob:2")
    asker = start("ask", "Which branch?", "--wait", "30")
    question = json.loads(follower.stdout.readline())

    answered = conch("answer", str(question["seq"]), "main", "--pointer", "docs", agent="bob:2")
    out, err = asker.communicate(timeout=SOON)

    assert (answered.out, out, err) == ("Answered.\n", f"Answer from bob·{bob}:\n    main\n    see docs\n", "")
    assert conch("read").out.splitlines()[0].endswith(f" bob·{bob} [answer] re #1")
    assert conch("send", "thanks", "--to", "bob:2", "--type", "ack").status == 0
    assert len(conch("topics", "export", "--format", "jsonl").out.splitlines()) == 4


def test_people_who_look_for_an_option_are_told_how(conch: Conch, ada: str) -> None:
    conch("send", "use -x there")
    refused = conch("search", "-x")

    assert "put `--` before a text that starts with a hyphen" in refused.err
    assert "use -**x** there" in conch("search", "--", "-x").out
