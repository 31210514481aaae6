"""What the hooks of the harnesses send, and how they want to be answered."""

from __future__ import annotations

from conch.lean import Any, Literal, NamedTuple

_Kind = Literal["before_tool", "after_tool", "prompt", "stop", "start", "end", "other"]

# The names of the events in lower case, without punctuation: harnesses spell them in three ways.
_KINDS: dict[str, _Kind] = {
    "pretooluse": "before_tool",
    "beforetool": "before_tool",
    "beforeshellexecution": "before_tool",
    "toolexecutebefore": "before_tool",
    "posttooluse": "after_tool",
    "posttoolusefailure": "after_tool",
    "aftertool": "after_tool",
    "toolexecuteafter": "after_tool",
    "userpromptsubmit": "prompt",
    "userpromptsubmitted": "prompt",
    "beforeagent": "prompt",
    "beforesubmitprompt": "prompt",
    "chatmessage": "prompt",
    "stop": "stop",
    "agentstop": "stop",
    "afteragent": "stop",
    "sessionidle": "stop",
    "sessionstart": "start",
    "sessioncreated": "start",
    "sessionend": "end",
    "sessiondeleted": "end",
}
# The variable that holds the session's id in commands of the harness. So a hook and a command are one agent.
_VARIABLES = {
    "claude-code": "CLAUDE_CODE_SESSION_ID",
    "codex": "CODEX_THREAD_ID",
    "gemini": "GEMINI_SESSION_ID",
    "opencode": "OPENCODE_SESSION_ID",
    "kilo": "KILO_SESSION_ID",
    "copilot": "COPILOT_AGENT_SESSION_ID",
    "qwen": "QWEN_CODE_SESSION_ID",
    "cursor": "CURSOR_SESSION_ID",
}
_LONGEST_ID = 128
_LONGEST_PROMPT = 1_000


class Happening(NamedTuple):
    """What a harness tells a hook."""

    harness: str
    event: str
    """As the harness calls it."""
    kind: _Kind
    session_id: str
    cwd: str
    tool: str
    tool_input: dict[str, Any]
    source: str
    """Why a session starts; empty for other events."""
    goes_on: bool
    """Whether a hook has just kept the agent from stopping."""
    is_subagent: bool
    is_camel: bool
    """Whether the names of the fields are in camel case: Copilot has two forms."""
    prompt: str
    """The beginning of what the user, or a wake, says to the agent."""

    @property
    def marks(self) -> dict[str, str]:
        """The variables that a command of this session would have."""
        variable = _VARIABLES.get(self.harness)
        return {variable: self.session_id} if variable and self.session_id else {}


class Answer(NamedTuple):
    """What conch says to a harness. At most one field is set."""

    deny: str = ""
    """Why a tool must not run."""
    context: str = ""
    """What the model should read."""
    block: str = ""
    """Why the agent must not stop yet."""


def read_happening(event: str, harness: str, given: dict[str, Any], environ_harness: str) -> Happening:
    """Understand the input of a hook. Fields that are missing or of the wrong type count as empty."""
    named = _text(given, "hook_event_name", "hookEventName", "hookName") or event
    is_camel = "hook_event_name" not in given and "sessionId" in given
    known = harness or environ_harness
    plain = "".join(letter for letter in named.lower() if letter.isalnum())
    tool_input = next((given[name] for name in ("tool_input", "toolArgs", "toolInput") if name in given), None)
    if isinstance(tool_input, str):
        tool_input = _parsed(tool_input)
    if plain == "beforeshellexecution":
        tool_input = {"command": given.get("command")}
    roots = given.get("workspace_roots")
    root = next((each for each in roots if isinstance(each, str)), "") if isinstance(roots, list) else ""
    return Happening(
        known,
        named,
        _KINDS.get(plain, "other"),
        _text(given, "session_id", "sessionId", "sessionID", "conversation_id")[:_LONGEST_ID],
        _text(given, "cwd") or root,
        "shell" if plain == "beforeshellexecution" else _text(given, "tool_name", "toolName"),
        tool_input if isinstance(tool_input, dict) else {},
        _text(given, "source"),
        given.get("stop_hook_active") is True or bool(given.get("loop_count")),
        bool(_text(given, "agent_id") and _text(given, "agent_type")),
        is_camel,
        _text(given, "prompt")[:_LONGEST_PROMPT],
    )


def _text(given: dict[str, Any], *names: str) -> str:
    return next((given[name] for name in names if isinstance(given.get(name), str)), "")


def _parsed(text: str) -> Any:
    from conch.lean import json

    try:
        return json.loads(text)
    except ValueError:
        return None


def compose(happening: Happening, answer: Answer) -> dict[str, Any]:
    """The answer in the form of the harness. Empty if there is nothing to say."""
    if not any(answer):
        return {}
    if happening.harness in ("opencode", "kilo"):
        return {name: text for name, text in answer._asdict().items() if text}
    form = {"gemini": _for_gemini, "cursor": _for_cursor, "copilot": _for_copilot}.get(happening.harness, _for_claude)
    return form(happening, answer)


def _for_claude(happening: Happening, answer: Answer) -> dict[str, Any]:
    """The form that most harnesses understand. Codex refuses any other key."""
    if answer.block:
        return {"decision": "block", "reason": answer.block}
    # No `permissionDecision` with a warning: "allow" would skip the question to the user.
    said = (
        {"permissionDecision": "deny", "permissionDecisionReason": answer.deny}
        if answer.deny
        else {"additionalContext": answer.context}
    )
    return {"hookSpecificOutput": {"hookEventName": happening.event, **said}}


def _for_gemini(happening: Happening, answer: Answer) -> dict[str, Any]:
    if answer.deny or answer.block:
        return {"decision": "deny", "reason": answer.deny or answer.block}
    if happening.kind == "before_tool":
        return {"systemMessage": answer.context}
    return {"hookSpecificOutput": {"hookEventName": happening.event, "additionalContext": answer.context}}


def _for_copilot(happening: Happening, answer: Answer) -> dict[str, Any]:
    if answer.context:
        return {"additionalContext": answer.context}
    if answer.deny and happening.is_camel:
        return {"permissionDecision": "deny", "permissionDecisionReason": answer.deny}
    return _for_claude(happening, answer)


def _for_cursor(happening: Happening, answer: Answer) -> dict[str, Any]:
    if answer.deny:
        return {"permission": "deny", "user_message": answer.deny, "agent_message": answer.deny}
    if answer.block:
        return {"followup_message": answer.block}
    return {"additional_context": answer.context} if happening.kind in ("after_tool", "start") else {}
