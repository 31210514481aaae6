"""What the hooks of a harness tell its server about one agent: whether it has stopped, and what its user does.

These are files, not rows: both processes run on one machine, and a hook that runs at every tool call must not write to
the store for it. Their folder exists once a server has begun to wake its agent, so until then a hook only looks for it.
"""

from __future__ import annotations

import os
from contextlib import suppress

from conch.host.ownership import is_own_folder
from conch.ids import digest

HELD_BACK = "Before you stop:"  # the first words of a hook that keeps an agent from stopping
_FOLDER = "wake"


def ask_for_signs(data_dir: str) -> None:
    """From now on hooks give signs."""
    os.makedirs(_root(data_dir), mode=0o700, exist_ok=True)


def _root(data_dir: str) -> str:
    return os.path.join(data_dir, _FOLDER)


class Signs:
    def __init__(self, data_dir: str, agent_id: str) -> None:
        self._root = _root(data_dir)
        self._folder = os.path.join(self._root, digest(agent_id)[:16])
        self._lock: int | None = None

    # -- for hooks

    @property
    def are_wanted(self) -> bool:
        """Whether servers wake agents here. What another user made, or can change, counts as missing."""
        return is_own_folder(self._root)

    def note_stop(self, session_id: str) -> None:
        self._make_folder()
        self._put("stopped", session_id)

    def note_work(self) -> None:
        self._remove("stopped")

    def note_user(self) -> None:
        """The agent's user has typed a prompt."""
        self._put("user", "")

    # -- for the server

    def take_over(self) -> bool:
        """Become the one server that wakes this agent. False if another one lives, or if the folder is not ours."""
        if self._lock is None:
            import fcntl  # hooks do not need it

            self._make_folder()
            if not self.are_wanted:
                return False
            lock = os.open(self._path("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                return False
            self._lock = lock
        return True

    @property
    def has_stopped(self) -> bool:
        return os.path.exists(self._path("stopped"))

    def take_user(self) -> bool:
        """Whether the user has typed a prompt since the last look."""
        return self._remove("user")

    @property
    def session_id(self) -> str:
        """The session that has stopped, as the harness calls it."""
        return self._read("stopped")

    def read_last(self) -> str:
        """What `write_last` wrote; empty if it wrote nothing."""
        return self._read("last")

    def write_last(self, text: str) -> None:
        self._put("last", text)

    def close(self) -> None:
        """This server no longer wakes the agent. What was done stays, so that nothing is announced twice."""
        if self._lock is not None:
            self._remove("stopped")
            os.close(self._lock)
            self._lock = None

    def _make_folder(self) -> None:
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _read(self, name: str) -> str:
        try:
            with open(self._path(name), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    def _put(self, name: str, text: str) -> None:
        """Write a file in one step. If that fails, the agent is not woken, and nothing worse happens."""
        draft = self._path(f"{name}-{os.getpid()}")
        with suppress(OSError):
            with open(draft, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(draft, self._path(name))

    def _remove(self, name: str) -> bool:
        try:
            os.unlink(self._path(name))
        except OSError:
            return False
        return True
