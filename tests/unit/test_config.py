"""Settings: one table, other programs' names as aliases, and a clear error for what cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from conch.config import SETTINGS, Settings, default_data_dir
from conch.errors import InvalidSetting
from conch.storage.opening import open_store, sqlite_path

HOME = {"HOME": "/home/me"}


@pytest.mark.parametrize(
    ("environ", "platform", "place"),
    [
        (HOME, "linux", "/home/me/.local/share/conch"),
        (HOME, "darwin", "/home/me/.local/share/conch"),
        ({**HOME, "XDG_DATA_HOME": "/data"}, "linux", "/data/conch"),
        ({**HOME, "XDG_DATA_HOME": "/data"}, "darwin", "/data/conch"),
        ({**HOME, "XDG_DATA_HOME": "relative"}, "linux", "/home/me/.local/share/conch"),
        ({"APPDATA": "/Users/me/AppData"}, "win32", "/Users/me/AppData/conch"),
    ],
)
def test_the_data_directory_of_each_platform(environ: dict[str, str], platform: str, place: str) -> None:
    assert default_data_dir(environ, platform) == place


@pytest.mark.parametrize("variable", ["CONCH_DATA_DIR", "TALKING_STICK_DATA_DIR"])
def test_the_database_lives_in_the_data_directory(variable: str) -> None:
    assert sqlite_path(Settings.load({**HOME, variable: "/srv/conch"})) == "/srv/conch/rooms.sqlite"


def test_our_own_name_comes_before_an_alias() -> None:
    settings = Settings.load({**HOME, "CONCH_DATA_DIR": "/ours", "TALKING_STICK_DATA_DIR": "/theirs"})

    assert settings.data_dir == "/ours"


def test_a_store_names_its_file() -> None:
    assert sqlite_path(Settings.load({**HOME, "CONCH_STORE": "/srv/other.sqlite"})) == "/srv/other.sqlite"
    assert sqlite_path(Settings.load({**HOME, "CONCH_STORE": "sqlite:///srv/other.sqlite"})) == "/srv/other.sqlite"


def test_a_link_to_a_store_rings_the_bells_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "rooms.sqlite").symlink_to(tmp_path / "rooms.sqlite")
    _, bell = open_store(Settings.load({**HOME, "CONCH_STORE": str(tmp_path / "rooms.sqlite")}))
    _, linked = open_store(Settings.load({**HOME, "CONCH_STORE": str(tmp_path / "link" / "rooms.sqlite")}))

    with bell.listen(announce="seat"):
        assert linked.hears("seat")
    bell.close()


def test_the_defaults_are_the_seeds() -> None:
    policy = Settings.load(HOME).policy

    assert policy._asdict() == {
        "owner_lease_ttl_ms": 45 * 60 * 1000,
        "heartbeat_interval_ms": 5 * 60 * 1000,
        "claim_ttl_ms": 20 * 60 * 1000,
        "wait_for_turn_max_wait_ms": 30 * 1000,
        "wait_for_turn_poll_ms": 250,
        "presence_ttl_ms": 4 * 60 * 60 * 1000,
        "release_order": "sequence",
        "guard": "warn",
    }


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CONCH_CLAIM_TTL_MS", "soon"),
        ("CONCH_CLAIM_TTL_MS", "0"),
        ("CONCH_CLAIM_TTL_MS", "-5"),
        ("CONCH_CLAIM_TTL_MS", "1.5"),
        ("TALKING_STICK_CLAIM_TTL_MS", "x"),
        ("CONCH_SYNCHRONOUS", "off"),
        ("CONCH_RELEASE_ORDER", "random"),
        ("CONCH_WAIT_FOR_TURN_MAX_WAIT_MS", "60000"),
        ("CONCH_HEARTBEAT_INTERVAL_MS", "9999999"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_its_variable(variable: str, value: str) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        Settings.load({**HOME, variable: value})

    assert refusal.value.details["setting"] == variable
    assert value in refusal.value.message


def test_an_empty_variable_is_no_variable() -> None:
    assert Settings.load({**HOME, "CONCH_CLAIM_TTL_MS": ""}).policy.claim_ttl_ms == 1_200_000


def test_every_setting_says_what_it_is_for() -> None:
    assert all(setting.about for setting in SETTINGS)
    assert len({setting.variable for setting in SETTINGS}) == len(SETTINGS)


@pytest.mark.parametrize(
    "address",
    [
        "POSTGRESQL://me:secret@host/db",
        "mysql://me:secret@host/db",
        "postgresql:/me:secret@host/db",
        "postgresql:me:secret@host/db",
        "postgres//me:secret@host/db",
        " postgresql://me:secret@host/db",
        "//me:secret@host/db",
        "me:secret@host/db",
        "host=/run/pg user=me password=secret",
        "dbname = db password = secret",
        "password='secret'",
        "sqlite:secret",
        "sqlite://me:secret@host/db",
        "sqlite://",
    ],
)
@pytest.mark.parametrize("named", ["CONCH_STORE", "--to"])
def test_what_may_be_meant_as_an_address_is_never_taken_for_a_file_nor_repeated(address: str, named: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{named} must be a file, or postgresql://USER@") as refusal:
        open_store(Settings.load({**HOME, "CONCH_STORE": address}), named=named)

    assert refusal.value.details == {"setting": named}
    assert "secret" not in str(refusal.value.to_dict())


def test_an_address_is_never_taken_for_a_folder_nor_repeated() -> None:
    with pytest.raises(InvalidSetting, match="address of a server in CONCH_STORE") as refusal:
        open_store(Settings.load({**HOME, "CONCH_DATA_DIR": "postgresql://me:secret@host/db"}))

    assert refusal.value.details == {"setting": "CONCH_DATA_DIR"}
    assert "secret" not in refusal.value.message


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ("/srv/a=b", "/srv/a=b"),
        ("/srv/10:30", "/srv/10:30"),
        ("/srv/me@host", "/srv/me@host"),
        ("sqlite:///srv/a:b@c", "/srv/a:b@c"),
    ],
)
def test_a_file_may_have_any_name(given: str, file: str) -> None:
    store, _ = open_store(Settings.load({**HOME, "CONCH_STORE": given}))

    assert store.describe() == file
