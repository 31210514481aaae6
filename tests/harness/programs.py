"""Real harnesses from npm in a scratch home. Each has one session that stays open, as a terminal does.

`make test` installs two of them and `make test-harness` all. A test of one that is not installed is skipped.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.harness.model import Model, Object

PROGRAMS = Path(__file__).with_name("programs")
CONCH = Path(sys.executable).with_name("conch")
SECONDS = 400  # a busy machine starts seven harnesses slowly
_TOOLS = "mcp__conch,Bash,Read,Write,Edit,ToolSearch"


class Seat(Protocol):
    """An open session of a harness."""

    def prompt(self, text: str) -> None:
        """Type a prompt, as a user does. It does not wait for the end of the turn."""


class Scene:
    """One home, one project, one store, and the harnesses that work there."""

    def __init__(self, root: Path, model: Model) -> None:
        self.root, self.home, self.project, self.model = root, root / "home", root / "project", model
        self._processes: list[subprocess.Popen[str]] = []
        self._terminals: list[int] = []
        for folder in (self.home, self.project, root / "tmp"):
            folder.mkdir()
        installed = sorted(PROGRAMS.glob("*/node_modules/.bin"))
        (self.project / "AGENTS.md").write_text("# A project\n")
        self.environ = {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join(map(str, [CONCH.parent, *installed, os.environ["PATH"]])),
            "SHELL": "/bin/bash",
            "TERM": "xterm",
            "TMPDIR": str(root / "tmp"),
            "USER": "user",
        }

    def conch(self, *words: str, agent: str = "") -> str:
        """Run a command of conch, as a person does or as an agent of its own."""
        marks = {"CONCH_AGENT_ID": agent} if agent else {}
        done = subprocess.run(
            [sys.executable, "-m", "conch", *words],
            cwd=self.project,
            env={**self.environ, **marks},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def open(self, slug: str) -> Seat:
        """Start a harness."""
        return _SEATS[slug](self)

    def spawn(self, slug: str, variables: Mapping[str, str], *words: str) -> subprocess.Popen[str]:
        """Start the program of a harness, with a process group of its own: some leave their children behind."""
        with (self.root / f"{slug}.err").open("w") as errors:
            process = subprocess.Popen(
                [find_program(slug), *words],
                cwd=self.project,
                env={**self.environ, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def spawn_in_terminal(self, slug: str, *words: str) -> None:
        """Start the program of a harness in a terminal of its own. `SLUG.out` has what it shows there."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.project)
            os.execve(find_program(slug), [slug, *words], self.environ)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self._terminals.append(pid)
        threading.Thread(target=self._copy, args=(terminal, self.root / f"{slug}.out"), daemon=True).start()

    def _copy(self, terminal: int, path: Path) -> None:
        with path.open("wb") as file, suppress(OSError):  # it ends with an error
            while shown := os.read(terminal, 65_536):
                file.write(shown)
                file.flush()
        os.close(terminal)

    def close(self) -> None:
        for pid in self._terminals:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(SECONDS)
            for stream in (process.stdin, process.stdout):
                assert stream
                with suppress(OSError):
                    stream.close()


