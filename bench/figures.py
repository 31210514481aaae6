"""Measure everything that docs/benchmarks.md and docs/scaling.md show: `python bench/figures.py --old CHECKOUT`.

It runs every benchmark, one after the other, and writes their tables into the two pages, all of them or none. It takes
about 15 minutes on an idle machine with two cores; let nothing else run. `--quick`, or the names of some benchmarks,
show whether everything still runs: then the pages stay as they are, and the tables are only printed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from conch import __version__
from harness import HERE
from report import FIGURE, figure, figures_in, hardware, load, table

ROOT = HERE.parent
PAGES = ("benchmarks.md", "scaling.md")
ATTEMPTS = 2
OWN = ("run", "parts", "budgets")
"""The figures that this program writes about the run itself."""


class Part(NamedTuple):
    """A benchmark: the figures that it prints, and the seconds after which it is given up."""

    figures: tuple[str, ...]
    limit_seconds: int


PARTS = {
    "turns": Part(("turns", "turns-passing"), 400),
    "bus": Part(("bus", "bus-sending"), 300),
    "scopes": Part(("scopes",), 120),
    "hook": Part(("hook",), 120),
    "search": Part(("search",), 600),
    "meaning": Part(("meaning-recall", "meaning-embedding"), 300),
    "years": Part(("years", "years-commits", "years-reader"), 600),
    "console": Part(("console",), 300),
    "trips": Part(("trips",), 120),
    "scale": Part(
        tuple(
            f"scale-{name}" for name in ("turns", "clients", "distance", "targets", "crowd", "connections", "estimate")
        ),
        600,
    ),
    "versus": Part(("versus",), 1_500),
}


class Before(NamedTuple):
    """The moment before the run, and its load."""

    moment: str
    load: str


class Done(NamedTuple):
    """A benchmark that ran: what it printed, how long it took, and the load before it."""

    output: str
    seconds: float
    load: str


def main() -> int:
    options = _parse()
    before = Before(time.strftime("%Y-%m-%d, %H:%M", time.gmtime()), load())
    done: dict[str, Done | None] = {}
    for name in options.names or PARTS:
        done[name] = _run(name, options)
    found = {
        "run": _describe(done, before, options.quick),
        "parts": _list_parts(done),
        "budgets": judge(done),
        **collect(done),
    }
    if options.to:
        _write(found, Path(options.to))
    else:
        print("\n".join(figure(name, text) for name, text in found.items()))
    failed = [name for name, each in done.items() if each is None]
    if failed:
        print(f"Not measured: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure everything that the documents show, in one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these, and only print: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="only check that everything can be measured, and print")
    parser.add_argument("--old", type=Path, metavar="CHECKOUT", help="an older version to compare with, with its .venv")
    parser.add_argument("--rounds", type=int, default=3, help="how often to compare with it (default: 3)")
    parser.add_argument("--to", metavar="DIR", help="write the pages there; default: docs, if everything is measured")
    options = parser.parse_args()
    if unknown := set(options.names) - set(PARTS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    if options.names and options.to:
        parser.error("a page is only written by a run of everything, so that all its figures are from one run")
    if options.old is None and "versus" in (options.names or PARTS):
        parser.error("name the older version to compare with: --old CHECKOUT")
    if not options.names and not options.quick:
        options.to = options.to or str(ROOT / "docs")
    return options


def _run(name: str, options: argparse.Namespace) -> Done | None:
    """What a benchmark printed. One that fails is tried once more; None if it fails again."""
    command = [sys.executable, str(HERE / f"{name}.py"), *(["--quick"] if options.quick else [])]
    if name == "versus":
        command += [str(options.old), str(ROOT), "--rounds", "1" if options.quick else str(options.rounds)]
    for _ in range(ATTEMPTS):
        print(f"{time.strftime('%H:%M:%S')} {name} ...", file=sys.stderr, flush=True)
        before, began = load(), time.monotonic()
        output = _output(command, PARTS[name].limit_seconds)
        if set(figures_in(output)) == set(PARTS[name].figures):
            return Done(output, time.monotonic() - began, before)
    return None


def _output(command: Sequence[str], limit_seconds: int) -> str:
    """Nothing if the command fails or takes too long. Then all of its processes end."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        print(f"not done in {limit_seconds} s", file=sys.stderr)
        _end(process)
        return ""
    except BaseException:
        _end(process)
        raise
    return output if process.returncode == 0 else ""


