"""Writes the settings of harnesses, and undoes exactly that.

A file is changed as text, in one step, through links, and keeps its permissions. A link of a project must not lead out
of the project, because every agent there can make one. For each file that it changes, conch keeps a record in its data
directory: what was there before, and which harnesses need the change. `uninstall` restores that, byte for byte. If the
file has changed since, it removes only its own entries.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from conch.harnesses.base import Change, Harness, Place
from conch.harnesses.edits import Whole
from conch.harnesses.unreadable import Unreadable
from conch.host.workspaces import is_within
from conch.ids import digest
from conch.lean import Literal, NamedTuple

_MOST_LINKS = 40
_LOCK_FILE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
RECORDS = ("installed", "installed.lock")
"""What it keeps in the data directory."""
_LARGEST = 64 * 1024 * 1024

_Outcome = Literal["written", "unchanged", "kept", "restored", "deleted", "refused"]


class Result(NamedTuple):
    """What happens to one file, and why. `before` and `after` are its texts; None for no file."""

    path: str
    outcome: _Outcome
    why: str = ""
    before: str | None = None
    after: str | None = None

    @property
    def changes(self) -> bool:
        return self.outcome in ("written", "restored", "deleted")


class _Record(NamedTuple):
    """What conch remembers about a file that it changed."""

    path: str
    harnesses: list[str]
    original: str | None
    written: str | None
    folders: list[str]
    """The folders that it created for the file."""

    @property
    def is_whole(self) -> bool:
        """Whether everything has its type. Nobody else should write a record, but a file can be damaged."""
        lists = (self.harnesses, self.folders)
        texts = (self.path, self.original or "", self.written or "")
        return all(isinstance(each, list) for each in lists) and all(
            isinstance(each, str) for each in (*texts, *self.harnesses, *self.folders)
        )


class Installer:
    def __init__(self, place: Place, is_dry: bool = False) -> None:
        """If `is_dry`, everything is worked out and nothing is written."""
        self._place = place
        self._is_dry = is_dry
        self._project = place.project
        self.records = os.path.join(place.data_dir, RECORDS[0])

    def install(self, harness: Harness) -> list[Result]:
        """Make the changes of one harness: all of them, or none if one of its files cannot be changed safely."""
        changes = harness.changes(self._place)
        with self._alone():
            results = [self._plan(change) for change in changes]
            if any(result.outcome == "refused" for result in results):
                return [each if each.outcome == "refused" else each._replace(outcome="kept") for each in results]
            return [self._try(result, harness.slug) for result in results]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one installer run at a time: two would overwrite each other's records."""
        if self._is_dry:
            yield
            return
        os.makedirs(self._place.data_dir, mode=0o700, exist_ok=True)
        with open(os.open(f"{self.records}.lock", _LOCK_FILE, 0o600), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _try(self, result: Result, slug: str) -> Result:
        try:
            self._carry_out(result, slug)
        except (Unreadable, OSError) as problem:
            return result._replace(outcome="refused", why=_explain(problem))
        return result

    def uninstall(self, harness: Harness) -> list[Result]:
        """Take back what `install` wrote for a harness."""
        results = []
        with self._alone():
            for change, record in reversed(self._recorded(harness)):  # so that folders are empty when their turn comes
                results.append(self._take_back(change, record, harness.slug))
        return results[::-1]

    def has_changed(self, harness: Harness) -> bool:
        """Whether there is anything for `uninstall` to take back."""
        return bool(self._recorded(harness))

    def _recorded(self, harness: Harness) -> list[tuple[Change, _Record]]:
        records = [(change, self._read_record(change.path)) for change in harness.changes(self._place)]
        return [
            (change, record) for change, record in records if record is not None and harness.slug in record.harnesses
        ]

    # -- installing

    def _plan(self, change: Change) -> Result:
        try:
            before, record = self._read(change.path), self._read_record(change.path)
            text = before or ""
            if before is not None and _says(change, text):
                return Result(change.path, "unchanged", "", before, before)
            if _is_own_file(change) and record is not None and text not in ("", record.written):
                return Result(change.path, "kept", "you changed it; delete it to get the text of this version")
            after = _apply(change, _undo(change, text, record) if record is not None and text.strip() else text)
            _require_writable(self._target(change.path))
        except (Unreadable, OSError) as problem:
            return Result(change.path, "refused", _explain(problem))
        why = "" if _says(change, after) else "it has an entry of its own for conch, which stays"
        return Result(change.path, "kept" if after == text else "written", why, before, after)

    def _carry_out(self, result: Result, slug: str) -> None:
        record = self._read_record(result.path)
        if self._is_dry or (record is None and not result.changes):
            return
        folders = _missing_folders(self._target(result.path))
        if record is None:
            record = _Record(result.path, [], result.before, result.after, folders)
        elif result.changes and record.written != result.before:
            record = record._replace(written=None)  # changed by others too: it cannot be restored as a whole
        elif result.changes:
            record = record._replace(written=result.after)
        self._write_record(record._replace(harnesses=sorted({*record.harnesses, slug})))
        if result.changes and result.after is not None:
            _write(self._target(result.path), result.after)

    # -- uninstalling

    def _take_back(self, change: Change, record: _Record, slug: str) -> Result:
        others = [each for each in record.harnesses if each != slug]
        try:
            before = self._read(change.path)
            if others:
                result = Result(change.path, "kept", f"still needed by {', '.join(others)}")
            elif before is None or not before.strip():
                result = Result(change.path, "kept", "it is gone already" if before is None else "it is empty")
            elif _is_own_file(change) and before != record.written:
                result = Result(change.path, "kept", "you changed it; delete it yourself")
            else:
                after = record.original if before == record.written else _undo(change, before, record) or None
                result = Result(change.path, "deleted" if after is None else "restored", "", before, after)
            if not self._is_dry:
                self._finish(result, record._replace(harnesses=others))
        except (Unreadable, OSError) as problem:
            return Result(change.path, "refused", _explain(problem))
        return result

    def _finish(self, result: Result, record: _Record) -> None:
        if result.outcome == "deleted":
            os.unlink(self._target(result.path))
        elif result.outcome == "restored":
            _write(self._target(result.path), str(result.after))
        if record.harnesses:
            self._write_record(record)
            return
        with suppress(OSError):  # a leftover record does no harm: the file is as it should be
            os.unlink(self._record_path(result.path))
        for folder in [*reversed(record.folders), self.records]:
            try:
                os.rmdir(folder)
            except OSError:  # others use it
                break

    def _read(self, path: str) -> str | None:
        """The text of a file, after deleting the drafts of it that killed installers have left."""
        target = self._target(path)
        if not self._is_dry:  # so this is the only installer that runs now
            _discard_drafts(target)
        return _read(target)

    def _target(self, path: str) -> str:
        """The file behind a path: links are followed, so that they stay links."""
        target = _follow(path)
        real = os.path.realpath(target)
        if self._project is not None and not is_within(real, self._project):
            raise Unreadable(f"it is reached by a link that leads out of the project, to {real}")
        return target

    # -- records

    def _record_path(self, path: str) -> str:
        return os.path.join(self.records, f"{digest(os.path.abspath(path))[:16]}.json")

    def _read_record(self, path: str) -> _Record | None:
        try:
            with open(self._record_path(path), encoding="utf-8") as file:
                record = _Record(**json.load(file))
        except (OSError, ValueError, TypeError):
            return None
        return record if record.is_whole else None

    def _write_record(self, record: _Record) -> None:
        os.makedirs(self.records, mode=0o700, exist_ok=True)
        _write(self._record_path(record.path), json.dumps(record._asdict()))


def _apply(change: Change, text: str) -> str:
    for edit in change.edits:
        text = edit.apply(text)
    return text


def _undo(change: Change, text: str, record: _Record) -> str:
    """The text without our edits; empty if nothing is left and there was no file before."""
    for edit in reversed(change.edits):
        text = edit.undo(text, record.original or "")
    is_bare = record.original is None and text.strip("\ufeff \r\n\t") in ("", "{}")
    return "" if is_bare else text


def _says(change: Change, text: str) -> bool:
    """Whether the text has every edit, with the values of this version."""
    return all(edit.is_in(text) for edit in change.edits)


def is_written(change: Change) -> bool:
    """Whether the file has every edit."""
    try:
        return _says(change, _read(_follow(change.path)) or "")
    except (Unreadable, OSError):
        return False


def _is_own_file(change: Change) -> bool:
    return any(isinstance(edit, Whole) for edit in change.edits)


# -- files


def _follow(path: str) -> str:
    """The file behind a path that may be a link."""
    for _ in range(_MOST_LINKS):
        if not os.path.islink(path):
            return path
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise Unreadable("it is a link that leads to itself")


def _read(target: str) -> str | None:
    """The text of a file, with its own line ends; None if there is no file."""
    try:
        if not stat.S_ISREG(os.stat(target).st_mode) and not os.path.isdir(target):
            raise Unreadable("it is not a regular file")
        with open(target, "rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    if len(content) > _LARGEST:
        raise Unreadable("the file is too large")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable("it is not UTF-8", line, error.start - content.rfind(b"\n", 0, error.start)) from None


def _require_writable(target: str) -> None:
    """Refuse a file that its owner has made read-only, although replacing it would work."""
    if os.path.exists(target) and not (os.access(target, os.W_OK) and os.stat(target).st_mode & 0o222):
        raise Unreadable("it is read-only")
    folder = os.path.dirname(target)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK):
        raise Unreadable(f"{folder} cannot be written")


def _write(target: str, text: str) -> None:
    """Replace the content of a file in one step, and keep its permissions."""
    folder = os.path.dirname(target) or "."
    os.makedirs(folder, exist_ok=True)
    draft = f"{target}.conch-{os.getpid()}"
    try:
        with open(draft, "xb") as file:
            if os.path.exists(target):
                os.fchmod(file.fileno(), os.stat(target).st_mode & 0o7777)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        _discard(draft)
        raise


def _discard_drafts(target: str) -> None:
    folder, name = os.path.split(target)
    with suppress(OSError):
        for each in os.listdir(folder):
            if each.startswith(f"{name}.conch-") and each.rpartition("-")[2].isdecimal():
                _discard(os.path.join(folder, each))


def _discard(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _missing_folders(path: str) -> list[str]:
    """The folders that writing this file creates, the outermost first."""
    missing, folder = list[str](), os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def _explain(problem: Exception) -> str:
    return str(problem.strerror if isinstance(problem, OSError) else problem)


def is_there(harness: Harness, place: Place, search: Iterable[str]) -> bool:
    """Whether a harness is on this machine: its settings, or its program in one of the folders."""
    if os.path.isdir(harness.folder(place)):
        return True
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in search for name in harness.programs)
