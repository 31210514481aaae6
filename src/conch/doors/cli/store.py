"""The commands about the store itself."""

from __future__ import annotations

import os

from conch.doors.cli.context import Context, open_named
from conch.doors.cli.output import Report, failure, table
from conch.errors import InvalidArgument, SchemaMismatch, StoreCorrupt, StoreUnavailable
from conch.rooms.verify import verify_rooms
from conch.storage.copying import copy_store
from conch.tools.text import one_line


def path(context: Context) -> Report:
    place = context.app.store.describe()
    return Report({"path": place}, place)


def verify(context: Context) -> Report:
    """Check the database files, and compare every room with its log."""
    problems = context.app.store.integrity_problems()
    try:
        count, differences = verify_rooms(context.app.store)
    except StoreUnavailable as refusal:
        if not problems:
            raise
        return _not_replayed(problems, refusal)
    data = {
        "rooms": count,
        "integrity_problems": problems,
        "differences": [difference._asdict() for difference in differences],
    }
    if not problems and not differences:
        return Report(data, f"No problems found: {count} room{'s' * (count != 1)} replayed, all match their logs.")
    message = f"{len(problems)} integrity problems, {len(differences)} differences between rooms and their logs."
    rows = [(d.room_id, d.what, str(d.stored), str(d.replayed)) for d in differences]
    differing = [table(("ROOM", "FIELD", "STORED", "REPLAYED"), rows)] if rows else []
    return failure("verification_failed", message, data, text="\n".join([message, *problems, *differing]))


def _not_replayed(problems: list[str], refusal: StoreUnavailable) -> Report:
    """The report on a store whose tables are too damaged to read the rooms."""
    message = f"{len(problems)} integrity problems; the rooms could not be replayed. {refusal.message}"
    data = {"rooms": 0, "integrity_problems": problems, "differences": []}
    return failure("verification_failed", message, data, text="\n".join([message, *problems]))


def backup(context: Context) -> Report:
    file = context.options.file
    if file is not None and not file.strip():
        raise InvalidArgument("file must be non-empty.", field="file")
    if file is not None and os.path.lexists(file):
        raise InvalidArgument(f"{file} already exists; name a new file.", field="file")
    made = context.app.store.backup(file)
    return Report({"path": made}, f"Copied to {one_line(made)}.")


def migrate(context: Context) -> Report:
    before, after = context.app.store.migrate(context.options.force)
    said = f"Migrated from schema {before} to {after}." if before != after else f"Nothing to do: schema {after}."
    return Report({"from": before, "to": after}, said)


def copy(context: Context) -> Report:
    """Copy everything into another, empty store. This one does not change."""
    source = context.app
    target = open_named("to", context.options.to)
    try:
        if source.store.describe() == target.store.describe():
            raise InvalidArgument("--to names this same store; name another one.", field="to")
        copied = copy_store(source.store, target.store)
        place = target.store.describe()
    finally:
        target.close()
    rows = [(each.table, str(each.rows)) for each in copied]
    text = f"{table(('TABLE', 'ROWS'), rows)}\n\nCopied to {one_line(place)}; every row was compared."
    return Report({"to": place, "tables": {each.table: each.rows for each in copied}}, text)


def wipe(context: Context) -> Report:
    """Delete everything. A store that conch cannot read is moved aside, not deleted."""
    store = context.app.store
    place = store.describe()
    if not context.options.yes:
        raise InvalidArgument(f"This deletes everything in {place}; add --yes to do it.", field="yes")
    try:
        store.wipe()
    except (SchemaMismatch, StoreCorrupt):
        return _set_aside(context)
    return Report({"path": place, "set_aside": None}, f"Wiped {one_line(place)}.")


def _set_aside(context: Context) -> Report:
    store = context.app.store
    place = store.describe()
    aside = store.set_aside()
    text = f"{one_line(place)} could not be read, so it was moved to {one_line(aside)}."
    return Report({"path": place, "set_aside": aside}, text)
