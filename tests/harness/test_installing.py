"""`conch install` writes what each harness needs, and nothing else; `conch uninstall` undoes exactly that."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conch.harnesses import json_text
from conch.harnesses.base import Harness, Place
from conch.harnesses.catalogue import HARNESSES
from conch.harnesses.installer import Installer, Result
from conch.harnesses.texts import PARAGRAPH

GOLDEN = Path(__file__).parent / "golden"
EACH = [pytest.param(harness, id=harness.slug) for harness in HARNESSES.values()]
SCOPES = ["user", "project"]
COMMENTED = """{
\t// mine, and "quoted"
\t"theme": "dark", /* a, b */
\t"mcpServers": {
\t\t"other": {"command": "x"}, // z
\t},
}
"""
FOREIGN_TOML = """# mine
model = "m"  # a comment

[sandbox_workspace_write]
writable_roots = [
  "/a", # one
]

[[many]]
x = '''
[no]
'''"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def place_in(home: Path, scope: str = "user", **more: str) -> Place:
    project = home.parent / "project"
    project.mkdir(exist_ok=True)
    return Place(
        str(home),
        str(project) if scope == "project" else None,
        {},
        "conch" if scope == "project" else "/usr/bin/conch",
        str(home.parent / "data"),
        "The skill.\n",
        **more,
    )


def read_all(*roots: Path) -> dict[str, bytes]:
    """Every file and folder below the roots."""
    found = [path for root in roots for path in root.rglob("*")]
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in found}


def show(home: Path) -> str:
    """The files below the scratch folder, with neutral paths, as a golden file has them."""
    root = home.parent
    files = sorted(path for name in ("home", "project") for path in (root / name).rglob("*") if path.is_file())
    parts = [f"== {path.relative_to(root)}\n{path.read_text()}" for path in files]
    return "".join(parts).replace(str(root), "/ROOT")


def settings_of(harness: Harness, place: Place) -> Path:
    """The file that gets the MCP entry."""
    return Path(harness.changes(place)[0].path)


def outcomes(results: list[Result]) -> set[str]:
    return {result.outcome for result in results}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("harness", EACH)
def test_it_writes_what_the_harness_needs(harness: Harness, scope: str, home: Path) -> None:
    place = place_in(home, scope)

    Installer(place).install(harness)

    wanted = GOLDEN / f"{harness.slug}-{scope}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        wanted.write_text(show(home))
    assert show(home) == wanted.read_text()


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("harness", EACH)
def test_a_second_run_changes_nothing(harness: Harness, scope: str, home: Path) -> None:
    place = place_in(home, scope, instructions=PARAGRAPH)
    Installer(place).install(harness)
    before = read_all(home.parent)

    results = Installer(place).install(harness)

    assert outcomes(results) == {"unchanged"}
    assert read_all(home.parent) == before


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("harness", EACH)
def test_uninstall_leaves_no_trace_where_nothing_was(harness: Harness, scope: str, home: Path) -> None:
    place = place_in(home, scope, instructions=PARAGRAPH)
    Installer(place).install(harness)

    Installer(place).uninstall(harness)

    assert read_all(home, home.parent / "project") == {}


