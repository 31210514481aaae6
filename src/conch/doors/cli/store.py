"""The commands around the store itself."""

from __future__ import annotations

import os
import time

from conch.doors.cli.context import Context
from conch.doors.cli.output import Report, failure, table
from conch.errors import InvalidArgument, SchemaMismatch, StoreCorrupt, StoreError, StoreUnavailable
from conch.verify import Difference, verify_rooms


def path(context: Context) -> Report:
    place = context.app.store.describe()
    return Report({"path": place, "exists": os.path.exists(place)}, place)


def verify(context: Context) -> Report:
    """Whether the engine finds its files sound, and the rooms are what their log says."""
    problems = context.app.store.integrity_problems()
    count, differences = verify_rooms(context.app.store)
    data = {
        "rooms": count,
        "integrity_problems": problems,
        "differences": [difference._asdict() for difference in differences],
    }
    if not problems and not differences:
        return Report(data, f"Sound: {count} rooms replayed, each is what its log says.")
    message = f"{len(problems)} integrity problems, {len(differences)} differences between the rooms and their log."
    rows = [row for difference in differences for row in _rows(difference)]
    differing = [table(("ROOM", "FIELD", "STORED", "REPLAYED"), rows)] if rows else []
    return failure("verification_failed", message, data, text="\n".join([message, *problems, *differing]))


def _rows(difference: Difference) -> list[tuple[str, str, str, str]]:
    """One row for a field; for the members one for each that is not as it should be."""
    room_id, what, stored, replayed = difference.room_id, difference.what, difference.stored, difference.replayed
    if what != "members":
        return [(room_id, what, str(stored), str(replayed))]
    return [
        (room_id, f"ordinal of {agent_id}", str(stored.get(agent_id)), str(replayed.get(agent_id)))
        for agent_id in {**replayed, **stored}
        if stored.get(agent_id) != replayed.get(agent_id)
    ]


def backup(context: Context) -> Report:
    store, file = context.app.store, context.options.file
    if file is not None and not file.strip():
        raise InvalidArgument("file must be non-empty.", field="file")
    target = file or f"{store.describe()}.{_stamp()}.backup"
    if os.path.lexists(target):
        raise InvalidArgument(f"{target} exists already; name a new file.", field="file")
    with store.read():
        pass  # what is wrong with the store itself is said here; what follows is about the copy
    try:
        made = store.backup(target)
    except StoreError as problem:
        raise _no_copy(target, problem) from problem
    return Report({"path": made}, f"Copied to {made}.")


def _no_copy(target: str, problem: StoreError) -> StoreError:
    """The same refusal, about the copy; half a copy is not left behind."""
    try:
        os.unlink(target)
    except OSError:
        pass
    reason = problem.__cause__ or problem
    message = f"No copy was made at {target}: {reason}. The store is as it was; name a file in another place."
    return type(problem)(message, field="file", path=target)


def wipe(context: Context) -> Report:
    """Forget everything. What conch cannot read is not its to destroy: that is moved aside."""
    store = context.app.store
    place = store.describe()
    if not context.options.yes:
        raise InvalidArgument(f"This forgets everything in {place}; say --yes to do it.", field="yes")
    try:
        store.wipe()
    except (SchemaMismatch, StoreCorrupt):
        return _set_aside(context)
    return Report({"path": place, "set_aside": None}, f"Wiped {place}.")


def _set_aside(context: Context) -> Report:
    store = context.app.store
    place = store.describe()
    try:
        aside = store.set_aside()
    except OSError as problem:
        raise StoreUnavailable(f"{place} cannot be moved aside: {problem.strerror}.", path=place) from problem
    text = f"{place} was not readable; it was moved to {aside}."
    return Report({"path": place, "set_aside": aside}, text)


def _stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


COMMANDS = {"db path": path, "db verify": verify, "db backup": backup, "db wipe": wipe}
