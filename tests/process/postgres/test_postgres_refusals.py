"""A server that cannot be used says why, each reason in its own words, and never with a password in them."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from conch.app import open_app
from conch.calls import Call
from conch.errors import ForeignStore, SchemaMismatch
from conch.storage.postgres.schema import DIALECT
from conch.storage.postgres.store import PostgresStore
from conch.storage.statements import Migration, load_migrations
from conch.tools.calling import call_tool
from conch.tools.catalogue import TOOLS
from conch.tools.session import Session

SECRET = "mother of/pe@rl?"

Join = Callable[..., Any]


@pytest.fixture
def database(new_database: str) -> str:
    return new_database


@pytest.fixture
def join(environ: dict[str, str], workspace: str, monkeypatch: pytest.MonkeyPatch) -> Join:
    """Open the store at an address as an agent would and join a room there; returns the answer."""
    monkeypatch.setenv("CONCH_AGENT_ID", "codex:1")

    def join(url: str) -> Any:
        app = open_app({**environ, "CONCH_STORE": url})
        try:
            return call_tool(TOOLS["join_path"], Session(app, "mcp"), {"context_path": workspace}, Call()).data
        finally:
            app.close()

    return join


def check(answer: Any, code: str, *words: str) -> None:
    assert answer.get("error") == code, answer
    assert [word for word in words if word not in answer["message"]] == []
    assert SECRET not in json.dumps(answer)


# -- who is not let in


def test_the_right_password_opens_the_store_over_tcp(join: Join, server: Any, database: str) -> None:
    assert "room_id" in join(server.tcp_url(database))


def test_a_wrong_password_is_called_that_and_not_repeated(join: Join, server: Any, database: str) -> None:
    answer = join(server.tcp_url(database, password="not the secret"))

    check(answer, "DB_UNAVAILABLE", "refused the login", 'password authentication failed for user "conch"')
    assert "not the secret" not in json.dumps(answer)


def test_a_missing_password_is_called_that(join: Join, server: Any, database: str) -> None:
    answer = join(f"postgresql://conch@127.0.0.1:{server.port}/{database}")

    check(answer, "DB_UNAVAILABLE", "refused the login", "no password supplied")


def test_an_unknown_database_is_named(join: Join, server: Any) -> None:
    check(join(server.tcp_url("nacre")), "DB_UNAVAILABLE", 'database "nacre" does not exist', "createdb")


def test_an_unknown_role_is_named(join: Join, server: Any, database: str) -> None:
    answer = join(server.url(database, user="nobody_here"))

    check(answer, "DB_UNAVAILABLE", "refused the login", 'role "nobody_here" does not exist')


def test_a_server_that_is_down_is_called_unreachable(join: Join, server: Any, database: str) -> None:
    url = server.tcp_url(database)
    server.stop()

    check(join(url), "DB_UNAVAILABLE", "cannot be reached", "Connection refused", f"127.0.0.1:{server.port}")


def test_a_server_that_never_answers_is_given_up_on(join: Join) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = join(f"postgresql://conch@127.0.0.1:{silent.getsockname()[1]}/any?connect_timeout=2")

    check(answer, "DB_UNAVAILABLE", "cannot be reached", "timeout")


@pytest.fixture
def web_port() -> Iterator[int]:
    """Where something other than a database answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.recv(1024)
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        server = threading.Thread(target=answer)
        server.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        server.join()


@pytest.mark.parametrize("mode", ["prefer", "require", "disable"])
def test_a_port_where_something_else_answers_is_called_that(join: Join, web_port: int, mode: str) -> None:
    answer = join(f"postgresql://conch@127.0.0.1:{web_port}/conch?gssencmode=disable&sslmode={mode}")

    check(answer, "DB_UNAVAILABLE", "does not seem to be PostgreSQL", "the port in CONCH_STORE")


def test_a_server_without_a_connection_left_says_so(join: Join, server: Any, database: str) -> None:
    server.restart(max_connections="4", superuser_reserved_connections="1", autovacuum="off")
    taken = [psycopg.connect(server.url(database, user="conch")) for _ in range(3)]

    answer = join(server.url(database, user="conch"))

    for connection in taken:
        connection.close()
    server.restart()
    check(answer, "DB_UNAVAILABLE", "no connection left", "max_connections")


