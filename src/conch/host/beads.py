"""Reads work items from Beads with the program `bd`; conch never writes to `.beads`."""

from __future__ import annotations

import os

from conch.errors import InvalidArgument
from conch.host.workspaces import workspace_root
from conch.lean import TYPE_CHECKING, Any, NamedTuple, json
from conch.warnings import Warnings, warning

if TYPE_CHECKING:
    from conch.host.sandboxes import Answer

SECONDS = 5.0  # short, because a reservation waits for the answer
_LONGEST_ID = 200


class WorkItem(NamedTuple):
    bead_id: str
    assignee: str


def check_bead(root: str, bead_id: str | None) -> Warnings:
    """InvalidArgument if the workspace's Beads does not know the item. Without Beads the id is free text.

    If Beads does not answer, that is only a warning, because it must not stop the work.
    """
    if bead_id is None:
        return []
    try:
        home = _find_home(root)
        if home is not None:
            _require_item(home, bead_id)
    except TimeoutError:
        message = f"Beads did not answer within {SECONDS:.0f} s, so {bead_id[:80]!r} was not checked."
        return [warning("BEAD_NOT_CHECKED", message, bead_id=bead_id)]
    return []


def _require_item(home: str, bead_id: str) -> None:
    if bead_id.startswith("-") or not _is_id(bead_id):  # `bd` would take a leading hyphen for an option
        raise _unknown(bead_id, "")
    answer = _ask(home, "show", bead_id, "--json")
    if answer is None:
        return
    found = [] if answer.status else [item["id"] for item in _items(answer.output)]
    if bead_id not in found:  # `bd` also accepts the start of an id
        raise _unknown(bead_id, f"the full id is {found[0]}" if found else answer.complaint)


def in_progress_items(root: str) -> list[WorkItem]:
    """All items in progress; none without Beads or if it does not answer.

    Items with another status are left out even if `bd` lists them, because an adoption relies on this list.
    """
    try:
        home = _find_home(root)
        if home is None:
            return []
        answer = _ask(home, "list", "--status", "in_progress", "--limit", "0", "--json")
    except TimeoutError:
        return []
    found = _items(answer.output) if answer is not None and not answer.status else []
    return [
        WorkItem(item["id"], item["assignee"])
        for item in found
        if item.get("status") == "in_progress" and isinstance(item.get("assignee"), str)
    ]


def _unknown(bead_id: str, complaint: str) -> InvalidArgument:
    why = f": {complaint}" if complaint else ""
    return InvalidArgument(f"Beads found no item {bead_id[:80]!r} here{why}.", field="bead_id")


def _find_home(root: str) -> str | None:
    """The folder with `.beads`, this one or one above it in the same repository, if the real `bd` answers there.

    Other programs are called `bd` too; the real one prints its version as JSON.
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


def _ask(folder: str, *words: str) -> Answer | None:
    from conch.host.commands import ask_bd  # few calls need it, and every command would pay for the import

    return ask_bd(folder, workspace_root(folder), SECONDS, *words)


def _items(output: bytes) -> list[dict[str, Any]]:
    """The items with a usable id."""
    found = _unwrapped(output)
    items = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    return [item for item in items if _is_id(item.get("id"))]


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_ID and value.isprintable()


def _unwrapped(output: bytes) -> Any:
    """The answer without its envelope. Newer versions of `bd` always add one, whatever the settings say."""
    try:
        said = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return said["data"] if isinstance(said, dict) and "data" in said else said
