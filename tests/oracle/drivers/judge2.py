"""Parse recorded messages of our server with the types of SDK 2.x:  judge2.py RECORDS

A record is a line of JSON: the protocol version, the method that was asked (for replies), and our line. Prints how
many messages of each kind were judged; a message that the types refuse, or know less of than it says, raises.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

from mcp_types import _v2026_07_28 as stateless
from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCError, jsonrpc_message_adapter
from pydantic import TypeAdapter


def judge(version: str, method: str | None, line: str) -> str:
    message = json.loads(line)
    jsonrpc_message_adapter.validate_json(line, strict=True)
    if "error" in message:
        same(JSONRPCError, message)
        if message["error"]["code"] == -32022:
            same(stateless.UnsupportedProtocolVersionError, message)
        return f"error {message['error']['code']}"
    if "result" in message:
        same(methods.SERVER_RESULTS[method, version], message["result"])
        methods.parse_server_result(method, version, message["result"])
        return method
    if "id" in message:
        same(methods.SERVER_REQUESTS[message["method"], version], message)
        methods.parse_server_request(message["method"], version, message.get("params"))
    else:
        same(methods.SERVER_NOTIFICATIONS[message["method"], version], message)
        methods.parse_server_notification(message["method"], version, message["params"])
    return message["method"]


def same(kind, message) -> None:
    """The type takes the message strictly and knows every field of it."""
    adapter = TypeAdapter(kind)
    parsed = adapter.validate_json(json.dumps(message), strict=True)
    assert adapter.dump_python(parsed, by_alias=True, exclude_unset=True, mode="json") == message, message


with open(sys.argv[1]) as records:
    print(json.dumps(Counter(judge(**json.loads(record)) for record in records)))
