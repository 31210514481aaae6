"""Every harness that conch can install itself into. A new one is one module and one line here."""

from __future__ import annotations

from conch.harnesses import claude_code, codex, copilot, cursor, gemini, kilo, opencode, qwen, vscode

HARNESSES = {
    module.HARNESS.slug: module.HARNESS
    for module in (claude_code, codex, gemini, opencode, cursor, vscode, copilot, qwen, kilo)
}
