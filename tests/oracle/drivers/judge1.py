"""Parse recorded messages of our server with the types of SDK 1.x:  judge1.py RECORDS

The same as judge2.py, for the handshake era. An error without an id is left to the other judge: JSON-RPC wants null
there, and these types have no room for it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import mcp.types as types
from pydantic import BaseModel

RESULTS = {
    "initialize": types.InitializeResult,
    "ping": types.EmptyResult,
    "tools/list": types.ListToolsResult,
    "tools/call": types.CallToolResult,
    "prompts/list": types.ListPromptsResult,
    "prompts/get": types.GetPromptResult,
    "resources/list": types.ListResourcesResult,
    "resources/templates/list": types.ListResourceTemplatesResult,
    "resources/read": types.ReadResourceResult,
    "resources/subscribe": types.EmptyResult,
    "resources/unsubscribe": types.EmptyResult,
}


def judge(version: str, method: str | None, line: str) -> str:
    message = json.loads(line)
    if "error" in message and message["id"] is None:
        return "error without an id"
    nothing_unknown(types.JSONRPCMessage.model_validate_json(line, strict=True))
    if "error" in message:
        return f"error {message['error']['code']}"
    if "result" in message:
        nothing_unknown(RESULTS[method].model_validate_json(json.dumps(message["result"]), strict=True))
        return method
    kind = types.ServerRequest if "id" in message else types.ServerNotification
    body = {key: value for key, value in message.items() if key in ("method", "params")}
    nothing_unknown(kind.model_validate_json(json.dumps(body), strict=True))
    return message["method"]


def nothing_unknown(value: object) -> None:
    """These types keep fields that they do not know; there must be none."""
    if isinstance(value, BaseModel):
        assert not value.model_extra, (type(value), value.model_extra)
        for name in type(value).model_fields:
            nothing_unknown(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            nothing_unknown(item)


with open(sys.argv[1]) as records:
    print(json.dumps(Counter(judge(**json.loads(record)) for record in records)))
