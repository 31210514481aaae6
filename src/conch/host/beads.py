"""Work items stay in Beads: conch asks `bd` for them, and never writes to `.beads`."""

from __future__ import annotations

import os

from conch.errors import InvalidArgument
from conch.host import commands
from conch.lean import Any, NamedTuple, json
from conch.warnings import Warnings, warning

SECONDS = 5.0  # a reservation waits for it
_LONGEST_ID = 200


class WorkItem(NamedTuple):
    bead_id: str
    assignee: str


def check_bead(root: str, bead_id: str | None) -> Warnings:
    """InvalidArgument for an item that the workspace's Beads does not know; without Beads it is free text.

    A Beads that does not answer keeps nobody from working: that is only a warning.
    """
    if bead_id is None:
        return []
    try:
        home = _find_home(root)
        if home is not None:
            _require_item(home, bead_id)
    except commands.TooSlow:
        message = f"Beads did not answer within {SECONDS:.0f} s, so {bead_id[:80]!r} was not checked."
        return [warning("BEAD_NOT_CHECKED", message, bead_id=bead_id)]
    return []


def _require_item(home: str, bead_id: str) -> None:
    if bead_id.startswith("-") or not _is_id(bead_id):  # an option, not an item
        raise _unknown(bead_id, "")
    answer = _ask(home, "show", bead_id, "--json")
    if answer is None:
        return
    found = [] if answer.status else [item["id"] for item in _items(answer.output)]
    if bead_id not in found:  # it also answers to the beginning of an id
        raise _unknown(bead_id, f"there is {found[0]}" if found else answer.complaint)


def in_progress_items(root: str) -> list[WorkItem]:
    """Every item that somebody works on; none without Beads, or from one that does not answer.

    What is not as it was asked for is left out: it would prove whatever somebody wrote there.
    """
    try:
        home = _find_home(root)
        if home is None:
            return []
        answer = _ask(home, "list", "--status", "in_progress", "--limit", "0", "--json")
    except commands.TooSlow:
        return []
    found = _items(answer.output) if answer is not None and not answer.status else []
    return [
        WorkItem(item["id"], item["assignee"])
        for item in found
        if item.get("status") == "in_progress" and isinstance(item.get("assignee"), str)
    ]


def _unknown(bead_id: str, complaint: str) -> InvalidArgument:
    why = f": {complaint}" if complaint else ""
    return InvalidArgument(f"Beads knows no item {bead_id[:80]!r} here{why}.", field="bead_id")


def _find_home(root: str) -> str | None:
    """The folder with `.beads`, this one or one above it in the same repository, if a real `bd` answers there.

    Other programs are called `bd` as well; the real one says which version of Beads it is.
    """
    folder = root
    while not os.path.isdir(os.path.join(folder, ".beads")):
        if os.path.exists(os.path.join(folder, ".git")) or folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)
    answer = _ask(folder, "version", "--json")
    if answer is None or answer.status:
        return None
    version = _unwrapped(answer.output)
    is_real = isinstance(version, dict) and str(version.get("version", ""))[:1].isdecimal()
    return folder if is_real else None


def _ask(root: str, *words: str) -> commands.Answer | None:
    return commands.ask(("bd", *words), root, {**commands.environment("BD_JSON"), "BD_JSON_ENVELOPE": "0"}, SECONDS)


def _items(output: bytes) -> list[dict[str, Any]]:
    """Those with an id that can be kept and shown."""
    found = _unwrapped(output)
    items = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    return [item for item in items if _is_id(item.get("id"))]


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_ID and value.isprintable()


def _unwrapped(output: bytes) -> Any:
    """Newer versions put what they say into an envelope, whatever they are told."""
    try:
        said = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return said["data"] if isinstance(said, dict) and "data" in said else said