def test_a_role_at_its_limit_says_so(join: Join, server: Any, database: str) -> None:
    server.ask("CREATE ROLE busy LOGIN CONNECTION LIMIT 0")

    answer = join(server.url(database, user="busy"))

    server.ask("DROP ROLE busy")
    check(answer, "DB_UNAVAILABLE", "no connection left", "CONNECTION LIMIT")


# -- who may not write


def test_a_read_only_database_can_be_read_and_not_written(
    join: Join, server: Any, database: str, environ: dict[str, str]
) -> None:
    room_id = join(environ["CONCH_STORE"])["room_id"]
    server.ask(f"ALTER DATABASE {database} SET default_transaction_read_only = on")

    app = open_app(environ)
    snapshot = app.rooms.get_state(None, room_id)
    app.close()
    answer = join(environ["CONCH_STORE"])

    assert snapshot.room.room_id == room_id
    check(answer, "DB_READ_ONLY", "is not writable", "read-only transaction")


def test_an_empty_read_only_database_is_refused_as_such(join: Join, server: Any, database: str) -> None:
    answer = join(server.url(database, user="conch", options="-c default_transaction_read_only=on"))

    check(answer, "DB_READ_ONLY", "is not writable", "read-only transaction")


@pytest.fixture
def guest(server: Any, database: str) -> Iterator[str]:
    server.ask("CREATE ROLE guest LOGIN")
    yield server.url(database, user="guest")
    server.ask("DROP OWNED BY guest; DROP ROLE guest", database)


def test_a_role_without_privileges_is_told_what_it_lacks(
    join: Join, server: Any, database: str, environ: dict[str, str], guest: str
) -> None:
    join(environ["CONCH_STORE"])
    strange = join(guest)
    server.ask("GRANT USAGE ON SCHEMA conch TO guest; GRANT SELECT ON ALL TABLES IN SCHEMA conch TO guest", database)
    reading = join(guest)

    check(strange, "DB_READ_ONLY", "is not allowed to do this", "permission denied for")
    check(reading, "DB_READ_ONLY", "is not allowed to do this", "permission denied for table")


def test_a_role_that_may_make_no_schema_is_told_so(join: Join, guest: str) -> None:
    check(join(guest), "DB_READ_ONLY", "is not allowed to do this", "permission denied for database")


def test_a_role_that_was_given_an_empty_schema_needs_no_other_privilege(
    join: Join, server: Any, database: str, guest: str
) -> None:
    server.ask("CREATE SCHEMA conch AUTHORIZATION guest", database)

    assert "room_id" in join(guest)


# -- what is there is not ours


def test_a_store_of_a_newer_conch_is_not_touched(
    join: Join, server: Any, database: str, environ: dict[str, str]
) -> None:
    join(environ["CONCH_STORE"])
    server.ask("UPDATE conch.meta SET value = '99' WHERE key = 'schema_version'", database)

    answer = join(environ["CONCH_STORE"])

    check(answer, "DB_SCHEMA_MISMATCH", "schema 99", "newer version of conch", "Nothing was changed")


def test_a_process_notices_that_the_store_was_upgraded_under_it(
    agents: Callable[..., Any], server: Any, database: str, workspace: str
) -> None:
    codex = agents("codex:1")
    room_id = codex.call("join_path", context_path=workspace)["room_id"]
    server.ask("UPDATE conch.meta SET value = '99' WHERE key = 'schema_version'", database)

    check(codex.call("get_room_state", room_id=room_id), "DB_SCHEMA_MISMATCH", "newer version of conch")
    check(codex.call("append_note", room_id=room_id, note="?"), "DB_SCHEMA_MISMATCH", "newer version of conch")


