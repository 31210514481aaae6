"""What modules import whose tests hold for `conch mcp` and for `/mcp` of `conch serve`."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(name="door", params=["stdio", "http"])
def both_doors(request: pytest.FixtureRequest) -> str:
    """For a whole module."""
    return str(request.param)


# For single tests of a module that is about `conch mcp`.
both = pytest.mark.parametrize("door", ["stdio", "http"], indirect=True)
# For what only the wire or the SDK decides: lines, pipes, the process, the exact refusal of a malformed message.
stdio = pytest.mark.parametrize("door", ["stdio"], indirect=True)


def capabilities(result: dict[str, Any]) -> dict[str, Any]:
    """What a server says it can do. The SDK adds `listChanged`, though our lists never change."""
    return {
        name: {key: value for key, value in facts.items() if key != "listChanged"}
        for name, facts in result["capabilities"].items()
    }
