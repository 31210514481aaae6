"""Standard streams, signals and the end of the process."""

from __future__ import annotations

import array
import fcntl
import os
import resource
import signal
import subprocess
import sys
import termios
import time
from functools import partial
from pathlib import Path

import pytest


def test_nothing_but_the_protocol_reaches_standard_output(client):
    assert client.call("make_noise")["structuredContent"] == {"child": 0}
    client.process.stdin.close()

    assert client.rest() == []
    noise = client.errors.read_text()
    assert all(words in noise for words in ("a stray print", "a stray write", "a noisy child"))


def test_a_child_process_does_not_read_the_clients_messages(client):
    client.start_call("make_noise")
    client.request("ping", request_id="after the child")

    assert {client.receive()["id"] for _ in range(2)} >= {"after the child"}


def test_a_server_opens_no_socket(conch):
    client = conch("codex:1")
    room_id = client.call("join_path")["structuredContent"]["room_id"]
    client.call("wait_for_turn", room_id=room_id, max_wait_ms=0)

    opened = [os.readlink(link) for link in Path(f"/proc/{client.process.pid}/fd").iterdir()]

    assert any(name.startswith("pipe:") for name in opened)
    assert not any(name.startswith("socket:") for name in opened)


def test_a_stream_of_changes_needs_no_more_descriptors_with_every_change(conch):
    watcher, owner, other = conch("codex:1", stateless=True), conch("claude:1"), conch("gemini:2")
    for each in (watcher, owner, other):
        each.call("join_path")
    owner.call("wait_for_turn", max_wait_ms=0)  # so that the watcher watches the owner's process, too
    watcher.request("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["conch://room"]}})
    assert watcher.receive()["method"] == "notifications/subscriptions/acknowledged"
    opened = []

    for number in range(8):
        other.call("append_note", note=f"note {number}")
        assert watcher.receive()["method"] == "notifications/resources/updated"
        opened.append(len(os.listdir(f"/proc/{watcher.process.pid}/fd")))

    assert max(opened) <= opened[0] + 2, opened


def end_with_closed_input(client):
    client.process.stdin.close()


def end_with_sigterm(client):
    client.process.send_signal(signal.SIGTERM)


def end_with_sighup(client):
    client.process.send_signal(signal.SIGHUP)


def end_with_ctrl_c(client):
    client.process.send_signal(signal.SIGINT)


ENDINGS = [(end_with_closed_input, 0), (end_with_sigterm, 0), (end_with_sighup, 0), (end_with_ctrl_c, 130)]
endings = pytest.mark.parametrize(("end", "status"), ENDINGS, ids=[end.__name__ for end, _ in ENDINGS])


@endings
def test_an_idle_server_ends_cleanly(client, end, status):
    end(client)

    assert client.wait_for_exit() == status
    assert client.rest() == []
    assert client.errors.read_text() == ""


@endings
def test_a_server_ends_at_a_signal_that_its_parent_has_blocked(start, end, status):
    block = partial(signal.pthread_sigmask, signal.SIG_BLOCK, signal.valid_signals())
    client = start([sys.executable, "-m", "conch", "mcp"], "codex:ada", preexec_fn=block)
    client.initialize()

    end(client)

    assert client.wait_for_exit() == status


@endings
def test_a_server_that_was_never_spoken_to_ends_cleanly(raw, end, status):
    raw.ask("ping")

    end(raw)

    assert raw.wait_for_exit() == status
    assert raw.errors.read_text() == ""


@endings
def test_calls_in_flight_are_cancelled_and_claims_given_back_before_the_end(client, end, status):
    client.start_waiting_call("wait")
    for _ in range(3):
        client.start_waiting_call("claim_anyway")

    end(client)

    assert client.wait_for_exit() == status
    assert client.rest() == []
    assert client.undone() == 3
    assert client.errors.read_text() == ""


@endings
def test_a_call_that_does_not_end_cannot_keep_the_server(client, end, status):
    client.start_waiting_call("hang")
    client.start_waiting_call("claim_anyway")

    end(client)

    assert client.wait_for_exit() == status
    assert client.undone() == 1


def test_a_second_signal_does_not_disturb_the_end(client):
    client.start_waiting_call("claim_anyway")
    client.start_waiting_call("hang")

    for _ in range(20):
        end_with_sigterm(client)

    assert client.wait_for_exit() == 0
    assert client.undone() == 1


def test_a_client_that_stops_listening_ends_the_server(launch):
    client = launch(reading=False)
    client.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert client.process.stdout.readline()

    client.process.stdout.close()

    assert client.wait_for_exit() == 0
    assert client.errors.read_text() == ""


def test_a_claim_is_given_back_when_the_client_stops_listening(launch):
    client = launch(reading=False)
    client.request("initialize", {"protocolVersion": "2025-11-25"})
    client.process.stdout.readline()
    client.start_call("claim_anyway", token="waiting")
    client.process.stdout.readline()

    client.process.stdout.close()

    assert client.wait_for_exit() == 0
    assert client.undone() == 1


@pytest.fixture
def stuffed(launch):
    """A client that does not read, with a reply in delivery that does not fit into the pipe."""
    client = launch(reading=False)
    client.request("initialize", {"protocolVersion": "2025-11-25"})
    client.process.stdout.readline()
    client.start_call("fill", size=1_000_000)
    wait_until_full(client.process.stdout.fileno())
    return client


def wait_until_full(descriptor):
    """Until the bytes that wait in a pipe stop becoming more, at the pipe's capacity."""
    deadline = time.monotonic() + 20
    waiting = array.array("i", [0])
    while waiting[0] < 65_536 - 4_096 and time.monotonic() < deadline:
        fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
    assert waiting[0] >= 65_536 - 4_096


@endings
def test_a_client_that_does_not_read_cannot_keep_the_server(stuffed, end, status):
    stuffed.request("tools/list")  # the reading thread now waits for the pipe as well

    end(stuffed)

    assert stuffed.wait_for_exit() == status
    assert stuffed.undone() == 1


def test_a_reply_in_delivery_arrives_whole_once_the_client_reads_again(stuffed):
    stuffed.start_reading()

    reply = stuffed.receive()

    assert len(reply["result"]["content"][0]["text"]) == 1_000_000
    assert stuffed.undone() == 0


def test_replies_known_before_the_end_of_input_arrive_even_if_they_fill_the_pipe(launch):
    client = launch(reading=False)
    for number in range(200):  # little to send, much to answer
        client.request("initialize", {"protocolVersion": "2025-11-25"}, request_id=number)
    client.process.stdin.close()

    client.start_reading()

    assert [reply["id"] for reply in client.rest()] == list(range(200))


@pytest.mark.parametrize("closed", ["0<&-", "1>&-"])
def test_without_a_standard_stream_it_says_so(tmp_path, closed):
    probe = os.path.join(os.path.dirname(__file__), "probe_server.py")
    command = f'exec "$0" "$1" "$2" {closed}'

    ended = subprocess.run(
        ["sh", "-c", command, sys.executable, probe, str(tmp_path / "journal")],
        stdin=subprocess.PIPE,
        capture_output=True,
        timeout=20,
        env={**os.environ, "CONCH_DATA_DIR": str(tmp_path)},
    )

    assert ended.returncode == 1
    assert b"standard input" in ended.stderr and b"Traceback" not in ended.stderr


def test_standard_error_may_be_missing(launch):
    client = launch(preexec_fn=lambda: os.close(2))
    client.initialize()

    assert client.call("make_noise")["structuredContent"] == {"child": 0}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory that threads may reserve")
def spare_few_threads():
    """Memory for a few large stacks. The rest is too small for another stack but enough for everything else."""
    resource.setrlimit(resource.RLIMIT_STACK, (64 * 1024 * 1024, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (500 * 1024 * 1024, resource.RLIM_INFINITY))


def test_a_machine_without_threads_to_spare_refuses_the_call_and_serves_on(launch, monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")  # or each thread would take its share of the room for itself
    client = launch(preexec_fn=spare_few_threads)
    client.initialize()
    answered, waiting = None, []
    while answered is None:
        waiting.append(client.start_call("wait", token="waiting"))
        message = client.receive()
        answered = message if "error" in message else None

    assert answered["error"]["code"] == -32603 and "thread" in answered["error"]["message"]
    assert client.ask("ping")["result"] == {}
    client.cancel(waiting[0])
    client.process.stdin.close()
    assert client.wait_for_exit() == 0
