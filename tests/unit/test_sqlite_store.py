"""The SQLite file: private, versioned, refused where it cannot be trusted, and every failure with its own name."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from conch.errors import (
    ForeignStore,
    SchemaMismatch,
    StoreBusy,
    StoreCorrupt,
    StoreUnavailable,
    StoreUncertain,
)
from conch.storage.sqlite import logs, places
from conch.storage.sqlite.connections import Connections
from conch.storage.sqlite.errors import translate
from conch.storage.sqlite.files import filesystem_type
from conch.storage.sqlite.logs import Log
from conch.storage.sqlite.queue import Queue
from conch.storage.sqlite.recognition import APPLICATION_ID
from conch.storage.sqlite.scratch import scratch_folder
from conch.storage.sqlite.store import DIALECT, SqliteStore
from conch.storage.statements import HERE, Migration, expand_lists, load_migrations
from conch.upkeep.verify import verify_store

Open = Callable[..., SqliteStore]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "data" / "rooms.sqlite")


@pytest.fixture
def open_store(path: str) -> Iterator[Open]:
    stores: list[SqliteStore] = []

    def open_it(**options: object) -> SqliteStore:
        stores.append(SqliteStore(path, ring=lambda _channels: None, **options))  # type: ignore[arg-type]
        return stores[-1]

    yield open_it
    for store in stores:
        store.close()


def use(store: SqliteStore) -> None:
    with store.write("room") as tx:
        tx.run(
            "insert_room",
            room_id=os.urandom(4).hex(),
            canonical_path=os.urandom(4).hex(),
            topic_id=os.urandom(4).hex(),
            now=1,
        )


def count(store: SqliteStore) -> int:
    with store.read() as tx:
        return len(tx.all("all_rooms"))


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("mark", [0, 77])
def test_a_store_that_was_left_half_created_is_created_once(open_store: Open, path: str, mark: int) -> None:
    os.mkdir(os.path.dirname(path), 0o700)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {mark}")
    connection.execute("PRAGMA journal_mode = WAL")  # here its creator was killed
    connection.close()
    first, second = open_store(), open_store()

    for store in (first, second, first, second):
        use(store)

    assert (count(first), count(second)) == (4, 4)
    assert first.replacements == second.replacements == []


def test_the_folder_and_every_file_in_it_are_private(open_store: Open, path: str) -> None:
    before = os.umask(0)
    try:
        use(open_store())
    finally:
        os.umask(before)

    folder = os.path.dirname(path)
    assert mode(folder) == 0o700
    assert {name: mode(os.path.join(folder, name)) for name in os.listdir(folder)} == {
        "rooms.sqlite": 0o600,
        "rooms.sqlite-wal": 0o600,
        "rooms.sqlite-shm": 0o600,
        "rooms.sqlite.queue": 0o600,
        "rooms.sqlite.users": 0o600,
    }


def test_a_file_that_others_could_read_is_made_private(open_store: Open, path: str) -> None:
    use(open_store())
    os.chmod(path, 0o644)

    use(open_store())

    assert mode(path) == 0o600


def test_every_connection_has_the_pragmas_of_the_contract(open_store: Open) -> None:
    store = open_store()
    use(store)
    with store._connections.borrowed() as lent:
        connection = lent.connection
        values = {name: next(iter(connection.execute(f"PRAGMA {name}").fetchone().values())) for name in (
            "journal_mode", "synchronous", "busy_timeout", "foreign_keys")}  # fmt: skip

    assert values == {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 5000, "foreign_keys": 1}


def test_full_durability_can_be_chosen(open_store: Open) -> None:
    store = open_store(synchronous="full")
    with store._connections.borrowed() as lent:
        assert lent.connection.execute("PRAGMA synchronous").fetchone() == {"synchronous": 2}


def test_sixteen_megabytes_wait_beside_the_file_and_then_no_more(open_store: Open, path: str) -> None:
    store, sizes = open_store(), []
    for number in range(9):
        with store.write("meta") as tx:
            tx.load("meta", [{"key": f"extra-{number}", "value": "x" * 3_000_000}])
        sizes.append((os.stat(f"{path}-wal").st_size, os.stat(path).st_size))

    assert sizes[3][0] > 12_000_000 > 4_000_000 > sizes[3][1], "a checkpoint too early waits for the disk too often"
    assert max(wal for wal, _ in sizes) < 20_000_000
    assert sizes[-1][1] > 12_000_000


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_transaction_that_reads_one_of_many_rows_leaves_no_read_open(open_store: Open, kind: str) -> None:
    store = open_store()
    for _ in range(3):
        use(store)

    with getattr(store, kind)() as tx:
        tx.one("all_rooms")

    assert open_store(busy_timeout_ms=50).tidy(compact=False), "the checkpoint waits for a reader"


def test_a_connection_that_failed_is_closed_even_while_its_error_is_kept(open_store: Open, path: str) -> None:
    store = open_store(busy_timeout_ms=50)
    use(store)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy) as kept:
        use(store)

    other.close()
    store.close()

    assert kept.value.__traceback__ is not None
    assert not os.path.exists(f"{path}-wal"), "SQLite keeps it until the last connection is closed"


# -- schema


def structure(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    spelled = {(kind, name): (sql or "").replace('"', "") for kind, name, sql in rows}  # a renamed table is quoted
    return {(kind, name, re.sub(r"\s*([(),])\s*|\s+", r"\1 ", sql)) for (kind, name), sql in spelled.items()}


def test_the_migrations_from_empty_lead_to_the_schema(open_store: Open, path: str) -> None:
    use(open_store())
    expected = sqlite3.connect(":memory:")
    with open(os.path.join(HERE, "schema.sql"), encoding="utf-8") as file:
        expected.executescript(file.read().replace("$serial_key", DIALECT.serial_key).replace("$bytes", DIALECT.bytes))

    actual = sqlite3.connect(path)

    assert structure(actual) == structure(expected)
    actual.close()
    expected.close()


def test_an_older_store_is_migrated_after_a_backup(open_store: Open, path: str) -> None:
    use(open_store())
    newer = [*load_migrations(DIALECT), Migration(9, "CREATE TABLE extra (x TEXT);\nINSERT INTO extra VALUES ('a;b');")]

    store = open_store(migrations=newer)

    assert count(store) == 1
    copies = [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".backup")]
    assert len(copies) == 1
    version = len(load_migrations(DIALECT))
    assert copies[0].startswith(f"rooms.sqlite.v{version}-")
    copy = sqlite3.connect(os.path.join(os.path.dirname(path), copies[0]))
    assert copy.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall() == [(str(version),)]
    assert copy.execute("SELECT count(*) FROM path_rooms").fetchone() == (1,)
    copy.close()


def test_a_room_that_was_closed_before_there_were_topics_keeps_its_reason(open_store: Open) -> None:
    dates = {"created_at": 1, "updated_at": 2}
    closed, idle = ({"room_id": name, "canonical_path": name, "topic_id": name, **dates} for name in ("a", "b"))
    event = {"event_id": "e", "room_id": "a", "turn_id": 0, "event_type": "close", "reason": "done", "created_at": 2}
    with open_store(migrations=load_migrations(DIALECT)[:1]).write("room") as tx:
        tx.load("path_rooms", [{**closed, "state": "closed"}, {**idle, "state": "idle"}])
        tx.load("room_events", [event])

    with open_store().read() as tx:
        topics = [tx.one("find_topic", topic_id=name) for name in ("a", "b")]

    facts = [(topic["status"], topic["closed_at"], topic["close_reason"]) for topic in topics if topic]
    assert facts == [("closed", 2, "done"), ("open", None, None)]


def test_the_members_of_an_older_store_keep_their_names(open_store: Open) -> None:
    before = open_store(migrations=load_migrations(DIALECT)[:3])
    with before.write("room") as tx:
        room = {
            "room_id": "r1",
            "canonical_path": "/w",
            "topic_id": "t1",
            "state": "idle",
            "created_at": 1,
            "updated_at": 1,
        }
        agent = {"harness": "codex", "session_kind": "cli", "created_at": 1, "last_seen_at": 1}
        member = {"room_id": "r1", "joined_at": 1, "session_kind": "cli"}
        tx.load("path_rooms", [room])
        tx.load(
            "agents", [{"agent_id": "a:1", "name": "amber-otter", **agent}, {"agent_id": "b:2", "name": "b", **agent}]
        )
        tx.load(
            "room_members", [{"agent_id": "a:1", "ordinal": 0, **member}, {"agent_id": "b:2", "ordinal": 1, **member}]
        )
    before.close()

    with open_store().read() as tx:
        assert [row["name"] for row in tx.all("room_members", room_id="r1")] == ["amber-otter", "b"]


def test_a_migration_that_fails_changes_nothing(open_store: Open) -> None:
    use(open_store())
    broken = [*load_migrations(DIALECT), Migration(9, "CREATE TABLE extra (x TEXT);\nINSERT INTO nowhere VALUES (1);")]

    with pytest.raises(SchemaMismatch):
        use(open_store(migrations=broken))

    assert count(open_store()) == 1


def test_a_newer_store_is_refused_untouched(open_store: Open, path: str) -> None:
    use(open_store(migrations=[*load_migrations(DIALECT), Migration(9, "CREATE TABLE extra (x TEXT);")]))

    with pytest.raises(SchemaMismatch, match="newer version of conch"):
        use(open_store())


def test_a_running_process_notices_that_the_store_has_moved_on(open_store: Open) -> None:
    old = open_store()
    use(old)
    use(open_store(migrations=[*load_migrations(DIALECT), Migration(9, "CREATE TABLE extra (x TEXT);")]))

    with pytest.raises(SchemaMismatch):
        use(old)


FOREIGN = {
    "recipes": "CREATE TABLE recipes (name TEXT)",
    "recipes with facts": "CREATE TABLE meta (key TEXT, value TEXT); CREATE TABLE recipes (name TEXT)",
    "a bus": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT); INSERT INTO meta VALUES ('schema_version', '5');"
    "CREATE TABLE topics (topic_id TEXT PRIMARY KEY); CREATE TABLE messages (message_id TEXT PRIMARY KEY);"
    "CREATE TABLE cursors (topic_id TEXT, agent_name TEXT)",
    "a newer bus": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);"
    "INSERT INTO meta VALUES ('schema_version', '99'); CREATE TABLE topics (topic_id TEXT PRIMARY KEY)",
    "a talking stick": "CREATE TABLE path_rooms (room_id TEXT); CREATE TABLE room_members (room_id TEXT);"
    "CREATE TABLE room_events (room_id TEXT)",
    "a view": "CREATE VIEW recipes AS SELECT 1",
    "a version": "PRAGMA user_version = 7",
    "a program with an id": "PRAGMA application_id = 1196444487; CREATE TABLE gpkg_contents (table_name TEXT)",
}


@pytest.mark.parametrize("journal", ["delete", "wal", "wal in use"])
@pytest.mark.parametrize("script", FOREIGN.values(), ids=FOREIGN)
def test_another_programs_database_is_refused_without_a_trace(
    open_store: Open, path: str, tmp_path: Path, script: str, journal: str
) -> None:
    folder = Path(path).parent
    folder.mkdir()
    foreign = sqlite3.connect(path)
    foreign.execute(f"PRAGMA journal_mode = {journal.split()[0]}")
    foreign.executescript(script)
    if journal != "wal in use":
        foreign.close()
    Path(path).chmod(0o644)
    before = _traces(folder)

    for use_it in (
        use,
        lambda store: store.wipe(),
        lambda store: store.backup(str(tmp_path / "copy")),
        lambda store: store.migrate(force=True),
        lambda store: store.integrity_problems(),
        lambda store: store.restoring(str(tmp_path / "copy")).__enter__(),
    ):
        with pytest.raises(ForeignStore, match="belongs to another program") as refusal:
            use_it(open_store())
        assert "conch db wipe" not in refusal.value.message
        assert "newer" not in refusal.value.message

    assert _traces(folder) == before
    assert not (tmp_path / "copy").exists()
    foreign.close()


def _traces(folder: Path) -> dict[str, tuple[object, ...]]:
    facts = {each: each.stat() for each in [folder, *folder.iterdir()]}
    return {
        each.name: (found.st_mode, found.st_mtime_ns, found.st_ctime_ns, each.read_bytes() if each.is_file() else b"")
        for each, found in facts.items()
    }


def test_a_store_from_before_stores_said_whose_they_are_is_known_and_says_it_from_then_on(
    open_store: Open, path: str
) -> None:
    use(open_store(migrations=load_migrations(DIALECT)[:13]))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA application_id = 0")
    connection.close()

    use(open_store())

    assert Path(path).read_bytes()[68:72] == b"conc"


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to be read as one" * 20, b"SQLite format 3\0" + bytes(4080)]
)
def test_a_damaged_store_is_refused_untouched(open_store: Open, path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path))
    Path(path).write_bytes(content)
    Path(f"{path}.users").touch()  # as beside every store that was ever opened

    with pytest.raises((StoreCorrupt, SchemaMismatch), match="conch db wipe"):
        use(open_store())

    assert Path(path).read_bytes() == content


@pytest.mark.parametrize("content", [b"eggs\n", bytes(8192)], ids=["text", "zeros"])
def test_a_file_that_is_no_database_and_never_was_a_store_is_not_taken_for_one(
    open_store: Open, path: str, content: bytes
) -> None:
    os.makedirs(os.path.dirname(path))
    Path(path).write_bytes(content)
    before = _traces(Path(path).parent)

    for use_it in (use, lambda store: store.wipe(), lambda store: store.restoring(path).__enter__()):
        with pytest.raises(ForeignStore, match="is not a database, so it is not a conch store") as refusal:
            use_it(open_store())
        assert "conch db wipe" not in refusal.value.message

    assert _traces(Path(path).parent) == before


def test_a_store_that_cannot_be_read_can_be_set_aside_whole(open_store: Open, path: str) -> None:
    os.makedirs(os.path.dirname(path))
    Path(path).write_bytes(b"precious, though no database" * 50)

    aside = open_store().set_aside()

    assert Path(aside).read_bytes() == b"precious, though no database" * 50
    use(open_store())


def test_a_backup_is_a_whole_and_private_store_of_its_own(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    use(store)

    copy = store.backup(str(tmp_path / "copy.sqlite"))

    assert mode(copy) == 0o600
    other = SqliteStore(copy, ring=lambda _channels: None)
    assert count(other) == 1
    other.close()


def test_a_backup_of_a_store_of_another_schema_is_made_of_it_as_it_is(open_store: Open, tmp_path: Path) -> None:
    known = load_migrations(DIALECT)
    use(open_store())
    older = open_store(migrations=[*known, Migration(9, "CREATE TABLE extra (x TEXT);")])
    newer = open_store(migrations=known[:-1])

    copies = [store.backup(str(tmp_path / name)) for store, name in ((older, "older"), (newer, "newer"))]

    for copy in copies:
        connection = sqlite3.connect(copy)
        assert connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall() == [
            (str(len(known)),)
        ]
        assert connection.execute("SELECT count(*) FROM path_rooms").fetchone() == (1,)
        connection.close()


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("UPDATE meta SET value = '99'", "Upgrade conch"),
        ("DELETE FROM meta", "Restore a copy"),
    ],
)
def test_each_mismatch_has_its_own_advice(open_store: Open, path: str, statement: str, advice: str) -> None:
    use(open_store())
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()

    with pytest.raises(SchemaMismatch, match=advice):
        use(open_store())


def test_every_copy_is_known_also_those_of_one_second(open_store: Open) -> None:
    store = open_store()
    use(store)

    made = [store.backup(None) for _ in range(4)]
    with scratch_folder(store.path) as left_by_a_killed_restore:
        known = store.copies()

    assert sorted(known) == sorted([*made, left_by_a_killed_restore])


def test_a_backup_never_overwrites(open_store: Open, tmp_path: Path) -> None:
    (tmp_path / "copy.sqlite").write_text("precious")

    with pytest.raises(StoreUnavailable):
        open_store().backup(str(tmp_path / "copy.sqlite"))

    assert (tmp_path / "copy.sqlite").read_text() == "precious"


# -- where it lives


MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /home rw - nfs4 server:/home rw
31 30 254:1 / /home/me/local rw - xfs /dev/vdb rw
32 22 0:41 / /mnt/with\\040space rw - cifs //server/share rw
33 22 0:42 / /over rw - ext4 /dev/vdc rw
34 22 0:43 / /over rw - fuse.sshfs me@host: rw
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home/me", "nfs4"),
        ("/home/me/local/share", "xfs"),
        ("/homework", "ext4"),
        ("/mnt/with space/data", "cifs"),
        ("/over/there", "fuse.sshfs"),
    ],
)
def test_the_deepest_and_latest_mount_decides_the_filesystem(place: str, kind: str) -> None:
    assert filesystem_type(place, MOUNTS) == kind


@pytest.mark.parametrize("letters", ["Büro Daten", "back\\\\slash é", "line\u2028 end", "\udcff not utf-8"])
def test_a_mount_is_known_whatever_its_folder_is_called(letters: str) -> None:
    escaped = letters.replace("\\", r"\134").replace(" ", r"\040")
    mounts = f"22 1 0:40 / / rw - ext4 /dev/vda rw\n30 22 0:41 / /mnt/{escaped} rw - nfs4 there rw\n"

    assert filesystem_type(f"/mnt/{letters}/conch", mounts) == "nfs4"


def in_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """Run Python in its own mount namespace, where it may mount anything."""
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


USE_STORE = """
import sys
from conch.storage.sqlite.store import SqliteStore
from conch.errors import StoreError
def use(path, size=10):
    store = SqliteStore(path, ring=lambda channels: None)
    try:
        with store.write("room") as tx:
            tx.run("insert_room", room_id=f"r{size}", canonical_path="x" * size, topic_id=f"t{size}", now=1)
        return "written"
    except StoreError as error:
        return error.code
    finally:
        store.close()
