"""The API described as OpenAPI, from the addresses and actions that answer."""

from __future__ import annotations

import re
from collections.abc import Mapping

from conch import __version__
from conch.doors.web.requests import Action, Work
from conch.tools.replies import Object

_REFUSAL: Object = {
    "type": "object",
    "required": ["error", "message"],
    "properties": {
        "error": {"type": "string", "description": "A code, the same as at every other door."},
        "message": {"type": "string", "description": "What happened, and what to do."},
        "field": {"type": "string", "description": "The part of the request that is wrong."},
    },
}
_DONE: Object = {"type": "object", "required": ["now"], "properties": {"now": {"type": "string"}}}
_CONFIRM: Object = {"type": "boolean", "description": "Needed for an action that takes something away."}


def describe_api(
    readings: Mapping[str, tuple[Work, Object]], files: Mapping[str, Object], actions: Mapping[str, Action]
) -> Object:
    """`readings` and `actions` answer with JSON. `files` are the addresses that send text, and what they take."""
    paths: Object = {_plain(path): {"get": _reading(path, *found)} for path, found in readings.items()}
    paths |= {_plain(path): {"get": _file(path, schema)} for path, schema in files.items()}
    paths |= {f"/api/act/{name}": {"post": _action(name, action)} for name, action in actions.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "The API of conch serve", "version": __version__},
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": {"Refusal": _REFUSAL, "Reply": _DONE},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "conch_PORT"},
            },
        },
    }


def _plain(path: str) -> str:
    """The path in OpenAPI's form, in which a variable has no type."""
    return re.sub(r"{(\w+):\w+}", r"{\1}", path)


def _reading(path: str, work: Work, schema: Object) -> Object:
    summary = (work.__doc__ or "").partition("\n")[0]
    return {**({"summary": summary} if summary else {}), "parameters": _parameters(path, schema), **_replies()}


def _file(path: str, schema: Object) -> Object:
    replies = _replies()
    replies["responses"]["200"] = {"description": "A stream of text."}
    return {"parameters": _parameters(path, schema), **replies}


def _action(name: str, action: Action) -> Object:
    body = {**action.schema, "properties": {**action.schema["properties"], "confirm": _CONFIRM}}
    about = {"description": action.warning} if action.warning else {}
    content = {"application/json": {"schema": {**body, "additionalProperties": False}}}
    return {"operationId": name, **about, "requestBody": {"required": True, "content": content}, **_replies()}


def _parameters(path: str, schema: Object) -> list[Object]:
    variables, required = re.findall(r"{(\w+)", path), schema.get("required", [])
    return [
        {
            "name": name,
            "in": "path" if name in variables else "query",
            "required": name in variables or name in required,
            "schema": kind,
        }
        for name, kind in schema["properties"].items()
    ]


def _replies() -> Object:
    refused = {"description": "Refused.", "content": _json("Refusal")}
    return {"responses": {"200": {"description": "Done.", "content": _json("Reply")}, "4XX": refused, "503": refused}}


def _json(name: str) -> Object:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
