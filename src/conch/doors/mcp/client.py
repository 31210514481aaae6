"""The client of one connection: its name, its protocol version, and the era of the protocol that it uses."""

from __future__ import annotations

from conch.doors.mcp.protocol import (
    BATCH_VERSIONS,
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    SERVER_KEY,
    STATELESS_VERSION,
    VERSION_KEY,
    Refusal,
    Request,
    name_of,
    read_envelope,
    unsupported_version,
)
from conch.tools.replies import Object

_CACHE_SECONDS = 300  # how long a client may keep a list, such as that of the tools, which never changes
_NEED_NO_ERA = ("ping",)


class Client:
    """The client. Its first accepted request fixes the era for the whole connection.

    `initialize` opens the handshake era. A request with its version in `_meta` opens the stateless era. A refused
    request fixes nothing, so the client may then try the other era.
    """

    def __init__(self, server: Object) -> None:
        self._server = server
        self._version: str | None = None
        self.name: str | None = None
        self.has_roots = False

    @property
    def stateless(self) -> bool:
        return self._version == STATELESS_VERSION

    @property
    def may_batch(self) -> bool:
        return self._version in BATCH_VERSIONS

    def initialize(self, params: Object) -> Object:
        """Agree on a version of the handshake era: the client's if we know it, otherwise our newest."""
        asked, client, capabilities = (params.get(key) for key in ("protocolVersion", "clientInfo", "capabilities"))
        if self.stateless:
            raise unsupported_version(asked, (STATELESS_VERSION,))
        if not isinstance(asked, str):
            raise Refusal(INVALID_PARAMS, "Invalid params: protocolVersion must be a string.")
        self._version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
        self.name = name_of(client)
        # Asking a client that did not declare roots would only get an error.
        self.has_roots = isinstance(capabilities, dict) and isinstance(capabilities.get("roots"), dict)
        return {"protocolVersion": self._version, "serverInfo": self._server}

    def admit(self, request: Request) -> None:
        """Refuse a request that does not belong to the era of this connection."""
        if VERSION_KEY in request.meta:
            self._admit_enveloped(request)
        elif self.stateless:
            raise Refusal(INVALID_PARAMS, f"Invalid params: _meta must carry {VERSION_KEY}.")
        elif self._version is None and request.method not in _NEED_NO_ERA:
            raise Refusal(INVALID_PARAMS, f"Invalid params: send initialize first, or _meta with {VERSION_KEY}.")

    def _admit_enveloped(self, request: Request) -> None:
        if self._version is not None and not self.stateless:
            raise Refusal(INVALID_REQUEST, f"Invalid request: this connection already uses {self._version}.")
        served = (STATELESS_VERSION,) if self.stateless else (STATELESS_VERSION, *HANDSHAKE_VERSIONS)
        self.name = read_envelope(request.meta, served) or self.name  # a client may name itself only once
        self._version = STATELESS_VERSION

    def shape(self, result: Object, cacheable: bool = False, seconds: int = _CACHE_SECONDS) -> Object:
        """The result in the format of this era. If it is `cacheable`, it says for how many seconds."""
        if not self.stateless:
            return result
        shaped = {"resultType": "complete", **result, "_meta": {SERVER_KEY: self._server}}
        return {**shaped, "ttlMs": seconds * 1_000, "cacheScope": "private"} if cacheable else shaped
