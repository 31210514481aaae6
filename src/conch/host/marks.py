"""How a harness is recognised: by its program, by what it exports, by how it introduces itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from conch.host.programs import Program


class Harness(NamedTuple):
    slug: str
    programs: tuple[str, ...]
    """File names of its executable or start script."""
    places: tuple[str, ...] = ()
    """Parts of the path of its executable or start script, where the file name says nothing."""
    clients: tuple[str, ...] = ()
    """How the `clientInfo.name` of its MCP client starts."""
    marks: tuple[str, ...] = ()
    """Variables that are set in whatever it starts."""
    sessions: tuple[str, ...] = ()
    """Those of them that hold the id of the session."""


HARNESSES = (
    Harness(
        "claude-code",
        programs=("claude",),
        places=("/@anthropic-ai/claude-code", "/claude/versions/"),
        clients=("claude-code",),
        marks=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID"),
        sessions=("CLAUDE_CODE_SESSION_ID",),
    ),
    Harness(
        "codex",
        programs=("codex",),
        places=("/@openai/codex",),
        clients=("codex",),
        marks=("CODEX_THREAD_ID",),
        sessions=("CODEX_THREAD_ID",),
    ),
    Harness(
        "gemini",
        programs=("gemini",),
        places=("/@google/gemini-cli/",),
        clients=("gemini",),
        marks=("GEMINI_CLI", "GEMINI_SESSION_ID"),
        sessions=("GEMINI_SESSION_ID",),
    ),
    Harness(
        "opencode",
        programs=("opencode",),
        places=("/opencode-ai/",),
        clients=("opencode",),
        marks=("OPENCODE", "OPENCODE_SESSION_ID"),
        sessions=("OPENCODE_SESSION_ID",),
    ),
    # Not `cursor`: people type into the editor's terminals too, and only its MCP client says who asks.
    Harness(
        "cursor",
        programs=("cursor-agent",),
        places=("/cursor-agent/versions/",),
        clients=("cursor",),
        marks=("CURSOR_TRACE_ID",),
    ),
    Harness(
        "copilot",
        programs=("copilot",),
        places=("/@github/copilot/",),
        clients=("copilot", "github-copilot"),
    ),
    Harness("grok", programs=("grok",), clients=("grok",), marks=("GROK_AGENT",)),
    Harness(
        "antigravity",
        programs=("antigravity",),
        clients=("antigravity",),
        marks=("ANTIGRAVITY_CONVERSATION_ID",),
        sessions=("ANTIGRAVITY_CONVERSATION_ID",),
    ),
    Harness("vscode", programs=(), clients=("visual-studio-code", "vscode")),
)


def recognise(program: Program) -> Harness | None:
    """The harness that this program is; what a harness merely starts is not the harness."""
    for harness in HARNESSES:
        if program.is_any_of(harness.programs) or program.lies_in(harness.places):
            return harness
    return None


def marked(environ: Mapping[str, str]) -> Harness | None:
    """The harness that left its mark in the environment. It may be one further up: marks are inherited."""
    return next((h for h in HARNESSES if any(environ.get(mark) for mark in h.marks)), None)


def slug_of(name: str) -> str:
    """The short name for whatever a harness calls itself; `agent` when nothing usable is left."""
    return known_slug(name) or _clean(name) or "agent"


def known_slug(name: str) -> str | None:
    """The same, but only for the harnesses of the table."""
    clean = _clean(name)
    for harness in HARNESSES:
        if clean in harness.programs or any(f"{clean}-".startswith(f"{start}-") for start in harness.clients):
            return harness.slug
    return None


def _clean(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32].rstrip("-")
