"""`conch hook` answers every harness in its own form, guards reservations, and never stands in the way."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.conftest import answer_to

from conch.doors.hook.run import reply
from conch.harnesses.texts import plugin_text
from conch.waking.signs import Signs, ask_for_signs

Object = dict[str, Any]
Hook = Callable[..., Object]
Conch = Callable[..., Object]

RECORDED = Path(__file__).parent / "recorded"
LINES = [
    pytest.param(path.stem, json.loads(line), id=f"{path.stem}-{number}")
    for path in sorted(RECORDED.glob("*.jsonl"))
    for number, line in enumerate(path.read_text().splitlines())
]
SLUGS = {"claude": "claude-code", "copilot-camel": "copilot"}
# What each harness reads. Codex refuses an answer with any other key.
KEYS = {
    "hookSpecificOutput",
    "decision",
    "reason",
    "systemMessage",
    "additionalContext",
    "permissionDecision",
    "permissionDecisionReason",
    "context",
    "deny",
    "block",
}


@pytest.mark.parametrize("harness, line", LINES)
def test_every_recorded_call_gets_a_valid_answer(harness: str, line: Object, project: Path) -> None:
    given = json.loads(json.dumps(line["in"]).replace("/PROJECT", str(project)))
    given = {"hook_event_name": line["event"], **given} if harness == "opencode" else given

    answer = answer_to([line["event"], "--harness", SLUGS.get(harness, harness)], given)

    assert answer.keys() <= KEYS
    said = answer.get("hookSpecificOutput", {})
    assert said.get("hookEventName", line["event"]) == line["event"]
    assert bool(answer) == (line["event"].lower() in ("sessionstart", "session.created"))


@pytest.fixture(autouse=True)
def _environment(environ: dict[str, str]) -> None:
    """Every test here has a store of its own."""


def start(hook: Hook, *sessions: str) -> None:
    for session in sessions:
        hook("SessionStart", session, source="startup")


def edit(hook: Hook, session: str, path: str, harness: str = "claude-code", event: str = "PreToolUse") -> Object:
    return hook(event, session, harness, tool_name="Edit", tool_input={"file_path": path})


# -- the beginning


def test_a_session_that_starts_joins_and_learns_in_five_lines_what_is_going_on(hook: Hook, conch: Conch) -> None:
    start(hook, "one")
    conch("one", "wait", "--timeout", "0")
    conch("one", "reserve", "src")

    answer = hook("SessionStart", "two", source="startup")

    text = answer["hookSpecificOutput"]["additionalContext"]
    name = conch("one", "whoami")["data"]["name"]
    assert len(text.splitlines()) == 5
    assert f"claude·{name} holds the stick." in text
    assert f"Reserved: src (claude·{name})." in text


def test_after_a_compaction_a_session_is_told_again(hook: Hook) -> None:
    first = hook("SessionStart", "one", source="startup")

    again = hook("SessionStart", "one", source="compact")

    assert again == first


def test_a_session_is_also_told_the_working_agreements(hook: Hook, project: Path) -> None:
    (project / ".conch").mkdir()
    (project / ".conch" / "instructions.md").write_text("Test first.\nThe stick is free.")

    lines = hook("SessionStart")["hookSpecificOutput"]["additionalContext"].splitlines()

    assert lines[5].startswith("The working agreement of this project, from ")
    assert lines[6:] == ["  Test first.", "  The stick is free."]


def test_a_hook_a_command_and_a_resumed_session_are_one_agent(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "one", "two")

    agents = conch("one", "who")["data"]["agents"]

    assert len(agents) == 2
    assert conch("one", "whoami")["data"]["agent_id"] in [agent["agent_id"] for agent in agents]


@pytest.mark.parametrize("harness", ["claude-code", "codex", "gemini", "opencode", "kilo", "copilot", "qwen", "cursor"])
def test_two_sessions_of_a_harness_are_two_agents_of_its_kind(harness: str, hook: Hook, conch: Conch) -> None:
    for session in ("one", "two"):
        hook("SessionStart", session, harness)

    agents = [agent["agent_id"] for agent in conch("other", "who")["data"]["agents"]]

    assert len([agent_id for agent_id in agents if agent_id.startswith(f"{harness}:")]) == 2


def test_a_prompt_without_text_is_not_the_users(hook: Hook, conch: Conch, tmp_path: Path) -> None:
    """Qwen Code reports one after each tool. Whether the user has spoken decides whether agents may go on waking it."""
    ask_for_signs(str(tmp_path / "data"))
    start(hook, "one")
    signs = Signs(str(tmp_path / "data"), conch("one", "whoami")["data"]["agent_id"])
    hook("Stop", "one")

    hook("UserPromptSubmit", "one", prompt="")
    was_silent = not signs.take_user()
    hook("UserPromptSubmit", "one", prompt="Go on.")

    assert was_silent and signs.take_user()


# -- the guard


@pytest.mark.parametrize("guard, key", [("warn", "additionalContext"), ("enforce", "permissionDecisionReason")])
def test_an_edit_of_a_reserved_file_names_the_holder_and_the_scope(
    guard: str, key: str, hook: Hook, conch: Conch, project: Path
) -> None:
    start(hook, "one", "two")
    conch("one", "reserve", "src/*")
    conch("one", "policy", f"guard={guard}")

    answer = edit(hook, "two", f"{project}/src/a.py")

    text = answer["hookSpecificOutput"][key]
    assert f"claude·{conch('one', 'whoami')['data']['name']} has reserved src/* since 20" in text
    assert ("permissionDecision" in answer["hookSpecificOutput"]) == (guard == "enforce")


def test_the_holder_of_the_reservation_gets_one_incursion(hook: Hook, conch: Conch, project: Path) -> None:
    start(hook, "one", "two")
    conch("one", "reserve", "src")

    edit(hook, "two", f"{project}/src/a.py")
    edit(hook, "two", f"{project}/src/a.py")

    events = conch("one", "agent", "inbox")["data"]["events"]
    assert [(event["event_type"], event["scope"], event["times"]) for event in events] == [("INCURSION", "src/a.py", 2)]


def enforce(hook: Hook, conch: Conch, guard: str = "enforce") -> None:
    """Session one has reserved `src`, and the policy is strict. Session two is there too."""
    start(hook, "one", "two")
    conch("one", "reserve", "src")
    conch("one", "policy", f"guard={guard}")


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_to_a_reserved_file_is_guarded_too(link: str, hook: Hook, conch: Conch, project: Path) -> None:
    enforce(hook, conch)
    (project / "src" / "a.py").write_text("")
    (project / "other").symlink_to("src/a.py" if link == "file" else "src")

    answer = edit(hook, "two", str(project / ("other" if link == "file" else "other/a.py")))

    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_other_files_and_the_holder_itself_are_free(hook: Hook, conch: Conch, project: Path) -> None:
    enforce(hook, conch)

    assert edit(hook, "two", f"{project}/README.md") == {}
    assert edit(hook, "two", "/elsewhere/src/a.py") == {}
    assert edit(hook, "one", f"{project}/src/a.py") == {}


def test_with_the_guard_off_every_edit_is_free(hook: Hook, conch: Conch, project: Path) -> None:
    enforce(hook, conch, "off")

    assert edit(hook, "two", f"{project}/src/a.py") == {}


def test_a_reservation_of_an_agent_that_left_guards_nothing(hook: Hook, conch: Conch, project: Path) -> None:
    enforce(hook, conch)

    hook("SessionEnd", "one")

    assert edit(hook, "two", f"{project}/src/a.py") == {}


def test_the_holder_of_the_stick_is_only_warned(hook: Hook, conch: Conch, project: Path) -> None:
    enforce(hook, conch)
    conch("two", "wait", "--timeout", "0")

    answer = edit(hook, "two", f"{project}/src/a.py")

    assert "warns you" in answer["hookSpecificOutput"]["additionalContext"]


def test_enforce_stick_refuses_an_edit_while_another_agent_holds_the_stick(
    hook: Hook, conch: Conch, project: Path
) -> None:
    enforce(hook, conch, "enforce_stick")
    conch("one", "wait", "--timeout", "0")
    conch("two", "reserve", "docs")

    refused = edit(hook, "two", f"{project}/README.md")

    assert "has held the stick since" in refused["hookSpecificOutput"]["permissionDecisionReason"]
    assert edit(hook, "two", f"{project}/docs/a.md") == {}
    assert edit(hook, "one", f"{project}/README.md") == {}


PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** End Patch"
CHANGES = [
    ("Bash", {"command": "bash -lc 'cd src && rm a.py'"}),
    ("Bash", {"command": "sudo -u me timeout 5s rm src/a.py"}),
    ("Bash", {"command": "cp -t src other.py"}),
    ("Bash", {"command": "find src -name '*.py' -delete"}),
    ("Bash", {"command": "git checkout main src/a.py"}),
    ("Bash", {"command": "echo `rm src/a.py`"}),
    ("Bash", {"command": "! rm src/{a,b}.py"}),
    ("Bash", {"command": f"rm src/{'{a,b}' * 40}.py"}),
    ("Bash", {"command": "make >& src/log"}),
    ("Bash", {"command": "(cd docs); cd src; (cd ..; ls); rm a.py"}),
    ("Bash", {"command": "pushd src && sed -Ei '' 's/a/b/' a.py; popd"}),
    ("Bash", {"command": "perl -0pi -e 's/a/b/' src/a.py"}),
    ("Bash", {"command": "git -C src -c a=b checkout -- a.py"}),
    ("Bash", {"command": "git stash"}),
    ("Bash", {"command": "git reset --hard"}),
    ("Bash", {"command": "git clean -xdf"}),
    ("Bash", {"command": "git checkout src"}),
    ("Bash", {"command": "find src -name '*.py' -exec rm {} +"}),
    ("Bash", {"command": "bash <<'EOF'\nrm src/a.py\nEOF"}),
    ("Bash", {"command": "bash <<<'rm src/a.py'"}),
    ("Bash", {"command": "eval 'rm src/a.py'"}),
    ("Bash", {"command": "cp other.py src/a.py </dev/null"}),
    ("Bash", {"command": "bash -c 'rm src/a.py' 0< notes"}),
    ("Write", {"file_path": "src/a.py"}),
    ("NotebookEdit", {"notebook_path": "src/a.ipynb"}),
    ("apply_patch", {"command": PATCH}),
    ("write_file", {"file_path": "src/a.py"}),
    ("Bash", {"command": "echo x > src/a.py"}),
    ("Bash", {"command": "cd src && sed -i 's/a/b/' a.py"}),
    ("Bash", {"command": "make && rm -rf src/*.o"}),
    ("Bash", {"command": "cat > src/a.py <<'EOF'\nrm x\nEOF"}),
    ("shell", {"command": ["bash", "-lc", "git checkout -- src/a.py"]}),
    ("run_shell_command", {"command": f"apply_patch <<'EOF'\n{PATCH}\nEOF"}),
]
READS = [
    ("Bash", {"command": "rm a.py \\\n  b.py"}),
    ("Bash", {"command": "rm -f *.o && cp notes{,.bak}"}),
    ("Bash", {"command": "(cd src && ls); touch a.py"}),
    ("Bash", {"command": "cd $WHERE && rm src/a.py"}),
    ("Bash", {"command": "cd src; [[ a > b ]] && echo $((1>2)) 2>&1"}),
    ("Bash", {"command": "touch -r src/a.py b.py"}),
    ("Bash", {"command": "git restore --source src -- b.py"}),
    ("Bash", {"command": "git stash list; git reset src/a.py"}),
    ("Bash", {"command": "git clean -n"}),
    ("Bash", {"command": "find -L docs -name '*.md' -delete"}),
    ("Bash", {"command": "tee a.py < src/a.py; tee b.py <<< src/b.py; tee c.py <&3 src.md"}),
    ("Bash", {"command": "sudo grep rm src/a.py"}),
    ("Bash", {"command": "git checkout -b src main"}),
    ("Bash", {"command": "echo bash -c 'rm src/a.py'"}),
    ("Read", {"file_path": "src/a.py"}),
    ("Bash", {"command": "cat src/a.py | grep '>' && ls src 2>&1"}),
    ("Bash", {"command": "cat <<'EOF'\necho x > src/a.py\nEOF"}),
    ("Bash", {"command": "echo 'rm src/a.py' > /dev/null"}),
    ("Bash", {"command": 'echo "unfinished > src'}),
    ("Bash", {"command": 7}),
    ("mcp__conch__scope_reserve", {"scope": "src"}),
]


@pytest.mark.parametrize("tool, given", CHANGES)
def test_every_plain_way_to_change_a_reserved_file_is_refused(
    tool: str, given: Object, hook: Hook, conch: Conch
) -> None:
    enforce(hook, conch)

    answer = hook("PreToolUse", "two", tool_name=tool, tool_input=given)

    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.parametrize("tool, given", READS)
def test_reading_is_always_free(tool: str, given: Object, hook: Hook, conch: Conch) -> None:
    enforce(hook, conch)

    assert hook("PreToolUse", "two", tool_name=tool, tool_input=given) == {}


@pytest.mark.parametrize(
    "harness, event, path",
    [
        ("codex", "PreToolUse", ("hookSpecificOutput", "permissionDecisionReason")),
        ("qwen", "PreToolUse", ("hookSpecificOutput", "permissionDecisionReason")),
        ("copilot", "PreToolUse", ("hookSpecificOutput", "permissionDecisionReason")),
        ("gemini", "BeforeTool", ("reason",)),
        ("cursor", "preToolUse", ("agent_message",)),
        ("opencode", "tool.execute.before", ("deny",)),
        ("kilo", "tool.execute.before", ("deny",)),
    ],
)
def test_each_harness_is_refused_in_its_own_form(
    harness: str, event: str, path: tuple[str, ...], hook: Hook, conch: Conch, project: Path
) -> None:
    enforce(hook, conch)

    said: Any = edit(hook, "three", f"{project}/src/a.py", harness, event)

    for key in path:
        said = said[key]
    assert said.startswith("conch refused this change")


def test_a_subagent_learns_that_it_is_its_parents_agent(hook: Hook, conch: Conch, project: Path) -> None:
    enforce(hook, conch)
    own = {"agent_id": "a1", "agent_type": "worker", "tool_name": "Write"}

    answer = hook("PreToolUse", "two", **own, tool_input={"file_path": f"{project}/src/a.py"})

    name = conch("two", "whoami")["data"]["name"]
    assert f"You are a subagent: for conch you are claude·{name}" in str(answer)


# -- between tool calls


def name_of(conch: Conch, session: str) -> str:
    name: str = conch(session, "whoami")["data"]["name"]
    return name


def told(answer: Object) -> str:
    said = answer.get("hookSpecificOutput", {}).get("additionalContext", "")
    return str(said)


@pytest.mark.parametrize("event", ["PostToolUse", "UserPromptSubmit"])
def test_a_message_reaches_its_agent_once_and_stays_unread(event: str, hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two")
    conch("one", "send", "The parser\nis done", "--to", name_of(conch, "two"))

    first, second = hook(event, "two"), hook(event, "two")

    assert f"from claude·{name_of(conch, 'one')}: The parser\n  is done" in told(first)
    assert second == {}
    assert [item["content_markdown"] for item in conch("two", "read")["data"]["received"]] == ["The parser\nis done"]


def test_messages_to_others_and_acknowledgements_interrupt_nobody(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two", "three")
    conch("one", "send", "for all")
    conch("one", "send", "for three", "--to", name_of(conch, "three"))
    conch("one", "send", "thanks", "--to", name_of(conch, "two"), "--type", "ack")

    assert hook("PostToolUse", "two") == {}


def test_an_open_question_reaches_everybody_else(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two")
    conch("one", "ask", "Which branch?", "--wait", "0")

    assert "Question #1" in told(hook("PostToolUse", "two"))
    assert hook("PostToolUse", "one") == {}


def test_a_notice_reaches_its_agent_once_and_stays_unread(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two")
    work = ("--subject", "Parser", "--summary", "It parses", "--next", "Review it")
    conch("one", "agent", "send", name_of(conch, "two"), *work)

    first, second = hook("PostToolUse", "two"), hook("PostToolUse", "two")

    assert "HANDOFF" in told(first) and "Review it" in told(first)
    assert second == {}
    assert [event["state"] for event in conch("two", "agent", "inbox")["data"]["events"]] == ["unread"]


def test_what_is_too_long_says_which_tool_has_the_rest(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two")
    work = ("--subject", "Parser", "--summary", "x" * 2_000, "--next", "Review it")
    conch("one", "agent", "send", name_of(conch, "two"), *work)
    conch("one", "send", "y" * 2_000, "--to", name_of(conch, "two"))

    text = told(hook("PostToolUse", "two"))

    notice, message = text.split("#1")
    assert "`event_inbox` returns all of it" in notice
    assert "`sync` returns all of it" in message


def test_what_could_not_be_printed_is_shown_again(hook: Hook, conch: Conch, project: Path) -> None:
    start(hook, "one", "two")
    conch("one", "send", "hello", "--to", name_of(conch, "two"))
    given = {"session_id": "two", "cwd": str(project), "hook_event_name": "PostToolUse"}

    reply(["PostToolUse", "--harness", "claude-code"], json.dumps(given).encode(), lambda text: False)

    assert "hello" in told(hook("PostToolUse", "two"))


def test_a_flood_of_messages_comes_in_bounded_pieces_and_nothing_is_lost(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two")
    for number in range(7):
        conch("one", "send", f"<{number}>" + "x" * 1_400, "--to", name_of(conch, "two"))

    texts = [told(hook("PostToolUse", "two")) for _ in range(3)]

    assert max(map(len, texts)) < 7_000
    assert [number for number in range(7) if f"<{number}>" in "".join(texts)] == list(range(7))
    assert texts[2] == ""


def test_a_subagent_does_not_get_the_mail_of_its_parent(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two")
    conch("one", "send", "hello", "--to", name_of(conch, "two"))

    assert hook("PostToolUse", "two", agent_id="a1", agent_type="worker") == {}
    assert "hello" in told(hook("PostToolUse", "two"))


@pytest.mark.parametrize(
    "harness, key",
    [("copilot", "additionalContext"), ("cursor", "additional_context"), ("opencode", "context"), ("kilo", "context")],
)
def test_each_harness_is_told_in_its_own_form(harness: str, key: str, hook: Hook, conch: Conch) -> None:
    start(hook, "one")
    hook("sessionStart", "two", harness)
    conch("one", "ask", "Which branch?", "--wait", "0")

    assert "Which branch?" in hook("postToolUse", "two", harness)[key]


# -- the end


def test_an_unaccepted_handoff_and_a_question_by_name_hold_an_agent_back(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two")
    work = ("--subject", "Parser", "--summary", "It parses", "--next", "Review it")
    event = conch("one", "agent", "send", name_of(conch, "two"), *work)["data"]["event"]["id"]
    question = ("--type", "question", "--to", name_of(conch, "two"))
    conch("one", "send", "Which branch?", *question)

    reason = hook("Stop", "two")["reason"]

    assert f"accept {event}" in reason and "Which branch?" in reason
    conch("two", "agent", "accept", event)
    conch("two", "answer", "1", "main")
    assert hook("Stop", "two") == {}


def test_stopping_with_the_stick_in_hand_is_held_back_once(hook: Hook, conch: Conch) -> None:
    start(hook, "one")
    conch("one", "wait", "--timeout", "0")

    first = hook("Stop", "one", stop_hook_active=False)
    second = hook("Stop", "one", stop_hook_active=True)

    assert first["decision"] == "block" and "You still hold the stick" in first["reason"]
    assert second == {}


def test_a_session_that_has_gone_to_another_folder_is_held_back_too(hook: Hook, conch: Conch, tmp_path: Path) -> None:
    start(hook, "one", "two")
    conch("one", "wait", "--timeout", "0")

    assert "You still hold the stick" in hook("Stop", "one", cwd=str(tmp_path))["reason"]
    hook("SessionEnd", "one", cwd=str(tmp_path / "deleted"))
    assert conch("two", "state")["data"]["takeover"]["available"] is True


PLUGIN = """
import {{ conch }} from "{plugin}"
let prompts = 0
const client = {{ session: {{ prompt: async () => {{ prompts += 1 }} }} }}
const hooks = await conch({{ client, directory: "/" }})
const counts = []
for (let stops = 0; stops < 4; stops++) {{
  await hooks.event({{ event: {{ type: "session.idle", properties: {{ sessionID: "one" }} }} }})
  counts.push(prompts)
}}
console.log(JSON.stringify(counts))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="the plugin runs in Node or Bun")
def test_the_plugin_never_holds_a_session_back_twice_in_a_row(tmp_path: Path) -> None:
    """OpenCode does not say whether a hook has just kept the agent from stopping, so the plugin remembers it."""
    program, plugin, main = tmp_path / "conch", tmp_path / "plugin.mjs", tmp_path / "main.mjs"
    program.write_text(
        '#!/bin/sh\nif grep -q \'"stop_hook_active":true\'; then echo {}; else echo \'{"block": "x"}\'; fi\n'
    )
    program.chmod(0o755)
    plugin.write_text(plugin_text(str(program), "opencode"))
    main.write_text(PLUGIN.format(plugin=plugin))

    ended = subprocess.run(["node", str(main)], capture_output=True, text=True, check=True)

    assert json.loads(ended.stdout) == [1, 1, 2, 2]