def _end(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def collect(done: Mapping[str, Done | None]) -> dict[str, str]:
    """Every figure of these benchmarks. One that could not be measured says so; it never keeps older figures."""
    found: dict[str, str] = {}
    for name, each in done.items():
        missing = dict.fromkeys(PARTS[name].figures, f"Not measured in this run: `bench/{name}.py` failed.")
        found |= figures_in(each.output) if each else missing
    return found


def _describe(done: Mapping[str, Done | None], before: Before, quick: bool) -> str:
    """The line about the run: machine, date, load and code."""
    server = re.search(r"PostgreSQL [\d.]+", each.output) if (each := done.get("scale")) else None
    kind = "**This was a quick run, which only shows that everything can be measured.** " if quick else ""
    return (
        f"{kind}All figures of [the benchmarks](benchmarks.md) and of [scaling](scaling.md) are from one run of "
        f"`make figures`, {before.moment} to {time.strftime('%H:%M', time.gmtime())} UTC: "
        f"{hardware(*([server[0]] if server else []))}; load average {before.load} before the run and {load()} at its "
        f"end; conch {__version__}, source tree `{_tree()}`."
    )


def _tree() -> str:
    """What git calls the contents of `src`; `git rev-parse HEAD:src` says it for a commit."""
    git = ["git", "-C", str(ROOT)]
    tree = subprocess.run([*git, "rev-parse", "--short", "HEAD:src"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--short", "src"], capture_output=True, text=True, check=False)
    return tree.stdout.strip() + (" with changes" if changed.stdout else "")


def _list_parts(done: Mapping[str, Done | None]) -> str:
    rows = [
        [f"`bench/{name}.py`", f"{each.seconds:.0f} s" if each else "failed", each.load if each else ""]
        for name, each in done.items()
    ]
    return table(("benchmark", "took", "load average before it"), rows)


def judge(done: Mapping[str, Done | None]) -> str:
    """How many budgets are met, and which are missed, by all tables that have them."""
    judged = [(name, row) for name, each in done.items() if each for row in _budget_rows(each.output)]
    missed = [[f"`bench/{name}.py`", *row[:3]] for name, row in judged if row[3] != "yes"]
    told = f"{len(judged) - len(missed)} of {len(judged)} budgets are met."
    return f"{told} Missed:\n\n{table(('benchmark', 'what', 'result', 'budget'), missed)}" if missed else told


def _budget_rows(output: str) -> Iterator[tuple[str, str, str, str]]:
    """What is measured, its result, its budget, and whether it is met."""
    headings: list[str] = []
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if not line.startswith("|"):
            headings = []
        elif not headings:
            headings = cells
        elif "met" in headings and cells[headings.index("met")] not in ("", "---"):
            what = cells[0] if headings[0] == "what" else f"{headings[0]}: {cells[0]}"
            result = cells[1] if headings[1] == "conch" else f"{headings[1]}: {cells[1]}"
            yield what, result, cells[headings.index("budget")], cells[headings.index("met")]


def _write(found: Mapping[str, str], folder: Path) -> None:
    """Put the figures into copies of both pages, and only then replace the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        page: FIGURE.sub(lambda old: figure(old["name"], found[old["name"]]).rstrip(), _read(page)) for page in PAGES
    }
    for page, text in pages.items():
        (folder / page).write_text(text)


def _read(page: str) -> str:
    return (ROOT / "docs" / page).read_text()


if __name__ == "__main__":
    sys.exit(main())