def fill(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def foreign_text(path: Path) -> str:
    return (
        FOREIGN_TOML if path.suffix == ".toml" else COMMENTED if path.suffix.startswith(".json") else "# Mine\n\nText."
    )


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("harness", EACH)
def test_comments_and_line_ends_stay_and_uninstall_restores_every_byte(
    harness: Harness, ending: str, home: Path
) -> None:
    place = place_in(home, instructions=PARAGRAPH)
    files = [
        Path(change.path)
        for change in harness.changes(place)
        if "SKILL" not in change.path and "plugins" not in change.path
    ]
    for path in files:
        fill(path, foreign_text(path).replace("\n", ending))
    before = read_all(home)

    results = Installer(place).install(harness)

    written = settings_of(harness, place).read_bytes().decode()
    assert "refused" not in outcomes(results)
    assert "mine" in written and "conch" in written
    assert ending == "\n" or "\n" not in written.replace("\r\n", "")
    Installer(place).uninstall(harness)
    assert read_all(home) == before


@pytest.mark.parametrize("harness", EACH)
def test_what_others_wrote_since_survives_an_uninstall(harness: Harness, home: Path) -> None:
    place = place_in(home)
    path = settings_of(harness, place)
    fill(path, foreign_text(path))
    Installer(place).install(harness)
    is_toml = path.suffix == ".toml"
    later = "\n[later]\nx = 1\n" if is_toml else json_text.add_member(path.read_text(), ("later",), {"x": 1})
    fill(path, path.read_text() + later if is_toml else later)

    Installer(place).uninstall(harness)

    read = tomllib.loads if is_toml else json_text.read_value
    assert read(path.read_text()) == {**read(foreign_text(path)), "later": {"x": 1}}


@pytest.mark.parametrize("harness", EACH)
def test_a_link_stays_a_link_and_permissions_stay(harness: Harness, home: Path) -> None:
    place = place_in(home)
    path, real = settings_of(harness, place), home.parent / "dotfiles" / "settings"
    fill(real, foreign_text(path))
    real.chmod(0o640)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(real)

    Installer(place).install(harness)

    assert path.is_symlink() and "conch" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    Installer(place).uninstall(harness)
    assert path.is_symlink() and real.read_text() == foreign_text(path)


@pytest.mark.parametrize(
    "broken",
    [
        '{"a": 1',
        '{"a": 1 "b": 2}',
        "[]",
        "not = = settings",
        b"\xff\xfe",
        '{"mcpServers": 7, "mcp": 7, "servers": 7, "mcp_servers": 7}',
    ],
)
@pytest.mark.parametrize("harness", EACH)
def test_a_file_that_cannot_be_read_is_left_alone_with_all_its_neighbours(
    harness: Harness, broken: str | bytes, home: Path
) -> None:
    place = place_in(home)
    fill(settings_of(harness, place), broken if broken != "[]" else "[")
    before = read_all(home)

    results = Installer(place).install(harness)

    refused = [result for result in results if result.outcome == "refused"]
    assert [result.path for result in refused] == [str(settings_of(harness, place))]
    assert refused[0].why
    assert read_all(home) == before


def make_read_only(path: Path) -> None:
    path.write_text("")
    path.chmod(0o444)


@pytest.mark.parametrize(
    "make, why",
    [
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "it is not a regular file"),
        (make_read_only, "it is read-only"),
        (lambda path: path.symlink_to(path), "it is a link that leads to itself"),
        (lambda path: path.symlink_to(path.parent), "Is a directory"),
    ],
)
@pytest.mark.parametrize("harness", EACH)
def test_what_is_no_file_of_settings_is_left_alone(
    harness: Harness, make: Callable[[Path], None], why: str, home: Path
) -> None:
    place = place_in(home)
    path = settings_of(harness, place)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)

    results = Installer(place).install(harness)

    assert (results[0].outcome, results[0].why) == ("refused", why)
    assert [each for each in home.rglob("*") if not each.is_dir()] == [path] * (not path.is_dir())


