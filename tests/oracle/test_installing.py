"""The commands of the documents that install conch, run by pipx and uv themselves."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venv-tools" / "bin"


@pytest.mark.parametrize("command", ["pipx install .", "uv tool install ."])
def test_conch_is_on_the_path_after(command: str, tmp_path: Path) -> None:
    program = TOOLS / command.split()[0]
    if not program.exists():
        pytest.skip(f"{program.name} is not here: `make oracle` installs it from the package registry")
    assert f"`{command}`" in (ROOT / "docs" / "install.md").read_text()
    where = {"PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin", "UV_TOOL_DIR": "uv", "UV_TOOL_BIN_DIR": "bin"}
    own = {name: str(tmp_path / folder) for name, folder in {**where, "UV_CACHE_DIR": "cache", "HOME": "home"}.items()}
    environ = {**os.environ, **own, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    installed = subprocess.run(
        [program, *shlex.split(command)[1:]], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300
    )
    if "Connection" in installed.stderr:
        pytest.skip("the package registry is not reached, and the build needs hatchling from it")
    shown = subprocess.run(["sh", "-c", "command -v conch; conch version"], env=environ, capture_output=True, text=True)

    assert installed.returncode == 0, installed.stderr
    assert shown.stdout.splitlines()[0] == str(tmp_path / "bin" / "conch")
    assert shown.stdout.splitlines()[1].startswith("conch ")