@pytest.mark.parametrize("table", ["agents (pearls int)", "meta (pearls int)", "meta (key int, value int)"])
def test_a_schema_of_somebody_else_is_not_touched(
    join: Join, server: Any, database: str, environ: dict[str, str], table: str
) -> None:
    server.ask(f"SET ROLE conch; CREATE SCHEMA conch; CREATE TABLE conch.{table}", database)

    answer = join(environ["CONCH_STORE"])

    check(answer, "DB_SCHEMA_MISMATCH", "not conch's")
    count = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'conch'"
    assert server.ask(count, database) == [(1,)]


@pytest.mark.parametrize(
    "made",
    ["TYPE conch.pearl AS ENUM ('black')", "FUNCTION conch.pearl() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
    ids=["type", "function"],
)
def test_a_schema_of_somebody_else_without_a_table_is_not_touched(
    join: Join, server: Any, database: str, environ: dict[str, str], made: str
) -> None:
    server.ask(f"SET ROLE conch; CREATE SCHEMA conch; CREATE {made}", database)

    check(join(environ["CONCH_STORE"]), "DB_SCHEMA_MISMATCH", "not conch's")

    assert server.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'conch'", database) == [(0,)]


@pytest.mark.parametrize("version", ["5", str(len(load_migrations(DIALECT))), "99"])
def test_a_schema_of_another_program_with_a_version_is_not_touched(
    join: Join, server: Any, database: str, environ: dict[str, str], version: str
) -> None:
    server.ask(
        "SET ROLE conch; CREATE SCHEMA conch; CREATE TABLE conch.meta (key text, value text); CREATE TABLE "
        f"conch.topics (topic_id text); INSERT INTO conch.meta VALUES ('schema_version', '{version}')",
        database,
    )

    check(join(environ["CONCH_STORE"]), "DB_SCHEMA_MISMATCH", "not conch's")
    for change in (PostgresStore.wipe, PostgresStore.migrate):
        store = PostgresStore(environ["CONCH_STORE"])
        with pytest.raises(ForeignStore):
            change(store)
        store.close()
    assert server.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'conch'", database) == [(2,)]


def test_tables_of_somebody_else_are_seen_without_any_right_on_them(
    join: Join, server: Any, database: str, environ: dict[str, str]
) -> None:
    server.ask("CREATE SCHEMA conch AUTHORIZATION conch; CREATE TABLE conch.facts (pearls int)", database)

    answer = join(environ["CONCH_STORE"])

    check(answer, "DB_SCHEMA_MISMATCH", "not conch's")
    assert server.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'conch'", database) == [("facts",)]


@pytest.mark.parametrize("loss", ["DELETE FROM conch.meta", "DROP TABLE conch.meta"])
def test_a_store_that_lost_its_version_is_not_touched(
    join: Join, server: Any, database: str, environ: dict[str, str], loss: str
) -> None:
    join(environ["CONCH_STORE"])
    server.ask(loss, database)

    check(join(environ["CONCH_STORE"]), "DB_SCHEMA_MISMATCH", "schema version is missing")


def test_an_older_store_is_brought_forward_when_it_is_asked_for(
    server: Any, database: str, environ: dict[str, str]
) -> None:
    url, known = environ["CONCH_STORE"], load_migrations(DIALECT)
    old, new = PostgresStore(url), PostgresStore(url, migrations=[*known, Migration(9, "CREATE TABLE pearls (id int)")])
    with old.read():
        pass

    with pytest.raises(SchemaMismatch, match="conch db migrate"), new.read():
        pass
    with pytest.raises(SchemaMismatch, match="other sessions still use it: conch on this host, pid"):
        new.migrate()
    assert new.migrate(force=True) == (len(known), len(known) + 1)
    with new.read() as tx:
        tables = tx.tables()
    with pytest.raises(SchemaMismatch, match="newer version of conch"), old.read():
        pass
    old.close()
    new.close()

    assert "pearls" in tables


def test_a_room_that_was_closed_before_there_were_topics_keeps_its_reason(
    server: Any, database: str, environ: dict[str, str]
) -> None:
    room = {"room_id": "a", "canonical_path": "a", "topic_id": "a", "created_at": 1, "updated_at": 2}
    event = {"event_id": "e", "room_id": "a", "turn_id": 0, "event_type": "close", "reason": "done", "created_at": 2}
    old = PostgresStore(environ["CONCH_STORE"], migrations=load_migrations(DIALECT)[:1])
    with old.write("room") as tx:
        tx.load("path_rooms", [{**room, "state": "closed"}])
        tx.load("room_events", [event])
    old.close()

    new = PostgresStore(environ["CONCH_STORE"])
    new.migrate(force=True)
    with new.read() as tx:
        topic = tx.one("find_topic", topic_id="a")
    new.close()

    assert topic is not None and (topic["status"], topic["close_reason"]) == ("closed", "done")


def test_the_members_of_an_older_store_keep_their_names(environ: dict[str, str]) -> None:
    url = environ["CONCH_STORE"]
    before, after = PostgresStore(url, migrations=load_migrations(DIALECT)[:3]), PostgresStore(url)
    room = {
        "room_id": "r1",
        "canonical_path": "/w",
        "topic_id": "t1",
        "state": "idle",
        "created_at": 1,
        "updated_at": 1,
    }
    agent = {"agent_id": "a:1", "name": "amber-otter", "harness": "codex", "session_kind": "cli", "created_at": 1}
    member = {"room_id": "r1", "agent_id": "a:1", "ordinal": 0, "joined_at": 1, "session_kind": "cli"}
    with before.write("room") as tx:
        tx.load("path_rooms", [room])
        tx.load("agents", [{**agent, "last_seen_at": 1}])
        tx.load("room_members", [member])

    after.migrate(force=True)

    with after.read() as tx:
        assert [row["name"] for row in tx.all("room_members", room_id="r1")] == ["amber-otter"]
    before.close()
    after.close()


def test_a_store_set_aside_under_a_process_is_made_anew_for_it(
    agents: Callable[..., Any], app: Any, server: Any, database: str, workspace: str
) -> None:
    codex = agents("codex:1")
    before = codex.call("join_path", context_path=workspace)["room_id"]

    aside = app.store.set_aside()
    after = codex.call("join_path", context_path=workspace)

    assert after["created"]
    assert after["room_id"] != before
    assert "conch_set_aside_" in aside
    schemas = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'path_rooms'"
    assert server.ask(schemas, database) == [(2,)]


# -- a full disk


@pytest.fixture
def small_disk(server: Any) -> Iterator[Path]:
    """A tablespace on a file system that is soon full; the server's log of changes stays where there is room."""
    folder = Path(server.folder / "small")
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no small file system can be mounted here: " + mounted.stderr.decode().strip())
    try:
        owner = os.stat(server.folder)
        os.chown(folder, owner.st_uid, owner.st_gid)
        server.ask(f"CREATE TABLESPACE small LOCATION '{folder}'")
        server.ask("CREATE DATABASE cramped OWNER conch TABLESPACE small")
        yield folder
        server.ask("DROP DATABASE cramped WITH (FORCE)")
        server.ask("DROP TABLESPACE small")
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_called_that_and_loses_nothing(
    small_disk: Path, agents: Callable[..., Any], server: Any, workspace: str
) -> None:
    codex = agents("codex:1", CONCH_STORE=server.url("cramped", user="conch"))
    room_id = codex.call("join_path", context_path=workspace)["room_id"]
    filler = small_disk / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize)

    answers = [codex.call("append_note", room_id=room_id, note=os.urandom(8_000).hex()) for _ in range(8)]
    filler.unlink()
    after = codex.call("append_note", room_id=room_id, note="there is room again")

    refused = [answer for answer in answers if "error" in answer]
    assert refused
    for answer in refused:
        check(answer, "DB_FULL", "is full", "Nothing was changed")
    assert "event_seq" in after
    notes = "SELECT count(*) FROM conch.room_events WHERE event_type = 'note'"
    assert server.ask(notes, "cramped") == [(len(answers) - len(refused) + 1,)]


