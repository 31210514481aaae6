"""This machine: its processes, paths, workspaces, and the programs conch asks."""

from __future__ import annotations
