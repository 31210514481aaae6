"""Drive `conch mcp` with the client of SDK 1.x:  sdk1.py VERSION SERVER_PYTHON DATA_DIR WORKSPACE

VERSION is the protocol version that the client asks for. Prints what it saw as JSON; anything unexpected raises.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager

import anyio
import mcp.types as types
from jsonschema import Draft202012Validator
from mcp import ClientSession, StdioServerParameters, stdio_client
from story import Ledger, fence, tell

VERSION, SERVER_PYTHON, DATA_DIR, WORKSPACE = sys.argv[1:]
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


async def list_roots(context) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=f"file://{WORKSPACE}")])


@asynccontextmanager
async def connect(agent_id: str):
    environ = {"CONCH_DATA_DIR": DATA_DIR, "CONCH_AGENT_ID": agent_id, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    server = StdioServerParameters(command=SERVER_PYTHON, args=["-m", "conch", "mcp"], env=environ, cwd=DATA_DIR)
    async with stdio_client(server) as streams, ClientSession(*streams, list_roots_callback=list_roots) as session:
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
        await ada.session.call_tool("wait_for_turn", {"room_id": room_id}, progress_callback=hear)
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


async def main() -> None:
    ledger = Ledger()
    with anyio.fail_after(60):
        async with connect("codex:ada") as one, connect("claude:bob") as other:
            introduction = await one.initialize()
            await other.initialize()
            ada, bob = Player(one, ledger), Player(other, ledger)
            names = await listed(one)
            await tell(ada, bob, WORKSPACE, "claude:bob")
            other_place = os.path.join(WORKSPACE, "other")
            os.mkdir(other_place)
            await cancel_a_wait(ada, bob, other_place)
            default_path = (await ada.ok("join_path"))["canonical_path"]
            report = {
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
