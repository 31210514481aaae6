from __future__ import annotations

import pytest
from tests.process.mcp.doors import both_doors, capabilities, stdio  # noqa: F401

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"
SERVER = "io.modelcontextprotocol/serverInfo"


def test_discover_introduces_the_server(stateless, door):
    result = stateless.ask("server/discover")["result"]

    assert result["supportedVersions"] == ["2026-07-28"]
    assert capabilities(result) == {"tools": {}, "prompts": {}, "resources": {"subscribe": True}}
    assert "If has_more is true, call again" in result["instructions"]
    assert result["resultType"] == "complete"
    assert result["_meta"][SERVER]["name"] == "conch"
    assert result["ttlMs"] >= {"stdio": 1, "http": 0}[door] and result["cacheScope"] == "private"


def test_tools_are_listed_and_called_without_any_handshake(stateless):
    listed = stateless.ask("tools/list")["result"]
    called = stateless.call("echo", text="hello")

    assert listed["resultType"] == called["resultType"] == "complete"
    assert {"ttlMs", "cacheScope"} <= set(listed) and not {"ttlMs", "cacheScope"} & set(called)
    assert called["_meta"][SERVER]["version"]
    assert called["structuredContent"] == {"text": "hello"}


@stdio
@pytest.mark.parametrize("missing", [VERSION, CAPABILITIES])
def test_a_request_without_a_required_field_is_refused(stateless, missing):
    stateless.ask("server/discover")
    del stateless.envelope[missing]

    assert stateless.ask("tools/list")["error"]["code"] == -32602


@stdio
@pytest.mark.parametrize(("field", "value"), [(VERSION, 20260728), (VERSION, None), (CAPABILITIES, "all of them")])
def test_a_field_of_the_wrong_type_is_refused(stateless, field, value):
    stateless.envelope[field] = value

    assert stateless.ask("tools/list")["error"]["code"] == -32602


def test_the_client_need_not_say_who_it_is(stateless):
    del stateless.envelope[CLIENT]

    assert stateless.call("client")["structuredContent"].get("name") is None  # over HTTP, the SDK leaves null out


@stdio
def test_a_client_that_says_once_who_it_is_keeps_its_name(stateless):
    first = stateless.call("client")["structuredContent"]["name"]
    del stateless.envelope[CLIENT]

    assert stateless.call("client")["structuredContent"]["name"] == first == "probe-client"


def test_an_agent_needs_no_ids_and_sees_its_mail_and_what_to_do_next(conch):
    ada, bob = (conch(agent_id, stateless=True) for agent_id in ("ada:1", "bob:2"))
    name = ada.call("join_path")["structuredContent"]["name"]
    bob.call("join_path")
    ada.call("wait_for_turn")
    bob.call("sync", outbox=[{"content_markdown": "Which branch?", "metadata": {"to": name}}], wait_seconds=0)

    beat = ada.call("heartbeat")

    shown, text = beat["structuredContent"], beat["content"][0]["text"]
    assert (shown["turn_id"], shown["mail"]["to_you"]["line"]) == (1, "Which branch?")
    assert "Which branch?" in text and f"Next: {shown['next']}" in text
    assert bob.call("heartbeat")["structuredContent"]["field"] == "lease_id", "another connection has no such turn"


@stdio
def test_an_unsupported_version_is_refused_with_the_ones_that_are_served(stateless):
    stateless.envelope[VERSION] = "2099-01-01"

    error = stateless.ask("server/discover")["error"]

    assert error["code"] == -32022
    assert error["data"]["requested"] == "2099-01-01"
    assert error["data"]["supported"][0] == "2026-07-28" and "2025-11-25" in error["data"]["supported"]


def test_after_an_unsupported_version_the_client_may_fall_back_to_either_era(connect):
    for fall_back in ("speak_stateless", "initialize"):
        client = connect()
        client.speak_stateless(**{VERSION: "2099-01-01"})
        client.ask("server/discover")
        client.envelope = None
        getattr(client, fall_back)()
        assert "result" in client.ask("tools/list")


@stdio
def test_initialize_is_refused_once_the_connection_is_stateless(stateless):
    stateless.ask("server/discover")
    stateless.envelope = None

    error = stateless.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})["error"]

    assert error["code"] == -32022
    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe", "x"])
def test_a_method_that_is_gone_or_unknown_is_not_found(stateless, method):
    assert stateless.ask(method)["error"]["code"] == -32601


@stdio
def test_initialize_with_an_envelope_still_opens_the_handshake_era(stateless):
    reply = stateless.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})

    assert reply["result"]["protocolVersion"] == "2025-11-25"


@stdio
def test_the_server_never_sends_a_request(stateless, tmp_path):
    stateless.envelope[CAPABILITIES] = {"roots": {}}

    assert stateless.call("client")["structuredContent"]["path"] == str(tmp_path)
