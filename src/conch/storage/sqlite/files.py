"""The SQLite file as a whole: creating it on a local disk, copying it, splitting its migrations."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from conch.calls import note_change
from conch.errors import StoreError, StoreFull, StoreNotLocal, StoreUnavailable
from conch.lean import re
from conch.storage.replacement import new_epoch
from conch.storage.sqlite import DRIVER_ERRORS, sqlite3
from conch.storage.sqlite.errors import translate
from conch.storage.sqlite.headers import next_mark
from conch.storage.sqlite.places import SIDES, Files

_MOST_NAMES = 20
_OLDEST_SQLITE = (3, 35, 0)  # the first version with RETURNING
# fmt: off
_NETWORK_FILESYSTEMS = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smbfs", "smb2", "smb3", "9p", "afs", "afpfs", "ceph", "gfs", "gfs2",
    "glusterfs", "lustre", "ncpfs", "ocfs2", "webdav", "davfs", "davfs2", "beegfs", "gpfs", "pvfs2", "orangefs",
    "moosefs", "vboxsf", "prl_fs", "vmhgfs",
    "fuse.sshfs", "fuse.glusterfs", "fuse.cephfs", "fuse.ceph-fuse", "fuse.rclone", "fuse.s3fs", "fuse.davfs",
    "fuse.mfs", "fuse.vmhgfs-fuse", "fuse.smbnetfs", "fuse.nfs",
})
# fmt: on


def make_folder(path: str, named: str) -> None:
    """Create the store's folder if it is missing. `named` is the setting that gave the path.

    The path must have no links: SQLite would follow them to a folder that was not checked.
    """
    if tuple(map(int, sqlite3.sqlite_version.split("."))) < _OLDEST_SQLITE:
        raise StoreUnavailable(f"This Python has SQLite {sqlite3.sqlite_version}; conch needs 3.35 or newer.")
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise translate(error, path, named) from error
        note_change()
    kind = _network_filesystem(folder)
    if kind is not None:
        message = (
            f"{folder} is on a network filesystem ({kind}), where SQLite's locks are not reliable. "
            f"Choose a place on a local disk with {named}."
        )
        raise StoreNotLocal(message, path=path, filesystem=kind)


def make_file(path: str, named: str) -> None:
    """Create the store's file if it is missing, readable by its owner only; SQLite gives -wal and -shm the same mode.

    An existing file is not opened: closing a second descriptor would drop SQLite's locks on it.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise translate(error, path, named) from error
    note_change()


def make_private(path: str) -> None:
    """Keep other users from reading a store. Only after it is known to be ours."""
    if os.stat(path).st_mode & 0o077:
        for each in (path, f"{path}-wal", f"{path}-shm"):
            if os.path.exists(each):
                os.chmod(each, 0o600)
        note_change()


def copy(connection: sqlite3.Connection, target: str) -> None:
    """SQLite's own online backup, into a private file that did not exist before. The copy is a store of its own."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise _no_copy(error, target) from error
    try:
        _fill(connection, target)
    except BaseException as error:
        remove(target)  # an incomplete copy must not be mistaken for a backup
        if isinstance(error, DRIVER_ERRORS):
            raise _no_copy(error, target) from error
        raise
    note_change()


def copy_beside(connection: sqlite3.Connection, path: str) -> str:
    """Copy to this path, or to a similar one if another command takes it at the same moment. Returns the path."""
    for _ in range(_MOST_NAMES - 1):
        free = unused(path)
        try:
            copy(connection, free)
            return free
        except StoreError:
            if not os.path.lexists(free):  # a copy that failed was removed, so this one would be another command's
                raise
    copy(connection, free := unused(path))
    return free


def is_copy(name: str) -> bool:
    """Whether a file beside a store is a copy that conch has made of one."""
    # A restore that was killed has left a `.scratch-`.
    parts = (".backup", ".before-restore-", ".set-aside-", ".rescued-", ".damaged-", ".scratch-")
    return any(part in name for part in parts)


def remove(path: str) -> None:
    """Delete a copy, and the files that SQLite has left beside it."""
    for suffix in ("-wal", "-shm", "-journal", ""):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def put_in_place(copy: str, path: str, kept: str) -> None:
    """Put a copy in place of a store, which is kept under another name with its -wal and -shm."""
    os.link(path, kept)
    for suffix in SIDES:
        with suppress(FileNotFoundError):
            os.rename(path + suffix, kept + suffix)
    os.replace(copy, path)


def set_sides_aside(path: str, old: Files, now: Files) -> bool:
    """Move aside the files that belonged to the earlier store. False if they are gone already."""
    free = unused(f"{path}.set-aside-{stamp()}")
    kept = [suffix for suffix, mine, found in zip(SIDES, old[1:3], now[1:3], strict=True) if mine and mine == found]
    for suffix in kept:
        os.rename(path + suffix, free + suffix)
    return bool(kept)


def _fill(connection: sqlite3.Connection, target: str) -> None:
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        connection.backup(copy)
        make_distinct(copy, new_mark())
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # closing does it too, but without an error if it fails
    finally:
        copy.close()


def copy_whole(connection: sqlite3.Connection, target: str) -> None:
    """Like `copy`, but a process that dies meanwhile leaves no file of this name. One process at a time."""
    part = f"{target}.part"
    try:
        if os.path.exists(part):
            os.unlink(part)
        copy(connection, part)
        os.rename(part, target)
    except OSError as error:
        raise _no_copy(error, target) from error


def make_distinct(connection: sqlite3.Connection, mark: int, start: int | None = None) -> None:
    """Give a copy an epoch and a mark of its own, so that a process notices when it is put in place of the store."""
    connection.execute(f"PRAGMA user_version = {mark}")
    _note_start(connection, mark if start is None else start)
    _set_epoch(connection)
    forget_loss(connection)


def note_loss(connection: sqlite3.Connection) -> None:
    """Note that changes are lost, for `conch db verify`. Other processes notice the new epoch."""
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('lost', ?)", (stamp(),))
    _set_epoch(connection)


def forget_loss(connection: sqlite3.Connection) -> None:
    """After a restore or a wipe, the lost changes no longer matter."""
    connection.execute("DELETE FROM meta WHERE key = 'lost'")


def _set_epoch(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('epoch', ?)", (new_epoch(),))


def move_on(cursor: sqlite3.Cursor, in_file: int, stored: int) -> int:
    """Move the store's mark on, as part of every write; see `places`. Returns the new one."""
    if in_file == stored:  # all of -wal is in the file, so this write begins a new one
        _note_start(cursor, stored)
    mark = next_mark(stored)
    cursor.execute(f"PRAGMA user_version = {mark}")
    return mark