"""


def test_a_mounted_network_filesystem_is_refused(tmp_path: Path) -> None:
    script = USE_STORE + f"print(use({str(tmp_path)!r} + '/Projects/rooms.sqlite'))"
    server = Path(__file__).with_name("case_ignoring_filesystem.py")
    command = ["unshare", "--map-root-user", "--mount", sys.executable, str(server), str(tmp_path)]
    environ = {**os.environ, "FILESYSTEM_TYPE": "fuse.sshfs"}

    done = subprocess.run(
        [*command, sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60
    )

    if done.returncode == 77:
        pytest.skip(f"this machine does not let the tests mount with FUSE: {done.stderr}")
    assert done.stdout.split() == ["DB_NOT_LOCAL"], done.stderr


def test_every_kind_of_network_filesystem_is_refused_and_a_local_disk_is_not(tmp_path: Path) -> None:
    kinds = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ext4"]
    script = (
        USE_STORE
        + f"""
import os, subprocess
place = {str(tmp_path)!r}
mounts = place + "/mountinfo"
open(mounts, "w").close()
subprocess.run(["mount", "--bind", mounts, f"/proc/{{os.getpid()}}/mountinfo"], check=True)
for kind in {kinds!r}:
    with open(mounts, "w") as file:
        file.write("22 1 0:40 / / rw - ext4 /dev/vda rw\\n30 22 0:41 / " + place + f" rw - {{kind}} there rw\\n")
    print(use(f"{{place}}/{{kind}}/rooms.sqlite"))
