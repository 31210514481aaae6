"""Every address of the console, and what answers there."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from conch import __version__
from conch.app import App
from conch.doors.web import rooms, talk
from conch.doors.web.access import TooLarge, TooSlow
from conch.doors.web.actions import Actions
from conch.doors.web.description import describe_api
from conch.doors.web.health import HealthPage
from conch.doors.web.replies import JSON, refusal, refused
from conch.doors.web.requests import Desk, Endpoint, Work
from conch.doors.web.room_actions import RoomActions
from conch.doors.web.stream import MOST_PAGES, Hub, events
from conch.errors import ConchError
from conch.notices.timeline import Place, parse_place
from conch.tools import fields
from conch.tools.replies import Object

_FOR_PROGRAMS = ("/api/", "/mcp", "/static/")
_STATIC = os.path.realpath(os.path.join(os.path.dirname(__file__), "static"))
# One page for all of them: its script shows what the address names.
_PAGES = (
    "/",
    "/rooms",
    "/items",
    "/topics",
    "/search",
    "/health",
    "/rooms/{_:path}",
    "/items/{_:path}",
    "/topics/{_:path}",
)
_EXPORT, _STREAM = "/api/topics/{topic_id}/export", "/api/stream"
_FILES = {_EXPORT: talk.EXPORT, _STREAM: fields.takes(after={"type": "string"})}
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}


def make_site(app: App, hub: Hub, door: ASGIApp, running: Callable[[], AbstractAsyncContextManager[None]]) -> Starlette:
    desk = Desk(app)
    readings, actions = _readings(desk, hub), Actions(desk, RoomActions(desk).known())
    description = JSON(describe_api(readings, _FILES, actions.known))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with running():
            yield
        hub.close()

    return Starlette(
        routes=[
            *(Route(path, _page, methods=["GET"]) for path in _PAGES),
            Route("/static/{name:path}", _static, methods=["GET"]),
            *(Route(path, desk.reading(*found), methods=["GET"]) for path, found in readings.items()),
            Route("/api/act/{name}", actions.act, methods=["POST"]),
            Route(_EXPORT, desk.exporting(talk.TalkPages(desk).export, talk.EXPORT), methods=["GET"]),
            Route("/mcp", door),
            Route(_STREAM, _stream(app, hub), methods=["GET"]),
            Route("/api/openapi.json", _always(description), methods=["GET"]),
        ],
        exception_handlers={404: _missing, 405: _wrong_method, TooLarge: _too_large, TooSlow: _too_slow},
        lifespan=lifespan,
    )


def _readings(desk: Desk, hub: Hub) -> dict[str, tuple[Work, Object]]:
    """What can be read: the address, who answers, and what the query may contain."""
    room, topic, health = (
        rooms.RoomPages(desk, hub.announce, hub.ends.find),
        talk.TalkPages(desk),
        HealthPage(desk, hub.count),
    )
    return {
        "/api/me": (health.introduce, fields.takes()),
        "/api/health": (health.show, fields.takes()),
        "/api/rooms": (room.list_rooms, rooms.LIST),
        "/api/rooms/{room_id}": (room.show, rooms.ONE),
        "/api/rooms/{room_id}/policy": (room.policy, rooms.ONE),
        "/api/rooms/{room_id}/timeline": (room.timeline, rooms.TIMELINE),
        "/api/rooms/{room_id}/turns": (room.turns, rooms.TURNS),
        "/api/rooms/{room_id}/events/{event_seq}": (room.event, rooms.EVENT),
        "/api/rooms/{room_id}/items/{bead:path}": (room.item, rooms.ITEM),
        "/api/items": (room.items, rooms.ITEMS),
        "/api/topics": (topic.list_topics, talk.LIST),
        "/api/topics/{topic_id}": (topic.show, talk.ONE),
        "/api/topics/{topic_id}/messages": (topic.messages, talk.MESSAGES),
        "/api/search": (topic.search, talk.SEARCH),
    }


def _always(reply: Response) -> Endpoint:
    async def answer(request: Request) -> Response:
        return reply

    return answer


def _stream(app: App, hub: Hub) -> Endpoint:
    async def stream(request: Request) -> Response:
        if hub.count() >= MOST_PAGES:
            return refused("TOO_MANY_PAGES", f"{MOST_PAGES} pages are open already. Close one.", 503, limit=MOST_PAGES)
        given = request.headers.get("last-event-id") or request.query_params.get("after")
        try:
            place = parse_place("after", given)
        except ConchError as refused_cursor:
            return refusal(refused_cursor)
        cursor = Place() if place == 0 else None if isinstance(place, int) else place
        return StreamingResponse(events(hub, app, cursor, {"version": __version__}), media_type="text/event-stream")

    return stream


async def _page(request: Request) -> Response:
    return _file(request, "index.html")


async def _static(request: Request) -> Response:
    return _file(request, request.path_params["name"])


def _file(request: Request, name: str) -> Response:
    """A file of ours. Nothing outside the folder can be named."""
    path = os.path.realpath(os.path.join(_STATIC, name)) if "\0" not in name else ""
    kind = _TYPES.get(os.path.splitext(path)[1])
    if not path.startswith(_STATIC + os.sep) or kind is None or not os.path.isfile(path):
        return _no_such_address()
    file = FileResponse(path, media_type=kind, stat_result=os.stat(path))
    if request.headers.get("if-none-match") == file.headers["etag"]:
        return Response(status_code=304, headers={"etag": file.headers["etag"]})
    return file


async def _missing(request: Request, error: Exception) -> Response:
    """A person gets a page that says so, with a way back. A program gets JSON."""
    is_for_programs = request.url.path.startswith(_FOR_PROGRAMS)
    if is_for_programs or request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return _no_such_address()
    return FileResponse(os.path.join(_STATIC, "index.html"), 404, media_type="text/html")


def _no_such_address() -> JSON:
    return refused("NOT_FOUND", "There is nothing at this address.", 404)


async def _wrong_method(request: Request, error: Exception) -> Response:
    return refused("WRONG_METHOD", f"{request.method} is not possible at this address.", 405)


async def _too_large(request: Request, error: Exception) -> Response:
    return refused("limit_exceeded", "The body is too large.", 413)


async def _too_slow(request: Request, error: Exception) -> Response:
    return refused("TOO_SLOW", "The body did not arrive in time.", 408)
