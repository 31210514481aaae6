"""Asks a person at the terminal before a command does what cannot be undone."""

from __future__ import annotations

import os
import sys

from conch.doors.cli.output import write
from conch.errors import DecisionNeeded
from conch.lean import Any


def may_ask() -> bool:
    """Whether a person can answer. In a terminal of its own, a harness would answer instead."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        return False
    from conch.agents.records import PERSON_SESSION
    from conch.agents.signals import gather_signals

    # Setting CONCH_AGENT_ID does not make a program a person.
    environ = {name: value for name, value in os.environ.items() if name != "CONCH_AGENT_ID"}
    return gather_signals("cli", environ, None).session_kind == PERSON_SESSION


def answer_to(question: str) -> str | None:
    """What the person types. None at the end of input, which is not a decision."""
    answer = ""
    try:
        write(sys.stderr, f"{question} ")
        answer = sys.stdin.readline()
    finally:
        if not answer.endswith("\n"):  # after Ctrl-C or Ctrl-D, the next text must start on a new line
            write(sys.stderr, "\n")
    return answer.strip() if answer else None


def answers_yes(question: str) -> bool | None:
    """Whether the person says yes. None at the end of input."""
    answer = answer_to(f"{question} [y/N]")
    return None if answer is None else answer.lower() in ("y", "yes")


def require_yes(options: Any, facts: str, question: str, refusal: str) -> None:
    """Go on if `--yes` is given, or if a person at the terminal says yes after reading the facts."""
    if options.yes or (may_ask() and answers_yes(f"{facts}\n{question}")):
        return
    raise DecisionNeeded(f"{facts} {refusal}", field="yes")
