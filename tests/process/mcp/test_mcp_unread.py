"""The real tools: nothing is claimed for an agent whose client ignores the reply, or never reads it."""

from __future__ import annotations

import json
import os
import select
import socket
import sqlite3
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

HANDOFF = {"status": "done", "next_action": "go on"}
SERVER = [sys.executable, "-m", "conch", "mcp"]


def answered(client, tool, **arguments):
    """Call a tool; returns the id of the request and the result that the client has read."""
    request_id = client.start_call(tool, **arguments)
    reply = client.receive()
    assert reply["id"] == request_id
    return request_id, reply["result"]["structuredContent"]


def state(client, room_id):
    return client.call("get_room_state", room_id=room_id)["structuredContent"]


def reserved(client):
    return client.call("scope_list")["structuredContent"]["reservations"]


@pytest.fixture
def ada(conch, tmp_path):
    ada = conch("codex:ada")
    ada.room_id = ada.call("join_path", context_path=str(tmp_path))["structuredContent"]["room_id"]
    return ada


@pytest.fixture
def bob(conch, ada, tmp_path):
    bob = conch("claude:bob")
    bob.call("join_path", context_path=str(tmp_path))
    return bob


def owner_becomes(until, client, room_id, expected):
    return until(lambda: state(client, room_id)["room"]["owner"] == expected)


def test_a_claim_whose_reply_crosses_its_cancellation_is_given_back(ada, bob, until):
    crossed, turn = answered(ada, "wait_for_turn", room_id=ada.room_id)

    ada.cancel(crossed)

    owner_becomes(until, bob, ada.room_id, None)
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    refused = ada.call("heartbeat", room_id=ada.room_id, **lease)["structuredContent"]
    assert refused["error"] == "stale_lease"


def test_a_takeover_whose_reply_crosses_its_cancellation_frees_the_stick(ada, conch, tmp_path, until):
    ada.call("set_room_policy", room_id=ada.room_id, policy={"owner_lease_ttl_ms": 1_000})
    late = conch("claude:late")
    late.call("join_path", context_path=str(tmp_path))
    _, lost = answered(late, "wait_for_turn", room_id=ada.room_id)
    until(lambda: state(ada, ada.room_id)["takeover"]["available"])
    taken = {"room_id": ada.room_id, "expected_turn_id": lost["turn_id"], "reason": "it is late"}
    crossed, _ = answered(ada, "takeover_stick", **taken)

    ada.cancel(crossed)

    owner_becomes(until, ada, ada.room_id, None)
    assert answered(ada, "wait_for_turn", room_id=ada.room_id)[1]["reason"] == "open_claim"


def test_a_reservation_whose_reply_crosses_its_cancellation_is_withdrawn(ada, bob, until):
    crossed, _ = answered(ada, "scope_reserve", room_id=ada.room_id, scope="src/*")

    ada.cancel(crossed)

    until(lambda: bob.call("scope_list", room_id=ada.room_id)["structuredContent"]["reservations"] == [])


def test_a_claim_that_was_used_stays(ada, bob):
    crossed, turn = answered(ada, "wait_for_turn", room_id=ada.room_id)
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.call("heartbeat", room_id=ada.room_id, **lease)

    ada.cancel(crossed)

    released = ada.call("release_stick", room_id=ada.room_id, **lease, handoff=HANDOFF)
    assert released["isError"] is False


def test_a_client_that_cancels_what_it_has_read_keeps_its_claims(ada, bob):
    known, _ = answered(ada, "list_rooms")
    ada.cancel(known)

    for _ in range(3):
        crossed, turn = answered(ada, "wait_for_turn", room_id=ada.room_id)
        ada.cancel(crossed)
        lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
        assert ada.call("release_stick", room_id=ada.room_id, **lease, handoff=HANDOFF)["isError"] is False
        _, theirs = answered(bob, "wait_for_turn", room_id=ada.room_id)
        lease = {"lease_id": theirs["lease_id"], "expected_turn_id": theirs["turn_id"]}
        bob.call("release_stick", room_id=ada.room_id, **lease, handoff=HANDOFF)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much of its output was read")
