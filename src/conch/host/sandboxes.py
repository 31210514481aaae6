"""Runs a foreign program: found outside of the workspace, in a new environment, with a deadline.

Only `commands` uses this module, and adds what each program needs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from conch.lean import TYPE_CHECKING, NamedTuple, signal

if TYPE_CHECKING:
    from conch.host.programs import Popen

_LONGEST_ANSWER = 64 * 1024 * 1024
_LONGEST_COMPLAINT = 200
_PIECE = 64 * 1024


class Answer(NamedTuple):
    status: int
    output: bytes
    complaint: str
    """The first line on standard error."""


class Sandbox:
    """A temporary folder outside of the workspace, and the environment for programs, until a deadline."""

    def __init__(self, workspace: str, folder: str, seconds: float) -> None:
        from conch.host.programs import search_path  # slow to import, and rarely needed

        self.folder = folder
        self._workspace = workspace
        self._deadline = time.monotonic() + seconds
        self._stubs = os.path.join(folder, "stubs")
        path = search_path("PATH", workspace)
        self.environ = {
            "PATH": os.pathsep.join((self._stubs, *path)),
            "LD_LIBRARY_PATH": os.pathsep.join(search_path("LD_LIBRARY_PATH", workspace)),
            "HOME": folder,
            "XDG_CONFIG_HOME": folder,
            "GIT_EXEC_PATH": self._stubs,  # git looks here first for the programs it starts, including git itself
            "LC_ALL": "C",
        }
        if not self.environ["LD_LIBRARY_PATH"]:
            del self.environ["LD_LIBRARY_PATH"]  # empty means the current directory

    def home(self) -> dict[str, str]:
        """The variables that lead to the user's own settings, unless agents may write these."""
        from conch.host.programs import is_outside

        found = {name: os.environ.get(name, "") for name in ("HOME", "XDG_CONFIG_HOME")}
        return {name: path for name, path in found.items() if is_outside(path, self._workspace)}

    def run(self, name: str, *words: str, folder: str | None = None, **environ: str) -> Answer | None:
        """The answer of the program with this name; None if it cannot be run or its answer is too long.

        TimeoutError at the deadline. Then the program is killed, with all processes it has started.
        """
        from conch.host.programs import DEVNULL, PIPE, find_program, start_found

        program = find_program(name, self._workspace)
        if program is None:
            return None
        try:
            process = start_found(
                [name, *words], program, {**self.environ, **environ}, cwd=folder or self.folder,
                stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError):
            return None
        with process:
            try:
                return self._read(process)
            except TimeoutError:
                raise
            except OSError:  # such as too many open files
                return None
            finally:  # even after Ctrl-C, neither the program nor its children may be left running
                if process.returncode is None:
                    with suppress(OSError):  # it may have just ended
                        os.killpg(process.pid, signal.SIGKILL)

    def _read(self, process: Popen[bytes]) -> Answer | None:
        import selectors  # slow to import, and rarely needed

        assert process.stdout is not None and process.stderr is not None
        pieces: dict[object, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
        with selectors.DefaultSelector() as selector:
            for pipe in (process.stdout, process.stderr):
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(self._left()):
                    piece = os.read(key.fd, _PIECE)
                    pieces[key.fileobj] += piece
                    if not piece:
                        selector.unregister(key.fileobj)
                if sum(map(len, pieces.values())) > _LONGEST_ANSWER:
                    return None
        self._wait(process)
        complaint = pieces[process.stderr].decode(errors="replace").strip()
        line = complaint.splitlines()[0][:_LONGEST_COMPLAINT] if complaint else ""
        return Answer(process.returncode, bytes(pieces[process.stdout]), line)

    def _wait(self, process: Popen[bytes]) -> None:
        from conch.host.programs import TimeoutExpired

        try:
            process.wait(self._left())
        except TimeoutExpired:
            raise TimeoutError from None

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def add_stub(self) -> None:
        """Put a `git` that always fails where programs look first, so that none starts the real one."""
        from conch.host.programs import find_program

        false = find_program("false", self._workspace)  # a link to it works even if no program may run from this folder
        if false is None:
            raise FileNotFoundError("false")
        os.mkdir(self._stubs)
        os.symlink(false, os.path.join(self._stubs, "git"))


@contextmanager
def open_sandbox(workspace: str, seconds: float) -> Iterator[Sandbox | None]:
    """A sandbox for the programs that are asked about a workspace; None if this machine has no place for it."""
    import tempfile  # slow to import, and rarely needed

    from conch.host.programs import temporary_place

    with ExitStack() as stack:
        try:
            place = temporary_place(workspace)
            if place is None:
                raise FileNotFoundError(2, "no place outside of the workspace")
            temporary = tempfile.TemporaryDirectory(prefix="conch-", dir=place, ignore_cleanup_errors=True)
            sandbox = Sandbox(workspace, os.path.realpath(stack.enter_context(temporary)), seconds)
            sandbox.add_stub()
        except OSError:
            sandbox = None
        yield sandbox
