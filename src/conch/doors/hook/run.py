"""Runs `conch hook EVENT`: reads the harness's JSON, prints the answer in the harness's form.

A hook must never stand in an agent's way because something is wrong with conch. So it always exits with 0, prints
`{}` whatever goes wrong, and gives up after a moment even if the store or standard input hangs.
"""

from __future__ import annotations

import os
import sys
from _json import encode_basestring_ascii, make_scanner
from _thread import start_new_thread
from collections.abc import Callable, Sequence

from conch.harnesses.hooks import compose, read_happening
from conch.host.marks import marked
from conch.lean import Any, Lock

_LIMIT_SECONDS = 2.0  # harnesses wait 5 s
_LARGEST_INPUT = 16 * 1024 * 1024
_NOTHING = b"{}\n"


class _Output:
    """Standard output, which takes exactly one answer."""

    def __init__(self) -> None:
        self._turn = Lock()

    def write(self, answer: bytes) -> bool:
        """Whether the answer was written: it was the first one, and all of it arrived."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            while answer:
                answer = answer[os.write(1, answer) :]
        except OSError:
            return False
        return True

    def give_up_later(self, finished: Any) -> None:
        """End the process unless it is finished in time: with an empty answer, or with the one that was written."""
        if not finished.acquire(timeout=_LIMIT_SECONDS):
            self.write(_NOTHING)
            os._exit(0)


def run(words: Sequence[str]) -> int:
    output, finished = _Output(), Lock()
    finished.acquire()
    start_new_thread(output.give_up_later, (finished,))
    try:
        _answer(words, output)
    except Exception:  # whatever it is, the agent goes on
        pass
    output.write(_NOTHING)
    return 0


def _answer(words: Sequence[str], output: _Output) -> None:
    reply(words, sys.stdin.buffer.read(_LARGEST_INPUT), output.write)


def reply(words: Sequence[str], given: bytes, write: Callable[[bytes], bool]) -> None:
    """Write the answer to the input of a hook. `write` says whether it was written."""
    event, harness = _read_words(words)
    fields, _ = make_scanner(_Json)(given.decode().strip(), 0)  # type: ignore[arg-type]
    mark = marked(os.environ)
    happening = read_happening(event, harness, fields, mark.slug if mark else "")
    if happening.kind == "other":
        return
    from conch.doors.hook.actions import act

    act(happening, lambda answer: write(f"{_spell(compose(happening, answer))}\n".encode()))


class _Json:
    """How to read JSON. The module `json` would double the start-up time of a hook."""

    strict = False
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int
    memo: dict[str, str] = {}


def _spell(value: Any) -> str:
    """The JSON of an answer, which has only objects and strings."""
    if isinstance(value, str):
        return str(encode_basestring_ascii(value))
    return "{" + ", ".join(f"{_spell(key)}: {_spell(part)}" for key, part in value.items()) + "}"


def _read_words(words: Sequence[str]) -> tuple[str, str]:
    """The event and the harness of a command line such as `PreToolUse --harness codex`."""
    rest = list(words)
    harness = ""
    if "--harness" in rest:
        place = rest.index("--harness")
        harness = rest[place + 1]
        del rest[place : place + 2]
    return rest[0] if rest else "", harness  # the input names the event too
