"""The commands about the store itself."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from conch.bells.base import directory_channel
from conch.doors.cli.consent import answer_to, may_ask, require_yes
from conch.doors.cli.context import Context, open_named
from conch.doors.cli.output import Report, failure
from conch.doors.cli.paging import fitting, rows
from conch.doors.cli.tables import table
from conch.errors import (
    DecisionNeeded,
    InvalidArgument,
    SchemaMismatch,
    StoreCorrupt,
    StoreError,
    StoreReplaced,
    some_of,
)
from conch.notices.feed import all_channels
from conch.storage.base import Store
from conch.storage.copying import copy_store
from conch.storage.opening import is_server
from conch.tools.replies import Object
from conch.tools.text import one_line
from conch.upkeep.verify import verify_store
from conch.upkeep.wiping import Doomed, erase_room, survey


def path(context: Context) -> Report:
    place = context.app.store.describe()
    return Report({"path": place}, place)


_MEANS = {
    "file": "Restore a backup from before the damage.",
    "schema": "Undo the change to the schema, or restore a backup from before it.",
    "row": "Restore a backup from before the damage.",
    "index": "Run `conch db reindex`. The next search then builds the search index again from the messages.",
    "unchecked": "Fix the other problems first. Then run `conch db verify` again.",
}


def verify(context: Context) -> Report:
    """Check the files, the schema, the log of every room and every rule that the rows keep."""
    found = verify_store(context.app.store)
    listed = [
        {"kind": each.kind, "table": each.table, "problem": each.sentence, "row": each.row, "advice": _MEANS[each.kind]}
        for each in found.problems
    ]
    counts = {"rooms": found.rooms, "checks": found.checks}
    if not listed:
        rooms = f"{found.rooms} room{'s' * (found.rooms != 1)}"
        text = f"No problems found: {rooms} replayed, {found.checks} rules checked."
        return Report({**counts, "problems": []}, text)
    message = f"{len(listed)} problem{'s' * (len(listed) != 1)} found. Nothing was repaired."
    lines = [f"{each.table or 'the file'}: {one_line(each.sentence)}" for each in found.problems]
    wanted = rows(context) - 1

    def show(number: int) -> Report:
        return Report({"problems": listed[:number]}, "\n".join(lines[:number]))

    number = fitting(context, min(len(listed), wanted), show)
    omitted = len(listed) - number
    more = [f"{omitted} more do not fit here. --limit {len(listed)} shows all."] if omitted else []
    advice = dict.fromkeys(_MEANS[each.kind] for each in found.problems)
    text = "\n".join([message, "", *lines[:number], *more, "", "What to do:", *(f"- {each}" for each in advice)])
    data = {**counts, "problems": listed[:number], "has_more": omitted > 0}
    return failure("verification_failed", message, data, text=text)


def reindex(context: Context) -> Report:
    """Empty the search indexes. The next search builds them again."""
    context.app.store.empty_indexes()
    return Report({}, "The search index is empty now. The next search builds it again from the messages.")


def backup(context: Context) -> Report:
    """Copy the store, and check the copy as `restore` does: a copy that it would refuse is no backup."""
    store, file = context.app.store, context.options.file
    if file is not None and not file.strip():
        raise InvalidArgument("file must be non-empty.", field="file")
    if file is not None and os.path.lexists(file):
        raise InvalidArgument(f"{file} already exists; name a new file.", field="file")
    made = store.backup(file)
    data, said = {"path": made}, f"Copied to {one_line(made)}."
    try:
        with store.restoring(made) as restoration:
            problems = _problems(restoration.candidate)
    except SchemaMismatch:
        return Report(data, f"{said} It was not checked, because a newer version of conch has made the store.")
    except StoreCorrupt as trouble:
        problems = [trouble.message]
    except StoreError as trouble:
        return failure(trouble.code, f"{said} But it could not be checked: {trouble.message}", data)
    if problems:
        message = f"{said} But `conch db restore` would refuse it, because the store is damaged: {problems[0]}"
        return failure("verification_failed", message, {**data, "problems": problems})
    return Report(data, f"{said} No problems found.")


def restore(context: Context) -> Report:
    """Replace everything with a backup, after checking it, and verify the result."""
    if not context.options.file.strip():
        raise InvalidArgument("file must be non-empty.", field="file")
    store, file = context.app.store, os.path.abspath(context.options.file)
    with store.restoring(file) as restoration:
        problems = _problems(restoration.candidate)
        if problems:
            message = f"{one_line(file)} is damaged, so it was not restored: {problems[0]}"
            raise StoreCorrupt(message, field="file", problems=problems)
        _require_consent(context, restoration.users())
        kept = restoration.finish()
    with suppress(StoreError):  # a bell is only a hint: without it, pages look a little later
        store.ring(*all_channels(store))
    data = {"path": store.describe(), "from": file, "kept": kept}
    said = f"Restored {one_line(store.describe())} from {one_line(file)}."
    if kept is not None:
        said += f" What was there before is in {one_line(kept)}."
    try:
        problems = _problems_now(store)
    except StoreError as trouble:  # it is restored all the same, and must not be restored again
        return failure(trouble.code, f"{said} But it could not be checked: {trouble.message}", data)
    if problems:
        return failure(
            "verification_failed",
            f"{said} But the restored store has problems: {problems[0]}",
            {**data, "problems": problems},
        )
    return Report(data, f"{said} No problems found.")


def _problems(store: Store) -> list[str]:
    """What is wrong with a store, apart from its search index, which can be rebuilt."""
    return [problem.sentence for problem in verify_store(store).problems if problem.kind != "index"]


def _problems_now(store: Store) -> list[str]:
    """The problems of what is there now, even if other processes restore or wipe the store meanwhile."""
    while True:
        with suppress(StoreReplaced):
            return _problems(store)


def _require_consent(context: Context, users: list[str]) -> None:
    """Stop if other processes use the store, unless `--yes` or a person says to go on."""
    if users:
        facts = f"Other processes use the store: {', '.join(map(one_line, users))}."
        question = "They go on with the restored store. Restore now?"
        require_yes(
            context.options, facts, question, "Nothing was restored. Stop them, or add --yes to restore anyway."
        )


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
    """Delete everything, or one room, after a backup. A store that conch cannot read is moved aside, not deleted."""
    store, room_id = context.app.store, context.options.room
    try:
        doomed = survey(store, context.app.rooms, None if room_id is None else context.room_id)
    except (SchemaMismatch, StoreCorrupt) as trouble:
        if room_id is not None:
            raise
        require_yes(context.options, trouble.message, "Move it aside now?", "Nothing was changed; add --yes to do it.")
        return _set_aside(context)
    _require_count(context, doomed)
    try:
        kept = _back_up(context)
        with _telling(kept):
            _delete(context, doomed)
    except StoreCorrupt:  # in a part that nothing has read before
        if room_id is not None:
            raise
        return _set_aside(context)
    place = store.describe()
    wiped = one_line(place) if room_id is None else f"room {doomed.rooms[0].room.room_id}"
    data = {"path": place, "set_aside": None, "backup": kept, **_counts(doomed)}
    return Report(data, f"Wiped {wiped}: {_named(doomed)}. What was there is in {one_line(kept)}.")


@contextmanager
def _telling(kept: str) -> Iterator[None]:
    """Add to an error where the backup is. It may be unknown whether anything was deleted."""
    try:
        yield
    except StoreError as trouble:
        trouble.add_cause(f"A backup from just before is in {one_line(kept)}.", backup=kept)
        raise


def _delete(context: Context, doomed: Doomed) -> None:
    store = context.app.store
    if context.options.room is not None:
        erase_room(store, doomed.rooms[0])
        return
    channels = all_channels(store)
    store.wipe()
    with suppress(StoreError):  # as after a restore
        store.ring(*channels)


def _require_count(context: Context, doomed: Doomed) -> None:
    """Stop, unless `--yes` is given or a person types how many rooms there are."""
    if context.options.yes:
        return
    what = "everything" if context.options.room is None else f"the room of {doomed.rooms[0].room.canonical_path}"
    facts = one_line(f"This deletes {what} in {context.app.store.describe()}: {_named(doomed)}.")
    holders = [f"{one_line(each.member.label)} in {one_line(each.room.room.canonical_path)}" for each in doomed.holders]
    if holders:
        facts += f" Alive now, with the stick: {some_of(holders)}."
    count = str(len(doomed.rooms))
    advice = "Nothing was deleted. On a terminal, type the number of rooms; in a script, add --yes."
    if not may_ask():
        raise DecisionNeeded(f"{facts} {advice}", field="yes", **_counts(doomed))
    typed = answer_to(f"{facts}\nA backup is made first. Type the number of rooms to delete them:")
    if typed != count:
        message = f"You typed {typed or 'nothing'}, but the number of rooms is {count}. Nothing was deleted."
        raise DecisionNeeded(message, field="yes", **_counts(doomed))


def _named(doomed: Doomed) -> str:
    rooms, messages = len(doomed.rooms), doomed.messages
    return f"{rooms} room{'s' * (rooms != 1)} and {messages} message{'s' * (messages != 1)}"


def _counts(doomed: Doomed) -> Object:
    holders = [
        {"agent_id": each.member.agent_id, "name": each.member.name, "room_id": each.room.room.room_id}
        for each in doomed.holders
    ]
    return {"rooms": len(doomed.rooms), "messages": doomed.messages, "holders": holders}


def _back_up(context: Context) -> str:
    """Keep everything in a new file before it is deleted. A server's contents go into a file, too."""
    store, settings = context.app.store, context.app.settings
    if not is_server(settings.store):
        return store.backup(None)
    folder = os.path.abspath(settings.data_dir)
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept = open_named("store", os.path.join(folder, f"wiped-{moment}-{os.getpid()}.backup"))
    try:
        copy_store(store, kept.store)
        return kept.store.describe()
    finally:
        kept.close()


def _set_aside(context: Context) -> Report:
    store = context.app.store
    place = store.describe()
    aside = store.set_aside()
    store.ring(directory_channel())
    text = f"{one_line(place)} could not be read, so it was moved to {one_line(aside)}."
    return Report({"path": place, "set_aside": aside}, text)
