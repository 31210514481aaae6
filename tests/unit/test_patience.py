"""How long one call may wait in each harness, and what an agent is advised to do instead of asking again."""

from __future__ import annotations

import pytest

from conch.tools.patience import patience_of

# The longest call that each harness was seen to survive, without and with progress, in seconds.
SEEN = {
    "claude-code": (620, 620),
    "codex-mcp-client": (300, 300),
    "gemini-cli-mcp-client": (600, 600),
    "opencode": (60, 620),
    "github-copilot-developer": (130, 130),
    "qwen-cli-mcp-client-conch": (130, 130),
    "kilo": (60, 130),
    "some-new-client": (60, 60),
    "copilots-of-another-kind": (60, 60),
}


@pytest.mark.parametrize(("client", "limits"), SEEN.items(), ids=SEEN)
def test_no_wait_is_longer_than_its_harness_survives(client: str, limits: tuple[int, int]) -> None:
    for has_progress, limit in enumerate(limits):
        patience = patience_of(client, bool(has_progress))

        assert patience.survives_ms < limit * 1_000
        assert limit / 2 < patience.wait_seconds(3_600) < limit


@pytest.mark.parametrize(
    "client", ["claude-code", "gemini-cli-mcp-client", "github-copilot-developer", "qwen-cli-mcp-client-conch"]
)
def test_an_agent_whose_commands_are_its_own_can_wait_in_the_background(client: str) -> None:
    assert "`conch wait`" in patience_of(client, False).instead


# A command that Codex runs may be another agent. OpenCode and Kilo run none in the background: it would get the stick
# without their knowledge.
@pytest.mark.parametrize("client", ["codex-mcp-client", "opencode", "kilo", "some-new-client", None])
def test_a_command_that_its_agent_would_not_hear_from_is_not_advised(client: str | None) -> None:
    assert "`conch wait`" not in patience_of(client, False).instead


def test_a_short_wait_stays_short() -> None:
    assert patience_of("claude-code", False).wait_seconds(5) == 5