SUBAGENT = """
import {{ conch }} from "{plugin}"
let prompts = 0
const client = {{ session: {{ prompt: async () => {{ prompts += 1 }} }} }}
const hooks = await conch({{ client, directory: "/" }})
const tell = (type, properties) => hooks.event({{ event: {{ type, properties }} }})
const created = (info) => tell("session.created", {{ info }})
await created({{ id: "root" }})
await tell("message.updated", {{ sessionID: "root", info: {{ id: "msg_2", parentID: "msg_1" }} }})
await hooks["chat.message"]({{ sessionID: "root" }}, {{ parts: [] }})
await created({{ id: "child", parentID: "root" }})
await created({{ id: "grandchild", parentID: "child" }})
const sessionID = "grandchild"
const env = {{}}
await hooks["chat.message"]({{ sessionID }}, {{ parts: [] }})
await hooks["tool.execute.before"]({{ sessionID, tool: "edit" }}, {{ args: {{}} }})
await hooks["tool.execute.after"]({{ sessionID, tool: "edit" }}, {{ output: "" }})
await tell("session.idle", {{ sessionID }})
await hooks["shell.env"]({{ sessionID }}, {{ env }})
console.log(JSON.stringify([prompts, env.OPENCODE_SESSION_ID]))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="the plugin runs in Node or Bun")
def test_the_plugin_says_that_the_session_of_a_subagent_is_one(tmp_path: Path) -> None:
    """OpenCode tells it only once, when the session is created. A subagent has no mail, and is not held back."""
    program, plugin, main = tmp_path / "conch", tmp_path / "plugin.mjs", tmp_path / "main.mjs"
    program.write_text(f"#!/bin/sh\n{{ cat; echo; }} >> '{tmp_path}/given'\necho '{{\"block\": \"x\"}}'\n")
    program.chmod(0o755)
    plugin.write_text(plugin_text(str(program), "opencode"))
    main.write_text(SUBAGENT.format(plugin=plugin))

    ended = subprocess.run(["node", str(main)], capture_output=True, text=True, check=True)

    given = [json.loads(line) for line in (tmp_path / "given").read_text().splitlines()]
    about = [(each["session_id"], each.get("agent_id"), "agent_type" in each) for each in given]
    assert about == 2 * [("root", None, False)] + 3 * [("root", "grandchild", True)]
    assert json.loads(ended.stdout) == [0, "root"]


def test_stopping_with_empty_hands_is_free(hook: Hook) -> None:
    start(hook, "one")

    assert hook("Stop", "one", stop_hook_active=False) == {}
    assert hook("Stop", "unknown", stop_hook_active=False) == {}


def test_a_session_that_ends_leaves_the_room_and_its_reservations(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two")
    conch("one", "reserve", "src")

    hook("SessionEnd", "one", reason="exit")

    assert len(conch("two", "who")["data"]["agents"]) == 1
    assert conch("two", "reservations")["data"]["reservations"] == []


def test_a_stick_that_a_session_still_held_can_be_taken_over_at_once(hook: Hook, conch: Conch) -> None:
    start(hook, "one", "two")
    conch("one", "wait", "--timeout", "0")

    hook("SessionEnd", "one", reason="exit")

    taken = conch("two", "take", "--reason", "its session ended")
    assert taken["ok"], taken
    assert "ended before it handed over" in json.dumps(taken["data"]["notes"])
    assert conch("two", "db", "verify")["ok"]


# -- whatever is wrong, the agent goes on


def run_hook(environ: dict[str, str], given: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "conch", "hook", *words]
    return subprocess.run(command, input=given, env=environ, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    "given, words",
    [
        (b"", ("PreToolUse",)),
        (b"not json", ("PreToolUse",)),
        (b"[1]", ("PreToolUse", "--harness")),
        (b"\xff", ("Stop",)),
        (b'{"hook_event_name": 7, "cwd": 3, "tool_input": []}', ("PreToolUse",)),
        (b'{"cwd": "/does/not/exist"}', ("SessionStart", "--harness", "nobody")),
        (b"{}", ("NoSuchEvent",)),
        (b"{}", ()),
        (b'{"hook_event_name": "Stop"}', ("--harness", "claude-code")),
    ],
)
def test_a_strange_input_gets_an_empty_answer(environ: dict[str, str], given: bytes, words: tuple[str, ...]) -> None:
    done = run_hook(environ, given, *words)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"{}\n", b"")


@pytest.mark.parametrize("damage", ["garbage", "folder", "invalid setting"])
def test_a_broken_store_gets_an_empty_answer(environ: dict[str, str], damage: str, tmp_path: Path) -> None:
    store = tmp_path / "data" / "rooms.sqlite"
    store.parent.mkdir()
    if damage == "garbage":
        store.write_bytes(b"x" * 9_000)
    elif damage == "folder":
        store.mkdir()
    else:
        environ["CONCH_BUSY_TIMEOUT_MS"] = "soon"
    given = json.dumps({"session_id": "one", "cwd": str(tmp_path), "tool_name": "Edit"}).encode()

    done = run_hook(environ, given, "SessionStart", "--harness", "claude-code")

    assert (done.returncode, done.stdout, done.stderr) == (0, b"{}\n", b"")


@pytest.fixture
def locked(environ: dict[str, str], tmp_path: Path) -> Iterator[None]:
    """A store that another program does not let go of."""
    environ["CONCH_BUSY_TIMEOUT_MS"] = "600000"
    connection = sqlite3.connect(tmp_path / "data" / "rooms.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.close()


def test_a_hook_ends_although_what_it_showed_cannot_be_noted(
    hook: Hook, conch: Conch, environ: dict[str, str], project: Path, request: pytest.FixtureRequest
) -> None:
    start(hook, "one", "two")
    conch("two", "send", "hello", "--to", name_of(conch, "one"))
    request.getfixturevalue("locked")
    given = {"session_id": "one", "cwd": str(project), "hook_event_name": "PostToolUse", "tool_name": "Read"}

    done = run_hook(environ, json.dumps(given).encode(), "PostToolUse", "--harness", "claude-code")

    assert done.returncode == 0
    assert "hello" in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize(
    ("server", "event"),
    [
        ("silent", "SessionStart"),
        ("gone", "PreToolUse"),
        ("gone", "PostToolUse"),
        ("gone", "Stop"),
        ("gone", "SessionEnd"),
    ],
)
def test_a_server_that_does_not_answer_gets_an_empty_answer(
    environ: dict[str, str], project: Path, server: str, event: str
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))  # it accepts, and never says a word
    port = listener.getsockname()[1]
    if server == "gone":
        listener.close()
    environ["CONCH_STORE"] = f"postgresql://nobody@127.0.0.1:{port}/none"
    given = {"session_id": "one", "cwd": str(project), "hook_event_name": event, "tool_name": "Edit"}
    given |= {"tool_input": {"file_path": str(project / "a.py")}}

    done = run_hook(environ, json.dumps(given).encode(), event, "--harness", "claude-code")

    listener.close()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"{}\n", b"")


def test_a_hook_gives_up_when_its_input_never_ends(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "conch", "hook", "PreToolUse"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdout is not None

        answer = process.stdout.read()

    assert (process.returncode, answer) == (0, b"{}\n")


def test_a_hook_creates_no_store_where_nobody_uses_conch(hook: Hook, tmp_path: Path, project: Path) -> None:
    assert edit(hook, "one", f"{project}/src/a.py") == {}
    assert hook("Stop", "one") == {}

    assert not (tmp_path / "data" / "rooms.sqlite").exists()
