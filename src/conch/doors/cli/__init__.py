"""The command line, for people and for agents without MCP."""

from __future__ import annotations
