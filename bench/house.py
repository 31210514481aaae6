"""Measure the code itself: `python bench/house.py --src src`, a table for one checkout, or for several side by side.

It reads every module, and counts the cost of three everyday walks in real processes: Python calls through conch, source
files that they touch, and transactions. Give `--src` twice to compare two checkouts.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import sys
import tokenize
from pathlib import Path

from house_walks import WALKS

Function = ast.FunctionDef | ast.AsyncFunctionDef
Imports = dict[str, set[str]]
Column = dict[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the code of one or more checkouts.")
    parser.add_argument("--src", action="append", type=Path, required=True, help="the folder that holds `conch`")
    parser.add_argument("--no-walks", action="store_true", help="only read the code")
    given = parser.parse_args()
    sources = [source.resolve() for source in given.src]
    columns = [read_code(source) | ({} if given.no_walks else count_walks(source)) for source in sources]
    print_table([str(source.parent) for source in sources], columns)
    return 0


def read_code(source: Path) -> Column:
    package = source / "conch"
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {_name(path, package): ast.parse(text) for path, text in texts.items()}
    modules = {path: text for path, text in texts.items() if path.name != "__init__.py"}
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, Function)]
    lengths = sorted(_length(function) for function in functions)
    imports = {name: find_imports(tree, set(trees)) for name, tree in trees.items()}
    lines = sum(map(_lines, texts.values()))
    written = sum(bool(line.strip()) for text in texts.values() for line in text.splitlines())
    comments = sum(map(count_comments, texts.values()))
    at_root = [path for path in modules if path.parent == package and path.name != "__main__.py"]
    tests = sum(_lines(path.read_text(encoding="utf-8")) for path in (source.parent / "tests").rglob("*.py"))
    return {
        "lines": f"{lines:,}",
        "files": f"{len(texts)}",
        "lines of a module, median without `__init__`": f"{statistics.median(map(_lines, modules.values())):.0f}",
        "modules at the root": f"{len(at_root)}",
        "import depth": f"{longest_chain(imports)}",
        "import cycles": f"{count_cycles(imports)}",
        "comments per 100 lines that are not blank": f"{100 * comments / written:.1f}",
        "lines of a function, median / p90": f"{statistics.median(lengths):.0f} / {lengths[len(lengths) * 9 // 10]}",
        "functions fully typed": f"{100 * sum(map(is_typed, functions)) / len(functions):.0f} %",
        "test code : code": f"{tests / lines:.2f}",
    }


def find_imports(tree: ast.AST, known: set[str]) -> set[str]:
    """The conch modules that a module imports, at top level or inside functions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (submodules & {f"conch.{name}" for name in known}) or {node.module}
    return {name.removeprefix("conch.") for name in found if name.startswith("conch.")} & known


def longest_chain(imports: Imports) -> int:
    """The number of modules in the longest chain of imports; the modules of a cycle count once."""
    depths: dict[str, int] = {}

    def depth(name: str, trail: tuple[str, ...]) -> int:
        if name not in depths:
            below = [depth(other, (*trail, name)) for other in imports[name] if other not in (*trail, name)]
            depths[name] = 1 + max(below, default=0)
        return depths[name]

    return max(depth(name, ()) for name in imports)


def count_cycles(imports: Imports) -> int:
    """How many modules can reach themselves."""

    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        ahead = set(imports[name])
        while ahead:
            seen |= ahead
            ahead = {other for each in ahead for other in imports[each]} - seen
        return seen

    return sum(name in reached(name) for name in imports)


def count_comments(text: str) -> int:
    return sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline))


def is_typed(function: Function) -> bool:
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    starred = [each for each in (arguments.vararg, arguments.kwarg) if each]
    wanted = [each for each in (*plain, *starred) if each.arg not in ("self", "cls")]
    return function.returns is not None and all(each.annotation for each in wanted)


def count_walks(source: Path) -> Column:
    found: Column = {}
    for name, walk in WALKS.items():
        for side, cost in walk(source).items():
            found[f"{name}{side}: calls / files / transactions"] = f"{cost.calls} / {cost.files} / {cost.transactions}"
    return found


def print_table(names: list[str], columns: list[Column]) -> None:
    print(f"| | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for row in columns[-1]:
        print(f"| {row} | {' | '.join(column.get(row, '') for column in columns)} |")


def _name(path: Path, package: Path) -> str:
    return ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")


def _lines(text: str) -> int:
    return text.count("\n")


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


if __name__ == "__main__":
    sys.exit(main())
