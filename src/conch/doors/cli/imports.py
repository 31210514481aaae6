"""The command that imports the data of another program."""

from __future__ import annotations

from collections.abc import Sequence

from conch.doors.cli.context import Context
from conch.doors.cli.output import Report
from conch.doors.cli.tables import table
from conch.importing.importing import import_file
from conch.importing.outcome import Change, Outcome
from conch.tools.text import one_line

_MOST_CHANGES = 20
_LONGEST = 200


def import_data(context: Context) -> Report:
    """Add what the file has and the store does not."""
    file, is_dry_run = context.options.file, context.options.dry_run
    outcome = import_file(context.app.store, context.app.settings, file, is_dry_run=is_dry_run)
    data = {
        "file": file,
        "source": outcome.source,
        "dry_run": is_dry_run,
        "added": outcome.added,
        "known": outcome.known,
        "changes": [change._asdict() for change in outcome.changes],
    }
    return Report(data, _text(file, outcome, is_dry_run))


def _text(file: str, outcome: Outcome, is_dry_run: bool) -> str:
    rows = [(what, str(outcome.added.get(what, 0)), str(outcome.known.get(what, 0))) for what in outcome.kinds]
    lines = [f"{one_line(file)} belongs to {outcome.source}.", "", table(("", "NEW", "ALREADY HERE"), rows)]
    lines += _change_lines(outcome.changes)
    if is_dry_run:
        lines += ["", "This was a dry run: nothing was changed. Run the command again without --dry-run."]
    elif not any(outcome.added.values()):
        lines += ["", "Nothing was new, so nothing was changed."]
    return "\n".join(lines)


def _change_lines(changes: Sequence[Change]) -> list[str]:
    if not changes:
        return []
    lines = ["", "Changed or left out:"]
    for change in changes[:_MOST_CHANGES]:
        became = f"is now {one_line(change.became)}" if change.became else "was left out"
        lines.append(f"- {change.what} {_short(change.given)!r} {became}. {_short(change.reason)}")
    if len(changes) > _MOST_CHANGES:
        lines.append(f"- and {len(changes) - _MOST_CHANGES} more: see --json")
    return lines


def _short(text: str) -> str:
    """The beginning of a text from a file, which may be huge."""
    return one_line(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