"""
    )

    done = in_namespace(script)

    assert done.stdout.split() == ["DB_NOT_LOCAL"] * (len(kinds) - 1) + ["written"], done.stderr


def test_a_link_to_a_file_on_a_network_filesystem_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "rooms.sqlite").touch()
    (tmp_path / "here.sqlite").symlink_to(tmp_path / "there" / "rooms.sqlite")
    mounts = f"22 1 0:40 / / rw - ext4 /dev/vda rw\n30 22 0:41 / {tmp_path}/there rw - nfs4 there rw\n"
    (tmp_path / "mountinfo").write_text(mounts)
    script = (
        USE_STORE
        + f"""
import os, subprocess
place = {str(tmp_path)!r}
subprocess.run(["mount", "--bind", place + "/mountinfo", f"/proc/{{os.getpid()}}/mountinfo"], check=True)
from conch.app import open_app
try:
    with open_app({{"CONCH_STORE": place + "/here.sqlite"}}).store.read():
        print("opened")
except StoreError as error:
    print(error.code)
"""
    )

    done = in_namespace(script)

    assert done.stdout.split() == ["DB_NOT_LOCAL"], done.stderr


def test_a_full_disk_has_its_own_error_and_loses_nothing(tmp_path: Path) -> None:
    script = (
        USE_STORE
        + f"""