def test_a_claim_whose_reply_nobody_reads_is_given_back(start, conch, tmp_path, until):
    bob = conch("claude:bob")
    ours, theirs = socket.socketpair()
    clients = {
        "pipe": start(SERVER, "codex:pipe", reading=False),
        "full": start(SERVER, "codex:full", reading=False),
        "slow": start(SERVER, "codex:slow", reading=False),
        "socket": start(SERVER, "codex:socket", reading=False, stdout=theirs),
    }
    rooms = {}
    for name, client in clients.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "AGENTS.md").write_text("")
        room = bob.call("join_path", context_path=str(tmp_path / name))["structuredContent"]
        rooms[name] = room["room_id"]
        client.request("initialize", {"protocolVersion": "2025-11-25"})
        client.start_call("join_path", context_path=str(tmp_path / name))
        until(lambda name=name: len(state(bob, rooms[name])["members"]) == 2)
    for _ in range(40):  # more than a pipe holds
        clients["full"].request("tools/list")
        clients["slow"].request("tools/list")

    for name, client in clients.items():
        client.start_call("wait_for_turn", room_id=rooms[name])
        owner_becomes(until, bob, rooms[name], f"codex:{name}")

    def is_free(room_id):
        os.read(clients["slow"].process.stdout.fileno(), 1)  # it reads its first replies, but not the claim
        return state(bob, room_id)["room"]["owner"] is None

    for room_id in rooms.values():
        until(lambda room_id=room_id: is_free(room_id))
    ours.close()
    theirs.close()


@pytest.mark.parametrize("number", [0, 1])
def test_a_claim_that_two_waits_tell_of_stays_if_one_of_them_is_cancelled(ada, bob, number):
    _, turn = answered(ada, "wait_for_turn", room_id=ada.room_id)
    waits = [bob.start_call("wait_for_turn", room_id=ada.room_id) for _ in range(2)]
    time.sleep(0.5)  # both must have begun
    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.call("pass_stick", room_id=ada.room_id, to_agent_id="claude:bob", **lease, handoff=HANDOFF)
    turns = [bob.receive()["result"]["structuredContent"] for _ in waits]

    bob.cancel(waits[number])

    assert {each["status"] for each in turns} == {"your_turn"} and turns[0]["lease_id"] == turns[1]["lease_id"]
    lease = {"lease_id": turns[0]["lease_id"], "expected_turn_id": turns[0]["turn_id"]}
    assert bob.call("heartbeat", room_id=ada.room_id, **lease)["isError"] is False
    assert bob.call("release_stick", room_id=ada.room_id, handoff=HANDOFF)["isError"] is False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much of its output was read")
def test_no_other_wait_of_a_client_that_does_not_read_claims_the_stick_again(start, ada, bob, until):
    deaf = start(SERVER, "codex:deaf", reading=False)
    deaf.request("initialize", {"protocolVersion": "2025-11-25"})
    deaf.start_call("join_path", context_path=str(Path(ada.errors).parent))
    until(lambda: len(state(bob, ada.room_id)["members"]) == 3)
    _, turn = answered(ada, "wait_for_turn", room_id=ada.room_id)
    for _ in range(3):
        deaf.start_call("wait_for_turn", room_id=ada.room_id)
    time.sleep(1)  # each wait must have begun

    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    ada.call("pass_stick", room_id=ada.room_id, to_agent_id="codex:deaf", **lease, handoff=HANDOFF)
    owner_becomes(until, ada, ada.room_id, "codex:deaf")
    owner_becomes(until, ada, ada.room_id, None)
    time.sleep(3)

    assert state(ada, ada.room_id)["room"]["owner"] is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much of its output was read")
