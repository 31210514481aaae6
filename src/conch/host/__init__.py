"""This machine: its processes, paths and workspaces, and the programs that conch asks for facts."""

from __future__ import annotations
