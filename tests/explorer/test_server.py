"""The server itself, in a process of its own: malformed requests, silent and many connections, how it ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from spinodal.explorer.security import LONGEST_REQUEST, LONGEST_UPLOAD, too_long

QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
HALF = b"POST /figures HTTP/1.1\r\nHost: "


class Served(NamedTuple):
    process: subprocess.Popen[str]
    port: int

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, bytes, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()


def serve() -> Served:
    line = [sys.executable, "-c", "from spinodal.cli import main; main()", "explore", "--no-browser", "--port", "0"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=QUIET)
    assert process.stdout is not None
    said = process.stdout.readline()
    found = re.fullmatch(r"The explorer is at http://127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)\.\n", said)
    assert found, said
    return Served(process, int(found[1]))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    one = serve()
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()


def test_malformed_requests_get_a_sentence(served: Served) -> None:
    bodies = [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b'"x"',
        b"\xff\xfe",
        b"[" * 30_000,
        b"9" * 5_000,
        b'{"pi": [[]]}',
        b'{"pi": null}',
    ]
    for path in ("/figures", "/diagram", "/_dash-update-component"):
        for body in bodies:
            for kind in ("application/json", "text/plain"):
                code, text, _ = served.ask("POST", path, body, {"Content-Type": kind})
                assert code == 400, (path, body[:30])
                assert len(text.splitlines()) == 1
                assert text.endswith(b".")
        assert served.ask("POST", path, b"x" * (LONGEST_REQUEST + 1))[0] == 413
        assert served.ask("GET", "/", headers={"X": "y" * 100_000})[0] == 431
    assert served.ask("GET", "/_dash-component-suites/dash/nothing.js")[0] == 404
    assert served.ask("DELETE", "/figures")[0] == 405


def test_a_long_body_is_refused_before_it_is_read(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(f"POST /figures HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: {10**12}\r\n\r\n".encode())
        assert b" 413 " in connection.recv(100)
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        length = 50_000_000
        connection.sendall(f"POST /data?name=x.csv HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: {length}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(1000), b""))
    assert b" 413 " in answer
    assert answer.split(b"\r\n\r\n")[1].decode() == too_long(LONGEST_UPLOAD)


def test_files_are_kept_by_browsers_and_connections_by_the_server(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("GET", "/")
    page = connection.getresponse()
    text = page.read().decode()
    assert page.headers["Cache-Control"] == "no-cache"
    kept = connection.sock
    files = re.findall(r'(?:src|href)="(/(?:assets|_dash-component-suites)/[^"]+)"', text)
    assert any("assets" in name for name in files)
    for name in files:
        connection.request("GET", name)
        answer = connection.getresponse()
        answer.read()
        if "favicon" not in name:
            assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable", name
    assert connection.sock is kept
    connection.close()


@pytest.mark.claims
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interruption_ends_it_quietly() -> None:
    one = serve()
    half = socket.create_connection(("127.0.0.1", one.port), timeout=60)
    half.sendall(HALF)
    one.process.send_signal(signal.SIGINT)
    _, complaints = one.process.communicate(timeout=60)
    half.close()
    assert one.process.returncode == 130
    assert complaints == ""


@pytest.mark.claims
def test_many_clients_and_silent_connections(served: Served) -> None:
    """50 clients are answered beside 200 connections that never finish their request. `benchmarks load` says how fast."""
    asked = [("/figures", json.dumps({"pi": 3}).encode()), ("/diagram", json.dumps({"pi": 3}).encode()), ("/figures", b"{")]
    silent = [socket.create_connection(("127.0.0.1", served.port), timeout=60) for _ in range(200)]
    for each in silent:
        each.sendall(HALF)

    def client(_: int) -> list[int]:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
        codes = []
        for path, body in asked:
            connection.request("POST", path, body)
            answer = connection.getresponse()
            answer.read()
            codes.append(answer.status)
        connection.close()
        return codes

    with ThreadPoolExecutor(50) as clients:
        answers = list(clients.map(client, range(50)))
    for each in silent:
        each.close()
    assert answers == [[200, 200, 400]] * 50
