"""`conch doctor`: looks at the store, the bell, the harnesses and the environment, and says what to do."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable
from functools import partial

from conch import __version__
from conch.app import open_app
from conch.clock import SECOND
from conch.doors.cli.clients import ask_client, ask_codex_trust
from conch.doors.cli.context import Context
from conch.doors.cli.installing import here, wakes
from conch.doors.cli.output import Report, failure
from conch.errors import ConchError
from conch.harnesses.base import Harness, Place
from conch.harnesses.catalogue import HARNESSES
from conch.harnesses.installer import Installer, is_there
from conch.host import processes
from conch.host.programs import DEVNULL, PIPE, TimeoutExpired, search_path, start_program
from conch.host.workspaces import workspace_here
from conch.lean import Literal, NamedTuple, json
from conch.tools.text import one_line

_PATIENCE_SECONDS = 20
_SKEW_SECONDS = 2
_SHOWN = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
_INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "conch-doctor", "version": __version__},
}


class _Finding(NamedTuple):
    what: str
    state: Literal["ok", "note", "problem"]
    found: str
    advice: str = ""
    code: str = "PROBLEMS_FOUND"


def doctor(context: Context) -> Report:
    place = here(project=None)
    checks: list[Callable[[], list[_Finding]]] = [
        _versions,
        lambda: [*_store(context), *_bell(context)],  # the store first: a store that is not ours gets no bell
        lambda: _durability(context),
        lambda: _permissions(context),
        lambda: _other_stores(context),
        _other_programs,
        lambda: _guardians(context),
        lambda: _server(place.program),
        lambda: _harnesses(place),
    ]
    # Several checks need the store, so its refusal would be listed several times.
    found = list(dict.fromkeys(finding for check in checks for finding in _try(check)))
    data = {"findings": [_object(finding) for finding in found]}
    text = "\n".join(map(_line, found))
    problems = [finding for finding in found if finding.state == "problem"]
    if not problems:
        return Report(data, f"{text}\n\nNo problems found.")
    message = f"{len(problems)} problem{'s' * (len(problems) != 1)} found: {problems[0].what}: {problems[0].found}"
    return failure(problems[0].code, message, data, text=text)


def _object(finding: _Finding) -> dict[str, str]:
    return {"what": finding.what, "state": finding.state, "found": finding.found, "advice": finding.advice}


def _try(check: Callable[[], list[_Finding]], what: str = "check") -> list[_Finding]:
    """A check that fails is a finding, too."""
    try:
        return check()
    except ConchError as refusal:
        return [_Finding("store", "problem", refusal.message, code=refusal.code)]  # the message says what to do
    except (OSError, ValueError) as problem:
        found, advice = f"{type(problem).__name__}: {problem}", "Remove the cause, and run `conch doctor` again."
        return [_Finding(what, "problem", found, advice)]


def _line(finding: _Finding) -> str:
    advice = f"\n        {one_line(finding.advice)}" if finding.advice else ""
    return f"{_SHOWN[finding.state]} {finding.what}: {one_line(finding.found)}{advice}"


def _versions() -> list[_Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    return [_Finding("versions", "ok", f"conch {__version__}, Python {python}, {sys.platform}")]


# -- the store and the bell


def _store(context: Context) -> list[_Finding]:
    """A real write and a real read."""
    store, caller = context.app.store, context.caller
    with store.write(caller.agent_id) as tx:
        written = tx.now
        tx.run("touch_agent", agent_id=caller.agent_id, now=written)
    with store.read() as tx:
        row = tx.one("agent_seen", agent_id=caller.agent_id)
        skew = abs(tx.now / SECOND - time.time())
    place = store.describe()
    if row is None or row["last_seen_at"] < written:
        return [_Finding("store", "problem", f"{place} did not keep what was written", "Run `conch db verify`.")]
    found = [_Finding("store", "ok", f"{place} keeps what is written")]
    if skew > _SKEW_SECONDS:
        advice = "Set the clocks of both machines, for example with NTP."
        found.append(_Finding("clock", "problem", f"the store's clock is {skew:.0f} s away from this one", advice))
    return found


def _bell(context: Context) -> list[_Finding]:
    channel, bell = f"doctor-{os.getpid()}", context.app.bell
    with bell.listen(channel) as ear:
        began = time.monotonic()
        bell.ring([channel])
        heard = ear.wait(_SKEW_SECONDS)
        took = (time.monotonic() - began) * 1_000
    bell.forget([channel])
    if heard:
        return [_Finding("bell", "ok", f"rang after {took:.1f} ms")]
    advice = "Waits still work, but slowly. Check that the data directory is on a local disk."
    return [_Finding("bell", "problem", "the ring was not heard", advice)]


def _durability(context: Context) -> list[_Finding]:
    """What the store keeps after a power cut, as the engine itself says."""
    value = context.app.store.durability()
    if value == "fsync=off":
        advice = "Set `fsync` of the server to on."
        return [_Finding("durability", "problem", f"{value}: a power cut may destroy the whole store", advice)]
    if value not in ("normal", "off"):
        return [_Finding("durability", "ok", f"{value}: every commit survives a power cut")]
    found = f"{value}: a power cut may lose the last commits; a crash of a process loses none"
    if value == "normal":
        return [_Finding("durability", "ok", found)]
    advice = "To keep them, set `synchronous_commit` of the database to on."
    return [_Finding("durability", "note", found, advice)]


def _permissions(context: Context) -> list[_Finding]:
    folder = os.path.abspath(context.app.settings.data_dir)
    if not os.path.isdir(folder):
        return [_Finding("permissions", "ok", f"{folder} does not exist, and is not needed")]
    mode = stat.S_IMODE(os.stat(folder).st_mode)
    if not os.access(folder, os.W_OK):
        advice = "Make it writable. In Codex's sandbox, `conch install codex` names it in writable_roots."
        return [_Finding("permissions", "problem", f"{folder} is not writable", advice)]
    if mode & 0o022:
        return [
            _Finding("permissions", "problem", f"others can write to {folder} ({mode:o})", f"Run: chmod 700 {folder}")
        ]
    return [_Finding("permissions", "ok", f"{folder} ({mode:o})")]


def _other_stores(context: Context) -> list[_Finding]:
    """An exported variable chooses the store of this shell, but not every harness passes it on."""
    exported = [name for name in ("CONCH_STORE", "CONCH_DATA_DIR", "XDG_DATA_HOME") if os.environ.get(name)]
    without = open_app({name: value for name, value in os.environ.items() if name not in exported})
    usual = without.store.describe()
    without.close()
    if not exported or context.app.store.describe() == usual or not os.path.exists(usual):
        return [_Finding("stores", "ok", "there is no second store")]
    advice = (
        "A harness that does not pass the variable on uses the other store. Export it for the harness, or unset it."
    )
    return [_Finding("stores", "note", f"{', '.join(exported)} is set, and there is also a store at {usual}", advice)]


def _other_programs() -> list[_Finding]:
    own = os.path.realpath(os.path.join(os.path.dirname(sys.executable), "conch"))
    folders = dict.fromkeys(folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)
    found = [os.path.join(folder, "conch") for folder in folders]
    others = [path for path in found if os.access(path, os.X_OK) and os.path.realpath(path) != own]
    if not others:
        return [_Finding("programs", "ok", "there is no other conch on PATH")]
    advice = "If it is another program, remove it, or put the right folder first in PATH."
    return [_Finding("programs", "note", f"there is another conch at {', '.join(others)}", advice)]


def _guardians(context: Context) -> list[_Finding]:
    """A guardian ends with its lease, so if there are more guardians than leases, some have failed to end."""
    store = context.app.store
    users = processes.other_users_of(store.describe()) if os.path.isabs(store.describe()) else None
    if users is None:
        return []
    running = [user.pid for user in users if "conch.doors.cli.guardian" in user.command]
    (held,) = store.glance("count_owned_rooms")
    if len(running) <= held["number"]:
        return [_Finding("guardians", "ok", f"running: {len(running)}, leases held: {held['number']}")]
    pids = " ".join(map(str, sorted(running)))
    found = f"running: {len(running)}, leases held: only {held['number']}"
    return [_Finding("guardians", "note", found, f"Those without a lease should end soon. The guardians are: {pids}")]


# -- the server and the hook, as a harness starts them


def _server(program: str) -> list[_Finding]:
    calls = [("initialize", _INITIALIZE), ("tools/list", {})]
    lines = [{"jsonrpc": "2.0", "id": at, "method": name, "params": given} for at, (name, given) in enumerate(calls)]
    lines.insert(1, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    answer = _run([program, "mcp"], "".join(json.dumps(line) + "\n" for line in lines))
    replies = [json.loads(line) for line in answer.splitlines() if line.strip()]
    tools = next((len(each["result"]["tools"]) for each in replies if "tools" in each.get("result", {})), 0)
    if tools:
        return [_Finding("server", "ok", f"`{program} mcp` offers {tools} tools")]
    return [_Finding("server", "problem", f"`{program} mcp` lists no tools", "Install conch again.")]


def _hook(program: str, harness: str) -> str:
    """Call the hook as the harness does, before a tool that changes nothing. Returns what is wrong with the answer."""
    event = {"gemini": "BeforeTool", "cursor": "preToolUse"}.get(harness, "PreToolUse")
    sample = {"session_id": "doctor", "cwd": os.getcwd(), "hook_event_name": event, "tool_name": "Read"}
    answer = _run([program, "hook", event, "--harness", harness], json.dumps({**sample, "tool_input": {}})).strip()
    return "" if answer == "{}" else f"its hook answered {answer[:80]!r} to a test call, not {{}}"


def _run(command: list[str], given: str) -> str:
    with start_program(command, workspace_here(), stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
        try:
            return process.communicate(given.encode(), timeout=_PATIENCE_SECONDS)[0].decode(errors="replace")
        except TimeoutExpired:
            process.kill()
            return ""


# -- the harnesses


def _harnesses(place: Place) -> list[_Finding]:
    """All at once: some need half a minute to start their client."""
    from concurrent.futures import ThreadPoolExecutor

    folders = search_path("PATH", workspace_here())
    found = [harness for harness in HARNESSES.values() if is_there(harness, place, folders)]
    with ThreadPoolExecutor() as pool:
        checks = pool.map(lambda harness: _try(partial(_harness, place, harness), harness.title), found)
        return [finding for findings in checks for finding in findings]


def _harness(place: Place, harness: Harness) -> list[_Finding]:
    """Compares its settings with what `conch install` would write, and asks its own client about them."""
    place = place._replace(wakes=wakes(harness, place))
    results = Installer(place, is_dry=True).install(harness)
    states = {result.outcome for result in results}
    if "refused" in states:
        bad = next(result for result in results if result.outcome == "refused")
        return [_Finding(harness.title, "problem", f"{bad.path}: {bad.why}", "Fix the file and run `conch install`.")]
    if "written" in states:
        missing = [result.path for result in results if result.outcome == "written"]
        advice = f"Run `conch install {harness.slug}`."
        found = f"not set up, or set up by an older conch: {', '.join(missing)}"
        return [_Finding(harness.title, "note", found, advice)]
    if trouble := _hook(place.program, harness.slug):
        return [_Finding(harness.title, "problem", trouble, "Install conch again.")]
    woken = "; conch wakes its agents" if place.wakes else ""
    works = [_Finding(harness.title, "ok", f"its settings are current, and a hook answers{woken}")]
    opinions = [ask_client(harness), ask_codex_trust() if harness.slug == "codex" else None]
    advice = " ".join(harness.steps) or f"Restart {harness.title}, and run `{harness.check}` to see what it says."
    return works + [
        _Finding(harness.title, opinion.state, opinion.said, "" if opinion.state == "ok" else advice)
        for opinion in opinions
        if opinion
    ]
