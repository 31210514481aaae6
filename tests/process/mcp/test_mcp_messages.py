"""A bad message gets its JSON-RPC error, and the server continues."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.process.mcp.doors import both


def ping(request_id):
    return {"jsonrpc": "2.0", "id": request_id, "method": "ping"}


def expect_refusal(client, message, code, request_id=None):
    client.send(message)
    reply = client.receive()
    assert (reply["id"], reply["error"]["code"]) == (request_id, code)
    assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    "line",
    [
        b"hello\n",
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping"\n',
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping"} {}\n',
        b'{"jsonrpc": "2.0", "id": 1, "method": "pi\xff"}\n',
        b'{"jsonrpc": "2.0", "id": 1, "method": "pi\x00ng"}\n',
        b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}\n',
        b"\xff\xfe{\x00}\x00\n",
        b"\x00\n",
        b"[" * 200_000 + b"\n",
        b'{"id": ' + b"[" * 200_000 + b"}\n",
    ],
)
def test_a_line_that_is_not_json_is_a_parse_error(client, line):
    expect_refusal(client, line, -32700)


DIGITS, DEPTH = b"9" * 10_000, 100_000


@pytest.mark.parametrize(
    "value",
    [
        DIGITS,
        b"-" + DIGITS,
        b'"\\"]}[" , "x": ' + DIGITS,
        b"[" * DEPTH + b"]" * DEPTH,
        b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    ],
    ids=["digits", "negative", "behind a text", "lists", "objects"],
)
@pytest.mark.parametrize("where", ["before the id", "after the id"])
def test_a_request_that_cannot_be_taken_in_is_refused_under_its_id(client, value, where):
    params = b'"params": {"name": "echo", "arguments": {"n": ' + value + b"}}"
    members = [b'"id": "seven"', params] if where == "after the id" else [params, b'"id": "seven"']

    expect_refusal(
        client, b'{"jsonrpc": "2.0", "method": "tools/call", ' + b", ".join(members) + b"}\n", -32602, "seven"
    )


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": ' + DIGITS + b', "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"n": ' + DIGITS + b"}}\n",
        b'{"jsonrpc": "2.0", "id": 7, "result": {"n": ' + DIGITS + b"}}\n",
        b"[" * DEPTH + b"]" * DEPTH + b"\n",
    ],
    ids=["the id itself", "a notification", "a response", "a batch"],
)
def test_what_cannot_be_taken_in_and_has_no_id_to_answer_to_is_refused_without_one(client, line):
    client.send(line)

    assert client.receive()["id"] is None
    assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize("message", [None, 1, "ping", True, {}, {"id": None}, {"jsonrpc": "2.0"}])
def test_json_that_is_not_a_message_is_an_invalid_request(client, message):
    expect_refusal(client, message, -32600)


@pytest.mark.parametrize("request_id", [None, True, 1.5, 1.0, [1], {"a": 1}])
def test_an_id_is_a_string_or_an_integer(client, request_id):
    expect_refusal(client, ping(request_id), -32600)


@pytest.mark.parametrize("request_id", [0, -1, 2**53 + 1, 10**30, "", "7", "ü\0"])
@both
def test_an_id_comes_back_as_it_was(client, request_id):
    assert client.ask("ping", request_id=request_id)["id"] == request_id


@pytest.mark.parametrize("version", ["1.0", 2.0, None])
def test_the_json_rpc_version_is_required(client, version):
    expect_refusal(client, {**ping(5), "jsonrpc": version}, -32600, 5)


def test_a_method_is_a_string(client):
    expect_refusal(client, {"jsonrpc": "2.0", "id": "five", "method": 5}, -32600, "five")


@pytest.mark.parametrize("params", [[1], "x", 1, False])
def test_params_are_an_object(client, params):
    expect_refusal(client, {**ping(6), "params": params}, -32602, 6)


def test_a_line_that_is_too_long_is_refused_and_the_next_one_served(launch):
    client = launch("1000")

    client.send(json.dumps({**ping(1), "params": {"x": "y" * 100_000}}).encode() + b"\n" + b"\n")
    refusal = client.receive()

    assert (refusal["id"], refusal["error"]["code"]) == (1, -32600)
    assert client.ask("ping")["result"] == {}


def test_a_line_that_is_too_long_is_refused_before_it_ends(launch):
    client = launch("1000")

    client.send(b"x" * 5000)

    assert client.receive()["error"]["code"] == -32700


def test_endless_lines_do_not_fill_the_memory(launch):
    client = launch()
    client.ask("ping")
    before = resident_bytes(client)

    for _ in range(64):
        client.send(b"x" * 1_048_576)

    assert client.receive()["error"]["code"] == -32700
    client.send(b"\n")
    client.ask("ping")
    assert resident_bytes(client) - before < 24 * 1_048_576


def resident_bytes(client):
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(client.process.pid)])) * 1024


def test_lines_may_come_in_pieces_together_and_with_windows_endings(client):
    whole = json.dumps(ping(1)).encode()
    client.send(whole[:10])
    client.send(whole[10:] + b"\r\n" + b"\n  \n" + json.dumps(ping(2)).encode() + b"\n")

    assert [client.receive()["id"], client.receive()["id"]] == [1, 2]


def test_the_last_line_needs_no_newline(client):
    client.send(json.dumps(ping(1)).encode())
    client.process.stdin.close()

    assert [reply["id"] for reply in client.rest()] == [1]


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/unheard_of"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": True}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo"}},
        {"jsonrpc": "2.0", "id": "nobody-asked", "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
        {"id": 5, "error": "not even JSON-RPC"},
    ],
)
def test_notifications_and_responses_are_never_answered(client, message):
    client.send(message)

    assert client.ask("ping")["result"] == {}


@both
def test_text_of_every_kind_survives_the_round_trip(client):
    text = 'quote " backslash \\ newline \n umlaut ü shell \U0001f41a line separator \u2028 del \x7f'

    assert client.call("echo", text=text)["structuredContent"]["text"] == text


@both
def test_half_a_surrogate_pair_is_replaced_in_the_structure_and_escaped_in_the_text(client):
    client.start_call("half_a_pair")

    result = json.loads(client.receive_line().decode("utf-8"))["result"]

    assert result["structuredContent"] == {"text": "cut \ufffd here"}
    assert result["content"][0]["text"] == "cut \\ud83d here \U0001f41a"


def test_half_a_surrogate_pair_does_not_end_the_server(client):
    client.send(b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/call","params":{"name":"echo\\ud800"}}\n')

    assert client.receive()["error"]["code"] == -32602
    assert client.ask("ping")["result"] == {}


def test_every_message_is_one_line_of_utf_8(either):
    either.start_call("echo", text="one\ntwo\r\nthree\u2028\x85")

    line = either.receive_line()

    assert line.count(b"\n") == 1 and b"\r" not in line
    json.loads(line.decode("utf-8"))


class TestBatches:
    @pytest.mark.parametrize("version", ["2025-03-26", "2024-11-05"])
    def test_are_answered_together_where_the_version_has_them(self, raw, version):
        raw.initialize(version)
        call = {"name": "echo", "arguments": {"text": "hi"}}
        raw.send(
            [
                ping(1),
                {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": 3, "method": "nothing"},
                "rubbish",
            ]
        )

        replies = {reply["id"]: reply for reply in raw.receive()}

        assert set(replies) == {1, 2, 3, None}
        assert replies[2]["result"]["structuredContent"] == {"text": "hi"}
        assert replies[3]["error"]["code"] == -32601
        assert replies[None]["error"]["code"] == -32600

    @pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
    def test_are_an_invalid_request_in_later_versions(self, raw, version):
        raw.initialize(version)

        expect_refusal(raw, [ping(1)], -32600)

    def test_are_an_invalid_request_before_the_handshake(self, raw):
        expect_refusal(raw, [ping(1)], -32600)

    def test_are_an_invalid_request_in_the_stateless_era(self, stateless):
        stateless.ask("server/discover")
        stateless.send([ping(1)])

        assert stateless.receive()["error"]["code"] == -32600

    def test_must_not_be_empty(self, raw):
        raw.initialize("2025-03-26")

        expect_refusal(raw, [], -32600)

    def test_of_notifications_alone_are_not_answered(self, raw):
        raw.initialize("2025-03-26")
        raw.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])

        assert raw.ask("ping")["result"] == {}

    def test_do_not_hold_an_initialize(self, raw):
        raw.initialize("2025-03-26")
        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
        raw.send([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}])

        [reply] = raw.receive()

        assert reply["error"]["code"] == -32600

    def test_leave_without_the_calls_that_were_cancelled_and_those_are_undone(self, raw):
        raw.initialize("2025-03-26")
        wait = {"name": "wait", "arguments": {}, "_meta": {"progressToken": "waiting"}}
        echo = {"name": "echo", "arguments": {"text": "first"}}
        raw.send(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": wait},
                {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": echo},
                {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": echo},
                {"jsonrpc": "2.0", "id": 3, "method": "ping"},
            ]
        )
        assert raw.receive()["params"]["message"] == "waiting"

        raw.cancel(2)
        assert raw.call("journal", lines=1)["structuredContent"] == {"lines": 1}
        raw.cancel(1)

        assert sorted(reply["id"] for reply in raw.receive()) == [3, 3]
        assert raw.undone() == 1

    def test_whose_calls_are_all_cancelled_are_not_answered(self, raw):
        raw.initialize("2025-03-26")
        wait = {"name": "wait", "arguments": {}, "_meta": {"progressToken": "waiting"}}
        raw.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": wait}])
        assert raw.receive()["params"]["message"] == "waiting"

        raw.cancel(1)

        assert raw.ask("ping")["result"] == {}
