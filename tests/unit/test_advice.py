"""Advice is data: the domains say which step helps, each door says it in its own words."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import conch
from conch import errors
from conch.doors.cli import advice as commands
from conch.doors.cli.catalogue import COMMANDS
from conch.doors.web.replies import refusal
from conch.errors import Advice, ConchError, InvalidArgument
from conch.tools import advice as tools
from conch.tools import own_ids
from conch.tools.catalogue import TOOLS

ROOT = Path(conch.__file__).parent
DOMAINS = ("agents", "rooms", "bus", "search", "notices", "turns", "scopes", "members")
TREES = {path: ast.parse(path.read_text()) for name in DOMAINS for path in sorted((ROOT / name).rglob("*.py"))}
# The other names of tools are ordinary words: ask, answer, sync, ping, heartbeat.
TOOL_NAMES = [name for name in TOOLS if "_" in name]
ERRORS = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, ConchError)}
A_COMMAND = re.compile(r"`conch ([a-z]+(?: [a-z]+)?)")


def find_steps() -> set[str]:
    """The steps that are advised by the domains, and where a call leaves out its ids."""
    trees = [*TREES.values(), ast.parse(inspect.getsource(own_ids))]
    calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    advised = (call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Advice")
    return {step.value for step in advised if isinstance(step, ast.Constant)}


def find_sentences(tree: ast.AST) -> Iterator[str]:
    """Every text with a space in it that is not a docstring."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield from [node.value] if " " in node.value else []


def test_each_door_has_words_for_exactly_the_steps_that_are_advised() -> None:
    assert set(tools.STEPS) == find_steps()
    assert set(commands.STEPS) == find_steps()


def test_a_refusal_in_the_console_advises_no_tool() -> None:
    about = {"known": "a, b", "name": "bob"}
    advised = [bytes(refusal(ConchError("No.", Advice(step, about))).body).decode() for step in find_steps()]

    assert [text for text in advised if any(name in text for name in TOOL_NAMES)] == []
    assert any("The first page lists the rooms." in text for text in advised)


# After these, only another call helps, so the refusal must name it. The messages of the others say what to do.
ADVISED = {"StaleLease", "TurnMismatch", "TakeoverNotAvailable", "StickHeld", "UnknownRoom", "RoomClosed"}
ADVISED |= {"TopicNotFound", "TopicClosed", "AgentNotJoined", "QuestionNotFound", "EventNotFound", "MarkForbidden"}
ADVISED |= {"ReservationNotFound", "ReservationStale"}


def test_every_refusal_that_ends_a_way_advises_another() -> None:
    calls = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    refusals = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ADVISED]

    assert [ast.unparse(each) for each in refusals if len(each.args) < 2] == []
    assert {each.func.id for each in refusals} == ADVISED  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", sorted(tools.STEPS))
@pytest.mark.parametrize("words", [tools.STEPS, commands.STEPS], ids=["tools", "commands"])
def test_every_piece_of_advice_is_a_sentence_of_its_own(words: dict[str, str], step: str) -> None:
    refusal = ConchError("It did not work.", Advice(step, {"name": "amber-otter", "known": "subject, summary"}))

    said = refusal.advised(words)

    assert re.fullmatch(r"It did not work\. [A-Za-z`].*[a-z`]\.", said)
    assert "{" not in said


@pytest.mark.parametrize("step", sorted(commands.STEPS))
def test_the_command_line_advises_commands_that_exist_and_no_tools(step: str) -> None:
    said = commands.STEPS[step]

    named = A_COMMAND.findall(said)
    assert all(name in COMMANDS or name.split()[0] in COMMANDS for name in named), named
    assert not [name for name in TOOL_NAMES if re.search(rf"\b{name}\b", said)]


@pytest.mark.parametrize("path", TREES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_of_a_domain_names_a_tool_or_a_command(path: Path) -> None:
    sentences = list(find_sentences(TREES[path]))

    assert [text for text in sentences if "`conch " in text or "conch mcp" in text] == []
    assert [text for text in sentences for name in TOOL_NAMES if re.search(rf"\b{name}\b", text)] == []


def find_messages(tree: ast.AST) -> Iterator[ast.expr]:
    """What errors are made with: the first argument of an error class, and every variable called message."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            yield from node.args[:1]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "message":
            yield node.value


def end_of(message: ast.expr) -> str:
    """The literal end of a message; a full stop if the message ends with the text of another one."""
    if isinstance(message, ast.JoinedStr):
        message = message.values[-1]
    return str(message.value) if isinstance(message, ast.Constant) else "."


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_error_ends_with_a_full_stop(path: Path) -> None:
    messages = find_messages(ast.parse(path.read_text()))

    assert [ast.unparse(each) for each in messages if not end_of(each).endswith((".", "?"))] == []


@pytest.mark.parametrize(
    ("command", "field", "message", "said"),
    [
        ("send", "outbox[0].content_markdown", "outbox[0].content_markdown is required.", "TEXT is required."),
        ("send", "outbox[0].metadata.to", "outbox[0].metadata.to must be a name.", "--to must be a name."),
        (
            "join",
            "context_path",
            "context_path '/x' cannot be used: it is gone.",
            "DIR '/x' cannot be used: it is gone.",
        ),
        ("pass", "to_agent_id", "to_agent_id is you.", "AGENT is you."),
        ("release", "next_action", "handoff.next_action is required.", "--next is required."),
        ("release", "open_questions[0]", "handoff.open_questions[0] is empty.", "--question is empty."),
        ("release", "artifacts[0].role", "handoff.artifacts[0].role is wrong.", "The role of --artifact is wrong."),
        ("release", "handoff", "handoff contains a NUL.", "The handoff contains a NUL."),
        ("agent send", "payload.requested_action", "payload.requested_action is required.", "--request is required."),
        ("policy", "policy.claim_ttl_ms", "policy.claim_ttl_ms is wrong.", "claim_ttl_ms is wrong."),
        ("agent status", "path", "path is wrong.", "PATH is wrong."),
        ("send", "topic_id", "There is no topic 'topic_id'.", "There is no topic 'topic_id'."),
        ("agent register", "name", "name-giver is taken.", "name-giver is taken."),
    ],
)
def test_the_command_line_calls_a_field_what_its_option_is_called(
    command: str, field: str, message: str, said: str
) -> None:
    options = COMMANDS[command].options

    assert commands.word_refusal(InvalidArgument(message, field=field), options) == said
