"""The MCP format, without any state: versions, error codes, parsing messages and writing replies."""

from __future__ import annotations

import json
import re

from conch.lean import Any, NamedTuple, TypeGuard
from conch.tools.pages import Counted, speller
from conch.tools.replies import Object
from conch.tools.text import well_formed

Id = str | int

STATELESS_VERSION = "2026-07-28"
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first
BATCH_VERSIONS = ("2025-03-26", "2024-11-05")  # later versions have no batches

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002  # only in the handshake era
_UNSUPPORTED_VERSION = -32022
_LONG = 500  # characters of JSON
_TITLES = {INVALID_PARAMS: "Invalid params", INTERNAL_ERROR: "Internal error"}

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"


class Refusal(Exception):
    """A JSON-RPC error as the answer to a message. Its id is null if the message had no readable id."""

    def __init__(self, code: int, message: str, data: Object | None = None, request_id: Id | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.request_id = request_id


class Request(NamedTuple):
    id: Id
    method: str
    params: Object
    meta: Object


class Notification(NamedTuple):
    method: str
    params: Object


class Response(NamedTuple):
    """The client's answer to a request of ours. `result` is None if the answer was an error."""

    id: Id | None
    result: Object | None


def _refuse_constant(name: str) -> None:
    raise _not_json()


# Python would accept NaN and Infinity, and write them too, but they are not JSON.
_read_value = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
_spell = speller(allow_nan=False)


def _read(text: str) -> Any:
    text = text.strip(" \t\r\n")
    value, end = _read_value(text)
    if end < len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def decode(line: bytes) -> Any:
    """The JSON value of a line. Refuses a line that is not JSON, or that Python cannot load."""
    try:
        return _read(line.decode())
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise _not_json() from None
    except RecursionError:
        code, why = INVALID_PARAMS, "the message is nested too deeply"
    except MemoryError:
        code, why = INTERNAL_ERROR, "there is not enough memory for the message"
    except ValueError:  # Python refuses numbers with thousands of digits
        code, why = INVALID_PARAMS, "a number in the message has too many digits"
    raise _not_loadable(line, code, why)  # here, where the memory of the attempt is free again


def _not_json() -> Refusal:
    return Refusal(PARSE_ERROR, "Parse error: a line must hold one JSON message in UTF-8.")


def _not_loadable(line: bytes, code: int, why: str) -> Refusal:
    """The error for JSON that Python cannot load. It carries the request's id if that can be read."""
    try:
        request = _read(_outline(line).decode())
    except MemoryError:
        request_id = request_id_of(line[:_END], line[-_END:])
        return Refusal(INTERNAL_ERROR, f"{_TITLES[INTERNAL_ERROR]}: {why}.", request_id=request_id)
    except (ValueError, RecursionError):
        return _not_json()
    if not isinstance(request, dict) or "method" not in request or not is_id(request.get("id")):
        return Refusal(INVALID_REQUEST, f"Invalid request: {why}.")
    return Refusal(code, f"{_TITLES[code]}: {why}.", request_id=request["id"])


def _outline(line: bytes) -> bytes:
    """The outermost JSON value, with the contents of its nested objects and lists removed."""
    kept, place, depth = [], 0, 0
    for match in re.finditer(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', line):
        if match[0] in b"[{":
            depth += 1
            if depth == 2:
                kept.append(line[place : match.end()])
        elif match[0] in b"]}":
            depth -= 1
            if depth == 1:
                place = match.start()
    return b"".join(kept) + line[place:]


_END = 1_024  # bytes at each end of a message that are searched for its id
# The members of a message that are never long. JSON has no other way to write them, apart from blanks.
_MEMBER = rb'"(jsonrpc|method|id)"\s*:\s*(-?\d{1,15}|"(?:[^"\\]|\\.)*")\s*'
_FIRST_MEMBERS = re.compile(rb"\s*\{\s*((?:" + _MEMBER + rb",\s*)*)")
_LAST_MEMBERS = re.compile(rb"[{,]\s*((?:" + _MEMBER + rb",\s*)*" + _MEMBER + rb")\}\s*$")


def request_id_of(head: bytes, tail: bytes = b"") -> Id | None:
    """The id of a request of which only the beginning and the end are known. None if it is not there.

    A response has an id too, but no method.
    """
    known = [found[1] for found in (_FIRST_MEMBERS.match(head), _LAST_MEMBERS.search(tail)) if found]
    members = dict(re.findall(_MEMBER, b",".join(known)))
    if b"id" not in members or b"method" not in members:
        return None
    try:
        request_id = _read(members[b"id"].decode())
    except ValueError:
        return None
    return request_id if is_id(request_id) else None


def may_be_request(head: bytes) -> bool:
    """Whether a message that begins like this can be a single request."""
    return head.lstrip().startswith(b"{")


def encode(message: Any) -> bytes:
    """One line of valid UTF-8, without its newline. Raises ValueError or TypeError if JSON cannot express it."""
    return _to_utf8(_spell(message))


def _to_utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return well_formed(text).encode()


def parse(message: Any) -> Request | Notification | Response:
    """Find out what a decoded message is. Refuses malformed messages, except responses: those get no reply."""
    if not isinstance(message, dict):
        raise Refusal(INVALID_REQUEST, "Invalid request: a message must be a JSON object.")
    request_id = message.get("id")
    known_id = request_id if is_id(request_id) else None
    if "method" not in message and ("result" in message or "error" in message):
        result = message.get("result")
        return Response(known_id, result if isinstance(result, dict) else None)
    method = message.get("method")
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise Refusal(INVALID_REQUEST, 'Invalid request: "jsonrpc" and "method" are required.', request_id=known_id)
    params = {} if message.get("params") is None else message["params"]
    if "id" not in message:
        return Notification(method, params if isinstance(params, dict) else {})
    if known_id is None:
        raise Refusal(INVALID_REQUEST, 'Invalid request: "id" must be a string or an integer.')
    if not isinstance(params, dict):
        raise Refusal(INVALID_PARAMS, 'Invalid params: "params" must be an object.', request_id=known_id)
    meta = params.get("_meta")
    return Request(known_id, method, params, meta if isinstance(meta, dict) else {})


def is_id(value: object) -> TypeGuard[Id]:
    """Whether a value can be a request id or a progress token. True and False are not integers here."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def read_envelope(meta: Object, served: tuple[str, ...]) -> str | None:
    """Check the `_meta` that every stateless request must carry, and return the client's name if it has one.

    `served` lists the versions that a client may retry with.
    """
    version = meta.get(VERSION_KEY)
    if not isinstance(version, str):
        raise Refusal(INVALID_PARAMS, f"Invalid params: _meta must carry {VERSION_KEY}, a string.")
    if version != STATELESS_VERSION:
        raise unsupported_version(version, served)
    if not isinstance(meta.get(_CAPABILITIES_KEY), dict):
        raise Refusal(INVALID_PARAMS, f"Invalid params: _meta must carry {_CAPABILITIES_KEY}, an object.")
    return name_of(meta.get(_CLIENT_KEY))


def unsupported_version(requested: object, served: tuple[str, ...]) -> Refusal:
    data: Object = {"supported": list(served)}
    if isinstance(requested, str):
        data["requested"] = requested
    return Refusal(_UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def name_of(client_info: object) -> str | None:
    """The name in a `clientInfo`. It is optional and only for display, so a malformed name counts as missing."""
    name = client_info.get("name") if isinstance(client_info, dict) else None
    return name if isinstance(name, str) else None


def result_reply(request_id: Id, result: Object) -> bytes:
    data: Object = result.get("structuredContent", {})
    message: Object = {"jsonrpc": "2.0", "id": request_id, "result": result}
    if Counted not in map(type, data.values()):
        return encode(message)
    counted = {name: _to_utf8(value.spelled) for name, value in data.items() if _is_worth_keeping(value)}
    if not counted:
        return encode(message)
    structure = _encode_around(data, counted)
    return _encode_around(message, {"result": _encode_around(result, {"structuredContent": structure})})


def _is_worth_keeping(value: Any) -> bool:
    """Whether it takes longer to write a value again than to put the JSON that it has between that of the others."""
    return type(value) is Counted and len(value.spelled) >= _LONG


def _encode_around(value: Object, known: dict[str, bytes]) -> bytes:
    """The JSON of an object, of which some members are `known` as JSON.

    Each member is encoded alone, because text in ASCII is encoded much faster than other text.
    """
    members = [b"%b:%b" % (encode(name), known.get(name) or _encode_briefly(each)) for name, each in value.items()]
    return b"{%b}" % b",".join(members)


def _encode_briefly(value: Any) -> bytes:
    """The JSON of a value. An encoder takes long to make, and some values need none."""
    if not value:
        return b"[]" if type(value) is list else b"false" if value is False else encode(value)
    return b"%d" % value if type(value) is int else encode(value)


def error_reply(request_id: Id | None, refusal: Refusal) -> bytes:
    error: Object = {"code": refusal.code, "message": refusal.message}
    if refusal.data is not None:
        error["data"] = refusal.data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error})