import subprocess
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", {str(tmp_path)!r}], check=True)
path = {str(tmp_path)!r} + "/rooms.sqlite"
print(use(path))
print(use(path, 5_000_000))
store = SqliteStore(path, ring=lambda channels: None)
with store.read() as tx:
    print(len(tx.all("all_rooms")))
"""
    )

    done = in_namespace(script)

    assert done.stdout.split() == ["written", "DB_FULL", "1"], done.stderr


def test_a_disk_that_is_full_from_the_start_has_its_own_error(tmp_path: Path) -> None:
    script = (
        USE_STORE
        + f"""
import os, subprocess
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", {str(tmp_path)!r}], check=True)
print(use({str(tmp_path)!r} + "/rooms.sqlite"))
"""
    )

    assert in_namespace(script).stdout.split() == ["DB_FULL"]


def test_a_read_only_disk_has_its_own_error(tmp_path: Path) -> None:
    script = (
        USE_STORE
        + f"""
import subprocess
place = {str(tmp_path)!r}
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
print(use(place + "/rooms.sqlite"))
subprocess.run(["mount", "-o", "remount,ro", place], check=True)
print(use(place + "/rooms.sqlite"))
print(use(place + "/new/rooms.sqlite"))
"""
    )

    done = in_namespace(script)

    assert done.stdout.split() == ["written", "DB_READ_ONLY", "DB_READ_ONLY"], done.stderr


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_not_a_file_is_refused_and_left_as_it_is(tmp_path: Path, make: Callable[[str], None]) -> None:
    path = str(tmp_path / "strange")
    make(path)
    os.chmod(path, 0o755)
    store = SqliteStore(path, ring=lambda _channels: None, named="--store")

    with pytest.raises(StoreUnavailable, match="--store") as refusal:
        use(store)

    assert path in refusal.value.message
    assert mode(path) == 0o755
    assert os.listdir(tmp_path) == ["strange"]


# -- waiting for each other


def test_a_lock_held_too_long_is_reported_as_busy(open_store: Open, path: str) -> None:
    store = open_store(busy_timeout_ms=50)
    use(store)
    intruder = sqlite3.connect(path, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreBusy):
        use(store)

    intruder.execute("ROLLBACK")
    intruder.close()
    use(store)
    assert count(store) == 2


def test_nobody_recovers_a_copy_of_wal_because_another_process_opened_it(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    use(store)
    examined = []
    monkeypatch.setattr(Log, "recoverable_mark", lambda log: examined.append(log))

    counted = count(open_store()), count(store)

    assert (counted, examined) == ((1, 1), [])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the version is unknown")
def test_the_version_changes_with_every_commit_of_anyone_and_with_nothing_else(open_store: Open, path: str) -> None:
    store, other = open_store(), open_store()
    unopened = store.version()
    use(store)
    use(other)
    program = sqlite3.connect(path, isolation_level=None)
    versions = [store.version()]
    for commit in (
        lambda: use(store),
        lambda: use(other),
        lambda: program.execute("UPDATE path_rooms SET updated_at = 2"),
        lambda: (other.tidy(compact=False), use(other)),  # -wal begins again, as long as it was before
        lambda: use(store),
    ):
        commit()
        versions.append(store.version())
        count(store)
        count(other)
        program.execute("SELECT * FROM path_rooms").fetchall()
        assert store.version() == versions[-1]
    program.close()

    assert unopened is None
    assert len({version for _, version in versions}) == 6  # type: ignore[misc]


def test_the_change_counter_moves_when_somebody_else_commits(open_store: Open) -> None:
    store, other = open_store(), open_store()
    use(store)
    before = store.change_counter()
    assert store.change_counter() == before

    use(other)

    assert store.change_counter() != before


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SQLITE_BUSY", "DB_BUSY"),
        ("SQLITE_BUSY_SNAPSHOT", "DB_BUSY"),
        ("SQLITE_LOCKED", "DB_BUSY"),
        ("SQLITE_FULL", "DB_FULL"),
        ("SQLITE_READONLY_DIRECTORY", "DB_READ_ONLY"),
        ("SQLITE_CORRUPT_VTAB", "DB_CORRUPT"),
        ("SQLITE_NOTADB", "DB_CORRUPT"),
        ("SQLITE_CANTOPEN", "DB_UNAVAILABLE"),
        ("SQLITE_IOERR_READ", "DB_UNAVAILABLE"),
    ],
)
def test_every_driver_error_is_translated_once(name: str, kind: str) -> None:
    error = sqlite3.OperationalError("as the driver says it")
    error.sqlite_errorcode = getattr(sqlite3, name)

    assert translate(error, "/tmp/store", "--store").code == kind


# -- the files are taken away


def test_a_change_that_was_committed_to_a_store_that_is_gone_is_not_reported_as_done(
    open_store: Open, path: str
) -> None:
    store = open_store()
    use(store)

    with pytest.raises(StoreUncertain, match="rescued"), store.write("room"):
        os.unlink(path)

    assert count(store) == 0


def test_a_change_is_kept_if_only_the_files_beside_the_store_are_deleted_meanwhile(open_store: Open, path: str) -> None:
    store = open_store()
    use(store)

    with store.write("room") as tx:
        os.unlink(f"{path}-wal")
        os.unlink(f"{path}-shm")
        tx.run("insert_room", room_id="r", canonical_path="/r", topic_id="t", now=1)

    assert count(store) == 2
    assert count(open_store()) == 2


# Uses a store, closes its folder to everybody, and prints which error the next use raises.
CLOSE_THE_FOLDER = """
import os, sys
from conch.errors import StoreError
from conch.storage.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1], ring=lambda channels: None)
with store.read():
    pass
