"""Refuses a place for the store, or a data directory, that another user could change.

A user who can replace the store, or a folder or link on the way to it, can make an agent believe anything. So it is
refused before anything there is read, made or changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from conch.errors import InvalidSetting, StoreUnavailable

_OTHERS_WRITE = stat.S_IWOTH
_GROUP_OR_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_BESIDE = ("", "-wal", "-shm", ".queue", ".users")
_IN_FOLDER = ("bells", "guardians")
_UNMAPPED = 65_534  # in a sandbox, the owner of each file whose real owner it does not know, such as root
_MOST_LINKS = 40  # as many as Linux follows
_HAS_OWNERS = hasattr(os, "geteuid")  # Windows keeps a user's folders from other users

_Problem = tuple[str, str]
"""What is wrong, and how to mend it."""


def require_own_place(given: str, path: str, named: str) -> None:
    """StoreUnavailable unless only this user and the system's administrator can change what is at a path.

    `given` is the path before links were followed, and `named` the setting or option that gave it.
    """
    problem = next(_store_problems(given, path), None) if _HAS_OWNERS else None
    if problem is not None:
        raise StoreUnavailable(_spell(problem, named), path=path)


def require_own_folder(folder: str, *names: str) -> None:
    """InvalidSetting unless only this user and the administrator can change the data directory, and these in it."""
    real, setting = os.path.realpath(folder), "CONCH_DATA_DIR"
    problem = next(_folder_and_file_problems(folder, real, names), None) if _HAS_OWNERS else None
    if problem is not None:
        raise InvalidSetting(_spell(problem, setting), setting=setting, path=real)


def is_own_folder(path: str) -> bool:
    """Whether there is a folder that only this user can change. A link does not count."""
    facts = _facts(path)
    if facts is None or not stat.S_ISDIR(facts.st_mode):
        return False
    return not _HAS_OWNERS or (facts.st_uid == os.geteuid() and not facts.st_mode & _GROUP_OR_OTHERS_WRITE)


def _spell(problem: _Problem, named: str) -> str:
    what, remedy = problem
    return f"{what} conch did not use it. {remedy}, or choose another place with {named}."


def _store_problems(given: str, path: str) -> Iterator[_Problem]:
    user, folder = os.geteuid(), os.path.dirname(path)
    yield from _problems_on_the_way(given, folder, path, user)
    if not stat.S_ISREG(_mode(path) or stat.S_IFREG):  # a folder or a device
        yield f"{path} is not a regular file.", "Name a file"
    for each in [*(path + suffix for suffix in _BESIDE), *(os.path.join(folder, name) for name in _IN_FOLDER)]:
        yield from _file_problems(each, user)


def _folder_and_file_problems(given: str, folder: str, names: tuple[str, ...]) -> Iterator[_Problem]:
    user = os.geteuid()
    yield from _problems_on_the_way(given, folder, folder, user)
    for name in names:
        yield from _file_problems(os.path.join(folder, name), user)


def _problems_on_the_way(given: str, folder: str, path: str, user: int) -> Iterator[_Problem]:
    """The problems of the folder, of those above it, and of the links that lead there."""
    links = list(_links(given))
    for link, facts in links:
        if facts.st_uid not in (user, 0):
            yield f"{link} is a link that {_name(facts.st_uid)} made.", "Remove the link"
    yield from _folder_problems(folder, user)
    for above in dict.fromkeys(each for below in (folder, *(link for link, _ in links)) for each in _above(below)):
        yield from _problems_above(above, path, user)


def _problems_above(folder: str, path: str, user: int) -> Iterator[_Problem]:
    """What lets another user replace a folder or a link in this folder."""
    facts = _facts(folder)
    if facts is None:
        return
    if facts.st_uid not in (user, 0, _UNMAPPED):
        yield f"{folder} belongs to {_name(facts.st_uid)}, who can replace {path}.", "Use a folder of your own"
    if facts.st_mode & _OTHERS_WRITE and not facts.st_mode & stat.S_ISVTX:
        yield f"Every user can change {folder}, so {path} is not safe there.", f"Run `chmod o-w {folder}`"


def _folder_problems(folder: str, user: int) -> Iterator[_Problem]:
    facts = _facts(folder)
    if facts is None:
        return
    is_shared = facts.st_uid == 0 and bool(facts.st_mode & stat.S_ISVTX)  # like /tmp: no user can replace our files
    if facts.st_uid != user and not is_shared:
        yield f"The folder {folder} belongs to {_name(facts.st_uid)}.", "Use a folder of your own"
    if facts.st_mode & _GROUP_OR_OTHERS_WRITE and not facts.st_mode & stat.S_ISVTX:
        yield f"Other users can change the folder {folder}.", f"Run `chmod go-w {folder}`"


def _file_problems(path: str, user: int) -> Iterator[_Problem]:
    facts = _facts(path)
    if facts is None:
        return
    if facts.st_uid != user:
        is_roots = facts.st_uid == 0  # after a command with `sudo`
        yield (
            f"{path} belongs to {_name(facts.st_uid)}.",
            (f"Run `sudo chown {user} {path}`" if is_roots else "Use a store of your own"),
        )
    elif stat.S_ISLNK(facts.st_mode):
        yield f"{path} is a link.", "Remove the link"
    elif facts.st_mode & _GROUP_OR_OTHERS_WRITE:
        yield f"Other users can change {path}.", f"If you trust what is in it, run `chmod go-w {path}`"


def _links(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every link that a path goes through."""
    place, rest, left = "/", _parts(os.path.abspath(path)), _MOST_LINKS
    while rest and left:
        name = rest.pop(0)
        place = os.path.dirname(place) if name == ".." else os.path.join(place, name)
        facts = _facts(place)
        if facts is None:
            return
        if stat.S_ISLNK(facts.st_mode):
            yield place, facts
            target = os.readlink(place)
            place, rest, left = (
                "/" if os.path.isabs(target) else os.path.dirname(place),
                _parts(target) + rest,
                left - 1,
            )


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _above(folder: str) -> Iterator[str]:
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        yield folder


def _facts(path: str) -> os.stat_result | None:
    """None if it does not exist. A link is not followed."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _mode(path: str) -> int:
    facts = _facts(path)
    return 0 if facts is None else facts.st_mode


def _name(user: int) -> str:
    import pwd  # rarely needed

    try:
        return f"the user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"the user with the id {user}"
