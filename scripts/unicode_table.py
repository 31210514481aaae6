"""Writes `src/conch/letters/table.txt` and prints the default-ignorable ranges for `letters/invisible.py`.

The facts come from an ICU library on this machine: `python scripts/unicode_table.py 72`. The number is ICU's major
version; ICU 72 has the data of Unicode 15.0. conch itself needs no ICU.
"""

from __future__ import annotations

import ctypes
import sys
import unicodedata
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

TABLE = Path(__file__).parents[1] / "src" / "conch" / "letters" / "table.txt"
DEFAULT_IGNORABLE, SHORT_NAME, SCRIPT = 5, 0, 0x100A  # from uchar.h
ROOM = 256
HEADER = """\
# Unicode {version}: the scripts of each character (Script_Extensions), and the confusables of UTS #39.
# Data: Copyright Unicode, Inc., under the Unicode License (https://www.unicode.org/license.txt).
# scripts/unicode_table.py writes this file. Code points are in hex.
"""


class Icu:
    def __init__(self, version: str) -> None:
        self._version = version
        self._common = ctypes.CDLL(f"libicuuc.so.{version}")
        self._i18n = ctypes.CDLL(f"libicui18n.so.{version}")
        self._error = ctypes.c_int(0)
        opened = self._function(self._i18n, "uspoof_open", ctypes.c_void_p)
        self._checker = ctypes.c_void_p(opened(ctypes.byref(self._error)))

    def _function(self, library: ctypes.CDLL, name: str, returns: object) -> ctypes._NamedFuncPointer:
        found = getattr(library, f"{name}_{self._version}")
        found.restype = returns
        return found  # type: ignore[no-any-return]

    @property
    def unicode_version(self) -> str:
        parts = (ctypes.c_uint8 * 4)()
        self._function(self._common, "u_getUnicodeVersion", None)(parts)
        return ".".join(map(str, parts[:3]))

    def skeleton(self, letter: str) -> str:
        given, room = letter.encode(), ctypes.create_string_buffer(ROOM)
        run = self._function(self._i18n, "uspoof_getSkeletonUTF8", ctypes.c_int32)
        size = run(self._checker, 0, given, len(given), room, ROOM, ctypes.byref(self._error))
        assert self._error.value <= 0
        return room.raw[:size].decode()

    def scripts(self, code: int) -> str:
        numbers = (ctypes.c_int * ROOM)()
        run = self._function(self._common, "uscript_getScriptExtensions", ctypes.c_int32)
        count = run(code, numbers, ROOM, ctypes.byref(self._error))
        name = self._function(self._common, "u_getPropertyValueName", ctypes.c_char_p)
        return ",".join(sorted(name(SCRIPT, number, SHORT_NAME).decode() for number in numbers[:count]))

    def is_ignorable(self, code: int) -> bool:
        return bool(self._function(self._common, "u_hasBinaryProperty", ctypes.c_int8)(code, DEFAULT_IGNORABLE))


def ranges(codes: list[int]) -> str:
    """`41-5A 61-7A` for a sorted list of code points."""
    starts = [codes[0], *(later for earlier, later in pairwise(codes) if later != earlier + 1)]
    ends = [*(earlier for earlier, later in pairwise(codes) if later != earlier + 1), codes[-1]]
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in zip(starts, ends, strict=True))


def main(version: str) -> None:
    icu = Icu(version)
    scripts, confusables = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for code in codes:
        letter = chr(code)
        if (known := icu.scripts(code)) != "Zzzz":
            scripts[known].append(code)
        if unicodedata.normalize("NFD", letter) == letter and (shape := icu.skeleton(letter)) != letter:
            confusables[shape].append(code)
    lines = [f"{names} {ranges(found)}" for names, found in sorted(scripts.items())] + [""]
    for shape, found in sorted(confusables.items()):
        lines.append(f"{' '.join(f'{ord(each):X}' for each in shape)}; {' '.join(f'{code:X}' for code in found)}")
    TABLE.write_text(HEADER.format(version=icu.unicode_version) + "\n".join(lines) + "\n")
    print(ranges([code for code in codes if icu.is_ignorable(code)]))


if __name__ == "__main__":
    main(sys.argv[1])
