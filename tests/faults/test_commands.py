"""What a command says after a fault is true, whichever of its calls into the system has failed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.faults import shim
from tests.faults.__main__ import NO_COMPILER

ROOT = Path(__file__).parents[2]
NO_FAULT = 0
MOST = 8  # of the calls of a command that fail in turn


class Faulty:
    """A store with two messages, and a backup of it with one. One call of each command fails; then all is as before."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self._before = folder, folder / "data", folder / "before"
        self.backup, self._count = folder / "backup", folder / "count"
        self._workspace = folder / "workspace"
        self._workspace.mkdir()
        (self._workspace / "AGENTS.md").write_text("")
        self._environ = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder), "CONCH_AGENT_ID": "ada:1"}
        self._environ["CONCH_DATA_DIR"] = str(self.data)
        self._library = shim.build(str(folder))
        for words in (["join"], ["send", "one"], ["db", "backup", str(self.backup)], ["send", "two"]):
            assert self._conch("conch", *words)["ok"]
        self.data.rename(self._before)

    def _conch(self, module: str, *words: str, **more: str) -> dict[str, Any]:
        command = [sys.executable, "-m", module, *words, "--json"]
        done = subprocess.run(command, cwd=self._workspace, env=self._environ | more, capture_output=True, text=True)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def some_calls(self, kind: str, *words: str) -> list[int]:
        """Some of the calls of a command, the last one too."""
        self.run(kind, NO_FAULT, 0, *words)
        calls = int(self._count.read_text())
        return sorted({1 + calls * place // MOST for place in range(MOST)} | {calls})

    def run(self, kind: str, number: int, error: int, *words: str) -> dict[str, Any]:
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self._before, self.data)
        fault = [str(self.data), kind, str(number), str(error), str(self._count)]
        return self._conch("tests.faults.command", *fault, *words, LD_PRELOAD=self._library)

    def messages(self) -> int:
        with sqlite3.connect(self.data / "rooms.sqlite") as connection:
            (count,) = connection.execute("SELECT count(*) FROM messages").fetchone()
        connection.close()
        return int(count)


@pytest.fixture
def faulty(tmp_path: Path) -> Faulty:
    if sys.platform != "linux":
        pytest.skip("preloads a library")
    if shim.compiler() is None:
        pytest.fail(NO_COMPILER) if os.environ.get("CI") else pytest.skip(NO_COMPILER)
    return Faulty(tmp_path)


def test_a_restore_without_room_says_whether_the_backup_is_there_now(faulty: Faulty) -> None:
    restored, said, words = set(), set(), ("db", "restore", str(faulty.backup))
    some = faulty.some_calls("write", *words)
    for number in some:
        answer = faulty.run("write", number, errno.ENOSPC, *words)
        restored |= {number} if faulty.messages() == 1 else set()
        said |= {number} if answer["ok"] or answer["error"]["message"].startswith("Restored ") else set()

    assert restored == said
    assert 0 < len(restored) < len(some)


def test_a_restore_whose_disk_fails_says_where_the_old_contents_are(faulty: Faulty) -> None:
    words, untold = ("db", "restore", str(faulty.backup)), {}
    for number in faulty.some_calls("write", *words):
        answer = faulty.run("write", number, errno.EIO, *words)
        kept = [str(path) for path in faulty.data.glob("*.before-restore-*")]
        if kept[:1] != [answer["data"]["kept"] if answer["ok"] else answer["error"].get("kept")][: len(kept)]:
            untold[number] = answer

    assert untold == {}


def test_a_wipe_that_fails_says_where_the_backup_is(faulty: Faulty) -> None:
    words, untold = ("db", "wipe", "--yes"), {}
    for number in faulty.some_calls("write", *words):
        answer = faulty.run("write", number, errno.EIO, *words)
        kept = [str(path) for path in faulty.data.glob("*.backup")]
        if kept and kept[0] != (answer["data"] or answer["error"]).get("backup"):
            untold[number] = answer

    assert untold == {}


def test_a_backup_is_one_file_although_the_disk_has_failed(faulty: Faulty) -> None:
    words, found = ("db", "backup", str(faulty.data / "copy")), set()
    for number in faulty.some_calls("sync", *words):
        answer = faulty.run("sync", number, errno.EIO, *words)
        is_copied = answer["ok"] or answer["error"]["message"].startswith("Copied to ")  # but it could not be checked
        found.add((is_copied, *sorted(path.name for path in faulty.data.glob("copy*"))))

    assert found == {(True, "copy"), (False,)}