def opencode_settings(address: str) -> str:
    """The user's settings of OpenCode or Kilo. A resumed run in the background reads them too."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "stub",
        "models": {"stub": {"name": "stub", "tool_call": True}},
        "options": {"baseURL": f"{address}/v1", "apiKey": "x"},
    }
    settings = {"model": "stub/stub", "small_model": "stub/stub", "provider": {"stub": provider}}
    return json.dumps({**settings, "permission": "allow", "autoupdate": False, "share": "disabled"}, indent=2)


def find_program(slug: str) -> str:
    """The program of a harness. The test is skipped if it is not installed."""
    folder = PROGRAMS / slug / "node_modules"
    native = sorted(folder.glob("@anthropic-ai/claude-code-*/claude")) if slug == "claude-code" else []
    found = native[0] if native else folder / ".bin" / slug
    if not found.exists():
        pytest.skip(f"{slug} is not installed; `make test-harness` installs it where npm reaches its registry")
    return str(found)


class _Lines:
    """A program that speaks JSON, one message per line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._changed = threading.Condition()
        self._seen: list[Object] = []
        self._numbers = count(1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout
        with suppress(ValueError, OSError):  # it was closed
            for line in self._process.stdout:
                self._take(json.loads(line) if line.startswith("{") else {})

    def _take(self, message: Object) -> None:
        with self._changed:
            self._seen.append(message)
            self._changed.notify_all()

    def send(self, message: Object) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> int:
        """Send a request, and return its number."""
        number = next(self._numbers)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def call(self, method: str, **params: Any) -> Object:
        """Send a request and wait for its result."""
        number = self.ask(method, **params)
        reply = self.wait_for(lambda each: each.get("id") == number and "method" not in each, method)
        assert "result" in reply, reply
        result: Object = reply["result"]
        return result

    def wait_for(self, matches: Callable[[Object], bool], what: str) -> Object:
        with self._changed:
            found = self._changed.wait_for(lambda: [each for each in self._seen if matches(each)], SECONDS)
            assert found, f"no {what}; the last messages: {self._seen[-5:]}"
            return found[0]


class _Claude:
    def __init__(self, scene: Scene) -> None:
        variables = {
            "ANTHROPIC_BASE_URL": scene.model.address,
            "ANTHROPIC_API_KEY": "stub",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        options = ["--verbose", "--allowedTools", _TOOLS, "--model", "claude-sonnet-4-5"]
        forms = ["--input-format", "stream-json", "--output-format", "stream-json"]
        self._lines = _Lines(scene.spawn("claude-code", variables, "-p", *forms, *options))

    def prompt(self, text: str) -> None:
        self._lines.send({"type": "user", "message": {"role": "user", "content": text}})


class AppServer:
    """`codex app-server`: it runs several threads in one process, as the daemon of Codex's terminal does."""

    def __init__(self, scene: Scene) -> None:
        provider = "model_providers.stub"
        settings = {
            "model": "gpt-5.2",
            "model_provider": "stub",
            f"{provider}.name": "stub",
            f"{provider}.base_url": f"{scene.model.address}/v1",
            f"{provider}.wire_api": "responses",
            f"{provider}.env_key": "STUB_KEY",
            "approval_policy": "never",
            "sandbox_mode": "workspace-write",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={json.dumps(value)}")]
        self._project = str(scene.project)
        self.lines = _Lines(scene.spawn("codex", {"STUB_KEY": "x"}, *options, "app-server"))
        self.lines.call("initialize", clientInfo={"name": "test", "title": "test", "version": "1"})
        self._trust_hooks()

    def _trust_hooks(self) -> None:
        """What a person does with `/hooks`. No installer may do it."""
        (listed,) = self.lines.call("hooks/list", cwds=[self._project])["data"]
        edits = [
            {"keyPath": f'hooks.state."{hook["key"]}".trusted_hash', "value": hook["currentHash"]}
            for hook in listed["hooks"]
        ]
        self.lines.call("config/batchWrite", edits=[{**edit, "mergeStrategy": "upsert"} for edit in edits])

    def open_thread(self) -> Seat:
        return _CodexThread(self.lines, str(self.lines.call("thread/start", cwd=self._project)["thread"]["id"]))


class _CodexThread:
    def __init__(self, lines: _Lines, thread: str) -> None:
        self._lines, self._thread = lines, thread

    def prompt(self, text: str) -> None:
        self._lines.call("turn/start", threadId=self._thread, input=[{"type": "text", "text": text}])


class _OpenCode:
    """OpenCode, or Kilo, which is built on it."""

    def __init__(self, scene: Scene, slug: str = "opencode") -> None:
        process = scene.spawn(slug, {}, "serve")
        assert process.stdout
        self._address = ""
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                self._address = found[0]
                break
        threading.Thread(target=lambda: [*process.stdout], daemon=True).start()  # so that it never waits for a reader
        self._session = self._post("/session", {})["id"]

    def prompt(self, text: str) -> None:
        self._post(f"/session/{self._session}/prompt_async", {"parts": [{"type": "text", "text": text}]})

    def _post(self, path: str, body: Object) -> Object:
        request = urllib.request.Request(
            self._address + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            answer: Object = json.loads(reply.read() or b"{}")
        return answer


class _Gemini:
    """In a terminal: driven over its agent protocol, it runs no hooks around tools."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        folder = scene.home / ".gemini"
        # It keeps keys from its servers, so a resumed run reads them from here.
        (folder / ".env").write_text(f"GEMINI_API_KEY=x\nGOOGLE_GEMINI_BASE_URL={scene.model.address}\n")
        # What a person does when it asks. No installer may do it.
        (folder / "trustedFolders.json").write_text(json.dumps({str(scene.project): "TRUST_FOLDER"}))

    def prompt(self, text: str) -> None:
        self._scene.spawn_in_terminal("gemini", "-y", "-m", "gemini-2.5-flash", "--prompt-interactive", text)


class _Qwen:
    """In a terminal, like Gemini CLI, which it is made from."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        keys = {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"{scene.model.address}/v1", "OPENAI_MODEL": "stub"}
        (scene.home / ".qwen" / ".env").write_text("".join(f"{name}={value}\n" for name, value in keys.items()))
        # What the installer tells a person to do.
        scene.spawn("qwen", {}, "mcp", "approve", "conch").wait(SECONDS)

    def prompt(self, text: str) -> None:
        self._scene.spawn_in_terminal("qwen", "-y", "--auth-type", "openai", "--prompt-interactive", text)


class _Copilot:
    """In a terminal."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        # What a person does when it asks. No installer may do it.
        (scene.home / ".copilot" / "config.json").write_text(json.dumps({"trustedFolders": [str(scene.project)]}))
        # This stands in for a login: it keeps these variables from its servers, so a resumed run would not have them.
        variables = {
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_MODEL": "gpt-4.1",
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_PROVIDER_BASE_URL": f"{scene.model.address}/v1",
        }
        exports = "".join(f"export {name}={value}\n" for name, value in variables.items())
        program = scene.home / "bin" / "copilot"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\n{exports}exec {find_program("copilot")} "$@"\n')
        program.chmod(0o755)
        scene.environ |= variables | {"PATH": f"{program.parent}:{scene.environ['PATH']}"}

    def prompt(self, text: str) -> None:
        self._scene.spawn_in_terminal("copilot", "--allow-all", "--no-color", "--interactive", text)


_SEATS: dict[str, Callable[[Scene], Seat]] = {
    "claude-code": _Claude,
    "codex": lambda scene: AppServer(scene).open_thread(),
    "opencode": _OpenCode,
    "gemini": _Gemini,
    "qwen": _Qwen,
    "copilot": _Copilot,
    "kilo": lambda scene: _OpenCode(scene, "kilo"),
}
