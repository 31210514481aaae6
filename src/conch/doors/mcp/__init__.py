"""The MCP server on standard input and output. It needs only the standard library."""

from __future__ import annotations
