"""The store itself."""

from __future__ import annotations

from conch.doors.cli.catalogue import DB
from conch.doors.cli.catalogue.options import EVERY, LIMIT
from conch.doors.cli.command import Command, age, flag, grouped, switch, word

COMMANDS = grouped(
    DB,
    Command("db path", "store.path", "print where the store is", "Print where the store is.", EVERY, reads=True),
    Command(
        "db verify",
        "store.verify",
        "check the files, the schema, the logs and every row",
        "Check the files and the schema, replay every room's log, and check that all rows fit "
        "together: messages, cursors, questions, reservations, notices, names and the search "
        "index. Agents can keep working. Nothing is repaired. The exit status is 0 only if there "
        "is no problem.",
        (LIMIT, *EVERY),
        reads=True,
    ),
    Command(
        "db reindex",
        "store.reindex",
        "empty the search index; the next search builds it again",
        "Empty the search index. The next search builds it again from the messages.",
        EVERY,
    ),
    Command(
        "db backup",
        "store.backup",
        "back up the store while others use it",
        "Make a consistent copy of the store's file while others use it, and check the copy. For a server, print the "
        "`pg_dump` command that makes the backup.",
        (
            word("file", "FILE", "a file that does not exist yet; default: a new one beside the store", required=False),
            *EVERY,
        ),
    ),
    Command(
        "db restore",
        "store.restore",
        "replace everything with a backup",
        "Check a backup, then replace everything in the store with it, in one step. What was there before is kept in a "
        "new file. If other processes use the store, the command asks first; they go on with the restored store. For a "
        "server, print the commands to run.",
        (
            word("file", "FILE", "a file made by `conch db backup`"),
            switch("--yes", "restore even if other processes use the store"),
            *EVERY,
        ),
    ),
    Command(
        "db migrate",
        "store.migrate",
        "bring an older store to this version's schema",
        "Bring an older store to the schema of this version of conch. A file is backed up "
        "automatically; for a server, make a dump yourself first. If other processes use "
        "the store, the command names them and changes nothing, unless you add --force.",
        (switch("--force", "migrate even if other processes use the store"), *EVERY),
    ),
    Command(
        "db copy",
        "store.copy",
        "copy everything into another store",
        "Copy every table into another, empty store of either kind, and compare every row. This store does not change.",
        (flag("--to", "STORE", "a file, or the URL of a server", required=True), *EVERY),
        '  conch db copy --to "$NEW_STORE"',
    ),
    Command(
        "db prune",
        "retention.prune",
        "delete what is old and done with",
        "Delete what is old and done with: closed rooms and topics, messages that all agents have read, "
        "the log of earlier turns, ended reservations, accepted notices. What is open, unread, pending or unaccepted "
        "stays. The command says what it would delete, and asks. It works in short steps, so agents can keep working, "
        "and it can be stopped at any moment. No backup is made.",
        (
            flag("--older", "TIME", "how old: 90d, 2h or a number of days (default: CONCH_RETENTION_DAYS)", age),
            switch("--dry-run", "only say what would be deleted"),
            switch("--compact", "give the space back to the disk; no agent can write meanwhile"),
            switch("--yes", "do not ask; scripts need it"),
            *EVERY,
        ),
        "  conch db prune --older 90d --dry-run\n  conch db prune --older 90d --yes",
    ),
    Command(
        "db wipe",
        "store.wipe",
        "delete everything in the store, or one room",
        "Delete everything in the store, or one room with its messages. The command says what it would delete, and "
        "which agents are alive and hold a stick. On a terminal you must type the number of rooms. A backup is made "
        "first. A store that cannot be read is moved aside instead.",
        (
            flag("--room", "ID", "delete only this room; see `conch rooms --all`"),
            switch("--yes", "do not ask; scripts need it"),
            *EVERY,
        ),
        "  conch db wipe --room room_1a2b3c",
    ),
)
