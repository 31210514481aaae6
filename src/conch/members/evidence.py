"""What proves that an agent left unfinished work: files that are not committed, and work items in progress."""

from __future__ import annotations

import os

from conch.host.beads import WorkItem, in_progress_items
from conch.host.commands import changed_files
from conch.host.paths import Scope, classify, make_scope
from conch.host.workspaces import folds_case, workspace_root
from conch.lazy import json
from conch.storage.base import Row, Transaction
from conch.typed import NamedTuple

_MOST_NAMED = 3
_MOST_BEADS = 20


class Evidence(NamedTuple):
    """Why an identity may be resumed."""

    reason: str
    """`uncommitted_scope` or `in_progress_ownership`."""
    summary: str
    bead_id: str | None


class Traces(NamedTuple):
    """What can be found of unfinished work in a workspace, by whomever."""

    changed: list[Scope]
    is_git: bool
    items: list[WorkItem]


class Past(NamedTuple):
    """What a room knows of an agent's work."""

    name: str
    agent_ids: list[str]
    """Its own and those that it resumed. Whoever was resumed has none: its work is another's now."""
    reserved: list[Row]
    """What it had reserved and has not released, also where its time is over or a part of it was taken over."""
    held: list[str]
    """The keys of what others have reserved since."""

    def is_lost(self, key: str) -> bool:
        return any(key.startswith(held) for held in self.held)


def load_past(tx: Transaction, room_id: str, agent: Row, caller_id: str) -> Past:
    """As the caller finds it: what it has reserved itself does not stand in its way."""
    agent_id, heirs = agent["agent_id"], _find_heirs(tx, room_id)
    agent_ids = [each for each in {agent_id: None, **heirs} if heirs.get(each, each) == agent_id]
    reserved = tx.all("reservations_of", agent_id=agent_id, room_id=room_id)
    if agent_ids:
        reserved += tx.all("expired_reservations_of", agent_ids=agent_ids, room_id=room_id)
    active = [row for row in tx.all("active_reservations", room_id=room_id) if row["expires_at"] > tx.now]
    held = [row["scope_key"] for row in active if row["agent_id"] not in (agent_id, caller_id)]
    return Past(agent["name"], agent_ids, reserved, held)


def _find_heirs(tx: Transaction, room_id: str) -> dict[str, str]:
    """Who goes on with the work of an agent_id that was resumed, also by way of others."""
    heirs: dict[str, str] = {}
    for row in tx.all("resumptions", room_id=room_id):
        prior_id, heir = json.loads(row["details_json"] or "{}").get("prior_agent_id"), row["agent_id"]
        if prior_id is not None:  # rooms that are older than this detail do not tell
            heirs |= {each: heir for each, former in heirs.items() if former == prior_id}
            heirs[prior_id] = heir
    return heirs


def find_traces(root: str) -> Traces:
    """What git and Beads know of the workspace."""
    files, folds = changed_files(workspace_root(root)), folds_case(root)
    changed = [scope for path in files or () if (scope := make_scope(path, root, folds)) is not None]
    return Traces(changed, files is not None, in_progress_items(root))


def find_evidence(traces: Traces, past: Past, within: Scope) -> Evidence | None:
    """Uncommitted files in what the agent had reserved come before its work items."""
    changed = [scope for scope in traces.changed if within.contains(scope.key) and not past.is_lost(scope.key)]
    touched = [row for row in past.reserved if any(scope.key.startswith(row["scope_key"]) for scope in changed)]
    files = [scope.path for scope in changed if any(scope.key.startswith(row["scope_key"]) for row in touched)]
    if files:
        beads = list(dict.fromkeys(row["bead_id"] for row in touched if row["bead_id"]))
        linked = f" For {_enumerate(beads, _MOST_BEADS)}." if beads else ""
        return Evidence("uncommitted_scope", f"Not committed: {_enumerate(files)}.{linked}", next(iter(beads), None))
    own = [item.bead_id for item in traces.items if item.assignee == past.name or item.assignee in past.agent_ids]
    items = [bead_id for bead_id in own if _is_relevant(bead_id, past.reserved, within)]
    if items:
        return Evidence("in_progress_ownership", f"In progress: {_enumerate(items, _MOST_BEADS)}.", items[0])
    return None


def _is_relevant(bead_id: str, reserved: list[Row], within: Scope) -> bool:
    """Whether a work item belongs to a scope: it does unless the agent reserved for it, and only elsewhere."""
    places = [row["scope_key"] for row in reserved if row["bead_id"] == bead_id]
    return not places or any(classify(within.key, place) != "disjoint" for place in places)


def _enumerate(things: list[str], most: int = _MOST_NAMED) -> str:
    shown = [os.fsencode(thing).decode(errors="backslashreplace") for thing in things[:most]]
    rest = len(things) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
