"""No reply is longer than 32 KB because of what a caller gave: every field of every tool, with far too much of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.arguments import VALID
from tests.contract.conftest import Client
from tests.contract.test_bounded_replies import BUDGET, add_member, size

from conch.app import App
from conch.tools.catalogue import TOOLS

LONG = "Zed \u200b\u202e\n" * 5_000
MANY = 4_000
MEMBERS = 700
# Leaving comes last: an agent outside of the room would get other refusals.
IN_ORDER = sorted(TOOLS.items(), key=lambda each: each[0] == "leave_path")


@pytest.fixture(params=["sqlite"])
def environ(tmp_path: Path) -> dict[str, str]:
    """What a refusal says does not depend on the engine."""
    return {"HOME": str(tmp_path / "home"), "CONCH_DATA_DIR": str(tmp_path / "data")}


def too_much(schema: Any) -> list[Any]:
    """Values of the right type, and of wrong ones, that are far too large."""
    wrong = [LONG, [LONG] * 3, {LONG: LONG}, ["x"] * MANY, {f"key-{n}": n for n in range(MANY)}, int("9" * 4_000)]
    match schema.get("anyOf", [schema])[0]:
        case {"type": "array", "items": {"type": "object"} as item}:
            inside = dict.fromkeys(item.get("properties", {}), LONG)
            return [*wrong, [inside], [inside] * 100, [{"x": LONG}] * 100]
        case {"type": "object", "properties": dict(inside)}:
            return [*wrong, dict.fromkeys(inside, LONG), {**dict.fromkeys(inside, "x"), LONG: LONG}]
    return wrong


def test_no_refusal_is_larger_than_a_reply_may_be(ada: Client) -> None:
    known = {"room_id": ada.room_id, "topic_id": ada.home, "wait_seconds": 0, "max_wait_ms": 0}
    too_large = []

    for name, tool in IN_ORDER:
        properties = tool.input_schema["properties"]
        given = {**VALID[name], **{field: known[field] for field in known if field in properties}}
        for field, schema in [*properties.items(), (LONG, {})]:
            for value in too_much(schema):
                reply = ada.call(name, **{**given, field: value})
                if size(reply) > BUDGET:
                    too_large.append((name, field[:80], size(reply), reply.text[:100]))

    assert too_large == []


def test_no_refusal_names_all_members_of_a_room(app: App, ada: Client) -> None:
    with app.store.write(ada.room_id) as tx:
        for number in range(MEMBERS):
            add_member(tx, ada, f"other:{number}", f"{number:048d}", number + 1)
    known = {"room_id": ada.room_id, "topic_id": ada.home, "wait_seconds": 0, "max_wait_ms": 0}

    for name, tool in IN_ORDER:
        given = {field: known[field] for field in known if field in tool.input_schema["properties"]}
        reply = ada.call(name, **{**VALID[name], **given})
        assert size(reply) <= BUDGET, (name, reply.text[:100])
