from __future__ import annotations

import pytest
from tests.process.mcp.doors import both_doors, capabilities, stdio  # noqa: F401

HANDSHAKE_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_known_version_is_the_version_of_the_connection(raw, version):
    assert raw.initialize(version)["result"]["protocolVersion"] == version


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "banana", ""])
def test_any_other_version_is_answered_with_our_newest_handshake_version(raw, version):
    assert raw.initialize(version)["result"]["protocolVersion"] == "2025-11-25"


def test_initialize_introduces_the_server(raw):
    result = raw.initialize()["result"]

    assert result["serverInfo"]["name"] == "conch"
    assert capabilities(result) == {"tools": {}, "prompts": {}, "resources": {"subscribe": True}}
    assert "If has_more is true, call again" in result["instructions"]


@pytest.mark.parametrize("params", [{}, {"protocolVersion": 3}, {"protocolVersion": None}])
def test_initialize_without_a_version_is_refused(raw, params):
    assert raw.ask("initialize", params)["error"]["code"] == -32602


@stdio
@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover"])
def test_nothing_is_served_before_the_connection_has_an_era(raw, method):
    assert raw.ask(method)["error"]["code"] == -32602


@stdio
def test_ping_is_answered_even_before_initialize(raw):
    assert raw.ask("ping")["result"] == {}


@stdio
def test_a_refused_request_does_not_fix_the_era(raw):
    raw.ask("tools/list")

    assert raw.initialize()["result"]["protocolVersion"] == "2025-11-25"


@stdio
@pytest.mark.parametrize("method", ["logging/setLevel", "server/discover", "completion/complete", "x", ""])
def test_a_method_that_is_not_served_is_not_found(client, method):
    assert client.ask(method)["error"]["code"] == -32601


@stdio
def test_a_request_of_the_stateless_era_is_refused(client):
    client.speak_stateless()

    assert client.ask("tools/list")["error"]["code"] == -32600


def test_initialize_may_come_again(client):
    """A proxy in front of several clients forwards the handshake of each."""
    assert client.initialize("2025-06-18")["result"]["protocolVersion"] == "2025-06-18"


def test_results_are_plain(client):
    assert set(client.ask("tools/list")["result"]) == {"tools"}
    assert set(client.call("echo", text="hello")) == {"content", "structuredContent", "isError"}


def test_every_tool_is_listed_with_its_schema_and_annotations(client):
    tools = client.ask("tools/list")["result"]["tools"]

    assert [tool["name"] for tool in tools][:2] == ["echo", "wait"]
    assert all(tool["inputSchema"]["type"] == "object" and tool["annotations"] and tool["title"] for tool in tools)


def test_there_is_one_page_of_tools_and_no_cursor_to_another(either):
    assert "nextCursor" not in either.ask("tools/list", {"cursor": None})["result"]
    assert either.ask("tools/list", {"cursor": "page-2"})["error"]["code"] == -32602


@stdio
def test_the_session_knows_the_name_of_the_client(either):
    assert either.call("client")["structuredContent"]["name"] == "probe-client"
