"""`conch serve`: the console on a port of this machine."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

import uvicorn

from conch.app import App
from conch.doors.exits import INTERRUPTED
from conch.doors.web.access import Gate, Rules, load_token, own_hosts
from conch.doors.web.connections import ConnectionTrouble, PatientConnection, most_connections
from conch.doors.web.mcp import McpDoor
from conch.doors.web.site import make_site
from conch.doors.web.stream import Hub
from conch.errors import InvalidArgument
from conch.lean import NamedTuple
from conch.retention.retention import Retention, keep_pruned
from conch.tools.registry import Tool

_DEFAULT_PORT = 8377
_BACKLOG = 128  # connections that the system holds until they are accepted
_MOST_PORTS = 20  # tried one after the other


class Serving(NamedTuple):
    """The options of `conch serve`."""

    port: int | None
    bind: str
    allow_hosts: Sequence[str]
    certificate: str | None
    key: str | None
    force: bool


def serve(app: App, options: Serving, tools: Mapping[str, Tool], instructions: str) -> int:
    """Serve until a signal arrives; returns the exit status. `instructions` tell MCP clients about the tools."""
    _check_bind(options)
    with app.store.read():
        pass  # a store that cannot be used is an error of the command, not of every request
    token = load_token(app.settings.data_dir)
    listening = _listen(options)
    port = listening.getsockname()[1]
    is_secure = options.certificate is not None
    rules = Rules(token, own_hosts(port, _hosts(options, port)), f"conch_{port}", is_secure)
    hub, door = Hub(app), McpDoor(app, tools, instructions)
    gate = Gate(make_site(app, hub, door, door.running), rules)
    config = uvicorn.Config(
        gate,
        http=PatientConnection,
        backlog=_BACKLOG,
        limit_concurrency=most_connections(),
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    app.load()  # a process that has no descriptor left cannot import or read anything
    logging.getLogger("mcp").setLevel(logging.ERROR)  # mistakes of clients are not errors of the server
    if app.settings.retention_days:
        keep_pruned(Retention(app.store, app.bell, app.settings))
    _load_certificate(config)
    server = _Server(config, (gate.close, hub.close, door.stop))
    scheme = "https" if is_secure else "http"
    print(f"{scheme}://{_shown(options.bind)}:{port}/?token={token}", flush=True)
    server.run([listening])
    return INTERRUPTED if server.signal == signal.SIGINT else 0


def _load_certificate(config: uvicorn.Config) -> None:
    """Read the certificate and its key, before the address is printed."""
    try:
        config.load()
    except OSError as problem:  # also what TLS says about the contents
        why = problem.strerror or problem
        raise InvalidArgument(
            f"--cert {config.ssl_certfile} and its --key cannot be used: {why}.", field="cert"
        ) from None


class _Server(uvicorn.Server):
    """Ends the streams as soon as a signal arrives; otherwise the server would wait for the pages to go."""

    def __init__(self, config: uvicorn.Config, ends: Sequence[Callable[[], None]]) -> None:
        super().__init__(config)
        self._ends = ends
        self._loop: asyncio.AbstractEventLoop | None = None
        self.signal: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(ConnectionTrouble())
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.signal = sig
        self.should_exit = True
        if self._loop is not None:
            for end in self._ends:
                self._loop.call_soon_threadsafe(end)


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
    # asyncio turns off Nagle's delay only for a socket that names its protocol. The delay would be 40 ms per reply.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(_BACKLOG)
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
