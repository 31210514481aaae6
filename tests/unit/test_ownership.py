"""A place that other users can change is refused before anything there is read, made or changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conch.app import open_app
from conch.errors import InvalidSetting, StoreUnavailable
from conch.host.ownership import require_own_folder

ANOTHER = 12_345
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a store and everything beside it."""
    folder = tmp_path / "above" / "data"
    folder.mkdir(parents=True, mode=0o700)
    for name in ("rooms.sqlite", "rooms.sqlite.queue", "rooms.sqlite.users", "guardians"):
        (folder / name).touch(mode=0o600)
    (folder / "bells").mkdir(mode=0o700)
    return folder


def facts(folder: Path) -> dict[str, object]:
    everything = [folder.parent, folder, *folder.iterdir()]
    return {str(path): (path.lstat().st_mode, path.lstat().st_uid, path.lstat().st_mtime_ns) for path in everything}


def refusal(folder: Path) -> str:
    app = open_app({"CONCH_DATA_DIR": str(folder)})
    with pytest.raises(StoreUnavailable) as refused, app.store.read():
        pass
    app.close()
    return refused.value.message


@pytest.mark.parametrize("name", ["", "..", "rooms.sqlite", "rooms.sqlite.queue", "rooms.sqlite.users", "bells"])
def test_what_other_users_can_change_is_refused_untouched(data: Path, name: str) -> None:
    (data / name).resolve().chmod(0o777)
    before = facts(data)

    message = refusal(data)

    assert str((data / name).resolve()) in message and "chmod" in message and "CONCH_DATA_DIR" in message
    assert facts(data) == before


@only_root
@pytest.mark.parametrize("name", ["", "rooms.sqlite", "rooms.sqlite.queue", "rooms.sqlite.users", "bells", "guardians"])
def test_what_belongs_to_another_user_is_refused_untouched(data: Path, name: str) -> None:
    os.chown(data / name, ANOTHER, ANOTHER)
    before = facts(data)

    message = refusal(data)

    assert str(data / name).rstrip("/") in message and f"{ANOTHER}" in message
    assert facts(data) == before


@only_root
def test_what_a_command_with_sudo_left_behind_is_refused_with_how_to_get_it_back(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (data.parent, data, *data.iterdir()):
        os.chown(path, ANOTHER, ANOTHER)
    os.chown(data / "rooms.sqlite.queue", 0, 0)
    monkeypatch.setattr(os, "geteuid", lambda: ANOTHER)

    assert f"Run `sudo chown {ANOTHER} {data / 'rooms.sqlite.queue'}`" in refusal(data)


@only_root
@pytest.mark.parametrize("above", ["", "above"])
def test_a_folder_that_another_user_could_put_elsewhere_is_refused(data: Path, tmp_path: Path, above: str) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "data").symlink_to(data)
    os.chown(data.parent if above else tmp_path / "links", ANOTHER, ANOTHER)

    message = refusal(tmp_path / "links" / "data")

    assert f"belongs to the user with the id {ANOTHER}, who can replace" in message


def test_a_link_in_a_folder_that_every_user_can_change_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "data").symlink_to(data)
    (tmp_path / "links").chmod(0o777)

    assert f"chmod o-w {tmp_path / 'links'}" in refusal(tmp_path / "links" / "data")


@only_root
def test_a_link_that_another_user_made_is_refused_and_our_own_is_not(data: Path, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for link in (theirs, ours):
        link.symlink_to(data)
    os.chown(theirs, ANOTHER, ANOTHER, follow_symlinks=False)

    message = refusal(theirs)

    assert str(theirs) in message
    app = open_app({"CONCH_DATA_DIR": str(ours)})
    with app.store.read():
        pass
    app.close()


def test_a_link_in_place_of_a_file_beside_the_store_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (data / "rooms.sqlite.users").unlink()
    (data / "rooms.sqlite.users").symlink_to(tmp_path / "precious")

    message = refusal(data)

    assert "rooms.sqlite.users is a link" in message
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_store_below_a_shared_folder_with_the_sticky_bit_is_fine(data: Path) -> None:
    data.parent.chmod(0o1777)

    app = open_app({"CONCH_DATA_DIR": str(data)})
    with app.store.read():
        pass
    app.close()


@pytest.mark.parametrize("name", ["", "..", "installed"])
def test_a_data_directory_that_other_users_can_change_is_refused_without_its_store(data: Path, name: str) -> None:
    (data / "installed").mkdir(mode=0o700)
    require_own_folder(str(data), "installed")
    (data / name).resolve().chmod(0o777)

    with pytest.raises(InvalidSetting, match=r"(Other users|Every user) can change") as refused:
        require_own_folder(str(data), "installed")

    assert str((data / name).resolve()) in refused.value.message


@only_root
def test_a_data_directory_of_another_user_is_refused_without_its_store(data: Path) -> None:
    os.chown(data, ANOTHER, ANOTHER)

    with pytest.raises(InvalidSetting, match=f"{ANOTHER}"):
        require_own_folder(str(data))