def test_a_client_that_does_not_read_cannot_keep_its_claim_by_asking_again(start, ada, bob, until):
    deaf = start(SERVER, "codex:deaf", reading=False)
    deaf.request("initialize", {"protocolVersion": "2025-11-25"})
    deaf.start_call("join_path", context_path=str(Path(ada.errors).parent))
    until(lambda: len(state(bob, ada.room_id)["members"]) == 3)
    deaf.start_call("wait_for_turn", room_id=ada.room_id)
    owner_becomes(until, bob, ada.room_id, "codex:deaf")
    began = time.monotonic()

    time.sleep(3)
    for _ in range(2):
        deaf.start_call("wait_for_turn", room_id=ada.room_id)
    owner_becomes(until, bob, ada.room_id, None)

    assert time.monotonic() - began < 15


BLIND_CALLS = {
    "heartbeat": [("heartbeat", {})],
    "wait": [("wait_for_turn", {})],
    "other": [
        ("get_room_state", {}),
        ("append_note", {"note": "still here"}),
        ("scope_reserve", {"scope": "src"}),
        ("agent_heartbeat", {}),
        ("sync", {"outbox": [{"content_markdown": "still here"}], "wait_seconds": 0}),
        ("listen", {"wait_seconds": 0}),
    ],
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much of its output was read")
@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_no_call_of_a_client_that_does_not_read_keeps_its_claim(start, conch, tmp_path, until, era):
    bob, deaf, rooms, claims = conch("claude:bob"), {}, {}, {}
    for kind in BLIND_CALLS:
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "AGENTS.md").write_text("")
        rooms[kind] = bob.call("join_path", context_path=str(tmp_path / kind))["structuredContent"]["room_id"]
        deaf[kind] = start(SERVER, f"codex:{kind}", reading=False)
        if era == "stateless":
            deaf[kind].speak_stateless()
        else:
            deaf[kind].request("initialize", {"protocolVersion": "2025-11-25"})
        deaf[kind].start_call("join_path", context_path=str(tmp_path / kind))
    for kind, room_id in rooms.items():
        until(lambda room_id=room_id: len(state(bob, room_id)["members"]) == 2)
        deaf[kind].start_call("wait_for_turn")
        owner_becomes(until, bob, room_id, f"codex:{kind}")
        claims[room_id] = kind, time.monotonic()

    while claims:
        for room_id, (kind, began) in [*claims.items()]:
            for tool, arguments in BLIND_CALLS[kind]:
                deaf[kind].start_call(tool, **arguments)
            room = state(bob, room_id)["room"]
            if room["turn_id"] > (room["owner"] is not None):  # free, or claimed again
                del claims[room_id]
            assert time.monotonic() - began < 15, kind
        time.sleep(0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much of its output was read")
def test_a_client_that_does_not_read_cannot_keep_its_reservation_by_asking_again(start, ada, bob, until):
    deaf = start(SERVER, "codex:deaf", reading=False)
    deaf.request("initialize", {"protocolVersion": "2025-11-25"})
    deaf.start_call("join_path", context_path=str(Path(ada.errors).parent))
    until(lambda: len(state(bob, ada.room_id)["members"]) == 3)
    for _ in range(3):
        deaf.start_call("scope_reserve", room_id=ada.room_id, scope="src")
    until(lambda: reserved(bob))
    began = time.monotonic()

    until(lambda: not reserved(bob))

    assert time.monotonic() - began < 15


def test_a_reservation_that_two_replies_tell_of_stays_if_one_of_them_is_cancelled(ada, bob):
    first, _ = answered(ada, "scope_reserve", room_id=ada.room_id, scope="src")
    second, _ = answered(ada, "scope_reserve", room_id=ada.room_id, scope="src")

    ada.cancel(second)
    ada.cancel(first)  # too late: the client has already cancelled a reply that it had read
    time.sleep(0.3)

    assert len(reserved(bob)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much of its output was read")
def test_a_claim_that_is_unread_when_its_client_closes_the_connection_is_given_back(start, bob, ada, until):
    hung = start(SERVER, "codex:hung", reading=False)
    hung.request("initialize", {"protocolVersion": "2025-11-25"})
    hung.start_call("join_path", context_path=str(Path(ada.errors).parent))
    until(lambda: len(state(bob, ada.room_id)["members"]) == 3)
    hung.start_call("wait_for_turn", room_id=ada.room_id)
    owner_becomes(until, bob, ada.room_id, "codex:hung")

    hung.process.stdin.close()
    hung.wait_for_exit()

    assert state(bob, ada.room_id)["room"]["owner"] is None


@pytest.fixture
def impatient(monkeypatch):
    """Servers that find a store busy after a moment."""
    monkeypatch.setenv("CONCH_BUSY_TIMEOUT_MS", "100")


def test_a_claim_is_given_back_as_soon_as_the_store_can_be_used_again(impatient, ada, bob, tmp_path, until):
    crossed, _ = answered(ada, "wait_for_turn", room_id=ada.room_id)
    with locked(tmp_path / "data" / "rooms.sqlite"):
        ada.cancel(crossed)
        until(lambda: "is busy" in ada.errors.read_text())

    owner_becomes(until, bob, ada.room_id, None)


@contextmanager
def locked(store):
    """Another program holds the write lock, for as long as it likes."""
    connection = sqlite3.connect(store, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@pytest.mark.parametrize("first", ["list_rooms", "get_room_state", "join_path"])
@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_any_late_cancellation_shows_what_a_client_is_like(start, bob, ada, tmp_path, first, era):
    late = start(SERVER, "codex:late")
    late.initialize() if era == "handshake" else late.speak_stateless()
    known = late.start_call(first)  # get_room_state fails: it needs a room_id
    late.receive()
    late.cancel(known)
    late.call("join_path", context_path=str(tmp_path))

    crossed, turn = answered(late, "wait_for_turn", room_id=ada.room_id)
    late.cancel(crossed)

    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    assert late.call("heartbeat", room_id=ada.room_id, **lease)["isError"] is False


def test_a_client_on_a_socket_that_cancels_what_it_has_read_keeps_its_claim_beside_unread_replies(start, ada, tmp_path):
    ours, theirs = socket.socketpair()
    late = start(SERVER, "codex:late", reading=False, stdout=theirs)
    replies = ours.makefile()
    late.request("initialize", {"protocolVersion": "2025-11-25"})
    replies.readline()
    known = late.start_call("join_path", context_path=str(tmp_path))
    replies.readline()
    late.cancel(known)
    claimed = late.start_call("wait_for_turn", room_id=ada.room_id)
    turn = json.loads(replies.readline())["result"]["structuredContent"]
    late.start_call("list_rooms")
    select.select([ours], [], [])  # its reply is there, and takes more memory than it has bytes

    late.cancel(claimed)
    time.sleep(0.3)  # taking it back would take a moment, and a heartbeat would prevent it

    lease = {"lease_id": turn["lease_id"], "expected_turn_id": turn["turn_id"]}
    late.start_call("heartbeat", room_id=ada.room_id, **lease)
    replies.readline()
    assert json.loads(replies.readline())["result"]["isError"] is False
    ours.close()
    theirs.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the threads of a process")
def test_unread_replies_need_no_threads_and_every_call_is_answered(start):
    client = start(SERVER, "codex:mute", reading=False)
    client.request("initialize", {"protocolVersion": "2025-11-25"})
    client.process.stdout.readline()

    sent = {client.start_call("list_rooms") for _ in range(4_000)}
    last = client.request("ping")

    status = Path(f"/proc/{client.process.pid}/status").read_text()
    threads = int(next(line for line in status.splitlines() if line.startswith("Threads")).split()[1])
    client.start_reading()
    assert {client.receive()["id"] for _ in range(4_001)} == {*sent, last}
    assert threads <= 256 + 8
