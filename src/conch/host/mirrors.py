"""A git repository as data: its index, references and objects, without its configuration and its hooks.

Most ways to make git run a program are settings of a repository: filters, `core.fsmonitor`, external diffs, hooks,
remotes, aliases, includes. New ones come with new versions of git. So a mirror does not override settings one by one:
it is another git directory with a configuration of ours, and links to the data of the real one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from conch.lean import NamedTuple

_DATA = ("index", "refs", "packed-refs", "reftable", "objects", "info", "shallow")
_SHARED_INDEX = "sharedindex."
_LONGEST_POINTER = 64 * 1024
_BOOLEANS = ("true", "false", "yes", "no", "on", "off", "1", "0")
# What decides how git reads data and compares files. Every value is one of a few words, so none can name a program.
_HARMLESS = {
    "core.autocrlf": (*_BOOLEANS, "input"),
    "core.checkstat": ("default", "minimal"),
    "core.eol": ("lf", "crlf", "native"),
    "core.filemode": _BOOLEANS,
    "core.ignorecase": _BOOLEANS,
    "core.precomposeunicode": _BOOLEANS,
    "core.symlinks": _BOOLEANS,
    "core.trustctime": _BOOLEANS,
    "extensions.objectformat": ("sha1", "sha256"),
    "extensions.refstorage": ("files", "reftable"),
}


class Mirror(NamedTuple):
    """The mirror of one work tree's repository."""

    top: str
    own: str
    common: str
    configuration: str
    """The real repository's configuration, which git must not use."""

    @property
    def environ(self) -> dict[str, str]:
        """What makes git use the mirror, wherever `core.worktree` points."""
        return {"GIT_DIR": self.own, "GIT_WORK_TREE": self.top}

    def configure(self, settings: Mapping[str, str]) -> None:
        """Write the mirror's configuration: from these settings only the harmless ones with a known value."""
        chosen = {"core.repositoryformatversion": "1", "core.bare": "false"}
        chosen |= {name: value for name in _HARMLESS if (value := settings.get(name, "").lower()) in _HARMLESS[name]}
        lines = [f"[{section}]\n{key} = {value}\n" for (section, _, key), value in _split(chosen)]
        with open(os.path.join(self.common, "config"), "w") as file:
            file.writelines(lines)


def _split(settings: Mapping[str, str]) -> list[tuple[tuple[str, str, str], str]]:
    return [(name.partition("."), value) for name, value in settings.items()]


def mirror(top: str, folder: str) -> Mirror | None:
    """Make a mirror of the repository whose work tree is at `top`, in a new folder; None if there is no repository."""
    try:
        git = _follow(os.path.join(top, ".git"), b"gitdir:")
        common = _follow(os.path.join(git, "commondir")) if os.path.lexists(os.path.join(git, "commondir")) else git
        made = Mirror(top, os.path.join(folder, "own"), os.path.join(folder, "common"), os.path.join(common, "config"))
        _link(git, made.own)
        _link(common, made.common)
        with open(os.path.join(made.own, "commondir"), "w") as pointer:  # git ignores GIT_COMMON_DIR for HEAD
            pointer.write(made.common)
    except (OSError, ValueError):  # a path in one of the files may hold a NUL
        return None
    return made


def _follow(path: str, label: bytes = b"") -> str:
    """The directory that `path` is, or that the file `path` names after the label."""
    if os.path.isdir(path):
        return path
    text = _read(path)
    if not text.startswith(label):
        raise OSError(f"{path} names no directory")
    return os.path.join(os.path.dirname(path), os.fsdecode(text.removeprefix(label).strip()))


def _link(source: str, target: str) -> None:
    """Link the data of a git directory. HEAD is copied, because git refuses it as a link."""
    os.makedirs(target)
    for name in os.listdir(source):
        if name in _DATA or name.startswith(_SHARED_INDEX):
            os.symlink(os.path.join(os.path.realpath(source), name), os.path.join(target, name))
    with open(os.path.join(target, "HEAD"), "wb") as file:
        file.write(_read(os.path.join(source, "HEAD")))


def _read(path: str) -> bytes:
    """The start of a file. OSError for anything but a file: a pipe would make this process wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a file")
        return os.read(descriptor, _LONGEST_POINTER)
    finally:
        os.close(descriptor)
