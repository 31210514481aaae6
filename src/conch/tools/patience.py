"""How long one call may wait, and what an agent can do instead of asking again. Both depend on its harness."""

from __future__ import annotations

from functools import lru_cache

from conch.config import LONGEST_WAIT_MS
from conch.host.marks import known_slug
from conch.lean import NamedTuple


class _Harness(NamedTuple):
    survives_ms: int
    """How long it waits for the result of a call, less some time for the transport."""
    with_progress_ms: int
    """The same for a call that reports progress."""
    has_background: bool = True
    """It can run commands in the background, and they act as the same agent."""


# Seen with the real programs.
_HARNESSES = {
    "claude-code": _Harness(600_000, 600_000),
    # It gives up at 300 s. Its sandbox hides who runs a command.
    "codex": _Harness(280_000, 280_000, has_background=False),
    "gemini": _Harness(570_000, 570_000),  # it gives up at 600 s
    "opencode": _Harness(50_000, 600_000, has_background=False),
    "copilot": _Harness(120_000, 120_000),
    "qwen": _Harness(120_000, 120_000),
    "kilo": _Harness(50_000, 120_000, has_background=False),
}
_BACKGROUND = (
    "Do not call this in a loop. Run `conch wait` in the background: it ends when you have the stick. Then call "
    "`wait_for_turn`. Or end your turn."
)
_COME_BACK = (
    "Do not call this in a loop. End your turn, or call `wait_for_turn` without max_wait_ms: it waits as long as "
    "it can."
)
_LISTEN_IN_BACKGROUND = (
    "Do not call this in a loop. Run `conch listen` in the background: it ends when there is something for you. Or end "
    "your turn."
)
_LISTEN_LATER = "End your turn, or call `listen` again."


class Patience(NamedTuple):
    """How long the client of a call waits for its reply."""

    survives_ms: int
    """0 if the client is not known."""
    instead: str
    """What to do after a wait that ended without the stick."""
    has_background: bool = False

    @property
    def instead_of_listening(self) -> str:
        """What to do after a listener heard nothing."""
        return _LISTEN_IN_BACKGROUND if self.has_background else _LISTEN_LATER

    def wait_seconds(self, asked: float) -> float:
        return min(float(asked), (self.survives_ms or LONGEST_WAIT_MS) / 1_000)


@lru_cache(maxsize=16)
def patience_of(client_name: str | None, has_progress: bool) -> Patience:
    harness = _HARNESSES.get(known_slug(client_name or "") or "")
    if harness is None:
        return Patience(0, _COME_BACK)
    survives = harness.with_progress_ms if has_progress else harness.survives_ms
    return Patience(survives, _BACKGROUND if harness.has_background else _COME_BACK, harness.has_background)