def _note_start(place: sqlite3.Connection | sqlite3.Cursor, mark: int) -> None:
    place.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('mark', ?)", (str(mark),))


def first_mark(connection: sqlite3.Connection) -> int:
    """The mark for a store that has no tables yet.

    A process that was killed while it created the store may have left a file with a mark, in WAL mode. Another mark
    would then be in `-wal` only, and would look as if the file had been replaced.
    """
    (mark,) = connection.execute("SELECT user_version FROM pragma_user_version").fetchone().values()
    (mode,) = connection.execute("SELECT journal_mode FROM pragma_journal_mode").fetchone().values()
    return int(mark) if mark or mode == "wal" else new_mark()


def new_mark() -> int:
    """A random number for the header of a store's file. 0 is the mark of files that were made without one."""
    return int.from_bytes(os.urandom(4), "big") >> 1 or 1


def _no_copy(error: sqlite3.Error | UnicodeDecodeError | OSError, target: str) -> StoreError:
    """The error for the copy. It must not read as if the store itself were damaged."""
    refusal = translate(error, target, "FILE")
    if isinstance(refusal, StoreFull):
        why = f". {refusal.message}"
    else:  # the other advice is for a store
        why = f", because {target} cannot be written: {error.strerror if isinstance(error, OSError) else error}."
    return type(refusal)(f"No copy was made{why}", **refusal.details, field="file")


def stamp(moment: float | None = None) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(moment))


def unused(path: str) -> str:
    """The path, with a number if it is taken: two commands may run in the same second."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = f"{path}-{number}"
    return free


def split(script: str) -> Iterator[str]:
    """Split a script into statements, because `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _network_filesystem(path: str) -> str | None:
    """The type of the network filesystem that holds this path without links, or None on a local disk."""
    if sys.platform == "darwin":
        return _darwin_network_filesystem(path)
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            kind = filesystem_type(path, file.read())
    except OSError:
        return None
    return kind if kind in _NETWORK_FILESYSTEMS else None


def filesystem_type(path: str, mountinfo: str) -> str | None:
    """The type of the deepest mount above a path. If several share a mount point, the last one hides the others."""
    deepest, kind = "", None
    for line in mountinfo.split("\n"):  # `splitlines` would split inside some names
        left, _, right = line.partition(" - ")
        fields, types = left.split(" "), right.split(" ")
        if len(fields) < 5:
            continue
        mount = _unescaped(fields[4])
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(deepest):
            deepest, kind = mount, types[0]
    return kind


def _unescaped(name: str) -> str:
    """A name as it is. The kernel writes blanks and backslashes in it as octal numbers, such as `\\040`."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), name) if "\\" in name else name


def _darwin_network_filesystem(path: str) -> str | None:
    import ctypes

    # struct statfs with 64-bit inodes: f_flags at byte 64, f_fstypename (16 bytes) at 72.
    local_flag, room_for_struct = 0x1000, 4096
    buffer = ctypes.create_string_buffer(room_for_struct)
    if ctypes.CDLL(None).statfs(os.fsencode(path), buffer) != 0:
        return None
    flags = int.from_bytes(buffer.raw[64:68], sys.byteorder)
    kind = buffer.raw[72:88].split(b"\0")[0].decode()
    return None if flags & local_flag else kind
