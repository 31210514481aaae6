"""Imports a file of another program. Importing it again adds only what is new in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from functools import partial

from conch.agents.records import LOCK
from conch.bus.topics import NAMES_LOCK
from conch.config import Settings
from conch.errors import InvalidArgument
from conch.importing.bus_files import BusFile, OldBusFile
from conch.importing.outcome import Outcome, to_text
from conch.importing.rooms import RoomAppeared, find_room_id, import_room
from conch.importing.topics import topic_steps
from conch.lean import NamedTuple
from conch.storage.base import Store, Transaction
from conch.storage.sources import Source, open_source

_OWN = {"agents", "agent_signals", "path_rooms"}
_STICK = {"path_rooms", "room_members", "room_events"}


class _Part(NamedTuple):
    """A part of the import that is added as a whole or not at all."""

    find_lock: Callable[[Transaction], str]
    """The id of the room or topic that it would change if it were added now."""
    run: Callable[[Transaction], object]


_Parts = Generator[_Part, None, None]


class _Undone(Exception):
    """Ends a transaction without its changes."""


def import_file(store: Store, settings: Settings, path: str, *, is_dry_run: bool) -> Outcome:
    """Add what the file has and the store does not. A dry run does the same and rolls it back.

    A room is added in one step, a topic in short ones, so that agents can write meanwhile. After an error or a kill,
    import again: the rest is added then.
    """
    with suppress(OSError):
        if os.path.samefile(path, store.describe()):
            raise _is_own(path)
    with open_source(path) as source:
        outcome, parts = _plan(source, settings)
        with closing(parts):  # they read the file, which is closed after this
            if is_dry_run:
                _try(store, parts)
            else:
                for part in parts:
                    _add(store, part)
        return outcome


def _try(store: Store, parts: _Parts) -> None:
    """Add everything, and roll it back."""
    with suppress(_Undone), store.write("import", NAMES_LOCK, LOCK) as tx:
        tx.take_time()
        for part in parts:
            part.run(tx)
        raise _Undone


def _add(store: Store, part: _Part) -> None:
    """Add one part under the lock of what it changes, so that no agent changes it at the same time."""
    while True:
        with store.read() as tx:
            lock = part.find_lock(tx)
        with suppress(RoomAppeared), store.write(lock, NAMES_LOCK, LOCK) as tx:
            if part.find_lock(tx) == lock:  # otherwise a room was opened or closed since we looked
                part.run(tx)
                return


def _plan(source: Source, settings: Settings) -> tuple[Outcome, _Parts]:
    if source.tables >= _OWN:
        raise _is_own(source.path)
    versions = [to_text(row.get("value")) for row in source.rows("meta", key="schema_version")]
    bus = next((kind for kind in (BusFile, OldBusFile) if source.tables >= {"topics", *kind.tables}), None)
    if bus is not None and versions == [bus.version]:
        outcome = Outcome(f"a message bus, version {bus.version}")
        return outcome, _bus_parts(outcome, bus(source))
    if source.tables >= _STICK:
        outcome = Outcome("a talking stick")
        return outcome, _room_parts(outcome, source, settings)
    message = (
        f"{source.path} is not a database that conch can import. It imports a message bus with the schema "
        "version 5 or 6, and the rooms of a talking stick."
    )
    raise InvalidArgument(message, field="file", tables=sorted(source.tables)[:20], schema_version=versions[:1])


def _bus_parts(outcome: Outcome, file: BusFile) -> _Parts:
    for row in file.topics():
        for topic_id, step in topic_steps(outcome, file, row):
            yield _Part(partial(_same, topic_id), step)
    lost = file.count() - outcome.count("messages")
    if lost:
        outcome.change("messages", str(lost), "", "Their topic is not in the file, or another message has the same id.")


def _same(lock: str, _: Transaction) -> str:
    return lock


def _room_parts(outcome: Outcome, source: Source, settings: Settings) -> _Parts:
    for row in source.rows("path_rooms", "canonical_path"):
        run = partial(import_room, outcome=outcome, settings=settings, source=source, row=row)
        yield _Part(partial(find_room_id, row=row), run)


def _is_own(path: str) -> InvalidArgument:
    message = f"{path} is a conch store. To bring its contents here, use `conch db restore` or `conch db copy`."
    return InvalidArgument(message, field="file")
