"""Working agreements: what a user and a project add to the instructions that every agent gets.

A project's agreement is a file in the repository, so that everyone who works there gets it. A user's agreement lies in
the data directory, which every door of conch knows.
"""

from __future__ import annotations

import os
from contextlib import suppress
from stat import S_ISREG, S_IWOTH

from conch.errors import InvalidArgument
from conch.host.workspaces import is_within
from conch.lean import Literal, NamedTuple

_Kind = Literal["user", "project"]

LONGEST = 4_000  # characters of one agreement that reach a model
_LARGEST_FILE = 1024 * 1024
_FILE = "instructions.md"
_FOLDER = ".conch"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Agreement(NamedTuple):
    kind: _Kind
    path: str
    text: str
    """Empty if there is none."""


def user_path(data_dir: str) -> str:
    return os.path.join(data_dir, _FILE)


def project_path(root: str) -> str:
    """The file of the project whose workspace root this is."""
    return os.path.join(root, _FOLDER, _FILE)


def find_agreements(data_dir: str, root: str | None) -> list[Agreement]:
    """The existing agreements; the user's comes first. A file that cannot be read counts as missing."""
    found = [read_agreement("user", user_path(data_dir))]
    if root is not None:
        found.append(read_agreement("project", project_path(root), within=root))
    return [agreement for agreement in found if agreement.text]


def read_agreement(kind: _Kind, path: str, within: str | None = None) -> Agreement:
    """The agreement in a file. It must lie `within` this directory: a repository must not choose files outside it."""
    try:
        real = os.path.realpath(path, strict=True)
        if within is not None and not is_within(real, within):
            return Agreement(kind, path, "")
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK)  # a pipe must not make a server wait
    except (OSError, ValueError):
        return Agreement(kind, path, "")
    try:
        facts = os.fstat(descriptor)
        is_ours = kind == "project" or (_is_private(facts) and _is_private(os.stat(os.path.dirname(real))))
        given = os.read(descriptor, _LARGEST_FILE) if S_ISREG(facts.st_mode) and is_ours else b""
    except OSError:
        given = b""
    finally:
        os.close(descriptor)
    return Agreement(kind, path, given.decode("utf-8", "replace").removeprefix("\ufeff").strip())


def _is_private(facts: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user or to root, and not everyone may change it."""
    users = (os.geteuid(), 0) if hasattr(os, "geteuid") else (facts.st_uid,)  # Windows keeps a user's folders apart
    return facts.st_uid in users and not facts.st_mode & S_IWOTH


def write_agreement(agreement: Agreement, within: str | None = None) -> bool:
    """Store it, or delete the file if the text is empty. Returns whether there is one now.

    InvalidArgument if the file is not `within` this directory: a link in a repository must not choose what we write.
    """
    text, path = check_text(agreement.text), os.path.realpath(agreement.path)
    if within is not None and not is_within(path, within):
        message = f"{agreement.path} is a link that leads out of the project, to {path}. Remove the link."
        raise InvalidArgument(message, field="path")
    try:
        if not text:
            _delete(path)
            return False
        os.makedirs(os.path.dirname(path), mode=0o700 if agreement.kind == "user" else 0o777, exist_ok=True)
        _replace(path, f"{text}\n", 0o600 if agreement.kind == "user" else 0o666)
    except OSError as error:
        why = error.strerror.lower() if error.strerror else "it cannot be written"
        raise InvalidArgument(f"{path} cannot be written: {why}.", field="path") from None
    return True


def _replace(path: str, text: str, mode: int) -> None:
    draft = f"{path}.{os.getpid()}"
    descriptor = os.open(draft, _CREATE, mode)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _delete(path: str) -> None:
    """Delete the file, and our folder if nothing else is in it."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    if os.path.basename(os.path.dirname(path)) == _FOLDER:
        with suppress(OSError):
            os.rmdir(os.path.dirname(path))


def check_text(text: str) -> str:
    """The text as it is stored. InvalidArgument if it is too long for a model or not a text."""
    text = text.removeprefix("\ufeff").strip()
    if "\0" in text:
        raise InvalidArgument("An agreement must not contain a NUL character.", field="text")
    if len(text) > LONGEST:
        message = f"An agreement has at most {LONGEST} characters, because every agent reads it; this has {len(text)}."
        raise InvalidArgument(message, field="text")
    return text
