"""`conch instructions`: the instructions for every agent, and the working agreements that a user and a project add."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from conch.config import Settings
from conch.doors.cli.consent import may_ask
from conch.doors.cli.messages import read_text
from conch.doors.cli.output import Report
from conch.errors import DecisionNeeded, InvalidArgument
from conch.host.agreements import Agreement, check_text, project_path, read_agreement, user_path, write_agreement
from conch.host.ownership import require_own_folder
from conch.host.workspaces import canonicalize, workspace_here, workspace_root
from conch.lean import Any
from conch.tools.catalogue import TOOLS
from conch.tools.instructions import instructions_here
from conch.tools.replies import Object
from conch.tools.text import one_line, visible


def show(options: Any) -> Report:
    instructions = instructions_here(TOOLS, Settings.load(os.environ).data_dir, canonicalize(options.path or "."))
    both = (_user(), _project(options))
    places = [f"{each.kind}: {one_line(each.path)}{'' if each.text else ' (there is none)'}" for each in both]
    data: Object = {
        "instructions": instructions,
        **{each.kind: {"path": each.path, "text": each.text or None} for each in both},
    }
    return Report(data, "\n".join([visible(instructions), *places]))


def edit(options: Any) -> Report:
    if options.user:
        require_own_folder(Settings.load(os.environ).data_dir)  # otherwise no agent would read it
    agreement = _user() if options.user else _project(options)
    with _given(agreement, options.text) as given:
        exists = write_agreement(agreement._replace(text=given), within=None if options.user else _root(options))
    data = {"kind": agreement.kind, "path": agreement.path, "text": check_text(given) or None}
    who = "your agents" if options.user else "the agents of this project"
    if not exists:
        return Report(data, f"There is no agreement at {one_line(agreement.path)} now.")
    return Report(data, f"Wrote {one_line(agreement.path)}. From their next session on, {who} get it.")


def _user() -> Agreement:
    return read_agreement("user", user_path(Settings.load(os.environ).data_dir))


def _project(options: Any) -> Agreement:
    root = _root(options)
    return read_agreement("project", project_path(root), within=root)


def _root(options: Any) -> str:
    return workspace_root(canonicalize(options.path or "."))


@contextmanager
def _given(agreement: Agreement, text: str | None) -> Iterator[str]:
    """The new text: from the command line, from a person's editor, or from standard input."""
    if text is None and may_ask():
        with _edited(agreement.text) as edited:
            yield edited
        return
    if text is None and sys.stdin is not None and sys.stdin.isatty():
        message = "Only a person can edit on a terminal. Give the text as an argument; `-` reads standard input."
        raise DecisionNeeded(message, field="text")
    yield read_text("-" if text is None else text)


@contextmanager
def _edited(text: str) -> Iterator[str]:
    """Let the person change the text in an editor. A draft that cannot be used or written is kept."""
    import shlex
    import tempfile

    from conch.host.programs import start_program

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.NamedTemporaryFile("w", suffix=".md", prefix="conch-", delete=False, encoding="utf-8") as draft:
        draft.write(f"{text}\n" if text else "")
    try:
        status = start_program([*shlex.split(editor), draft.name], workspace_here()).wait()
    except (OSError, ValueError) as error:
        with suppress(OSError):
            os.unlink(draft.name)  # nobody has written anything into it
        raise InvalidArgument(
            f"The editor {editor!r} cannot be started: {error}. Set VISUAL or EDITOR.", field="EDITOR"
        ) from None
    if status:
        message = f"The editor ended with {status}, so nothing was changed. Your text is in {draft.name}."
        raise InvalidArgument(message, field="EDITOR")
    try:
        with open(draft.name, encoding="utf-8") as file:
            edited = file.read()
        yield check_text(edited)
    except UnicodeDecodeError:
        raise InvalidArgument(f"An agreement must be UTF-8. Your text is in {draft.name}.", field="text") from None
    except InvalidArgument as refusal:
        refusal.add_cause(f"Your text is in {draft.name}.")
        raise
    with suppress(OSError):
        os.unlink(draft.name)
