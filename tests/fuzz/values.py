"""Values that a field does not expect, chosen by its JSON Schema."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


# The NUL and the lone surrogate come first, because no command line can carry them.
TEXTS = (
    "a\0b", "\ud800",
    "", " ", "\n", "\u3000", "x" * 300, "x" * 5_000, "x" * 70_000, "é" * 9_000,
    "\u202egnp.exe", "\u034fx", "\u3164", "c\u043ench", "\x1b[2J\x07", "\r\nerror: no", "\U0001f600",
    "0", "-1", "1e309", "9" * 400, "\u0663", "\u00b2", "1_000", "0x10", "nan", "true", "null",
    "{}", "[1]", '"', "'; DROP TABLE agents; --", "%s%n{0}$x`", "../..", "/", ".", "~", "*", "src/*/*",
    "a" + "/a" * 600, "conch", "human:root:1", "ada:1", "=1", "claim_ttl_ms=soon",
)  # fmt: skip
TYPABLE = (
    *TEXTS[2:],
    "\udcff\udcfe",
    "--",
    "-",
    "--help me",
    "a.py:" + "9" * 5_000,
    "9" * 5_000 + "d",
    "9" * 15 + "d",
    "a.py:\u0663",
)
NUMBERS = (0, -1, 1, 7, 2**31, 2**53 + 1, 2**63, 2**70, -(2**63), 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf"))
OTHERS = (None, True, False, [], {}, [None], [[]], {"": None}, {"a": {"b": "c"}}, nested(40), nested(400), "text", 7)
# What a wait never accepts. Anything else could make a call wait.
NO_WAITS = ("1", 1.5, -1, 2**70, True, [], {}, "\u0663")


def bad_value(rng: random.Random, schema: Object, ids: Sequence[str]) -> Any:
    """Something that is probably wrong: of another type, out of range, or the id of another thing."""
    schema = rng.choice(schema.get("anyOf", [schema]))
    kinds = schema.get("type", "string")
    if rng.random() < 0.3:
        return rng.choice(OTHERS)
    if "string" in kinds:
        return rng.choice(ids) if rng.random() < 0.3 else rng.choice(TEXTS)
    if "integer" in kinds or "number" in kinds:
        bounds = [schema[bound] + step for bound, step in (("minimum", -1), ("maximum", 1)) if bound in schema]
        return rng.choice([*NUMBERS, *bounds])
    if "array" in kinds:
        item = schema.get("items", {})
        return [bad_value(rng, item, ids) for _ in range(rng.choice((1, 2, 60)))]
    if "object" in kinds:
        return {rng.choice(TEXTS): rng.choice((*OTHERS, *TEXTS)) for _ in range(rng.choice((1, 3)))}
    return rng.choice((*TEXTS, *NUMBERS))


def damage(rng: random.Random, schema: Object, value: Any, ids: Sequence[str]) -> Any:
    """The value, wrong as a whole or in one part of it."""
    if isinstance(value, dict) and value and rng.random() < 0.7:
        part = rng.choice(list(value))
        if rng.random() < 0.2:
            return {name: value[name] for name in value if name != part}
        inner = schema.get("properties", {}).get(part, {})
        return {**value, part: damage(rng, inner, value[part], ids)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [*value[:place], damage(rng, schema.get("items", {}), value[place], ids), *value[place + 1 :]]
    return bad_value(rng, schema, ids)
