"""Drive `conch mcp` with the client of SDK 2.x:  sdk2.py MODE SERVER_PYTHON DATA_DIR WORKSPACE

MODE is one of the client's: auto, legacy or 2026-07-28. Prints what it saw as JSON; anything unexpected raises.
To drive `conch serve`, give its address instead of SERVER_PYTHON, and its token instead of DATA_DIR.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager

import anyio
import httpx2
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, ListRootsResult, ResourceUpdatedNotification, Root
from story import Ledger, fence, tell

MODE, SERVER_PYTHON, DATA_DIR, WORKSPACE = sys.argv[1:]
OVER_HTTP = SERVER_PYTHON.startswith("http")


class Player:
    def __init__(self, client: Client, ledger: Ledger) -> None:
        self.client = client
        self.ledger = ledger

    async def _call(self, tool, code, arguments):
        result = await self.client.call_tool(tool, arguments)
        return self.ledger.enter(tool, code, result.is_error, result.structured_content, result.content[0].text)

    async def ok(self, tool, **arguments):
        return await self._call(tool, None, arguments)

    async def refused(self, tool, code, **arguments):
        await self._call(tool, code, arguments)


changes: set[str] = set()
changed = [anyio.Event()]


async def hear(message) -> None:
    if isinstance(message, ResourceUpdatedNotification):
        changes.add(message.params.uri)
        changed[0].set()


def connect(agent_id: str) -> Client:
    async def list_roots(context):
        return ListRootsResult(roots=[Root(uri=f"file://{WORKSPACE}")])

    environ = {"CONCH_DATA_DIR": DATA_DIR, "CONCH_AGENT_ID": agent_id, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    server = StdioServerParameters(command=SERVER_PYTHON, args=["-m", "conch", "mcp"], env=environ, cwd=DATA_DIR)
    name = Implementation(name="oracle", version="2")
    target = at_address(agent_id) if OVER_HTTP else server
    return Client(target, mode=MODE, client_info=name, list_roots_callback=list_roots, message_handler=hear)


def at_address(agent_id: str):
    """The HTTP transport. Without MCP sessions, the address says which agent calls."""
    url = f"{SERVER_PYTHON}/mcp" if MODE == "legacy" else f"{SERVER_PYTHON}/mcp?agent={agent_id}"
    client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {DATA_DIR}"}, timeout=60)
    return streamable_http_client(url, http_client=client)


async def listed(client: Client) -> list[str]:
    tools = (await client.list_tools()).tools
    for tool in tools:
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.description and tool.title and tool.annotations is not None
    return [tool.name for tool in tools]


async def cancel_a_wait(ada: Player, bob: Player, workspace: str) -> None:
    """A wait that is cancelled claims nothing, and another call of the same client is served meanwhile."""
    room_id = (await bob.ok("join_path", context_path=workspace))["room_id"]
    mine = fence(await bob.ok("wait_for_turn", room_id=room_id))
    ada_id = (await ada.ok("join_path", context_path=workspace))["agent_id"]
    progress: list[tuple[float, str | None]] = []
    waits = anyio.Event()

    async def hear(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, message))
        waits.set()

    async def wait(task_status) -> None:
        with anyio.CancelScope() as scope:
            task_status.started(scope)
            await ada.client.call_tool("wait_for_turn", {"room_id": room_id}, progress_callback=hear)
            raise AssertionError("a cancelled call was answered")

    async with anyio.create_task_group() as group:
        scope = await group.start(wait)
        await waits.wait()
        await ada.ok("get_room_state", room_id=room_id)
        scope.cancel()
    assert progress[0][0] == 1 and progress[0][1]
    await ada.ok("get_room_state", room_id=room_id)  # answered after the cancellation was read
    handoff = {"status": "s", "next_action": "n"}
    assert (await bob.ok("release_stick", **mine, handoff=handoff))["reserved_for"] == ada_id
    room = (await bob.ok("get_room_state", room_id=room_id))["room"]
    assert (room["owner"], room["reserved_for"]) == (None, ada_id), room


@asynccontextmanager
async def watching(client: Client, *uris: str):
    """Yields what waits until all of these have changed."""

    async def by_notices() -> None:
        while changes < set(uris):
            await changed[0].wait()
            changed[0] = anyio.Event()

    async def by_stream() -> None:
        seen: set[str] = set()
        async for event in stream:
            seen.add(event.uri)
            if seen >= set(uris):
                return

    if client.session.protocol_version == "2026-07-28":
        async with client.listen(resource_subscriptions=[*uris, "conch://none"]) as stream:
            assert stream.honored.resource_subscriptions == list(uris)
            yield by_stream
        return
    for uri in uris:
        await client.subscribe_resource(uri)
    yield by_notices
    await client.unsubscribe_resource(uris[0])


async def browse(ada: Player, bob: Player, workspace: str) -> dict[str, object]:
    """Prompts and resources, and the notice of a change."""
    joined = await ada.ok("join_path", context_path=workspace)
    client, room = ada.client, f"conch://room/{joined['room_id']}"
    prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
    said = (await client.get_prompt("join", {"task": "mend it"})).messages[0].content.text
    resources = [each.uri for each in (await client.list_resources()).resources]
    templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
    assert joined["room_id"] in (await client.read_resource(room)).contents[0].text
    try:
        await client.read_resource("conch://topic/none")
    except MCPError as refusal:
        missing = refusal.code
    async with watching(client, room, "conch://inbox") as all_changed:
        await bob.ok("join_path", context_path=workspace)
        to_ada = {"content_markdown": "hello", "metadata": {"to": joined["agent_id"]}}
        await bob.ok("sync", topic_id=joined["topic_id"], outbox=[to_ada], wait_seconds=0)
        await all_changed()
    found = {"prompts": prompts, "said": said, "resources": resources, "templates": templates, "missing": missing}
    return {**found, "inbox": (await client.read_resource("conch://inbox")).contents[0].text}


async def find_id(player: Player) -> str:
    """The agent_id that an MCP session has got."""
    place = f"{WORKSPACE}-first"
    os.mkdir(place)
    return (await player.ok("join_path", context_path=place))["agent_id"]


async def main() -> None:
    ledger = Ledger()
    with anyio.fail_after(60):
        async with connect("codex:ada") as one, connect("claude:bob") as other:
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
                "version": one.session.protocol_version,
                "instructions": one.session.instructions,
                "server": one.server_info.name if one.server_info else None,
                "listed": names,
                "succeeded": sorted(ledger.succeeded),
                "refused": sorted(ledger.refused),
                "default_path": default_path,
            }
    print(json.dumps(report))


anyio.run(main)
