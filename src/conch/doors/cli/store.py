"""The commands around the store itself."""

from __future__ import annotations

import os
import time

from conch.doors.cli.context import Context
from conch.doors.cli.output import Report, table
from conch.errors import InvalidArgument, SchemaMismatch, StoreCorrupt
from conch.verify import verify_rooms


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
    rows = [(d.room_id, d.what, str(d.stored), str(d.replayed)) for d in differences]
    lines = [*problems, table(("ROOM", "WHAT", "STORED", "REPLAYED"), rows) if rows else ""]
    text = f"{len(problems)} integrity problems, {len(differences)} differences.\n" + "\n".join(filter(None, lines))
    return Report(data, text, {"code": "verification_failed", "message": text.partition("\n")[0]})


def backup(context: Context) -> Report:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = context.options.file or f"{context.app.store.describe()}.{stamp}.backup"
    if os.path.lexists(target):
        raise InvalidArgument(f"{target} exists already; name a new file.", field="file")
    made = context.app.store.backup(target)
    return Report({"path": made}, f"Copied to {made}.")


def wipe(context: Context) -> Report:
    """Forget everything. What conch cannot read is not its to destroy: that is moved aside."""
    store = context.app.store
    if not context.options.yes:
        raise InvalidArgument(f"This forgets everything in {store.describe()}; say --yes to do it.", field="yes")
    try:
        store.wipe()
    except (SchemaMismatch, StoreCorrupt):
        aside = store.set_aside()
        return Report({"path": store.describe(), "set_aside": aside}, f"It was not readable; moved to {aside}.")
    return Report({"path": store.describe(), "set_aside": None}, f"Wiped {store.describe()}.")


COMMANDS = {"db path": path, "db verify": verify, "db backup": backup, "db wipe": wipe}