os.chmod(os.path.dirname(sys.argv[1]), 0)
try:
    with store.read():
        pass
except StoreError as error:
    print(type(error).__name__)
finally:
    os.chmod(os.path.dirname(sys.argv[1]), 0o700)
"""


def test_a_folder_that_was_closed_to_us_is_an_error_of_its_own(path: str) -> None:
    # Root may look into every folder, unless it gives up its privileges.
    without_privileges = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []

    done = subprocess.run(
        [*without_privileges, sys.executable, "-c", CLOSE_THE_FOLDER, path], capture_output=True, text=True
    )

    assert (done.stdout, done.stderr) == ("StoreReadOnly\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
@pytest.mark.parametrize("step", ["_require_own_files", "_open_files"])
def test_a_store_opens_while_its_last_user_leaves(
    open_store: Open, path: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    last = open_store()
    use(last)
    newcomer = open_store()
    original = getattr(Connections, step)

    def leave_first(*arguments: object) -> object:
        monkeypatch.undo()
        last.close()  # SQLite deletes the files beside the store, which the newcomer expects
        for suffix in ("1", "2"):  # else the new files may get the same inodes
            Path(path + suffix).touch()
        return original(*arguments)

    monkeypatch.setattr(Connections, step, leave_first)

    assert count(newcomer) == 1
    assert count(open_store()) == 1  # what is written down are the files of the newcomer


@contextmanager
def other_user(path: str) -> Iterator[int]:
    """Another process among the users of the store, which has closed its connections."""
    import fcntl

    file = os.open(f"{path}.users", os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_SH)
    try:
        yield file
    finally:
        os.close(file)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_one_that_looks_at_files_that_do_not_fit_does_not_wait_among_the_users(open_store: Open, path: str) -> None:
    """A process that waits counts as a user. Several would never be alone, so none could repair the files."""
    first = open_store()
    use(first)
    first.close()  # SQLite deletes the files beside the store, which are still written down
    writer = Queue(f"{path}.queue")
    turn = writer.enter(5)

    with other_user(path), pytest.raises(StoreUnavailable, match="deleted or replaced"):  # busy, if it waited
        count(open_store(busy_timeout_ms=100))

    writer.leave(turn)
    writer.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_a_store_opens_however_long_other_users_come_and_go(open_store: Open, path: str) -> None:
    first = open_store()
    use(first)
    first.close()
    record = Path(f"{path}.users").read_text().split()

    def come_and_go(file: int) -> None:
        for inode in range(30):  # longer than it takes to give up on files that were really taken
            os.pwrite(file, " ".join([*record[:3], str(inode + 1), *record[4:]]).ljust(200).encode(), 0)
            Event().wait(0.05)
        os.close(file)

    with other_user(path) as file:
        others = Thread(target=come_and_go, args=(os.dup(file),))
        others.start()

    assert count(open_store()) == 1
    others.join()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_a_store_whose_last_user_has_left_opens_while_the_queue_is_blocked(open_store: Open, path: str) -> None:
    first = open_store()
    use(first)
    first.close()  # SQLite deletes -wal and -shm
    queue = Queue(f"{path}.queue")
    held = queue.enter(1)

    assert count(open_store(busy_timeout_ms=50)) == 1

    queue.leave(held)
    queue.close()


DYING = """
import os, sys
from conch.storage.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1], ring=lambda _channels: None)
with store.write("room") as tx:
    tx.run("insert_room", room_id="r", canonical_path="p", topic_id="t", now=1)