# -- encryption


class TlsFront:
    """Speaks TLS for a server that cannot: takes one client after the other to the server's socket."""

    def __init__(self, server: Any, certificate: Path) -> None:
        self._target = f"{server.folder}/.s.PGSQL.{server.port}"
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                try:
                    self._carry(client)
                except OSError:
                    pass  # the client did not like the certificate

    def _carry(self, client: socket.socket) -> None:
        assert client.recv(8)[4:] == (80877103).to_bytes(4, "big")  # it asks for TLS before anything else
        client.sendall(b"S")
        with self._context.wrap_socket(client, server_side=True) as inner, socket.socket(socket.AF_UNIX) as outer:
            outer.connect(self._target)
            replies = threading.Thread(target=self._pour, args=(outer, inner), daemon=True)
            replies.start()
            self._pour(inner, outer)
            outer.shutdown(socket.SHUT_RDWR)
            replies.join()

    def _pour(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """For 127.0.0.1, signed by itself."""
    file = tmp_path / "server.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
    try:
        command = [*words.split(), "-keyout", str(file), "-out", str(tmp_path / "certificate.pem")]
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl here to make a certificate with")
    with file.open("a") as pair:
        pair.write((tmp_path / "certificate.pem").read_text())
    return file


@pytest.fixture
def tls_url(server: Any, database: str, certificate: Path) -> Iterator[str]:
    front = TlsFront(server, certificate)
    yield f"postgresql://conch@127.0.0.1:{front.port}/{database}?gssencmode=disable"
    front.close()


def test_the_tls_settings_of_the_address_are_used(join: Join, tls_url: str, certificate: Path) -> None:
    answer = join(f"{tls_url}&sslmode=verify-full&sslrootcert={certificate}")

    assert "room_id" in answer


def test_a_certificate_that_cannot_be_verified_is_refused(join: Join, tls_url: str, tmp_path: Path) -> None:
    answer = join(f"{tls_url}&sslmode=verify-full&sslrootcert={tmp_path / 'nowhere.pem'}")

    check(answer, "DB_UNAVAILABLE", "The TLS connection", "nowhere.pem")


def test_a_server_without_tls_is_refused_when_the_address_asks_for_it(join: Join, server: Any, database: str) -> None:
    answer = join(server.tcp_url(database) + "?sslmode=require")

    check(answer, "DB_UNAVAILABLE", "The TLS connection", "does not support SSL")


# -- settings of the server that conch does not depend on


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_another_default_isolation_changes_nothing(
    server: Any, database: str, environ: dict[str, str], isolation: str
) -> None:
    server.ask(f"ALTER DATABASE {database} SET default_transaction_isolation = '{isolation}'")
    app = open_app(environ)

    with app.store.write("a") as tx:
        row = tx.connection.execute("SHOW transaction_isolation").fetchone()  # type: ignore[attr-defined]
    app.close()

    assert row == {"transaction_isolation": "read committed"}


def test_any_text_comes_back_from_a_database_that_knows_no_encoding(join: Join, server: Any, workspace: str) -> None:
    server.ask("CREATE DATABASE ascii OWNER conch ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    nested = Path(workspace) / "Muschel \N{SPIRAL SHELL}"
    nested.mkdir()
    (nested / "AGENTS.md").write_text("")
    app = open_app({"HOME": workspace, "CONCH_STORE": server.url("ascii", user="conch")})

    with app.store.write("a") as tx:
        tx.run("insert_room", room_id="a", canonical_path=str(nested), topic_id="t", now=tx.now)
        row = tx.one("find_room", room_id="a")
    app.close()
    server.ask("DROP DATABASE ascii WITH (FORCE)")

    assert row is not None
    assert row["canonical_path"] == str(nested)


@pytest.mark.parametrize(
    ("setting", "value"), [("lock_timeout", "123ms"), ("search_path", "conch"), ("tcp_keepalives_idle", "7")]
)
def test_the_address_overrules_the_defaults_but_not_what_conch_relies_on(
    server: Any, database: str, environ: dict[str, str], setting: str, value: str
) -> None:
    options = quote("-c lock_timeout=123 -c search_path=public -c tcp_keepalives_idle=7")
    app = open_app({**environ, "CONCH_STORE": f"{server.tcp_url(database)}?options={options}"})

    with app.store.write("a") as tx:
        row = tx.connection.execute(f"SHOW {setting}").fetchone()  # type: ignore[attr-defined]
    app.close()

    assert row == {setting: value}
