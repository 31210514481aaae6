"""The door for hooks: `conch hook EVENT`, which harnesses run around tools, prompts and sessions."""

from __future__ import annotations
