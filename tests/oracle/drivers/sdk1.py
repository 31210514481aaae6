"""Drive `conch mcp` with the client of SDK 1.x:  sdk1.py VERSION SERVER_PYTHON DATA_DIR WORKSPACE

VERSION is the protocol version that the client asks for. Prints what it saw as JSON; anything unexpected raises.
To drive `conch serve`, give its address instead of SERVER_PYTHON, and its token instead of DATA_DIR.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager

import anyio
import httpx
import mcp.types as types
from jsonschema import Draft202012Validator
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl
from story import Ledger, fence, tell

VERSION, SERVER_PYTHON, DATA_DIR, WORKSPACE = sys.argv[1:]
OVER_HTTP = SERVER_PYTHON.startswith("http")
types.LATEST_PROTOCOL_VERSION = VERSION  # what `ClientSession.initialize` asks for


class Player:
    def __init__(self, session: ClientSession, ledger: Ledger) -> None:
        self.session = session
        self.ledger = ledger

    async def _call(self, tool, code, arguments):
        result = await self.session.call_tool(tool, arguments)
        return self.ledger.enter(tool, code, result.isError, result.structuredContent, result.content[0].text)

    async def ok(self, tool, **arguments):
        return await self._call(tool, None, arguments)

    async def refused(self, tool, code, **arguments):
        await self._call(tool, code, arguments)


changes: set[str] = set()
changed = [anyio.Event()]


async def hear(message) -> None:
    if isinstance(message, types.ServerNotification) and isinstance(message.root, types.ResourceUpdatedNotification):
        changes.add(str(message.root.params.uri))
        changed[0].set()


async def list_roots(context) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=f"file://{WORKSPACE}")])


@asynccontextmanager
async def connect(agent_id: str):
    if OVER_HTTP:
        headers = {"Authorization": f"Bearer {DATA_DIR}"}
        async with (
            httpx.AsyncClient(headers=headers, timeout=60) as client,
            streamable_http_client(f"{SERVER_PYTHON}/mcp", http_client=client) as (read, write, _),
            ClientSession(read, write, list_roots_callback=list_roots, message_handler=hear) as session,
        ):
            yield session
        return
    environ = {"CONCH_DATA_DIR": DATA_DIR, "CONCH_AGENT_ID": agent_id, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    server = StdioServerParameters(command=SERVER_PYTHON, args=["-m", "conch", "mcp"], env=environ, cwd=DATA_DIR)
    async with (
        stdio_client(server) as streams,
        ClientSession(*streams, list_roots_callback=list_roots, message_handler=hear) as session,
    ):
        yield session


async def listed(session: ClientSession) -> list[str]:
    tools = (await session.list_tools()).tools
    for tool in tools:
        Draft202012Validator.check_schema(tool.inputSchema)
        assert tool.description and tool.title and tool.annotations is not None
    return [tool.name for tool in tools]


async def cancel_a_wait(ada: Player, bob: Player, workspace: str) -> None:
    """A wait that is cancelled claims nothing, and other calls of the same client are served meanwhile."""
    room_id = (await bob.ok("join_path", context_path=workspace))["room_id"]
    mine = fence(await bob.ok("wait_for_turn", room_id=room_id))
    ada_id = (await ada.ok("join_path", context_path=workspace))["agent_id"]
    progress: list[tuple[float, str | None]] = []
    waits = anyio.Event()

    async def hear(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, message))
        waits.set()

    async def wait() -> None:
        try:
            await ada.session.call_tool("wait_for_turn", {"room_id": room_id}, progress_callback=hear)
        except McpError as refusal:  # the SDK's server ends the HTTP reply of a cancelled call with an error
            assert OVER_HTTP and "cancelled" in refusal.error.message, refusal
            return
        raise AssertionError("a cancelled call was answered")

    async with anyio.create_task_group() as group:
        request_id = ada.session._request_id  # this client has no call for cancelling: the id is needed
        group.start_soon(wait)
        await waits.wait()
        assert (await ada.session.send_ping()) == types.EmptyResult()
        params = types.CancelledNotificationParams(requestId=request_id)
        await ada.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        handoff = {"status": "s", "next_action": "n"}
        assert (await ada.session.send_ping()) == types.EmptyResult()
        assert (await bob.ok("release_stick", **mine, handoff=handoff))["reserved_for"] == ada_id
        room = (await bob.ok("get_room_state", room_id=room_id))["room"]
        assert (room["owner"], room["reserved_for"]) == (None, ada_id), room
        group.cancel_scope.cancel()
    assert progress[0][0] == 1 and progress[0][1]


async def browse(ada: Player, bob: Player, workspace: str) -> dict[str, object]:
    """Prompts and resources, and the notice of a change."""
    joined = await ada.ok("join_path", context_path=workspace)
    session, room = ada.session, f"conch://room/{joined['room_id']}"
    prompts = [prompt.name for prompt in (await session.list_prompts()).prompts]
    said = (await session.get_prompt("join", {"task": "mend it"})).messages[0].content.text
    resources = [str(each.uri) for each in (await session.list_resources()).resources]
    templates = [each.uriTemplate for each in (await session.list_resource_templates()).resourceTemplates]
    assert joined["room_id"] in (await session.read_resource(AnyUrl(room))).contents[0].text
    try:
        await session.read_resource(AnyUrl("conch://topic/none"))
    except McpError as refusal:
        missing = refusal.error.code
    await session.subscribe_resource(AnyUrl(room))
    await session.subscribe_resource(AnyUrl("conch://inbox"))
    await bob.ok("join_path", context_path=workspace)
    to_ada = {"content_markdown": "hello", "metadata": {"to": joined["agent_id"]}}
    await bob.ok("sync", topic_id=joined["topic_id"], outbox=[to_ada], wait_seconds=0)
    while changes < {room, "conch://inbox"}:
        await changed[0].wait()
        changed[0] = anyio.Event()
    await session.unsubscribe_resource(AnyUrl(room))
    found = {"prompts": prompts, "said": said, "resources": resources, "templates": templates, "missing": missing}
    return {**found, "inbox": (await session.read_resource(AnyUrl("conch://inbox"))).contents[0].text}


async def find_id(player: Player) -> str:
    """The agent_id that an MCP session has got."""
    place = f"{WORKSPACE}-first"
    os.mkdir(place)
    return (await player.ok("join_path", context_path=place))["agent_id"]


async def main() -> None:
    ledger = Ledger()
    with anyio.fail_after(60):
        async with connect("codex:ada") as one, connect("claude:bob") as other:
            introduction = await one.initialize()
            await other.initialize()
            ada, bob = Player(one, ledger), Player(other, ledger)
            names = await listed(one)
            bob_id = await find_id(bob) if OVER_HTTP else "claude:bob"
            await tell(ada, bob, WORKSPACE, bob_id)
            other_place = os.path.join(WORKSPACE, "other")
            os.mkdir(other_place)
            await cancel_a_wait(ada, bob, other_place)
            if OVER_HTTP:
                await ada.refused("join_path", "invalid_argument")
            default_path = None if OVER_HTTP else (await ada.ok("join_path"))["canonical_path"]
            third = os.path.join(WORKSPACE, "third")
            os.mkdir(third)
            report = {
                "browsed": await browse(ada, bob, third),
                "version": introduction.protocolVersion,
                "instructions": introduction.instructions,
                "server": introduction.serverInfo.name,
                "listed": names,
                "succeeded": sorted(ledger.succeeded),
                "refused": sorted(ledger.refused),
                "default_path": default_path,
            }
    print(json.dumps(report))


anyio.run(main)