os._exit(0)
"""


def write_and_die(path: str) -> None:
    """Write to a store in a process that ends at once, so that nothing moves `-wal` into the file."""
    subprocess.run([sys.executable, "-c", DYING, path], check=True)


def empty(wal: Path) -> None:
    os.truncate(wal, 0)


def cut_off(wal: Path) -> None:
    os.truncate(wal, wal.stat().st_size // 2)


def garble(wal: Path) -> None:
    wal.write_bytes(bytes(wal.stat().st_size))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
@pytest.mark.parametrize("damage", [Path.unlink, empty, cut_off, garble])
def test_changes_that_were_lost_with_wal_are_told_until_a_backup_is_restored(
    open_store: Open, path: str, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    write_and_die(path)
    damage(Path(f"{path}-wal"))
    store = open_store()

    count(store)

    (told,) = store.replacements
    assert f"{path}-wal was emptied, deleted or damaged" in told.message
    assert ["are missing" in problem.sentence for problem in verify_store(store).problems] == [True]
    backup = store.backup(str(tmp_path / "backup"))
    with store.restoring(backup) as restoration:
        restoration.finish()
    assert verify_store(store).problems == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_nothing_counts_as_lost_when_a_process_died(open_store: Open, path: str) -> None:
    write_and_die(path)
    store = open_store()

    assert (count(store), store.replacements) == (1, [])


def test_lists_of_many_lengths_need_few_statements() -> None:
    expanded = [expand_lists("SELECT 1 WHERE x IN :names", {"names": list(range(size))}) for size in range(1, 101)]

    assert len({statement for statement, _ in expanded}) == 8
    assert all({*flat.values()} == {*range(size)} for size, (_, flat) in enumerate(expanded, start=1))


@pytest.mark.parametrize(
    ("ago_ms", "nanoseconds", "is_past"), [(50, 1, False), (200, 1, True), (200, 0, False), (3_100, 0, True)]
)
def test_a_folder_with_fine_times_counts_as_unchanged_sooner(ago_ms: int, nanoseconds: int, is_past: bool) -> None:
    whole_ms = time.time_ns() // 1_000_000 - ago_ms

    assert places.is_past(whole_ms * 1_000_000 + nanoseconds) is is_past


@pytest.mark.parametrize(("is_quiet", "read", "written"), [(False, 5, 10), (True, 2, 4)])
def test_the_checks_of_the_files_take_as_many_stat_calls_as_their_page_says(
    open_store: Open, monkeypatch: pytest.MonkeyPatch, is_quiet: bool, read: int, written: int
) -> None:
    calls: list[object] = []
    monkeypatch.setattr(places, "_stat", lambda *given, **how: (calls.append(given), os.stat(*given, **how))[1])
    monkeypatch.setattr(logs, "_fstat", lambda *given: (calls.append(given), os.fstat(*given))[1])
    monkeypatch.setattr(places, "is_past", lambda changed_at: is_quiet)
    store = open_store()
    use(store)
    calls.clear()

    with store.read():
        of_the_read = len(calls)
    with store.write("room"):
        pass

    assert (of_the_read, len(calls) - of_the_read) == (read, written)
