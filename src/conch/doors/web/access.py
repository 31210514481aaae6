"""Who may use the console: the token, and the checks that every request must pass.

A web page elsewhere can make a browser send requests to this server, and a DNS trick can make a browser believe that
this server is that page's own. So each request must name a host of ours, an origin must be ours, and the token must be
in the cookie or in the header `Authorization`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterable
from urllib.parse import urlencode

from starlette.datastructures import Headers, QueryParams
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conch.doors.web.replies import refused
from conch.errors import InvalidSetting
from conch.lean import NamedTuple

_MOST_BODY_BYTES = 1024 * 1024
_BODY_SECONDS = 20.0  # for a whole body
_READS = ("GET", "HEAD")
_API = ("/api/", "/mcp")
_MONTH_SECONDS = 30 * 24 * 3_600
_TOKEN_FILE = "console-token"
_REQUESTS_PER_SECOND = 500.0  # a page is 35 files, and a busy room makes an open page ask often
_BURST = 2_000.0
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_LOGIN_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>conch</title>
<h1>This browser is not signed in</h1>
<p>Run <code>conch serve</code> in a terminal, and open the address that it prints.</p></html>
"""


def load_token(directory: str) -> str:
    """The token of this data directory, made at the first use. Only its owner can read the file."""
    path = os.path.join(directory, _TOKEN_FILE)
    os.makedirs(directory, 0o700, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return _read_token(path)
    with open(descriptor, "w") as file:
        token = secrets.token_urlsafe(32)
        file.write(token + "\n")
    return token


def _read_token(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor) as file:
        facts = os.fstat(descriptor)
        token = file.read(200).strip()
    if facts.st_mode & 0o077 or facts.st_uid != os.getuid():
        message = f"Other users can read {path}, so its token is not secret. Delete it and run `conch serve` again."
        raise InvalidSetting(message, setting="CONCH_DATA_DIR")
    if len(token) < 32 or not token.isascii() or not token.isprintable():
        message = f"{path} holds no token. Delete it and run `conch serve` again."
        raise InvalidSetting(message, setting="CONCH_DATA_DIR")
    return token


class Rules(NamedTuple):
    """What a request must show."""

    token: str
    hosts: frozenset[str]
    """The values of the header `Host` that are ours, in lower case."""
    cookie: str
    """The cookie's name. Browsers do not tell ports apart, so it contains the port."""
    is_secure: bool
    """Whether the cookie may travel over HTTPS only."""


def own_hosts(port: int, allowed: Iterable[str]) -> frozenset[str]:
    """This machine under its own names, and the names that the user allowed."""
    return frozenset({f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", *map(str.lower, allowed)})


class Gate:
    """Passes on the requests that may enter, and adds the headers that protect the pages."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._bucket = _Bucket(_REQUESTS_PER_SECOND, _BURST)
        self._strangers = _Bucket(_REQUESTS_PER_SECOND / 10, _BURST / 10)
        self._bodies: set[_Meter] = set()

    def close(self) -> None:
        """Stop waiting for bodies, so that the server can stop."""
        for meter in list(self._bodies):
            meter.give_up()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_headers_for(scope["path"])]
            await send(message)

        refusal = self._refuse(scope)
        if refusal is not None:
            await refusal(scope, receive, send_protected)
            return
        meter = _Meter(receive)
        self._bodies.add(meter)
        try:
            await self._app(scope, meter, send_protected)
        finally:
            self._bodies.discard(meter)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        refusal = self._check_address(headers) or self._check_token(scope, headers)
        return self._check_rate(is_stranger=refusal is not None) or refusal or _check_body(scope, headers)

    def _check_address(self, headers: Headers) -> Response | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._rules.hosts:
            message = "This server does not answer under this name. Use the address that `conch serve` printed."
            return refused("WRONG_HOST", f"{message} For a reverse proxy, see --allow-host.", 421, field="Host")
        ours = {f"http://{hosts[0].lower()}", f"https://{hosts[0].lower()}"}
        if origins and (len(origins) > 1 or origins[0].lower() not in ours):
            return refused("WRONG_ORIGIN", "Another web page sent this request, so it is refused.", 403, field="Origin")
        return None

    def _check_rate(self, is_stranger: bool) -> Response | None:
        """Strangers, who have no token, have a budget of their own: they cannot use up the user's."""
        seconds = (self._strangers if is_stranger else self._bucket).take()
        if not seconds:
            return None
        response = refused("RATE_LIMITED", "Too many requests. Wait a moment, then try again.", 429)
        response.headers["retry-after"] = str(int(seconds) + 1)
        return response

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return None
        is_api, is_read = scope["path"].startswith(_API), scope["method"] in _READS
        query = QueryParams(scope["query_string"])
        if is_read and not is_api and self._is_token(query.get("token", "")):
            return self._sign_in(scope["path"], query)
        if self._is_token(_cookie(headers, self._rules.cookie)):
            if is_read or headers.get("origin"):
                return None
            message = "A page must say where it comes from: the header Origin is missing."
            return refused("WRONG_ORIGIN", message, 403, field="Origin")
        if is_read and not is_api and "text/html" in headers.get("accept", ""):
            return Response(_LOGIN_PAGE, 401, media_type="text/html")
        message = (
            "The token is missing or wrong. Open the address that `conch serve` printed, or send the token as "
            "`Authorization: Bearer TOKEN`."
        )
        refusal = refused("UNAUTHORIZED", message, 401, field="Authorization")
        refusal.headers["www-authenticate"] = "Bearer"
        return refusal

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(errors="replace"), self._rules.token.encode())

    def _sign_in(self, path: str, query: QueryParams) -> Response:
        """Keep the token in a cookie, and show the page under an address without it."""
        rest = urlencode([(name, value) for name, value in query.multi_items() if name != "token"])
        place = "/" + path.lstrip("/\\")  # `//elsewhere` would leave this server
        response = RedirectResponse(f"{place}?{rest}" if rest else place, 303)
        response.set_cookie(
            self._rules.cookie,
            self._rules.token,
            max_age=_MONTH_SECONDS,
            secure=self._rules.is_secure,
            httponly=True,
            samesite="strict",
        )
        return response


def _cookie(headers: Headers, name: str) -> str:
    pairs = (pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";"))
    return next((value for key, _, value in pairs if key == name), "")


def _check_body(scope: Scope, headers: Headers) -> Response | None:
    if scope["method"] in _READS:
        return None
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdecimal() or int(length[:16]) > _MOST_BODY_BYTES:
        message = f"The body is too large: at most {_MOST_BODY_BYTES} bytes are allowed."
        return refused("limit_exceeded", message, 413, limit=_MOST_BODY_BYTES)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and scope["method"] != "DELETE":
        message = "The body must be JSON, with the header `Content-Type: application/json`."
        return refused("WRONG_CONTENT_TYPE", message, 415, field="Content-Type")
    return None


def _headers_for(path: str) -> list[tuple[bytes, bytes]]:
    stays = "no-cache" if path.startswith("/static/") else "no-store"
    return [(name.encode(), value.encode()) for name, value in {**_HEADERS, "cache-control": stays}.items()]


class TooLarge(Exception):
    """A body without a declared length turned out to be too large."""


class TooSlow(Exception):
    """A body did not arrive in time."""


class _Meter:
    """Counts the bytes and the seconds of a body as it arrives."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._count = 0
        self._is_whole = False
        self._deadline = asyncio.get_running_loop().time() + _BODY_SECONDS
        self._limit: asyncio.Timeout | None = None  # while it waits

    def give_up(self) -> None:
        """Stop waiting for the rest of the body."""
        self._deadline = 0.0
        if self._limit is not None:
            self._limit.reschedule(self._deadline)

    async def __call__(self) -> Message:
        if self._is_whole:  # what comes now only says that the client has gone
            return await self._receive()
        message = await self._receive_in_time()
        self._is_whole = not message.get("more_body", False)
        self._count += len(message.get("body", b""))
        if self._count > _MOST_BODY_BYTES:
            raise TooLarge
        return message

    async def _receive_in_time(self) -> Message:
        try:
            async with asyncio.timeout_at(self._deadline) as self._limit:
                return await self._receive()
        except TimeoutError:
            raise TooSlow from None
        finally:
            self._limit = None


class _Bucket:
    """Allows a steady rate and short bursts."""

    def __init__(self, rate: float, most: float) -> None:
        self._rate = rate
        self._most = most
        self._left = most
        self._at = time.monotonic()

    def take(self) -> float:
        """Take one; returns 0, or after how many seconds there will be one."""
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0
