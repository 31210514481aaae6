"""Faults in turn, as many as fit into a few seconds. `make faults` runs all of them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Database, Postgres
from tests.faults import shim
from tests.faults.__main__ import NO_COMPILER
from tests.faults.runs import Fault, Outcome, PostgresRuns, count_in, run_all
from tests.faults.story import STORY, UNCERTAIN, Answer, judge

ROOT = Path(__file__).parents[2]
SECONDS = 8.0
NOTE = next(step for step in STORY if step.tool == "append_note")


@pytest.mark.skipif(sys.platform != "linux", reason="preloads a library")
def test_no_fault_below_sqlite_makes_an_answer_untrue() -> None:
    if shim.compiler() is None:
        pytest.fail(NO_COMPILER) if os.environ.get("CI") else pytest.skip(NO_COMPILER)

    run = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--engine", "sqlite", "--seconds", str(SECONDS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.usefixtures("postgres_url")
def test_no_message_lost_before_postgres_makes_an_answer_untrue(postgres: Postgres, first_database: Database) -> None:
    runs = PostgresRuns(postgres.url, first_database.empty, lambda query: count_in(first_database, query))
    seed = random.randrange(10**6)

    summary = run_all(runs.faults(), runs.play, seed, SECONDS)

    runs.close()
    assert summary.problems == [], f"seed {seed}: {summary}"


def test_a_problem_is_shown_as_soon_as_it_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []

    def play(fault: Fault) -> Outcome:
        shown.append(capsys.readouterr().err)
        return Outcome(fault, [], ["it was lost"] if fault.number == 0 else [])

    run_all([Fault("write", 0), Fault("write", 1), Fault("write", 2)], play, 0, None)

    shown.append(capsys.readouterr().err)
    assert [text for text in shown if text] == [text for text in shown if "write 0: it was lost" in text]
    assert "".join(shown).count("it was lost") == 1


def answered(code: str, before: int, after: int) -> Answer:
    return Answer(NOTE, {} if code == "ok" else {"error": code}, before, after)


@pytest.mark.parametrize(
    ("answers", "rows", "problem"),
    [
        ([answered("ok", 0, 0)], 0, "acknowledged, but made 0 times"),
        ([answered("ok", 0, 2)], 2, "acknowledged, but made 2 times"),
        ([answered("ok", 0, 1)], 0, "acknowledged and lost"),
        ([answered("DB_FULL", 0, 1)], 1, "refused, but made"),
        ([answered("internal_error", 0, 0)], 0, "not an error of the store"),
        ([answered("DB_FULL", 0, 0), answered("DB_FULL", 0, 0)], 0, "did not recover"),
        ([answered(UNCERTAIN, 0, 0), answered("stale_lease", 0, 0)], 0, "not an error of the store"),
        ([answered(UNCERTAIN, 0, 1), answered("stale_lease", 1, 2)], 2, "refused, but made"),
    ],
)
def test_the_judge_finds_each_kind_of_untruth(answers: list[Answer], rows: int, problem: str) -> None:
    assert any(found.startswith(problem) for found in judge(answers, lambda query: rows))


@pytest.mark.parametrize(
    "answers",
    [
        [answered("ok", 0, 1)],
        [answered("DB_FULL", 0, 0), answered("ok", 0, 1)],
        [answered(UNCERTAIN, 0, 1), answered("ok", 1, 2)],
        [answered(UNCERTAIN, 0, 1), answered("ok", 1, 1)],
        [answered(UNCERTAIN, 0, 1), answered("stale_lease", 1, 1)],
    ],
)
def test_the_judge_accepts_what_is_true(answers: list[Answer]) -> None:
    assert judge(answers, lambda query: 1) == []
