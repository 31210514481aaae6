"""Agents write the workspace, and the user's PATH may lead into it. conch starts no program of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.harnesses.alarms import Alarm, ring_by_command

CLIENTS = ("claude", "codex", "gemini", "opencode", "copilot", "qwen", "kilo")
PLAIN = "/usr/bin:/bin"


@pytest.fixture
def proofs(tmp_path: Path) -> Path:
    folder = tmp_path / "proofs"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def home(environ: dict[str, str], tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    environ["HOME"] = str(folder)
    return folder


def put_program(folder: Path, name: str, proofs: Path, text: str = "") -> Path:
    """A program that leaves a proof with its name."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho \"$PWD\" > '{proofs}/{name}'\n{text}\n")
    program.chmod(0o755)
    return program


def folder_of_the_workspace(project: Path, outside: Path) -> str:
    return str(project / "bin")


def relative_folder(project: Path, outside: Path) -> str:
    return "bin"


def current_folder(project: Path, outside: Path) -> str:
    for program in (project / "bin").iterdir():
        (project / program.name).write_bytes(program.read_bytes())
        (project / program.name).chmod(0o755)
    return ""


def link_to_the_folder(project: Path, outside: Path) -> str:
    (outside / "bin").symlink_to(project / "bin")
    return str(outside / "bin")


def links_to_the_programs(project: Path, outside: Path) -> str:
    for program in (project / "bin").iterdir():
        (outside / program.name).symlink_to(program)
    return str(outside)


def link_that_leads_out(project: Path, outside: Path) -> str:
    """An agent chooses where it leads."""
    (project / "bin").rename(outside / "real")
    (project / "bin").symlink_to(outside / "real")
    return str(project / "bin")


def link_over_a_link(project: Path, outside: Path) -> str:
    return link_to_the_folder(project, outside) if link_that_leads_out(project, outside) else ""


WAYS = [
    folder_of_the_workspace,
    relative_folder,
    current_folder,
    link_to_the_folder,
    links_to_the_programs,
    link_that_leads_out,
    link_over_a_link,
]


@pytest.fixture(params=WAYS)
def path(request: pytest.FixtureRequest, environ: dict[str, str], project: Path, tmp_path: Path, proofs: Path) -> str:
    """A PATH that leads to programs of the workspace first."""
    for name in (*CLIENTS, "vi", "conch"):
        put_program(project / "bin", name, proofs, "echo conch ok")
    (tmp_path / "outside").mkdir()
    environ["PATH"] = f"{request.param(project, tmp_path / 'outside')}:{PLAIN}"
    return environ["PATH"]


def test_the_doctor_starts_no_client_of_the_workspace(path: str, conch: Callable[..., Any], proofs: Path) -> None:
    conch("one", "install", *CLIENTS)
    conch("one", "doctor")

    assert os.listdir(proofs) == []


def test_a_program_of_the_workspace_does_not_get_into_the_settings(
    path: str, conch: Callable[..., Any], home: Path, environ: dict[str, str], project: Path
) -> None:
    """Not even a link to the right one, because an agent could change where it leads."""
    for folder in (project, project / "bin"):
        if (folder / "conch").exists():
            (folder / "conch").unlink()
            (folder / "conch").symlink_to(Path(sys.executable).parent / "conch")

    conch("one", "install", "claude")

    command = json.loads((home / ".claude.json").read_text())["mcpServers"]["conch"]["command"]
    assert os.path.isabs(command)
    assert not command.startswith((str(project), str(project.parent / "outside")))


def test_an_agent_is_woken_by_no_program_of_the_workspace(
    path: str, project: Path, proofs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)

    rung = ring_by_command("codex", "TEXT")(Alarm("t", "s", {"PATH": path}))

    assert (rung.state, rung.why) == ("failed", "codex is in no folder of PATH outside of the workspace")
    assert os.listdir(proofs) == []


@pytest.mark.parametrize("path", [way for way in WAYS if way != links_to_the_programs], indirect=True)
def test_what_a_started_program_searches_for_is_not_of_the_workspace_either(
    path: str, project: Path, proofs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many clients begin with `#!/usr/bin/env node`."""
    monkeypatch.chdir(project)
    harness = put_program(tmp_path / "programs", "harness", tmp_path, "")
    harness.write_text("#!/usr/bin/env claude\n")

    rung = ring_by_command("harness", "TEXT")(Alarm("t", "s", {"PATH": f"{path}:{harness.parent}"}))

    assert rung.state == "failed"
    assert os.listdir(proofs) == []


def test_a_client_is_asked_where_no_file_of_the_workspace_can_name_a_server(
    conch: Callable[..., Any], project: Path, proofs: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    """`claude mcp list` starts the servers in `.mcp.json`, and OpenCode loads the plugins of a project."""
    for name in CLIENTS:
        put_program(tmp_path / "programs", name, proofs, "echo conch ok")
    environ["PATH"] = f"{tmp_path / 'programs'}:{PLAIN}"
    conch("one", "install", *CLIENTS)

    conch("one", "doctor")

    folders = {name: (proofs / name).read_text().strip() for name in os.listdir(proofs)}
    assert folders.keys() == set(CLIENTS)
    assert not [folder for folder in folders.values() if Path(folder).is_relative_to(project)]
