"""The address of a PostgreSQL store: checks it, shows it without secrets, and connects to it."""

from __future__ import annotations

import re
from urllib.parse import quote

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from conch.errors import InvalidSetting
from conch.lean import Any
from conch.storage.postgres.connection import SCHEMA, Connection

# A server behind a broken network does not answer at all. With these values a call fails within about eight seconds;
# with the kernel's defaults it would take a quarter of an hour. The address can override them.
_PATIENCE = {
    "connect_timeout": "4",
    "keepalives_idle": "3",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "5000",
}
_HASTE = {"connect_timeout": "2"}  # the shortest that the driver allows
# The same for the server: it releases the locks of a client that vanished or stopped inside a transaction.
_SERVER_PATIENCE = {
    "idle_in_transaction_session_timeout": "20s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}

_PLACE = ("user", "host", "hostaddr", "port", "dbname", "service")
# The client library marks the options that must not be shown, such as passwords and keys.
_HIDDEN = frozenset(option.keyword.decode() for option in pq.Conninfo.get_defaults() if option.dispchar)
_UNKNOWN_OPTION = re.compile(r'invalid URI query parameter: "(\w+)"$')


class Address:
    """A checked address.

    InvalidSetting if the driver cannot parse it, or if a piece of the password may have ended up in another part of it.
    """

    def __init__(self, url: str, named: str) -> None:
        """`named` is the setting or option that gave the address."""
        self._given = _parse(url, named)
        shown = {name: str(value) for name, value in self._given.items() if value is not None and name not in _HIDDEN}
        self.place = _spell({name: value for name, value in shown.items() if name in _PLACE})
        """The address for people and logs: user, host and database, without secrets."""
        self._shown = shown

    def for_programs(self, user: str | None = None) -> str:
        """The address with all its settings but without secrets; for another user if one is given."""
        return _spell(self._shown | ({"user": user} if user else {}))

    def connect(self, lock_timeout_ms: int, in_haste: bool = False) -> Connection:
        """`in_haste`: give up sooner than usual, because the server was silent a moment ago."""
        given = {name: value for name, value in self._given.items() if value is not None}
        # The last value wins, so the order is: our defaults, the address, then the settings conch relies on.
        # The backslash keeps the blank from ending the option.
        ours = {"search_path": SCHEMA, "default_transaction_isolation": r"read\ committed"}
        defaults = {"lock_timeout": str(lock_timeout_ms), **_SERVER_PATIENCE}
        options = " ".join((_options(defaults), str(given.get("options", "")), _options(ours)))
        patience = {**_PATIENCE, **(_HASTE if in_haste else {})}
        settings = {"application_name": "conch", **patience, **given, "options": options, "client_encoding": "utf8"}
        return Connection.connect(
            make_conninfo(**settings), autocommit=True, prepare_threshold=None, row_factory=dict_row
        )


def _options(settings: dict[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _parse(url: str, named: str) -> dict[str, Any]:
    """Parse an address. The driver's own message is not repeated, because it may contain the password."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise _refusal(named, _UNKNOWN_OPTION.match(str(error)) if _is_whole(url) else None) from None
    host, database = str(given.get("host") or ""), str(given.get("dbname") or "")
    ports = str(given.get("port") or "").split(",")
    # An unescaped @ or / ends a password early, and its rest is then read as a host, a port, a database or an option.
    if not _is_whole(url) or "@" in host[1:] or "@" in database or not all(p.isdecimal() for p in ports if p):
        raise _refusal(named)
    return given


def _is_whole(url: str) -> bool:
    """Whether the options are only options. An @ among them means that a password with a `?` was cut in two."""
    return "@" not in url.partition("?")[2]


def _refusal(named: str, option: re.Match[str] | None = None) -> InvalidSetting:
    if option is not None:
        message = f"The address in {named} has an option that PostgreSQL does not know: {option[1]}."
        return InvalidSetting(message, setting=named, option=option[1])
    message = (
        f"{named} is not a valid PostgreSQL address. Write postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full, "
        "with USER:PASSWORD if it needs a password. Write special characters as %XX, for example %40 for @ and %2F "
        "for /."
    )
    return InvalidSetting(message, setting=named)


def _spell(given: dict[str, str]) -> str:
    """The URL for these settings."""
    rest = {name: value for name, value in given.items() if value}
    user, database = (quote(rest.pop(name, ""), safe="") for name in ("user", "dbname"))
    where = ""
    if "/" not in rest.get("host", "/") and not rest["host"].startswith("@"):  # a socket's folder stays an option
        hosts, ports = rest.pop("host").split(","), rest.pop("port", "").split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports  # one port for all hosts, or one for each
        where = ",".join(map(_endpoint, hosts, ports))
    also = "&".join(f"{name}={quote(value)}" for name, value in rest.items())
    return f"postgresql://{user}{'@' if user else ''}{where}/{database}{'?' if also else ''}{also}"


def _endpoint(host: str, port: str) -> str:
    where = f"[{host}]" if ":" in host else host
    return f"{where}:{port}" if port else where
