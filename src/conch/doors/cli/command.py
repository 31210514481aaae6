"""What a command is, to the parser and to the help."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import NamedTuple

Options = Callable[[ArgumentParser], object]

TURNS, ROOMS, OTHERS, STORE = "taking turns", "the room", "everything else", "the store"
AGENTS = "agents, reservations and notices"


class Command(NamedTuple):
    name: str
    group: str
    summary: str
    """One line for the overview."""
    about: str
    options: tuple[Options, ...] = ()
    examples: str = ""
