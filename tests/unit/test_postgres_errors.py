"""What PostgreSQL says, in conch's words: a code each, advice each, and never a secret of the address."""

from __future__ import annotations

import pytest

psycopg = pytest.importorskip("psycopg")

from psycopg import errors  # noqa: E402
from psycopg.conninfo import conninfo_to_dict  # noqa: E402

from conch.errors import InvalidSetting, StoreInterrupted, StoreUncertain  # noqa: E402
from conch.storage.postgres.address import Address  # noqa: E402
from conch.storage.postgres.errors import translate, translate_commit, translate_refusal  # noqa: E402

PLACE = "postgresql://conch@db.example/conch"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("40001", "DB_UNAVAILABLE"),
        ("40P01", "DB_UNAVAILABLE"),
        ("55P03", "DB_BUSY"),
        ("57014", "DB_BUSY"),
        ("53100", "DB_FULL"),
        ("25006", "DB_READ_ONLY"),
        ("42501", "DB_READ_ONLY"),
        ("25P03", "DB_UNAVAILABLE"),
        ("57P01", "DB_UNAVAILABLE"),
        ("08006", "DB_UNAVAILABLE"),
        ("XX001", "DB_CORRUPT"),
        ("XX002", "DB_CORRUPT"),
        ("XX000", "DB_UNAVAILABLE"),
        ("53200", "DB_UNAVAILABLE"),
        ("22001", "DB_UNAVAILABLE"),
    ],
)
def test_every_state_has_its_code_and_says_where(state: str, code: str) -> None:
    refusal = translate(errors.lookup(state)("pearls before\nLINE 1: swine"), PLACE)

    assert refusal.code == code
    assert refusal.details == {"store": PLACE}
    assert PLACE in refusal.message
    assert "LINE 1" not in refusal.message


@pytest.mark.parametrize("state", ["40001", "40P01", "08006", "57P01", "57P02", "25P03", "42P01"])
def test_what_was_interrupted_before_the_commit_is_worth_another_try(state: str) -> None:
    assert isinstance(translate(errors.lookup(state)("gone"), PLACE), StoreInterrupted)


def test_a_connection_that_just_ends_is_worth_another_try() -> None:
    error = psycopg.OperationalError("server closed the connection unexpectedly")

    assert isinstance(translate(error, PLACE), StoreInterrupted)


@pytest.mark.parametrize("state", ["55P03", "53100", "25006", "42501", "XX001", "53200", "42601"])
def test_an_error_that_a_retry_cannot_fix_is_not_retried(state: str) -> None:
    assert not isinstance(translate(errors.lookup(state)("no"), PLACE), StoreInterrupted)


# -- commits


def test_a_commit_without_an_answer_is_uncertain() -> None:
    for error in (psycopg.OperationalError("server closed the connection"), errors.AdminShutdown("terminating")):
        refusal = translate_commit(error, PLACE, answered=False)

        assert isinstance(refusal, StoreUncertain)
        assert not isinstance(refusal, StoreInterrupted)


def test_a_commit_that_the_server_refused_was_not_made() -> None:
    refusal = translate_commit(errors.SerializationFailure("could not serialize"), PLACE, answered=True)

    assert isinstance(refusal, StoreInterrupted)


def test_a_commit_in_a_session_that_had_been_closed_before_was_not_made() -> None:
    refusal = translate_commit(errors.IdleInTransactionSessionTimeout("terminating"), PLACE, answered=False)

    assert isinstance(refusal, StoreInterrupted)


# -- no connection


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("FATAL:  sorry, too many clients already", "no connection left (sorry, too many clients already)"),
        ('FATAL:  too many connections for role "conch"', "no connection left"),
        ("FATAL:  remaining connection slots are reserved for roles with", "no connection left"),
        ("FATAL:  the database system is starting up", "is not ready: the database system is starting up"),
        ("FATAL:  the database system is shutting down", "is not ready"),
        ("FATAL:  the database system is in recovery mode", "is not ready"),
        ('FATAL:  database "password" does not exist', 'answers, but database "password" does not exist'),
        (
            'FATAL:  password authentication failed for user "conch"',
            "refused the login: password authentication failed",
        ),
        ('FATAL:  role "conch" does not exist', "refused the login"),
        ("fe_sendauth: no password supplied", "refused the login"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "u", database "d", SSL off', "refused the login"),
        ('FATAL:  permission denied for database "conch"', "refused the login"),
        ("server does not support SSL, but SSL was required", "The TLS connection"),
        ("SSL error: certificate verify failed", "The TLS connection"),
        ("received invalid response to SSL negotiation: H", "does not seem to be PostgreSQL"),
        ("expected authentication request from server, but received H", "does not seem to be PostgreSQL"),
        ("Connection refused\n\tIs the server running on that host?", "cannot be reached: Connection refused. Check"),
        ("FATAL:  tut mir leid, schon zu viele Verbindungen", "cannot be reached: tut mir leid"),
    ],
)
def test_a_refused_connection_says_why(said: str, words: str) -> None:
    error = psycopg.OperationalError(f'connection failed: connection to server at "10.0.0.9", port 5432 failed: {said}')

    refusal = translate_refusal(error, PLACE, "--to")

    assert refusal.code == "DB_UNAVAILABLE"
    assert not isinstance(refusal, StoreInterrupted)
    assert words in refusal.message


