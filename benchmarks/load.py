"""The explorer under load: 50 clients, each asking about once a second, beside 200 connections that never finish their request."""

from __future__ import annotations

import http.client
import json
import random
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

LONG = True
CLIENTS, SILENT, SECONDS = 50, 200, 60
STATES = [json.dumps({"pi": pi}).encode() for pi in (2, 3, 4, 5)]


def ask(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[float, int]:
    """Seconds until the answer is there, and its code."""
    began = time.perf_counter()
    connection.request("POST", path, body)
    answer = connection.getresponse()
    answer.read()
    return time.perf_counter() - began, answer.status


def client(port: int, number: int, end: float) -> list[tuple[float, int]]:
    rng, connection, seen = random.Random(number), http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
    while time.perf_counter() < end:
        time.sleep(rng.uniform(0.5, 1.5))
        seen.append(ask(connection, *rng.choice([("/figures", rng.choice(STATES)), ("/diagram", rng.choice(STATES)), ("/figures", b"{")])))
    connection.close()
    return seen


def main() -> None:
    words = [sys.executable, "-c", "from spinodal.cli import main; main()", "explore", "--no-browser", "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(urlsplit(server.stdout.readline().split()[4]).port or 0)
        first = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for path in ("/figures", "/diagram"):  # compiled before
            for state in STATES:
                ask(first, path, state)
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(SILENT)]
        for each in silent:
            each.sendall(b"POST /figures HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with ThreadPoolExecutor(CLIENTS) as pool:
            end = time.perf_counter() + SECONDS
            seen = [one for some in pool.map(lambda number: client(port, number, end), range(CLIENTS)) for one in some]
        took, codes = zip(*seen, strict=True)
        print(f"{len(seen)} answers to {CLIENTS} clients in {SECONDS} s beside {SILENT} silent connections:")
        print(f"slowest {max(took):.2f} s, codes {sorted(set(codes))}")
    finally:
        server.terminate()
        server.wait(timeout=10)
