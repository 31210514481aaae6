"""`conch db prune`: deletes what is old and done with."""

from __future__ import annotations

from conch.clock import DAY
from conch.doors.cli.consent import require_yes
from conch.doors.cli.context import Context
from conch.doors.cli.output import Report
from conch.errors import InvalidArgument
from conch.retention.pruning import Pruned
from conch.retention.retention import Retention
from conch.tools.text import one_line


def prune(context: Context) -> Report:
    """Delete what is old and done with, after a person or `--yes` has agreed."""
    app, options = context.app, context.options
    retention, age = Retention(app.store, app.bell, app.settings), _age(context)
    found = retention.survey(age)
    place = one_line(app.store.describe())
    if options.dry_run or not (any(found) or options.compact):
        would = f"{_spell(found).capitalize()} would be deleted from {place}."
        return Report({**found._asdict(), "dry_run": options.dry_run}, would)
    facts = f"This deletes {_spell(found)} from {place}, without a backup."
    require_yes(options, facts, "Delete now?", "Nothing was deleted. On a terminal, answer y; in a script, add --yes.")
    outcome = retention.prune(age, options.compact)
    said = f"Deleted {_spell(outcome.pruned)} from {place}."
    if not outcome.is_tidy:
        said += " Another process is reading the store, so the file beside it (-wal) stays large until it has finished."
    return Report({**outcome.pruned._asdict(), "dry_run": False}, said)


def _age(context: Context) -> int:
    """The least age of what is deleted, in microseconds."""
    age: int | None = context.options.older
    if age is not None:
        return age
    if not context.app.settings.retention_days:
        message = "--older is required, such as --older 90d, unless CONCH_RETENTION_DAYS is set."
        raise InvalidArgument(message, field="older")
    return context.app.settings.retention_days * DAY


def _spell(pruned: Pruned) -> str:
    parts = [f"{count:,} {name if count != 1 else name[:-1]}" for name, count in pruned._asdict().items() if count]
    return ", ".join(parts) or "nothing"
