"""Where a PostgreSQL store is: the address checked, shown without its secrets, and connected to."""

from __future__ import annotations

import re
from urllib.parse import quote

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from conch.errors import InvalidSetting
from conch.lean import Any
from conch.storage.base import Row

SCHEMA = "conch"  # a schema of our own: `agents` and `messages` are names that others use too

# A host that is cut off hears nothing, not even a refusal: these end a call there within ten seconds or so, instead of
# the quarter of an hour that a kernel tries. The address may say otherwise.
_PATIENCE = {
    "connect_timeout": "4",
    "keepalives_idle": "3",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "5000",
}
# The same on the server's side: locks of a client that vanished, or stopped inside a transaction, are given back.
_SERVER_PATIENCE = {
    "idle_in_transaction_session_timeout": "20s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}

_PLACE = ("user", "host", "hostaddr", "port", "dbname", "service")
# The client library knows itself which of its options are not for showing: passwords, keys, traces.
_HIDDEN = frozenset(option.keyword.decode() for option in pq.Conninfo.get_defaults() if option.dispchar)
_UNKNOWN_OPTION = re.compile(r'invalid URI query parameter: "(\w+)"$')

Connection = psycopg.Connection[Row]


class Address:
    """InvalidSetting unless the driver understands it and no part of a password can be mistaken for something else."""

    def __init__(self, url: str, named: str) -> None:
        """`named` is the setting or the option that it comes from."""
        self._given = _parse(url, named)
        shown = {name: str(value) for name, value in self._given.items() if value is not None and name not in _HIDDEN}
        self.place = _spell({name: value for name, value in shown.items() if name in _PLACE})
        """The address for people and logs: who, where, which database, and no secret."""
        self._shown = shown

    def for_programs(self, user: str | None = None) -> str:
        """The address with all its settings, and no secret; as another user, if one is given."""
        return _spell(self._shown | ({"user": user} if user else {}))

    def connect(self, lock_timeout_ms: int) -> Connection:
        given = {name: value for name, value in self._given.items() if value is not None}
        # The last word wins: what conch relies on comes after what the address says, and that after our defaults.
        ours = {"search_path": SCHEMA, "default_transaction_isolation": r"read\ committed"}
        defaults = {"lock_timeout": str(lock_timeout_ms), **_SERVER_PATIENCE}
        options = " ".join((_options(defaults), str(given.get("options", "")), _options(ours)))
        settings = {"application_name": "conch", **_PATIENCE, **given, "options": options, "client_encoding": "utf8"}
        return psycopg.connect(make_conninfo(**settings), autocommit=True, row_factory=dict_row)


def _options(settings: dict[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _parse(url: str, named: str) -> dict[str, Any]:
    """The driver's own complaint is not repeated: it may quote the address, with the password in it."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise _refusal(named, _UNKNOWN_OPTION.match(str(error)) if _is_whole(url) else None) from None
    host, database = str(given.get("host") or ""), str(given.get("dbname") or "")
    ports = str(given.get("port") or "").split(",")
    # A bare @ or / ends a password early, and the rest of it is taken for a host, a port, a database or an option.
    if not _is_whole(url) or "@" in host[1:] or "@" in database or not all(p.isdecimal() for p in ports if p):
        raise _refusal(named)
    return given


def _is_whole(url: str) -> bool:
    """Whether no part of a password can stand among the options."""
    return "@" not in url.partition("?")[2]


def _refusal(named: str, option: re.Match[str] | None = None) -> InvalidSetting:
    if option is not None:
        message = f"The address in {named} has an option that PostgreSQL does not know, {option[1]}."
        return InvalidSetting(message, setting=named, option=option[1])
    message = (
        f"{named} is not a valid PostgreSQL address. It looks like postgresql://USER@HOST:PORT/DATABASE"
        "?sslmode=verify-full, with USER:PASSWORD where it needs one; special characters are written as %XX, for "
        "example %40 for @ and %2F for /."
    )
    return InvalidSetting(message, setting=named)


def _spell(given: dict[str, str]) -> str:
    """An address that means these settings."""
    rest = {name: value for name, value in given.items() if value}
    user, database = (quote(rest.pop(name, ""), safe="") for name in ("user", "dbname"))
    where = ""
    if "/" not in rest.get("host", "/") and not rest["host"].startswith("@"):  # the folder of a socket stays behind
        hosts, ports = rest.pop("host").split(","), rest.pop("port", "").split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports  # one for all, or one for each
        where = ",".join(map(_endpoint, hosts, ports))
    also = "&".join(f"{name}={quote(value)}" for name, value in rest.items())
    return f"postgresql://{user}{'@' if user else ''}{where}/{database}{'?' if also else ''}{also}"


def _endpoint(host: str, port: str) -> str:
    where = f"[{host}]" if ":" in host else host
    return f"{where}:{port}" if port else where
