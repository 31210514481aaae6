"""MCP over standard input and output, on the standard library alone."""

from __future__ import annotations
