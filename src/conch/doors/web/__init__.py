"""The console: pages and JSON for people, an event stream, and MCP over HTTP, in one process."""

from __future__ import annotations
