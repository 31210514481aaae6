"""Scopes: every way to name a part of a workspace has one key, and keys say how two scopes overlap."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.errors import InvalidArgument
from conch.host.paths import Scope, classify, make_scope, parse_scope

ROOT = "/home/ada/project"
FUSE = Path(__file__).with_name("case_ignoring_filesystem.py")

names = st.text(st.sampled_from("ab.-_ 0é"), min_size=1).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, max_size=5)


def scope_of(parts: list[str]) -> Scope:
    scope = make_scope("/".join([ROOT, *parts]), ROOT, folds=False)
    assert scope is not None
    return scope


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "src" / "lib").mkdir(parents=True)
    (tmp_path / "src" / "lib" / "parser.ts").touch()
    return os.path.realpath(tmp_path)


# -- how two scopes overlap


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("src/*", "src/lib/parser.ts", "partial"),
        ("src/lib", "src/lib/parser.ts", "partial"),
        ("src/lib/parser.ts", "src/lib/parser.ts", "exact"),
        ("src/lib", "src/components", "disjoint"),
        ("src/*", "src/**", "exact"),
        ("src/*", "src", "exact"),
        ("src/", "./src//lib/..", "exact"),
        ("*", "src/lib", "partial"),
        ("**", ".", "exact"),
        ("src/*/", "src", "exact"),
        ("src/lib", "src/library", "disjoint"),
        ("src/lib", "src/lib.py", "disjoint"),
        ("src\\lib\\parser.ts", "src/lib/parser.ts", "exact"),
    ],
)
def test_the_required_examples(root: str, one: str, other: str, expected: str) -> None:
    first, second = parse_scope(one, root), parse_scope(other, root)

    assert classify(first.key, second.key) == classify(second.key, first.key) == expected


def test_an_absolute_path_and_a_link_mean_what_they_lead_to(root: str) -> None:
    os.symlink("src/lib", f"{root}/shortcut")

    assert parse_scope(f"{root}/src/lib", root) == parse_scope("shortcut/*", root) == Scope("src/lib", "/src/lib/")
    assert parse_scope("shortcut/new.ts", root).key == "/src/lib/new.ts/"


@pytest.mark.parametrize("name", ["[id]", "{slug}.tsx", "{a,b}.ts", "{1..3}", "+(a|b)", "c:"])
def test_brackets_braces_and_colons_are_literal_where_such_a_file_exists(root: str, name: str) -> None:
    os.mkdir(f"{root}/{name}")

    assert parse_scope(f"{name}/new.ts", root).path == f"{name}/new.ts"
    assert parse_scope(f"../{name}/new.ts", root, base=f"{root}/src").path == f"{name}/new.ts"


def test_a_path_starts_in_the_folder_where_it_is_typed(root: str) -> None:
    assert parse_scope("lib/*", root, base=f"{root}/src").path == "src/lib"


# -- refusals


@pytest.mark.parametrize(
    "text",
    [
        *("*.py", "src/**/*.py", "src/lib*", "src/*/parser.ts", "src/pars?r.ts", "src/*/*", "**/*", "/etc/*.conf"),
        *("src/{a,b}.py", "src/{1..3}.ts", "src/{a/b,c}.ts", "src/{slug}/{a,b}.ts"),
        *("src/[ab].py", "src/[slug]/page.tsx", "src/+(a|b)", "src/@(a|b).ts", "src/!(a).ts"),
        *("file:///x/src", "vscode://file/x"),
    ],
)
def test_a_pattern_or_an_address_is_refused_with_what_to_name_instead(root: str, text: str) -> None:
    with pytest.raises(
        InvalidArgument, match=r"Name each file, or reserve the directory, such as 'src/lib'"
    ) as refusal:
        parse_scope(text, root)

    assert repr(text) in refusal.value.message
    assert refusal.value.details == {"field": "scope"}


def test_a_refusal_never_proposes_the_whole_workspace(root: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse_scope("*.py", root)

    assert "*" not in refusal.value.message.replace("'*.py'", "")


@pytest.mark.skipif(os.name == "nt", reason="there are drives")
@pytest.mark.parametrize("text", ["C:\\x\\src", "c:/x", "C:", "c:\\*.py"])
def test_a_drive_is_refused_where_there_are_none(root: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match="looks like a pattern or an address"):
        parse_scope(text, root)


@pytest.mark.parametrize("text", ["..", "../other", "/etc/passwd", "src/../../other", "~", "/", "/*", "../*"])
def test_nothing_outside_the_workspace_can_be_reserved(root: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match="outside the workspace"):
        parse_scope(text, root)


def test_a_link_that_leads_outside_is_outside(root: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    os.symlink(tmp_path_factory.mktemp("elsewhere"), f"{root}/away")

    with pytest.raises(InvalidArgument, match="outside the workspace"):
        parse_scope("away/file", root)


def test_a_sibling_whose_name_begins_alike_is_outside(root: str) -> None:
    with pytest.raises(InvalidArgument, match="outside"):
        parse_scope(f"{root}-2/src", root)


# -- casing


def test_on_windows_every_casing_and_slash_is_one_path() -> None:
    root = "C:/Users/Ada/Project"

    scope = make_scope("c:\\users\\ADA\\project\\SRC\\Lib", root, folds=True)

    assert scope == Scope("SRC/Lib", "/src/lib/")
    assert make_scope("C:\\Users\\Ada\\Projects", root, folds=True) is None
    assert make_scope("D:/Users/Ada/Project/src", root, folds=True) is None


def test_on_macos_accents_are_one_letter_however_they_are_stored() -> None:
    composed, decomposed = f"{ROOT}/Caf\u00e9", f"{ROOT}/cafe\u0301"

    one, other = make_scope(composed, ROOT, folds=True), make_scope(decomposed, ROOT, folds=True)

    assert one is not None and other is not None
    assert one.key == other.key
    assert make_scope(composed, ROOT, folds=False) != make_scope(decomposed, ROOT, folds=False)


def test_where_case_matters_casings_are_different_files(root: str) -> None:
    assert classify(parse_scope("src", root).key, parse_scope("SRC", root).key) == "disjoint"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs FUSE")
def test_a_real_filesystem_that_ignores_case_decides(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    root = f"{mount}/Projects/Conch"
    script = f"from conch.host.paths import parse_scope; print(parse_scope('sRC/Lib', {root!r}).key)"
    command = ["unshare", "--mount", sys.executable, str(FUSE), str(mount), sys.executable, "-c", script]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine does not allow it")
    assert done.stdout == "/src/lib/\n", done.stderr


# -- properties


@given(paths)
def test_overlap_is_reflexive(parts: list[str]) -> None:
    assert classify(scope_of(parts).key, scope_of(parts).key) == "exact"


@given(paths, paths)
def test_overlap_is_symmetric(one: list[str], other: list[str]) -> None:
    assert classify(scope_of(one).key, scope_of(other).key) == classify(scope_of(other).key, scope_of(one).key)


@given(paths, paths)
def test_overlap_is_what_the_paths_say(one: list[str], other: list[str]) -> None:
    shorter, longer = sorted((one, other), key=len)
    expected = "exact" if one == other else "partial" if longer[: len(shorter)] == shorter else "disjoint"

    assert classify(scope_of(one).key, scope_of(other).key) == expected


@given(paths, st.lists(names, min_size=1, max_size=3))
def test_a_path_is_inside_its_ancestors_and_they_are_found_by_key(above: list[str], below: list[str]) -> None:
    ancestor, inside = scope_of(above), scope_of(above + below)

    assert classify(ancestor.key, inside.key) == "partial"
    assert ancestor.key in inside.ancestors
    assert ancestor.contains(inside.key) and not inside.contains(ancestor.key)


@given(paths, paths)
def test_what_is_inside_is_one_range_of_bytes(one: list[str], other: list[str]) -> None:
    scope, key = scope_of(one), scope_of(other).key

    in_range = scope.key.encode() <= key.encode() < scope.end.encode()

    assert in_range == scope.contains(key)


@given(st.text(max_size=20))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        assert "*" not in parse_scope(text, ROOT).path
    except InvalidArgument as refusal:
        assert refusal.details["field"] == "scope"
