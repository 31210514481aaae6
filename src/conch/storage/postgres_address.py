"""Where a PostgreSQL store is: the address checked, shown without its secrets, and connected to."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from conch.errors import InvalidSetting
from conch.storage.base import Row

SCHEMA = "conch"  # a schema of our own: `agents` and `messages` are names that others use too

# A host that is cut off hears nothing, not even a refusal: these end a call there within ten seconds or so, instead of
# the quarter of an hour that a kernel tries. The address may say otherwise.
PATIENCE = {
    "connect_timeout": "4",
    "keepalives_idle": "3",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "5000",
}
# The same on the server's side: locks of a client that vanished, or stopped inside a transaction, are given back.
SERVER_PATIENCE = {
    "idle_in_transaction_session_timeout": "20s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}

Connection = psycopg.Connection[Row]


class Address:
    """InvalidSetting unless the driver understands it and no part of a password can be mistaken for something else."""

    def __init__(self, url: str) -> None:
        self._given = _parse(url)
        self.place = _place(self._given)
        """The address for people and logs: who, where, which database, and no secret."""

    def connect(self, lock_timeout_ms: int) -> Connection:
        given = {name: value for name, value in self._given.items() if value is not None}
        # The last word wins: what conch relies on comes after what the address says, and that after our defaults.
        ours = {"search_path": SCHEMA, "default_transaction_isolation": r"read\ committed"}
        defaults = {"lock_timeout": str(lock_timeout_ms), **SERVER_PATIENCE}
        options = " ".join((_options(defaults), str(given.get("options", "")), _options(ours)))
        settings = {"application_name": "conch", **PATIENCE, **given, "options": options, "client_encoding": "utf8"}
        return psycopg.connect(make_conninfo(**settings), autocommit=True, row_factory=dict_row)


def _options(settings: dict[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _parse(url: str) -> dict[str, Any]:
    """The driver's own complaint would quote the address, with the password in it."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise _refusal() from None
    host, database = str(given.get("host") or ""), str(given.get("dbname") or "")
    ports = str(given.get("port") or "").split(",")
    # A bare @ or / ends a password early, and the rest of it is taken for a host, a port or a database.
    if "@" in host[1:] or "@" in database or not all(port.isdecimal() for port in ports if port):
        raise _refusal()
    return given


def _refusal() -> InvalidSetting:
    message = (
        "CONCH_STORE is not a valid PostgreSQL address. It looks like postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        "?sslmode=verify-full; special characters are written as %XX, for example %40 for @ and %2F for /."
    )
    return InvalidSetting(message, setting="CONCH_STORE")


def _place(given: dict[str, Any]) -> str:
    user, database = (quote(str(given.get(name) or ""), safe="") for name in ("user", "dbname"))
    host, port = str(given.get("host") or given.get("hostaddr") or ""), str(given.get("port") or "")
    who = f"{user}@" if user else ""
    if host.startswith(("/", "@")):  # the folder of a socket
        also = f"&port={port}" if port else ""
        return f"postgresql://{who}/{database}?host={quote(host)}{also}"
    hosts, ports = host.split(","), port.split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports  # one for all, or one for each
    return f"postgresql://{who}{','.join(map(_endpoint, hosts, ports))}/{database}"


def _endpoint(host: str, port: str) -> str:
    where = f"[{host}]" if ":" in host else host
    return f"{where}:{port}" if port else where
