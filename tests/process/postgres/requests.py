"""What a client says to PostgreSQL, read from the bytes that pass a proxy."""

from __future__ import annotations


class Requests:
    """The statements of one connection. A prepared statement is sent once; later requests only name it."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_begun = False
        self._prepared: dict[bytes, bytes] = {}

    def read(self, data: bytes) -> list[str]:
        """The statements whose messages end in this data, each with its whole text."""
        self._rest += data
        found = []
        while (message := self._next()) is not None:
            kind, body = message
            if kind == b"P":
                name, _, text = body.partition(b"\0")
                self._prepared[name] = text.partition(b"\0")[0]
            elif kind == b"B":
                found.append(self._prepared.get(body.split(b"\0")[1], b"?"))
            elif kind == b"Q":
                found.append(body.partition(b"\0")[0])
        return [statement.decode() for statement in found]

    def _next(self) -> tuple[bytes, bytes] | None:
        """The kind and the body of the next whole message. The first message has no kind."""
        start = 1 if self._is_begun else 0
        end = start + int.from_bytes(self._rest[start : start + 4], "big")
        if len(self._rest) < start + 4 or len(self._rest) < end:
            return None
        kind, body, self._rest = self._rest[:start], self._rest[start + 4 : end], self._rest[end:]
        self._is_begun = True
        return kind, body
