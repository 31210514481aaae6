"""`python -m conch` is the `conch` command."""

from __future__ import annotations

from conch.main import command

if __name__ == "__main__":
    command()
