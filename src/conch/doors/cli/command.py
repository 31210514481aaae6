"""What a command is, to the parser and to the help."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable

from conch.typed import NamedTuple

Options = Callable[[ArgumentParser], object]

# The headings of the overview, and the first words of the commands that have two.
TURNS, ROOMS, TALK, OTHERS = "taking turns", "the room", "talking", "everything else"
AGENT, TOPICS, NAMES, DB = "agent", "topics", "names", "db"


class Command(NamedTuple):
    name: str
    group: str
    summary: str
    """One line for the overview."""
    about: str
    options: tuple[Options, ...] = ()
    examples: str = ""
