"""The door for hooks: `conch hook EVENT`, which harnesses run at every edit."""

from __future__ import annotations
