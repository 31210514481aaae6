"""`conch doctor` finds what is wrong with a setup, and says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Object = dict[str, Any]
Conch = Callable[..., Object]


@pytest.fixture
def home(environ: dict[str, str], tmp_path: Path) -> Path:
    """A home with one harness, Cursor."""
    folder = tmp_path / "home"
    (folder / ".cursor").mkdir(parents=True)
    environ |= {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    return folder


def findings(envelope: Object) -> dict[str, Object]:
    listed = (envelope["data"] or envelope["error"])["findings"]
    return {finding["what"]: finding for finding in listed}


def put_program(home: Path, environ: dict[str, str], name: str, text: str) -> None:
    """A stand-in for the program of a harness."""
    program = home / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    environ["PATH"] = f"{program.parent}:/usr/bin:/bin"


def test_a_sound_set_up_has_no_problems(home: Path, conch: Conch) -> None:
    conch("one", "install", "cursor")

    report = conch("one", "doctor")

    assert report["ok"]
    states = {what: finding["state"] for what, finding in findings(report).items()}
    assert {"store", "bell", "server", "guardians", "Cursor"} <= states.keys()
    assert set(states.values()) == {"ok"}


def test_trying_the_bell_leaves_nothing_behind(home: Path, conch: Conch, environ: dict[str, str]) -> None:
    assert conch("one", "doctor")["ok"]

    assert list(Path(environ["CONCH_DATA_DIR"], "bells").iterdir()) == []


def test_what_a_power_cut_may_cost_is_told(home: Path, conch: Conch, environ: dict[str, str]) -> None:
    told = [findings(conch("one", "doctor"))["durability"]["found"]]
    environ["CONCH_SYNCHRONOUS"] = "full"
    told.append(findings(conch("one", "doctor"))["durability"]["found"])

    assert told[0].startswith("normal: a power cut may lose the last commits")
    assert told[1] == "full: every commit survives a power cut"


def test_a_harness_that_is_not_set_up_is_noted_with_the_command_that_helps(home: Path, conch: Conch) -> None:
    found = findings(conch("one", "doctor"))["Cursor"]

    assert (found["state"], found["advice"]) == ("note", "Run `conch install cursor`.")


def test_settings_that_cannot_be_read_are_a_problem(home: Path, conch: Conch) -> None:
    (home / ".cursor" / "mcp.json").write_text("{")

    report = conch("one", "doctor")

    assert not report["ok"]
    assert "mcp.json" in findings(report)["Cursor"]["found"]


def test_a_data_directory_that_others_may_write_is_a_problem(home: Path, conch: Conch, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)

    assert findings(conch("one", "doctor"))["permissions"]["state"] == "problem"


def test_another_conch_on_the_path_is_noted(home: Path, conch: Conch, environ: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "bin" / "conch"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    environ["PATH"] = f"{other.parent}:{environ['PATH']}"

    assert str(other) in findings(conch("one", "doctor"))["programs"]["found"]


def test_a_second_store_beside_the_exported_one_is_noted(home: Path, conch: Conch) -> None:
    usual = home / ".local" / "share" / "conch" / "rooms.sqlite"
    usual.parent.mkdir(parents=True)
    usual.write_bytes(b"")

    assert str(usual) in findings(conch("one", "doctor"))["stores"]["found"]


@pytest.mark.parametrize(
    "said, state",
    [
        ("conch: /usr/bin/conch mcp - \033[32m✔ Connected", "ok"),
        ("conch: /usr/bin/conch mcp - Pending approval", "note"),
        ("No MCP servers configured.", "problem"),
    ],
)
def test_the_client_of_a_harness_is_asked_what_it_makes_of_the_settings(
    home: Path, conch: Conch, environ: dict[str, str], said: str, state: str
) -> None:
    put_program(home, environ, "claude", f"printf '%b\\n' '{said}' >&2")
    conch("one", "install", "claude")

    found = findings(conch("one", "doctor"))["Claude Code"]

    assert found["state"] == state
    assert found["found"].startswith("`claude mcp list`")
    assert bool(found["advice"]) == (state != "ok")


@pytest.mark.parametrize("harness", ["claude", "codex", "gemini", "opencode", "copilot", "qwen", "kilo"])
def test_a_client_that_does_not_list_conch_is_a_problem_with_advice(
    home: Path, conch: Conch, environ: dict[str, str], harness: str
) -> None:
    put_program(home, environ, harness, "exit 0")
    conch("one", "install", harness)

    listed = conch("one", "doctor")["error"]["findings"]

    (problem,) = [finding for finding in listed if finding["state"] == "problem"]
    assert "does not list conch" in problem["found"] and problem["advice"]


def test_a_client_that_does_not_start_hides_no_other_harness(home: Path, conch: Conch, environ: dict[str, str]) -> None:
    put_program(home, environ, "codex", "echo conch ok")
    put_program(home, environ, "claude", "")
    (home / "bin" / "claude").write_text("#!/no/such/interpreter")
    conch("one", "install", "claude", "codex")

    listed = conch("one", "doctor")["error"]["findings"]

    assert [finding["state"] for finding in listed if finding["what"] == "Claude Code"] == ["problem"]
    assert "ok" in [finding["state"] for finding in listed if finding["what"] == "Codex"]


@pytest.mark.parametrize("trust, state", [("trusted", "ok"), ("untrusted", "note")])
def test_codex_is_asked_whether_it_trusts_the_hooks(
    home: Path, conch: Conch, environ: dict[str, str], trust: str, state: str
) -> None:
    hooks = [{"command": "/x/conch hook Stop --harness codex", "trustStatus": trust}, {"command": "mine"}]
    reply = json.dumps({"id": 1, "result": {"data": [{"hooks": hooks}]}})
    put_program(
        home, environ, "codex", f"[ $1 = app-server ] || exec echo conch\nread a; read b\necho '{reply}'; read c"
    )
    conch("one", "install", "codex")

    found = findings(conch("one", "doctor"))["Codex"]

    assert (found["state"], found["found"]) == (state, f"it trusts {int(state == 'ok')} of 1 hooks of conch")


def test_a_store_that_cannot_be_opened_is_one_problem_although_several_checks_need_it(
    home: Path, conch: Conch, environ: dict[str, str]
) -> None:
    folder = home / "foreign"
    folder.mkdir(mode=0o700)
    (folder / "rooms.sqlite").write_text("This is not a database.")
    environ["CONCH_DATA_DIR"] = str(folder)

    report = conch("one", "doctor")

    problems = [finding for finding in report["error"]["findings"] if finding["state"] == "problem"]
    assert [problem["what"] for problem in problems] == ["store"]
    assert "is not a database" in problems[0]["found"]
