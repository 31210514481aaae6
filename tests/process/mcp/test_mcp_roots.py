"""A tool that needs a path asks the client for its roots, in the handshake era, once."""

from __future__ import annotations

import pytest


@pytest.fixture
def rooted(raw):
    raw.initialize(capabilities={"roots": {"listChanged": True}})
    return raw


def path_after(client, roots):
    """Call the tool, answer the question that it asks, and return the path that it used."""
    called = client.start_call("client")
    question = client.receive()
    assert question["method"] == "roots/list"
    client.send({"jsonrpc": "2.0", "id": question["id"], **roots})
    reply = client.receive()
    assert reply["id"] == called
    return reply["result"]["structuredContent"]["path"]


def listed(*uris):
    return {"result": {"roots": [{"uri": uri} for uri in uris]}}


@pytest.mark.parametrize(
    ("uris", "path"),
    [
        (["file:///home/me/project"], "/home/me/project"),
        (["file:///a", "file:///b"], "/a"),
        (["https://example.com/x", "file:///b"], "/b"),
        (["file://elsewhere/share", "file:///b"], "/b"),
        (["file://localhost/home"], "/home"),
        (["file:///with%20space/%C3%BCber"], "/with space/über"),
        (["file:///tab%09/percent%25"], "/tab\t/percent%"),
    ],
)
def test_the_first_local_root_is_the_path(rooted, uris, path):
    assert path_after(rooted, listed(*uris)) == path


@pytest.mark.parametrize(
    "roots",
    [
        listed(),
        listed("https://example.com/"),
        listed("file://[half/an/address"),
        listed("file:///nul%00"),
        {"result": {}},
        {"result": {"roots": "none"}},
        {"result": {"roots": [None, {"uri": 5}]}},
        {"result": None},
        {"error": {"code": -32601, "message": "no roots after all"}},
    ],
)
def test_without_a_usable_root_it_is_the_working_directory(rooted, roots, tmp_path):
    assert path_after(rooted, roots) == str(tmp_path)


def test_the_client_is_asked_only_once(rooted):
    path_after(rooted, listed("file:///a"))

    assert rooted.call("client")["structuredContent"]["path"] == "/a"


def test_calls_at_the_same_time_ask_together(rooted):
    calls = {rooted.start_call("client") for _ in range(5)}
    question = rooted.receive()
    rooted.send({"jsonrpc": "2.0", "id": question["id"], **listed("file:///a")})

    replies = [rooted.receive() for _ in range(5)]

    assert {reply["id"] for reply in replies} == calls
    assert {reply["result"]["structuredContent"]["path"] for reply in replies} == {"/a"}


def test_the_client_is_asked_again_when_its_roots_changed(rooted):
    path_after(rooted, listed("file:///a"))
    rooted.notify("notifications/roots/list_changed")

    assert path_after(rooted, listed("file:///b")) == "/b"


def test_an_answer_to_something_else_is_not_the_answer(rooted):
    rooted.start_call("client")
    question = rooted.receive()
    rooted.send({"jsonrpc": "2.0", "id": "another", **listed("file:///wrong")})
    rooted.send({"jsonrpc": "2.0", "id": question["id"], **listed("file:///right")})

    assert rooted.receive()["result"]["structuredContent"]["path"] == "/right"


def test_a_client_that_does_not_answer_is_not_waited_for_long_nor_again(rooted, tmp_path):
    rooted.start_call("client")
    question = rooted.receive()

    withdrawn, reply = rooted.receive(), rooted.receive()

    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == question["id"]
    assert reply["result"]["structuredContent"]["path"] == str(tmp_path)
    assert rooted.call("client")["structuredContent"]["path"] == str(tmp_path)


def test_a_client_without_roots_is_not_asked(client, tmp_path):
    assert client.call("client")["structuredContent"]["path"] == str(tmp_path)


def test_nothing_is_asked_before_the_handshake_is_over(raw, tmp_path):
    raw.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}})

    assert raw.call("client")["structuredContent"]["path"] == str(tmp_path)


def test_another_client_behind_the_same_proxy_is_asked_only_if_it_has_roots(rooted, tmp_path):
    path_after(rooted, listed("file:///a"))

    rooted.initialize()

    assert rooted.call("client")["structuredContent"]["path"] == str(tmp_path)


def test_the_end_of_the_connection_ends_the_question(rooted):
    rooted.start_call("client")
    rooted.receive()

    rooted.process.stdin.close()

    assert rooted.wait_for_exit() == 0
    assert rooted.rest() == []
    assert rooted.undone() == 1