@pytest.mark.parametrize(
    "said",
    [
        'FATAL:  database "rooms" does not exist',
        'FATAL:  password authentication failed for user "conch"',
        "server does not support SSL, but SSL was required",
        "Connection refused",
    ],
)
def test_a_refused_connection_names_the_setting_with_the_address(said: str) -> None:
    refusal = translate_refusal(psycopg.OperationalError(f"connection failed: {said}"), PLACE, "--to")

    assert "--to" in refusal.message
    assert "CONCH_STORE" not in refusal.message


# -- options


@pytest.mark.parametrize(
    "option",
    [
        *("sslmode=banana", "sslnegotiation=banana", "channel_binding=banana", "ssl_min_protocol_version=banana"),
        *("target_session_attrs=banana", "load_balance_hosts=banana", "require_auth=banana", "hostaddr=banana"),
        *("connect_timeout=banana", "keepalives_idle=banana", "service=banana", "port=99999", "port=1,2"),
    ],
)
def test_a_value_that_the_client_library_refuses_is_an_invalid_setting(option: str) -> None:
    address = Address(f"postgresql://conch:pearl@127.0.0.1/rooms?{option}", "--to")
    with pytest.raises(psycopg.Error) as complaint:
        address.connect(1)

    refusal = translate_refusal(complaint.value, address.place, "--to")

    assert isinstance(refusal, InvalidSetting)
    assert refusal.details == {"setting": "--to"}
    assert "refuses an option in --to" in refusal.message
    assert "pearl" not in refusal.message


def test_an_option_that_nobody_knows_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"does not know: foo\.") as refusal:
        Address("postgresql://conch:pearl@h/rooms?sslmode=require&foo=bar", "--store")

    assert refusal.value.details == {"setting": "--store", "option": "foo"}
    assert "pearl" not in refusal.value.message and "bar" not in refusal.value.message


# -- addresses


@pytest.mark.parametrize(
    "query",
    [
        "sslmode=verify-full&sslrootcert=/etc/our%20own/ca.pem",
        "sslcert=/c&sslkey=/k&sslpassword=pearl",
        "connect_timeout=7&application_name=it%27s%20%26%20us&options=-c%20lock_timeout%3D1",
        "service=rooms&passfile=/p&oauth_client_secret=pearl&scram_client_key=pearl",
        "host=/run/a,/run/b&port=1,2&target_session_attrs=any",
        "hostaddr=10.0.0.1&password=pearl",
        "host=db,/run/b",
    ],
)
@pytest.mark.parametrize("base", ["postgresql://conch:pearl@h:5/rooms", "postgresql:///", "postgresql://a:1,[::1]:2/"])
def test_an_address_for_programs_has_every_setting_but_the_secrets(base: str, query: str) -> None:
    given = conninfo_to_dict(f"{base}?{query}")
    secrets = ("password", "sslpassword", "oauth_client_secret", "scram_client_key")

    address = Address(f"{base}?{query}", "CONCH_STORE").for_programs()

    assert conninfo_to_dict(address) == {name: value for name, value in given.items() if name not in secrets}
    assert "pearl" not in address


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://conch:pearl@db.example:5433/rooms", "postgresql://conch@db.example:5433/rooms"),
        ("postgres://db.example", "postgresql://db.example/"),
        ("postgresql://conch:p%40arl@[::1]:1/rooms", "postgresql://conch@[::1]:1/rooms"),
        ("postgresql://db/rooms?user=conch&password=pearl&sslmode=verify-full", "postgresql://conch@db/rooms"),
        ("postgresql://db/rooms?sslpassword=pearl&sslkey=/k", "postgresql://db/rooms"),
        ("postgresql://conch:pearl@/rooms?host=/run/pg", "postgresql://conch@/rooms?host=/run/pg"),
        ("postgresql:///rooms?host=/run/pg&port=6000", "postgresql:///rooms?host=/run/pg&port=6000"),
        ("postgresql://u%20v:pearl@h/a%2Fb", "postgresql://u%20v@h/a%2Fb"),
        ("postgresql://u:pearl@a:1,b:2/rooms", "postgresql://u@a:1,b:2/rooms"),
        ("postgresql://u:pearl@a,b/rooms", "postgresql://u@a,b/rooms"),
    ],
)
def test_a_place_is_the_address_without_its_secrets(url: str, place: str) -> None:
    shown = Address(url, "CONCH_STORE").place

    assert shown == place
    assert "pearl" not in shown and "p%40arl" not in shown


@pytest.mark.parametrize(
    "url",
    ["postgresql://a:x@h:1/d", "postgresql://a:x@[::1]/d", "postgresql://a:x@b:1,c:2/d", "postgresql:///d?host=/r"],
)
def test_a_place_is_an_address_again(url: str) -> None:
    given = conninfo_to_dict(url)
    given.pop("password", None)

    assert conninfo_to_dict(Address(url, "CONCH_STORE").place) == given


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://conch:pe%rl@h/rooms",
        "postgresql://conch:pe@rl@h/rooms",
        "postgresql://conch:pe/rl@h/rooms",
        "postgresql://conch:5/rl@h/rooms",
        "postgresql://conch:pe rl@h/rooms",
        "postgresql://conch:pearl@h:port/rooms",
        "postgresql://conch:pearl@h/rooms?pearl",
        "postgresql://conch:5/a?pearl=b@h/rooms",
        "postgresql://conch:5/a?sslmode=pearl@h/rooms",
        "postgresql://conch:pearl@[::1/rooms",
    ],
)
def test_an_address_that_hides_a_password_in_the_wrong_place_is_refused_unseen(url: str) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        Address(url, "--to")

    assert refusal.value.details == {"setting": "--to"}
    assert not any(part in str(refusal.value) for part in ("pearl", "pe@", "rl@", "pe/", "pe%", "pe rl"))
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__
