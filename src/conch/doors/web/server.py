"""`conch serve`: the console on a port of this machine."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from conch import __version__
from conch.app import App
from conch.doors.web import rooms
from conch.doors.web.access import Gate, Rules, TooLarge, load_token, own_hosts
from conch.doors.web.person import person_session
from conch.doors.web.replies import JSON, refused
from conch.doors.web.stream import Hub, events
from conch.doors.web.views import agent_view
from conch.doors.web.work import Desk
from conch.errors import ConchError, InvalidArgument
from conch.exits import INTERRUPTED
from conch.lean import NamedTuple
from conch.notices.timeline import parse_place
from conch.tools import fields
from conch.tools.replies import Object

_DEFAULT_PORT = 8377
_MOST_PORTS = 20  # tried one after the other
_STATIC = os.path.join(os.path.dirname(__file__), "static")
_PAGES = (
    "/",
    "/rooms/{rest:path}",
    "/items",
    "/items/{rest:path}",
    "/topics",
    "/topics/{rest:path}",
    "/search",
    "/health",
)
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Serving(NamedTuple):
    """The options of `conch serve`."""

    port: int | None
    bind: str
    allow_hosts: Sequence[str]
    certificate: str | None
    key: str | None
    force: bool


def serve(app: App, options: Serving) -> int:
    """Serve until a signal arrives; returns the exit status."""
    _check_bind(options)
    with app.store.read():
        pass  # a store that cannot be used is an error of the command, not of every request
    token = load_token(app.settings.data_dir)
    listening = _listen(options)
    port = listening.getsockname()[1]
    is_secure = options.certificate is not None
    rules = Rules(token, own_hosts(port, _hosts(options, port)), f"conch_{port}", is_secure)
    hub = Hub(app)
    config = uvicorn.Config(
        Gate(_site(app, hub), rules),
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    server = _Server(config, hub)
    scheme = "https" if is_secure else "http"
    print(f"{scheme}://{_shown(options.bind)}:{port}/?token={token}", flush=True)
    server.run([listening])
    return INTERRUPTED if server.signal == signal.SIGINT else 0


class _Server(uvicorn.Server):
    """Ends the streams as soon as a signal arrives; otherwise the server would wait for the pages to go."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub
        self.signal: int | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.signal = sig
        self._hub.close()
        self.should_exit = True


# -- where it listens


def _check_bind(options: Serving) -> None:
    try:
        address = ipaddress.ip_address(options.bind)
    except ValueError:
        raise InvalidArgument("--bind must be an IP address, such as 127.0.0.1.", field="bind") from None
    if (options.certificate is None) != (options.key is None):
        raise InvalidArgument("--cert and --key belong together: give both or neither.", field="cert")
    if not address.is_loopback and options.certificate is None and not options.force:
        message = (
            f"{options.bind} can be reached from other machines, and without TLS they could read the token. "
            "Use --cert and --key, or a reverse proxy with --allow-host. --force serves it anyway."
        )
        raise InvalidArgument(message, field="bind")


def _listen(options: Serving) -> socket.socket:
    """A socket on the wanted port. Without a wanted port, on the first free one."""
    if options.port is not None:
        try:
            return _bind(options.bind, options.port)
        except OSError as problem:
            raise InvalidArgument(_why_not(options, problem), field="port") from None
    for port in range(_DEFAULT_PORT, _DEFAULT_PORT + _MOST_PORTS):
        try:
            listening = _bind(options.bind, port)
        except OSError:
            continue
        if port != _DEFAULT_PORT:
            print(f"conch: port {_DEFAULT_PORT} is in use, so the console uses {port}.", file=sys.stderr)
        return listening
    last = _DEFAULT_PORT + _MOST_PORTS - 1
    raise InvalidArgument(f"The ports {_DEFAULT_PORT} to {last} are in use. Choose one with --port.", field="port")


def _bind(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(128)
    except BaseException:
        listening.close()
        raise
    return listening


def _why_not(options: Serving, problem: OSError) -> str:
    for port in range((options.port or 0) + 1, min((options.port or 0) + _MOST_PORTS, 65_536)):
        try:
            _bind(options.bind, port).close()
        except OSError:
            continue
        return (
            f"Port {options.port} cannot be used: {problem.strerror}. Port {port} is free: `conch serve --port {port}`."
        )
    return f"Port {options.port} cannot be used: {problem.strerror}."


def _hosts(options: Serving, port: int) -> list[str]:
    return [*options.allow_hosts, f"{_shown(options.bind)}:{port}"]


def _shown(address: str) -> str:
    return f"[{address}]" if ":" in address else address


# -- what it serves


def _site(app: App, hub: Hub) -> Starlette:
    desk = Desk(app, person_session(app))
    pages = rooms.RoomPages(desk)

    async def stream(request: Request) -> Response:
        given = request.headers.get("last-event-id") or request.query_params.get("after")
        try:
            place = parse_place("after", given)
        except ConchError:
            place = None
        hello: Object = {"version": __version__}
        cursor = None if isinstance(place, int) else place
        return StreamingResponse(events(hub, app, cursor, hello), media_type="text/event-stream")

    def me(given: Object) -> Object:
        desk.viewer_id()
        caller = desk.person.caller()
        return {"version": __version__, "me": agent_view(caller.agent_id, caller.name), "store": app.store.describe()}

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        hub.close()

    return Starlette(
        routes=[
            *(Route(path, _page, methods=["GET"]) for path in _PAGES),
            Route("/static/{name:path}", _static, methods=["GET"]),
            Route("/api/me", desk.reading(me, fields.takes()), methods=["GET"]),
            Route("/api/rooms", desk.reading(pages.list_rooms, rooms.LIST), methods=["GET"]),
            Route("/api/rooms/{room_id}", desk.reading(pages.show, rooms.ONE), methods=["GET"]),
            Route("/api/rooms/{room_id}/timeline", desk.reading(pages.timeline, rooms.TIMELINE), methods=["GET"]),
            Route("/api/stream", stream, methods=["GET"]),
        ],
        exception_handlers={404: _missing, 405: _wrong_method, TooLarge: _too_large},
        lifespan=lifespan,
    )


async def _page(request: Request) -> Response:
    return _file("index.html")


async def _static(request: Request) -> Response:
    return _file(request.path_params["name"])


def _file(name: str) -> Response:
    """A file of ours. Nothing outside the folder can be named."""
    path = os.path.realpath(os.path.join(_STATIC, name)) if "\0" not in name else ""
    kind = _TYPES.get(os.path.splitext(path)[1])
    if not path.startswith(os.path.realpath(_STATIC) + os.sep) or kind is None or not os.path.isfile(path):
        return _no_such_address()
    return FileResponse(path, media_type=kind)


async def _missing(request: Request, error: Exception) -> Response:
    return _no_such_address()


def _no_such_address() -> JSON:
    return refused("NOT_FOUND", "There is nothing at this address.", 404)


async def _wrong_method(request: Request, error: Exception) -> Response:
    return refused("WRONG_METHOD", f"{request.method} is not possible at this address.", 405)


async def _too_large(request: Request, error: Exception) -> Response:
    return refused("limit_exceeded", "The body is too large.", 413)
