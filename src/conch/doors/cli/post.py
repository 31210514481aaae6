"""The post of a lease's guardian: one byte of a file that all guardians share, locked by the one that stands there."""

from __future__ import annotations

import fcntl
import os

from conch.app import App
from conch.ids import digest


class Post:
    """The kernel frees it when the guardian ends, however that happens; nothing is left to clear away."""

    def __init__(self, app: App, lease_id: str) -> None:
        store = app.store.describe()
        folder = os.path.dirname(store) if os.path.isabs(store) else os.path.expanduser(app.settings.data_dir)
        self._path = os.path.join(os.path.abspath(folder), "guardians")
        self._place = int(digest(lease_id)[:15], 16)

    def take(self) -> bool:
        """Stand here until the process ends; False if another one does."""
        return self._lock(self._open())

    def is_free(self) -> bool:
        file = self._open()
        try:
            return self._lock(file)
        finally:
            os.close(file)

    def _open(self) -> int:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _lock(self, file: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._place)
        except (BlockingIOError, PermissionError):  # systems differ in what a lock held by another is
            return False
        return True
