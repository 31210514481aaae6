"""The API is asked for anything at all, guided by its own description. No request makes the server fail."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from tests.fuzz.values import Object, damage
from tests.process.web.conftest import Console

READS, WRITES = 12, 10  # requests for each address
BODIES = [b"", b"{", b"[]", b"null", b'"x"', b"[" * 5_000, b'{"a":' * 5_000, b"\xff\xfe", b'{"confirm": 3}', b"{}"]


@pytest.fixture
def environ(environ: dict[str, str], every_engine: dict[str, str]) -> dict[str, str]:
    return {**environ, **every_engine}


@pytest.fixture
def console(environ: dict[str, str], consoles: Callable[..., Console]) -> Console:
    console = consoles(environ)
    console.conch("join")
    console.conch("reserve", "src", "--bead", "bd-1")
    console.conch("ask", "Which branch?", "--wait", "0")
    return console


@pytest.fixture
def ids(console: Console) -> list[str]:
    """Things that exist, to reach what is behind the first check."""
    room = console.get("/api/rooms")["rooms"][0]
    timeline = console.get(f"/api/rooms/{room['room_id']}/timeline")
    question = room["questions"][0]["question_id"]
    return [room["room_id"], room["topic_id"], "ada:1", "src", "bd-1", question, timeline["start"], timeline["end"]]


def good_value(chance: random.Random, schema: Object, ids: Sequence[str]) -> Any:
    """Something of the right type."""
    kind = schema.get("type", "string")
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if kind == "object":
        return {name: good_value(chance, each, ids) for name, each in schema.get("properties", {}).items()}
    if kind == "array":
        return [good_value(chance, schema.get("items", {}), ids)]
    return {"integer": schema.get("minimum", 1), "boolean": True}.get(kind) or chance.choice(ids)


def test_every_address_of_the_api_is_described(shared_console: Console) -> None:
    described = shared_console.get("/api/openapi.json")

    assert described["openapi"] == "3.1.0"
    assert "/api/rooms/{room_id}/items/{bead}" in described["paths"]
    assert described["paths"]["/api/act/kick"]["post"]["description"].startswith("The agent is no longer a member")
    assert {"/api/rooms", "/api/stream", "/api/search", "/api/act/adopt"} <= set(described["paths"])


def test_no_query_makes_the_server_fail(console: Console, ids: list[str]) -> None:
    chance = random.Random(5)
    paths = console.get("/api/openapi.json")["paths"]
    reads = {path: found["get"]["parameters"] for path, found in paths.items() if "get" in found}
    del reads["/api/stream"]  # a good request never ends

    statuses = set()
    for path, parameters in reads.items():
        schema = {"type": "object", "properties": {each["name"]: each["schema"] for each in parameters}}
        for number in range(READS):
            given = good_value(chance, schema, ids)
            values = given if number < READS // 2 else damage(chance, schema, given, ids)
            address = address_of(path, parameters, values if isinstance(values, dict) else {"other": values})
            answer = console.request("GET", address)
            statuses.add(answer.status)
            assert answer.status < 500, (address, answer.body)
            assert answer.status == 200 or {"error", "message"} <= set(answer.data), (address, answer.body)

    assert {200, 400, 404} <= statuses


def address_of(path: str, parameters: list[Object], values: Object) -> str:
    texts = {name: spell(value) for name, value in values.items()}
    inside = {each["name"]: texts.pop(each["name"], "") or "_" for each in parameters if each["in"] == "path"}
    query = "&".join(f"{spell(name)}={text}" for name, text in texts.items())
    return f"{path.format(**inside)}?{query}"[:60_000]


def spell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return quote(text.encode(errors="surrogatepass"), safe="")


def test_no_body_makes_the_server_fail(console: Console, ids: list[str]) -> None:
    chance = random.Random(7)
    paths = console.get("/api/openapi.json")["paths"]
    writes = {path: found["post"]["requestBody"] for path, found in paths.items() if "post" in found}
    headers = {**console.cookie, "Content-Type": "application/json"}

    statuses = set()
    for path, body in sorted(writes.items(), key=lambda each: "close" in each[0]):  # a closed room refuses the rest
        schema = body["content"]["application/json"]["schema"]
        for number in range(WRITES):
            given = good_value(chance, schema, ids)
            value = given if number < 2 else damage(chance, schema, given, ids)
            sent = json.dumps(value).encode() if number else chance.choice(BODIES)
            answer = console.request("POST", path, sent, headers)
            statuses.add(answer.status)
            assert answer.status < 500, (path, value, answer.body)
            assert answer.status == 200 or {"error", "message"} <= set(answer.data), (path, answer.body)

    assert {200, 400, 404, 409} <= statuses
