"""One label for an agent wherever people read: every command is run, and none shows a bare agent_id."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest
from tests.process.cli.conftest import Answer, Conch

from conch.doors.cli.catalogue import COMMANDS

AGENTS = {"claude": "claude-code:a3f1", "codex": "codex:9b22", "gemini": "gemini:77aa"}

# Where an agent_id is needed, and why. Everywhere else, people read the label.
NEEDED = {
    "whoami": "it says what to export as CONCH_AGENT_ID",
    "whoami --explain": "it shows how conch found the agent_id",
    "mcp": "it talks to a program",
    "serve": "its own tests look at its pages",
    "demo": "its own test looks at it",
    "hook": "its own tests look at it",
    "install": "its own tests look at it",
    "uninstall": "its own tests look at it",
    "doctor": "its own tests look at it",
    "guard install": "its own tests look at it",
    "guard uninstall": "its own tests look at it",
    "instructions show": "it names no agent",
    "instructions edit": "it names no agent",
    "help": "it names no agent",
    "version": "it names no agent",
    "watch": "it needs a terminal, and shows what `status` and `events` show",
}

# Who types what. Lines that are refused count too: people read errors.
STORY = """
claude join
codex join
gemini join
claude agent register deft-osprey --role parser
codex init --non-interactive
claude rooms
claude wait --timeout 0
codex rooms --all
codex wait --timeout 0
codex release --status x --next y
codex take --reason impatient
claude note 'half done'
claude reorder {codex} {claude} {gemini}
codex reorder {codex}
codex reorder {codex} {codex} {claude} {gemini}
claude policy
gemini agent reserve docs
codex pass {claude} --status x --next y
claude pass nobody --status x --next y
claude pass {codex} --status 'parser done' --next 'review it'
gemini state
gemini status
codex wait --timeout 0
codex events
codex agent register deft-osprey
codex agent register {name}
codex release --status reviewed --next 'go on'
claude wait --timeout 0
gemini policy owner_lease_ttl_ms=50
claude wait --timeout 0
gemini wait --timeout 5
gemini take --reason 'claude does not answer'
gemini policy owner_lease_ttl_ms=
claude send hello --to {codex}
claude send hello --to codex:9b22 --to no-such-name
codex read
gemini read --since 1
gemini ask 'May I?' --wait 0
claude status --all
codex answer 3 yes
gemini questions --all
codex questions --cancel 3
gemini questions --done 3
codex search hello --mode fts --sender {claude}
claude topics create plan
claude topics list
codex read --topic plan
claude send 'to the plan' --topic plan --to {codex}
claude topics show plan
claude topics rename plan release
claude topics export release
claude names free {codex} --topic release
gemini read --topic release
claude topics close release
claude agent reserve src
codex agent reserve src
codex agent release src
claude agent inbox
codex agent seen {notice}
claude agent seen {notice}
claude agent accept {notice}
codex agent status
codex reservations
codex who
gemini reserve notes
codex reserve notes/a.md
gemini unreserve notes
codex agent status src/lib
claude agent release src
codex agent status --all
claude agent send {codex} --type BLOCKED --subject CI --blocker red --request 'mend it'
codex agent inbox
claude agent send nobody --type BLOCKED --subject CI --blocker red --request 'mend it'
codex agent heartbeat
codex agent list
codex agent show {claude}
codex agent show nobody
codex agent adopt {claude}
codex agent heartbeat --agent {claude}
codex state --all
codex nudge {gemini}
codex take --force --reason now
codex pass --for {gemini} --to {claude} --reason now
codex unreserve --of {gemini} docs --reason now
codex kick {gemini} --reason now
codex redact 1 --reason now
codex completion candidates -- pass ''
codex listen --timeout 0
codex guard check
gemini release --status x --next y
gemini leave
gemini state
codex wait --timeout 0
codex events --after 0
codex close
codex state
claude db path
claude db verify
claude db reindex
claude db migrate
claude db backup ../backup.sqlite
claude db prune --older 90d --yes
claude db copy --to ../copy.sqlite
claude db restore ../backup.sqlite --yes
claude import ../backup.sqlite
claude db wipe --yes
"""


class Told:
    """Runs the lines of the story, in which labels and the id of the newest notice are filled in."""

    def __init__(self, conch: Conch) -> None:
        self._conch = conch
        self._labels: dict[str, str] = {}
        self._notice = ""

    def run(self, line: str) -> Answer:
        who, *words = shlex.split(line)
        name = self._labels.get("codex", "").partition("·")[2]
        filled = [word.format(**self._labels, notice=self._notice, name=name) for word in words]
        answer = self._conch(*filled, agent=AGENTS[who])
        self._remember(who, words)
        return answer

    def _remember(self, who: str, words: list[str]) -> None:
        if words[0] == "join" or words[:2] == ["agent", "register"]:
            name = self._conch("whoami", "--json", agent=AGENTS[who]).data["name"]
            self._labels[who] = f"{who}·{name}"
        elif words[:2] == ["agent", "inbox"]:
            self._notice = self._conch(*words, "--json", agent=AGENTS[who]).data["events"][0]["id"]


def test_no_command_shows_a_bare_agent_id(conch: Conch) -> None:
    told = Told(conch)

    answers = {line: told.run(line) for line in STORY.strip().splitlines()}

    shown = {line: answer.out + answer.err for line, answer in answers.items()}
    assert [line for line, text in shown.items() if any(agent_id in text for agent_id in AGENTS.values())] == []
    assert [line for line, text in shown.items() if "internal_error" in text or "·None" in text] == []
    assert sum("claude·deft-osprey" in text for text in shown.values()) > 20


def test_the_story_has_every_command() -> None:
    typed = {" ".join(shlex.split(line)[1:3]) for line in STORY.strip().splitlines()}

    told = {name for name in COMMANDS if any(f"{words} ".startswith(f"{name} ") for words in typed)}

    assert set(COMMANDS) - told == {name for name in NEEDED if name in COMMANDS}


@pytest.fixture
def label(conch: Conch) -> str:
    """The label of a second member."""
    conch("join")
    conch("join", agent=AGENTS["claude"])
    conch("agent", "register", "deft-osprey", agent=AGENTS["claude"])
    return "claude·deft-osprey"


def test_whoami_shows_the_label_and_the_agent_id(conch: Conch, label: str) -> None:
    assert conch("whoami", agent=AGENTS["claude"]).out == f"{label} ({AGENTS['claude']})\n"


FORMS = ("claude·deft-osprey", "claude.deft-osprey", "deft-osprey", AGENTS["claude"])
DONE = ("--status", "done", "--next", "go on")
BLOCKED = ("--type", "BLOCKED", "--subject", "CI", "--blocker", "red", "--request", "mend it")


@pytest.mark.usefixtures("label")
@pytest.mark.parametrize("form", FORMS)
def test_every_command_takes_the_label_the_name_and_the_id(conch: Conch, form: str) -> None:
    ada = conch("whoami", "--json").data["agent_id"]
    conch("wait")

    shown = conch("agent", "show", form, "--json").data
    ordered = conch("reorder", form, ada, "--json").data["members"]
    noticed = conch("agent", "send", form, *BLOCKED, "--json").data["event"]
    sent = conch("send", "hello", "--to", form, "--json").data
    read = conch("read", "--json", agent=AGENTS["claude"]).data["received"]
    refused = conch("agent", "adopt", form, "--json").error
    passed = conch("pass", form, *DONE, "--json").data

    assert shown["agent_id"] == ordered[0]["agent_id"] == passed["reserved_for"] == AGENTS["claude"]
    assert noticed["to_agent"] == refused["name"] == "deft-osprey"
    assert (sent["message"]["metadata"], sent["warnings"]) == ({"to": ["deft-osprey"]}, [])
    assert read[0]["addressed"] is True
    assert refused["reason"] == "still_running"


@pytest.mark.usefixtures("label")
@pytest.mark.parametrize("form", FORMS[:3])
def test_a_sender_is_found_and_a_name_is_freed_by_the_label(
    conch: Conch, terminal: Callable[[], Any], form: str
) -> None:
    conch("send", "hello", agent=AGENTS["claude"])

    found = conch("search", "hello", "--mode", "fts", "--sender", form, "--json").data["results"]
    freed = terminal().run("names", "free", form)

    assert [hit["sender"] for hit in found] == ["deft-osprey"]
    assert "deft-osprey is free on " in freed


@pytest.mark.usefixtures("label")
def test_a_label_of_the_wrong_kind_means_nobody_and_the_error_lists_the_labels(conch: Conch) -> None:
    for words in (("agent", "show", "codex·deft-osprey"), ("agent", "send", "codex·deft-osprey", *BLOCKED)):
        refused = conch(*words)

        assert refused.status == 1 and "claude·deft-osprey" in refused.err


def test_a_kind_alone_that_two_agents_have_is_refused_with_both_labels(conch: Conch, label: str) -> None:
    conch("join", agent="claude-code:b4e2")
    conch("wait")

    refused = conch("pass", "claude·", *DONE)

    assert refused.err.count("claude·") == 3 and label in refused.err


# -- what a terminal can show


@pytest.mark.parametrize(
    ("locale", "shown"),
    [
        ({"LANG": "C"}, "claude·deft-osprey"),
        ({"LC_ALL": "C"}, "claude·deft-osprey"),
        ({"PYTHONIOENCODING": "ascii"}, "claude.deft-osprey"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "claude.deft-osprey"),
    ],
    ids=["LANG=C", "LC_ALL=C", "ASCII streams", "ASCII locale"],
)
@pytest.mark.usefixtures("label")
def test_a_stream_that_has_no_middle_dot_gets_a_full_stop(conch: Conch, locale: dict[str, str], shown: str) -> None:
    state, refused = conch.afresh("state", **locale), conch.afresh("agent", "show", "nobody", **locale)

    assert f" {shown} " in state.out
    assert shown in refused.err and "\\xb7" not in state.out + refused.err
