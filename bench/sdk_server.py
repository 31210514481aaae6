"""An empty server of the official SDK, with one tool that does nothing. Conch's own server is compared with it."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("empty", log_level="ERROR")


@server.tool()
def nothing() -> dict[str, bool]:
    """Do nothing."""
    return {"ok": True}


if __name__ == "__main__":
    server.run()
