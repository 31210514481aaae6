"""Private folders beside a store, for copies that are needed for a moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

_NAME = ".scratch-"
_NEW_SECONDS = 60  # a folder without a lock may have been made just now


@contextmanager
def scratch_folder(store: str) -> Iterator[str]:
    """A folder that is removed afterwards. Those of processes that were killed are removed first.

    Their copies would fill the disk, and keep what was deleted from the store.
    """
    for abandoned in _find_abandoned(store):
        _remove(abandoned)
    folder = f"{store}{_NAME}{os.getpid()}-{os.urandom(4).hex()}"
    os.makedirs(folder, mode=0o700)
    lock = None
    try:
        lock = _lock(folder)
        yield folder
    finally:
        _remove(folder)
        if lock is not None:
            os.close(lock)


def _remove(folder: str) -> None:
    """Remove a folder of files. Not with `shutil`: a process without a free descriptor cannot import it."""
    with suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def _find_abandoned(store: str) -> Iterator[str]:
    folder, name = os.path.split(store)
    for each in os.listdir(folder):
        path = os.path.join(folder, each)
        if each.startswith(f"{name}{_NAME}") and _is_abandoned(path):
            yield path


def _is_abandoned(path: str) -> bool:
    with suppress(OSError):
        if time.time() - os.stat(path).st_mtime > _NEW_SECONDS:
            lock = _lock(path)
            if lock is not None:
                os.close(lock)
                return True
    return False


def _lock(folder: str) -> int | None:
    """A descriptor that holds a lock, which ends with the process. None if another process has it."""
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
