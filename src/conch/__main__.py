"""`python -m conch` is the `conch` command."""

from __future__ import annotations

import sys

from conch.main import main

if __name__ == "__main__":
    sys.exit(main())
