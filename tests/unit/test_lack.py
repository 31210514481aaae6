"""What the system has run out of is recognised, also where a module cannot be imported because of it."""

from __future__ import annotations

import errno

import pytest

from conch.errors import find_lack

LIBRARY = "/usr/lib/python3/lib-dynload/unicodedata.so: "


@pytest.mark.parametrize(
    ("error", "lack"),
    [
        (ImportError(f"{LIBRARY}failed to map segment from shared object"), "there is not enough memory"),
        (ImportError(f"{LIBRARY}cannot open shared object file: Cannot allocate memory"), "there is not enough memory"),
        (ImportError(f"{LIBRARY}cannot open shared object file: Too many open files"), "too many files are open"),
        (ImportError("cannot import name 'x'"), None),
        (ModuleNotFoundError("No module named 'x'"), None),
        (OSError(errno.EMFILE, "Too many open files"), "too many files are open"),
        (RuntimeError("can't start new thread"), "the system cannot start another thread"),
        (ValueError("failed to map segment"), None),
    ],
)
def test_what_is_lacking_is_recognised(error: Exception, lack: str | None) -> None:
    assert find_lack(error) == lack
