"""Generates names that people can remember and type, for agents without a name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

_ADJECTIVES = """
    agile amber ample azure balmy bold brave breezy bright brisk calm candid cheery civil clever coral crisp
    curious dapper daring deft eager earnest fabled fair fleet fond frank gentle glad golden grand hardy hazel
    honest humble ivory jade jolly keen kind lively loyal lucid lunar mellow merry mighty misty modest neat nimble
    noble olive patient placid plucky polite proud prudent quiet rapid rosy royal ruby rustic sage sandy serene
    silver smart snowy solar spry steady stout sunny swift tidy tranquil upbeat vivid warm wise witty zesty
"""
_NOUNS = """
    acorn aspen badger beacon bison birch brook canyon cedar cliff clover comet condor coyote crane cricket dingo
    dolphin dune eagle egret ember falcon fern ferret finch fjord fox gecko glacier grove gull hare harbor heron
    ibex iris jackal juniper kestrel kite koala lagoon lark laurel lemur lily linnet lotus lynx maple marmot
    marten meadow mesa mole moose newt oak orca oriole osprey otter owl panda pebble petrel pine plover puffin
    quail rabbit raven reef ridge robin salmon seal sparrow spruce stork swan tapir tern thistle thrush tiger
    toucan turtle walrus willow wolf wombat wren yak zebra
"""

ADJECTIVES = tuple(_ADJECTIVES.split())
NOUNS = tuple(_NOUNS.split())


def propose_names(digest: str) -> Iterator[str]:
    """The names for a hexadecimal digest, always in the same order: first plain names, then numbered ones."""
    plain = [_name(digest[start : start + 8]) for start in range(0, len(digest), 8)]
    yield from plain
    yield from (f"{plain[0]}-{number}" for number in count(2))


def _name(part: str) -> str:
    number, adjective = divmod(int(part, 16), len(ADJECTIVES))
    return f"{ADJECTIVES[adjective]}-{NOUNS[number % len(NOUNS)]}"