@pytest.mark.parametrize("harness", EACH)
def test_a_link_to_a_file_that_is_not_there_yet_is_written_through(harness: Harness, home: Path) -> None:
    place, dotfiles = place_in(home), home.parent / "dotfiles"
    path = settings_of(harness, place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(dotfiles / "settings")

    Installer(place).install(harness)

    assert path.is_symlink() and "conch" in (dotfiles / "settings").read_text()
    Installer(place).uninstall(harness)
    assert path.is_symlink() and not dotfiles.exists()


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("harness", EACH)
def test_a_link_of_a_project_does_not_choose_what_is_read_or_written(
    harness: Harness, is_folder: bool, home: Path
) -> None:
    """Every agent can make links in the project. A person who sets it up must not change other files."""
    place, elsewhere = place_in(home, "project", instructions=PARAGRAPH), home.parent / "elsewhere"
    for change in harness.changes(place):
        path = Path(change.path)
        link = path.parent if is_folder and path.parent != Path(str(place.project)) else path
        if link.is_symlink():
            continue
        target = elsewhere / link.name
        fill(target / path.name if link == path.parent else target, foreign_text(path))
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    before = read_all(elsewhere)

    results = Installer(place).install(harness)

    assert outcomes(results) == {"refused"}
    assert all(result.why.startswith("it is reached by a link that leads out of the project") for result in results)
    assert [result.before for result in results] == [None] * len(results)
    assert read_all(elsewhere) == before


@pytest.mark.parametrize("harness", EACH)
def test_a_link_of_a_project_does_not_choose_what_is_taken_back(harness: Harness, home: Path) -> None:
    place, elsewhere = place_in(home, "project", instructions=PARAGRAPH), home.parent / "elsewhere"
    Installer(place).install(harness)
    for change in harness.changes(place):
        path, target = Path(change.path), elsewhere / Path(change.path).name
        fill(target, path.read_text())
        path.unlink()
        path.symlink_to(target)
    before = read_all(elsewhere)

    results = Installer(place).uninstall(harness)

    assert outcomes(results) == {"refused"}
    assert read_all(elsewhere) == before


@pytest.mark.parametrize("harness", EACH)
def test_a_link_within_a_project_stays_a_link(harness: Harness, home: Path) -> None:
    place = place_in(home, "project")
    path = settings_of(harness, place)
    real = Path(str(place.project)) / "shared" / "settings"
    fill(real, foreign_text(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(real)

    Installer(place).install(harness)

    assert path.is_symlink() and "conch" in real.read_text()


def leave(path: Path, text: str) -> None:
    """What is left of settings: this text, or nothing if it is `gone`."""
    path.unlink()
    if text != "gone":
        path.write_text(text)


@pytest.mark.parametrize("text", ["gone", "", "\n"])
@pytest.mark.parametrize("harness", EACH)
def test_settings_that_were_deleted_or_emptied_since_are_written_again(harness: Harness, text: str, home: Path) -> None:
    place = place_in(home)
    path = settings_of(harness, place)
    Installer(place).install(harness)
    written = path.read_text()
    leave(path, text)

    results = Installer(place).install(harness)

    assert "refused" not in outcomes(results)
    assert path.read_text().strip() == written.strip()


@pytest.mark.parametrize("text", ["gone", "", "\n"])
@pytest.mark.parametrize("harness", EACH)
def test_settings_that_were_deleted_or_emptied_since_stay_so(harness: Harness, text: str, home: Path) -> None:
    place = place_in(home)
    path = settings_of(harness, place)
    Installer(place).install(harness)
    leave(path, text)

    results = Installer(place).uninstall(harness)

    assert results[0].outcome == "kept"
    assert [path.name for path in home.rglob("*") if path.is_file()] == [path.name] * (text != "gone")


@pytest.mark.parametrize("action", ["install", "uninstall"])
def test_what_a_killed_installer_has_left_is_removed(home: Path, action: str) -> None:
    place, draft = place_in(home), home / ".cursor" / "mcp.json.conch-4711"
    Installer(place).install(HARNESSES["cursor"])
    draft.write_text("half")

    getattr(Installer(place), action)(HARNESSES["cursor"])

    assert not draft.exists()


def test_two_installers_at_once_lose_nothing(home: Path) -> None:
    place = place_in(home)
    harnesses = [HARNESSES[slug] for slug in ("codex", "gemini", "opencode", "copilot", "qwen")]

    with ThreadPoolExecutor() as pool:
        list(pool.map(Installer(place).install, harnesses))
        skill = home / ".agents" / "skills" / "conch" / "SKILL.md"
        list(pool.map(Installer(place).uninstall, harnesses[1:]))

    assert skill.exists()
    Installer(place).uninstall(harnesses[0])
    assert read_all(home) == {}


def test_a_refusal_says_where_the_file_is_wrong(home: Path) -> None:
    place = place_in(home)
    fill(home / ".cursor" / "mcp.json", '{\n  "a": 1\n  "b": 2\n}\n')

    results = Installer(place).install(HARNESSES["cursor"])

    assert results[0].why == "line 3, column 3: expected a comma or '}'"


@pytest.mark.parametrize("harness", EACH)
def test_a_dry_run_shows_the_change_and_makes_none(harness: Harness, home: Path) -> None:
    place = place_in(home)

    results = Installer(place, is_dry=True).install(harness)

    assert outcomes(results) == {"written"} and "conch" in str(results[0].after)
    assert read_all(home) == {}


def test_an_entry_that_the_user_wrote_stays_and_uninstall_does_not_touch_it(home: Path) -> None:
    place, own = place_in(home), '{"mcpServers": {"conch": {"command": "my-conch"}}}'
    fill(home / ".cursor" / "mcp.json", own)

    results = Installer(place).install(HARNESSES["cursor"])
    Installer(place).uninstall(HARNESSES["cursor"])

    assert results[0].outcome == "kept" and "of its own" in results[0].why
    assert (home / ".cursor" / "mcp.json").read_text() == own


def test_beside_an_entry_that_the_user_wrote_the_hooks_are_set_up(home: Path) -> None:
    place, own = place_in(home), {"command": "my-conch"}
    path = home / ".gemini" / "settings.json"
    fill(path, json.dumps({"mcpServers": {"conch": own}}))

    results = Installer(place).install(HARNESSES["gemini"])

    assert results[0].outcome == "written" and "of its own" in results[0].why
    assert json.loads(path.read_text())["mcpServers"] == {"conch": own}
    assert "hook BeforeTool" in path.read_text()
    fill(path, json_text.add_member(path.read_text(), ("later",), 1))
    Installer(place).uninstall(HARNESSES["gemini"])
    assert json.loads(path.read_text()) == {"mcpServers": {"conch": own}, "later": 1}


def test_an_entry_of_an_older_conch_is_brought_up_to_date(home: Path) -> None:
    old, new = place_in(home)._replace(program="/old/conch"), place_in(home)
    Installer(old).install(HARNESSES["claude-code"])

    Installer(new).install(HARNESSES["claude-code"])

    assert "/old/conch" not in show(home)
    Installer(new).uninstall(HARNESSES["claude-code"])
    assert read_all(home) == {}


def test_a_skill_that_the_user_changed_stays(home: Path) -> None:
    place = place_in(home)
    Installer(place).install(HARNESSES["codex"])
    skill = home / ".agents" / "skills" / "conch" / "SKILL.md"
    skill.write_text("mine")

    installed = Installer(place).install(HARNESSES["codex"])
    Installer(place).uninstall(HARNESSES["codex"])

    assert "kept" in outcomes(installed)
    assert skill.read_text() == "mine"


def test_a_file_that_several_harnesses_need_stays_until_the_last_leaves(home: Path) -> None:
    place, skill = place_in(home), home / ".agents" / "skills" / "conch" / "SKILL.md"
    for name in ("codex", "gemini", "qwen"):
        Installer(place).install(HARNESSES[name])

    left = Installer(place).uninstall(HARNESSES["codex"])

    assert skill.exists()
    assert [each.why for each in left if each.path == str(skill)] == ["still needed by gemini, qwen"]
    Installer(place).uninstall(HARNESSES["gemini"])
    Installer(place).uninstall(HARNESSES["qwen"])
    assert read_all(home) == {}


@pytest.mark.parametrize(
    "slug, variable, file",
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("copilot", "COPILOT_HOME", "mcp-config.json"),
        ("opencode", "OPENCODE_CONFIG_DIR", "opencode.json"),
    ],
)
def test_the_variable_of_a_harness_says_where_its_settings_are(
    slug: str, variable: str, file: str, home: Path, tmp_path: Path
) -> None:
    place = place_in(home)._replace(environ={variable: str(tmp_path / "elsewhere")})

    Installer(place).install(HARNESSES[slug])

    assert (tmp_path / "elsewhere" / file).exists()


def test_codex_passes_on_every_variable_of_conch(home: Path) -> None:
    place = place_in(home)._replace(environ={"CONCH_STALE_MINUTES": "3"})

    Installer(place).install(HARNESSES["codex"])

    entry = tomllib.loads((home / ".codex" / "config.toml").read_text())["mcp_servers"]["conch"]
    assert {"CONCH_STALE_MINUTES", "CONCH_STORE", "XDG_DATA_HOME"} <= set(entry["env_vars"])


def test_a_record_holds_what_was_there_before(home: Path) -> None:
    place = place_in(home)
    fill(home / ".cursor" / "mcp.json", COMMENTED)

    Installer(place).install(HARNESSES["cursor"])

    records = [json.loads(path.read_text()) for path in (home.parent / "data" / "installed").iterdir()]
    assert COMMENTED in [record["original"] for record in records]


def test_others_can_read_nothing_of_it_in_the_data_directory(home: Path) -> None:
    data = home.parent / "data"

    Installer(place_in(home)).install(HARNESSES["cursor"])

    assert data.stat().st_mode & 0o077 == 0
    assert [str(path) for path in data.iterdir() if path.stat().st_mode & 0o077] == []


def test_what_cannot_be_taken_back_is_reported_beside_what_was(home: Path) -> None:
    place, codex = place_in(home), HARNESSES["codex"]
    settings = settings_of(codex, place)
    settings.parent.mkdir()
    settings.write_text(FOREIGN_TOML)
    Installer(place).install(codex)
    blocking = Path(f"{settings}.conch-{os.getpid()}")  # then no new text can be written beside the file
    blocking.mkdir()

    refused, *others = Installer(place).uninstall(codex)
    blocking.rmdir()

    assert (refused.outcome, refused.why) == ("refused", "File exists")
    assert outcomes(others) == {"deleted"}
    assert outcomes(Installer(place).uninstall(codex)) == {"restored"}


@pytest.mark.parametrize(
    "damage", ["{}", "[1]", '{"path": 1, "harnesses": null, "original": 5, "written": 7, "folders": null}']
)
def test_a_damaged_record_counts_as_none(home: Path, damage: str) -> None:
    place, codex = place_in(home), HARNESSES["codex"]
    Installer(place).install(codex)
    for record in (home.parent / "data" / "installed").glob("*.json"):
        record.write_text(damage)

    assert Installer(place).uninstall(codex) == []
    assert outcomes(Installer(place).install(codex)) == {"unchanged"}


@pytest.mark.parametrize("harness", EACH)
def test_comments_beside_entries_survive_an_uninstall(harness: Harness, home: Path) -> None:
    place, commented = place_in(home), []
    for result in Installer(place).install(harness):
        path = Path(result.path)
        if path.suffix == ".toml":
            path.write_text(path.read_text() + "# mine\n")
            commented.append(path)
        elif path.suffix == ".json" and '"conch": {' in path.read_text():
            path.write_text(path.read_text().replace('"conch": {', '// mine\n"conch": {'))
            commented.append(path)

    Installer(place).uninstall(harness)

    assert commented != []
    for path in commented:
        text = path.read_text()
        assert "mine" in text and "conch" not in text
        assert path.suffix == ".toml" or json_text.read_value(text) is not None


def test_uninstall_without_a_name_takes_back_what_was_written_for_a_harness_that_is_gone(
    home: Path, environ: dict[str, str], conch: Callable[..., Any]
) -> None:
    environ |= {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    (home / ".codex").mkdir()
    conch("one", "install")
    shutil.rmtree(home / ".codex")
    left = [path for path in home.rglob("*") if path.is_file()]

    done = conch("one", "uninstall")
    again = conch("one", "uninstall")

    assert left != []
    assert [each["harness"] for each in done["data"]["harnesses"]] == ["codex"]
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert again["error"]["message"].startswith("conch found no harness on this machine.")


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_no_settings_are_changed_by_records_that_other_users_can_write(
    home: Path, environ: dict[str, str], conch: Callable[..., Any], command: str
) -> None:
    environ |= {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    conch("one", "install", "codex")
    records = Path(environ["CONCH_DATA_DIR"]) / "installed"
    records.chmod(0o777)
    before = read_all(home)

    refused = conch("one", command, "codex", "cursor")["error"]

    assert refused["message"].startswith(f"Other users can change {records}. conch did not use it.")
    assert read_all(home) == before


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_data_directory_that_cannot_be_written_is_reported_for_every_harness(
    home: Path, environ: dict[str, str], conch: Callable[..., Any], command: str
) -> None:
    environ |= {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    lock = Path(environ["CONCH_DATA_DIR"]) / "installed.lock"
    lock.mkdir(parents=True)
    before = read_all(home)

    refused = conch("one", command, "codex", "cursor")["error"]

    assert refused["code"] == "SETTINGS_UNREADABLE"
    assert refused["message"] == f"{lock} cannot be changed safely: Is a directory. It was left as it is."
    assert [each["files"][0]["path"] for each in refused["harnesses"]] == [str(lock)] * 2
    assert read_all(home) == before
