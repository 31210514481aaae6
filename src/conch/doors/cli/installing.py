"""`conch install` and `conch uninstall`: the settings of the harnesses on this machine."""

from __future__ import annotations

import os
import sys

from conch.config import Settings
from conch.doors.cli.output import Report, failure
from conch.errors import InvalidArgument
from conch.harnesses.base import Harness, Place
from conch.harnesses.catalogue import HARNESSES
from conch.harnesses.installer import RECORDS, Installer, Result, is_there, is_written
from conch.harnesses.texts import PARAGRAPH, skill_text
from conch.host import programs
from conch.host.ownership import require_own_folder
from conch.host.workspaces import canonicalize, workspace_here, workspace_root
from conch.lean import Any
from conch.tools.text import one_line

_WORDS = {
    "written": "wrote",
    "restored": "restored",
    "deleted": "deleted",
    "unchanged": "unchanged",
    "kept": "left alone",
    "refused": "cannot change",
}


def install(options: Any) -> Report:
    return _run(options, "install")


def uninstall(options: Any) -> Report:
    return _run(options, "uninstall")


def _run(options: Any, action: str) -> Report:
    project = workspace_root(canonicalize(".")) if options.project else None
    place = here(project, wants_instructions=action == "uninstall" or options.instructions)
    wants_wake = action == "install" and options.wake
    require_own_folder(place.data_dir, *RECORDS)  # `uninstall` writes what they say into your files
    done = {}
    for harness in _choose(options, place, action):
        chosen = place._replace(wakes=wants_wake or wakes(harness, place))
        done[harness] = _act(Installer(chosen, is_dry=options.print), action, harness)
    data = {
        "scope": "user" if place.project is None else "project",
        "printed_only": options.print,
        "harnesses": [_object(harness, results) for harness, results in done.items()],
    }
    text = _text(done, action, options.print, wants_wake)
    refused = [result for results in done.values() for result in results if result.outcome == "refused"]
    if refused:
        first = refused[0]
        message = f"{first.path} cannot be changed safely: {first.why}. It was left as it is."
        return failure("SETTINGS_UNREADABLE", message, data, text=f"{text}\n\n{one_line(message)}")
    return Report(data, text)


def _act(installer: Installer, action: str, harness: Harness) -> list[Result]:
    """Install or uninstall for one harness. Its failure must not hide what was done for the others."""
    try:
        results: list[Result] = getattr(installer, action)(harness)
        return results
    except OSError as problem:  # about conch's own records; the results tell of all others
        return [Result(problem.filename or installer.records, "refused", problem.strerror or str(problem))]


def here(project: str | None, wants_instructions: bool = False) -> Place:
    """This user's settings, or those of a project."""
    return Place(
        home=os.path.expanduser("~"),
        project=project,
        environ=os.environ,
        program=find_program(is_shared=project is not None),
        data_dir=os.path.abspath(Settings.load(os.environ).data_dir),
        skill=skill_text(),
        instructions=PARAGRAPH if wants_instructions else "",
    )


def wakes(harness: Harness, place: Place) -> bool:
    """Whether its settings already say that conch wakes its agents. `conch uninstall` ends that."""
    return is_written(harness.changes(place._replace(wakes=True))[0]) and bool(harness.ring)


def find_program(is_shared: bool = False) -> str:
    """The command that starts conch. Settings that several machines share must not contain a path of this one.

    A link in the workspace does not count: agents could change where it leads.
    """
    if is_shared:
        return "conch"
    beside = os.path.join(os.path.dirname(sys.executable), "conch")
    found = programs.find_program("conch", workspace_here())
    if found and os.path.realpath(found) == os.path.realpath(beside):
        return found  # such as a link in ~/.local/bin, which stays after an upgrade
    return beside if os.path.exists(beside) else found or "conch"


def _choose(options: Any, place: Place, action: str) -> list[Harness]:
    if options.harness and options.all:
        raise InvalidArgument("Name harnesses or give --all, not both.", field="all")
    if options.harness:
        return list(dict.fromkeys(_find(name) for name in options.harness))
    folders = programs.search_path("PATH", workspace_here())
    found = [harness for harness in HARNESSES.values() if is_there(harness, place, folders)]
    if action == "uninstall":  # also for a harness that was removed since
        changed = filter(Installer(place).has_changed, HARNESSES.values())
        found = list(dict.fromkeys([*found, *changed]))
    if not found:
        names = ", ".join(HARNESSES)
        raise InvalidArgument(f"conch found no harness on this machine. Name one: {names}.", field="harness")
    return found


def _find(name: str) -> Harness:
    wanted = name.lower()
    found: Harness | None = next((h for h in HARNESSES.values() if wanted in (h.slug, *h.programs)), None)
    if found is not None:
        return found
    names = ", ".join(HARNESSES)
    raise InvalidArgument(f"conch does not know the harness {name[:80]!r}. It knows: {names}.", field="harness")


# -- what people and programs read


def _object(harness: Harness, results: list[Result]) -> dict[str, Any]:
    files = [{"path": each.path, "outcome": each.outcome, "why": each.why or None} for each in results]
    return {"harness": harness.slug, "title": harness.title, "files": files, "steps": list(harness.steps)}


def _text(done: dict[Harness, list[Result]], action: str, is_dry: bool, wants_wake: bool) -> str:
    parts = [_harness_text(harness, results, is_dry) for harness, results in done.items()]
    if is_dry:
        parts.append("Nothing was written. Without --print, conch makes these changes.")
    elif action == "install":
        parts.append(_next(done, wants_wake))
    return "\n\n".join(parts)


def _harness_text(harness: Harness, results: list[Result], is_dry: bool) -> str:
    lines = [f"{harness.title}:"]
    if not results:
        lines.append("  conch wrote nothing here.")
    for result in results:
        why = f" ({result.why})" if result.why else ""
        lines.append(f"  {_WORDS[result.outcome]}: {one_line(result.path + why)}")
        if is_dry and result.changes:
            lines += [f"    {line}" for line in _difference(result)]
    return "\n".join(lines)


def _difference(result: Result) -> list[str]:
    from difflib import unified_diff

    before, after = (result.before or "").splitlines(), (result.after or "").splitlines()
    return [line.rstrip("\n") for line in unified_diff(before, after, "before", "after", lineterm="", n=1)]


def _next(done: dict[Harness, list[Result]], wants_wake: bool) -> str:
    lines = ["Next:", "  Restart the harness, so that it reads its settings."]
    for harness in done:
        lines += [f"  {harness.title}: {step}" for step in harness.steps]
    checks = [f"`{harness.check}`" for harness in done if harness.check]
    if checks:
        lines.append(f"  To check that it works, run {', '.join(checks)}: each must show the server conch.")
    if wants_wake:
        lines += [f"  {harness.title}: {harness.wake_step}" for harness in done if harness.wake_step]
    lines.append("  Then ask the agent to join the room, and run `conch status` here: it must list the agent.")
    return "\n".join(lines)
