"""`conch demo`: three scripted agents, each behind its own real `conch mcp` process, play the seed's four examples.

`director` runs the show, `script` says what is played, `screen` shows it. `agent` is the program of one scripted
agent: a process of its own that speaks MCP to its own server and does what the director says.
"""

from __future__ import annotations


def run_demo(keep: bool) -> int:
    """Play the demo and return the exit status; `keep` leaves the scratch repository and store behind."""
    from conch.doors.cli.demo.director import direct  # the agents import this package too, and need none of that

    return direct(keep)
