"""Work on threads, also while the system can start none."""

from __future__ import annotations

from collections.abc import Callable

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from conch.errors import find_lack
from conch.lean import TypeVar

Result = TypeVar("Result")


async def surely(work: Callable[[], Result], limiter: CapacityLimiter | None) -> Result:
    """Do on a thread what must be done. Without a thread it is done here, although that delays every other request."""
    begun = False

    def run() -> Result:
        nonlocal begun
        begun = True
        return work()

    try:
        return await run_sync(run, limiter=limiter)
    except (RuntimeError, MemoryError):
        if begun:
            raise
        return work()


def exhausted(problem: Exception) -> MCPError | None:
    """The reply if the system has run out of something; None for any other failure."""
    lack = find_lack(problem)
    return None if lack is None else MCPError(INTERNAL_ERROR, f"Internal error: {lack}. Try again later.")
