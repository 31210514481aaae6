"""Nobody but the user reaches the console: no other web page, no DNS trick, no guess."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.process.web.conftest import Console

ADDRESSES = ["/", "/api/rooms", "/api/stream", "/static/main.js", "/mcp", "/nowhere"]


@pytest.mark.parametrize("path", ADDRESSES)
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}.evil.example", ""])
def test_a_request_for_another_host_is_refused(shared_console: Console, path: str, host: str) -> None:
    host = host.format(port=shared_console.port)

    answer = shared_console.request("GET", path, headers={**shared_console.bearer, "Host": host})

    assert answer.status == 421
    assert answer.data["error"] == "WRONG_HOST"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "LOCALHOST"])
def test_this_machine_has_more_than_one_name(shared_console: Console, name: str) -> None:
    host = {"Host": f"{name}:{shared_console.port}"}

    assert shared_console.request("GET", "/api/rooms", headers={**shared_console.bearer, **host}).status == 200


@pytest.mark.parametrize("path", ADDRESSES)
@pytest.mark.parametrize("origin", ["null", "http://evil.example", "http://127.0.0.1:1", "http://{host}.evil.example"])
def test_a_request_from_another_page_is_refused(shared_console: Console, path: str, origin: str) -> None:
    headers = {**shared_console.cookie, "Origin": origin.format(host=shared_console.host)}

    answer = shared_console.request("GET", path, headers=headers)

    assert answer.status == 403
    assert answer.data["error"] == "WRONG_ORIGIN"


@pytest.mark.parametrize("path", ADDRESSES)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic {token}"},
        {"Cookie": "conch_{port}=wrong"},
        {"Cookie": "conch_1={token}"},
        {"Authorization": "Bearer \u00e9"},
    ],
)
def test_without_the_token_nothing_is_served(shared_console: Console, path: str, headers: dict[str, str]) -> None:
    given = {
        name: value.format(token=shared_console.token, port=shared_console.port) for name, value in headers.items()
    }

    answer = shared_console.request("GET", path, headers=given)

    assert answer.status == 401
    assert shared_console.token not in answer.body.decode()


def test_a_browser_without_the_token_reads_what_to_do(shared_console: Console) -> None:
    answer = shared_console.request("GET", "/", headers={"Accept": "text/html"})

    assert answer.status == 401
    assert b"conch serve" in answer.body


def test_the_printed_address_signs_a_browser_in_and_drops_the_token(shared_console: Console) -> None:
    answer = shared_console.request("GET", f"/?token={shared_console.token}", headers={})

    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert f"conch_{shared_console.port}={shared_console.token}" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert shared_console.request("GET", "/", headers=shared_console.cookie).status == 200


def test_signing_in_keeps_the_rest_of_the_address(shared_console: Console) -> None:
    answer = shared_console.request(
        "GET", f"/search?q=a%26b&token={shared_console.token}", headers=shared_console.cookie
    )

    assert (answer.status, answer.headers["Location"]) == (303, "/search?q=a%26b")


def test_a_page_that_the_browser_has_is_not_sent_again(shared_console: Console) -> None:
    first = shared_console.request("GET", "/static/main.js")
    again = shared_console.request(
        "GET", "/static/main.js", headers={**shared_console.bearer, "If-None-Match": first.headers["ETag"]}
    )

    assert (first.status, again.status, again.body) == (200, 304, b"")
    assert again.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("path", ["//evil.example/", "/api/rooms", "/\\evil.example"])
def test_the_token_in_an_address_leads_nowhere_else(shared_console: Console, path: str) -> None:
    answer = shared_console.request("GET", f"{path}?token={shared_console.token}", headers={})

    assert not answer.headers.get("Location", "/").startswith(("//", "/\\", "http"))
    assert answer.status == (401 if path.startswith("/api") else 303)


def test_only_the_user_can_read_the_token(shared_console: Console) -> None:
    file = Path(shared_console.environ["CONCH_DATA_DIR"]) / "console-token"

    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().strip() == shared_console.token
    assert len(shared_console.token) >= 43


WRITE = {"Content-Type": "application/json"}


def test_a_write_of_a_page_must_name_its_origin(shared_console: Console) -> None:
    headers = {name: value for name, value in shared_console.cookie.items() if name != "Origin"}

    answer = shared_console.request("POST", "/api/act/ask", b"{}", {**headers, **WRITE})

    assert (answer.status, answer.data["error"]) == (403, "WRONG_ORIGIN")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_form_cannot_write(shared_console: Console, kind: str) -> None:
    answer = shared_console.request("POST", "/api/act/ask", b"{}", {**shared_console.cookie, "Content-Type": kind})

    assert (answer.status, answer.data["field"]) == (415, "Content-Type")


@pytest.mark.parametrize("path", ["/api/act/send", "/mcp"])
@pytest.mark.parametrize("length", ["1048577", "99999999999999999999", "-1", "one"])
def test_a_huge_body_is_refused_before_it_is_read(shared_console: Console, path: str, length: str) -> None:
    headers = {**shared_console.cookie, **WRITE, "Content-Length": length}

    answer = shared_console.request("POST", path, None, headers)

    assert answer.status in (400, 413)  # the server itself refuses what is no length


@pytest.mark.parametrize("path", ["/api/act/send", "/mcp"])
def test_a_huge_body_without_a_length_is_refused_as_it_comes(shared_console: Console, path: str) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    headers = {**shared_console.bearer, **WRITE, "Transfer-Encoding": "chunked", "Accept": "application/json"}

    answer = shared_console.request("POST", path, chunk * 17 + b"0\r\n\r\n", headers)

    assert answer.status == 413


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static//etc/passwd",
        "/static/%2fetc/passwd",
        "/static/",
        "/static/.",
        "/static/%00",
        "/static/index.html%00.js",
        "/static/" + "../" * 20 + "etc/passwd",
        "/..%5c..%5cserver.py",
    ],
)
def test_no_file_outside_the_pages_can_be_read(shared_console: Console, path: str) -> None:
    answer = shared_console.request("GET", path)

    assert answer.status == 404
    assert b"import" not in answer.body
    assert b"root:" not in answer.body


@pytest.mark.parametrize(
    ("path", "accept", "kind"),
    [
        ("/nowhere", "text/html,*/*", "text/html"),
        ("/api/nowhere", "text/html,*/*", "application/json"),
        ("/static/nowhere.js", "text/html,*/*", "application/json"),
        ("/nowhere", "application/json", "application/json"),
    ],
)
def test_a_person_gets_a_page_for_an_unknown_address_and_a_program_json(
    shared_console: Console, path: str, accept: str, kind: str
) -> None:
    answer = shared_console.request("GET", path, headers={**shared_console.cookie, "Accept": accept})

    assert (answer.status, answer.headers.get_content_type()) == (404, kind)


@pytest.mark.parametrize("path", [*ADDRESSES[:2], *ADDRESSES[3:]])
def test_every_reply_forbids_inline_scripts_and_frames(shared_console: Console, path: str) -> None:
    headers = shared_console.request("GET", path).headers

    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "OPTIONS"])
def test_other_methods_are_refused(shared_console: Console, method: str) -> None:
    answer = shared_console.request(method, "/api/rooms", b"{}", {**shared_console.cookie, **WRITE})

    assert answer.status == 405


def test_a_flood_of_requests_is_slowed_down(environ: dict[str, str], consoles: Callable[..., Console]) -> None:
    console = consoles(environ)

    with socket.create_connection(("127.0.0.1", console.port), timeout=30) as connection:
        request = f"GET /nowhere HTTP/1.1\r\nHost: {console.host}\r\n\r\n".encode()
        last = f"\r\nAuthorization: Bearer {console.token}\r\nConnection: close\r\n\r\n".encode()
        connection.sendall(request * 4_000 + request.replace(b"\r\n\r\n", last))
        replies = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert b"HTTP/1.1 429 " in replies
    assert b"retry-after: 1" in replies
    assert replies.rpartition(b"HTTP/1.1 ")[2].startswith(b"404 ")  # the user's own request is not refused for it


# -- where it listens


def serve(environ: dict[str, str], folder: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "conch", "serve", *options],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_cannot_connect_without_tls(environ: dict[str, str], workspace: str, address: str) -> None:
    refused = serve(environ, workspace, "--bind", address)

    assert refused.returncode == 2
    assert "--cert" in refused.stderr
    assert not (Path(environ["CONCH_DATA_DIR"]) / "console-token").exists()


@pytest.mark.parametrize("name", ["", "no-certificate", "missing"])
def test_a_certificate_that_cannot_be_used_is_refused_before_the_address_is_printed(
    environ: dict[str, str], workspace: str, name: str
) -> None:
    (Path(workspace) / "no-certificate").write_text("x")
    path = str(Path(workspace) / name)

    refused = serve(environ, workspace, "--cert", path, "--key", path)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"--cert {path} and its --key cannot be used: " in refused.stderr


def test_a_wanted_port_that_is_in_use_is_refused_and_a_free_one_named(
    environ: dict[str, str], workspace: str, consoles: Callable[..., Console]
) -> None:
    port = consoles(environ).port

    refused = serve(environ, workspace, "--port", str(port))

    assert refused.returncode == 2
    assert f"Port {port} cannot be used: Address already in use." in refused.stderr
    assert "is free: `conch serve --port " in refused.stderr


def test_an_allowed_host_is_served(environ: dict[str, str], consoles: Callable[..., Console]) -> None:
    console = consoles(environ, "--allow-host", "console.example")

    given = {**console.bearer, "Host": "console.example", "Origin": "https://console.example"}

    assert console.request("GET", "/api/rooms", headers=given).status == 200
    assert console.request("GET", "/api/rooms", headers={**given, "Host": "other.example"}).status == 421


def test_a_token_that_others_can_read_is_not_used(environ: dict[str, str], workspace: str) -> None:
    folder = Path(environ["CONCH_DATA_DIR"])
    folder.mkdir(mode=0o700)
    (folder / "console-token").write_text("x" * 43)
    (folder / "console-token").chmod(0o644)

    refused = serve(environ, workspace, "--port", "0")

    assert refused.returncode == 2
    assert "Other users can read" in refused.stderr


@pytest.mark.parametrize("path", ["/api/act/note", "/mcp"])
def test_the_server_ends_while_a_body_is_on_its_way(
    environ: dict[str, str], consoles: Callable[..., Console], path: str
) -> None:
    console = consoles(environ)
    with socket.create_connection(("127.0.0.1", console.port), timeout=30) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: {console.host}\r\nAuthorization: Bearer {console.token}\r\n"
        kinds = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        client.sendall(f"{head}{kinds}Content-Length: 100\r\nExpect: 100-continue\r\n\r\n".encode())
        assert b" 100 " in client.recv(1_000)  # the server waits for the body

        assert console.end() == (0, "")

        assert b" 408 " in client.recv(1_000)
