"""The explorer under load: 50 clients, each asking about once a second, beside 200 connections that never finish their request.

Then live runs of 100 shapes, one after another, with figures asked for meanwhile.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

LONG = True
CLIENTS, SILENT, SECONDS = 50, 200, 60
SIZES = range(10, 110)
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


def callback(output: str, inputs: dict[str, Any], state: dict[str, Any]) -> bytes:
    """The question of a callback of the page, as Dash puts it. Names are those of components and their properties."""

    def wire(name: str) -> dict[str, str]:
        id, kind = name.split(".")
        return {"id": id, "property": kind.split("@")[0]}

    outputs = [wire(name) for name in output.strip(".").split("...")]
    given = [[{**wire(name), "value": value} for name, value in wires.items()] for wires in (inputs, state)]
    return json.dumps({"output": output, "outputs": outputs, "inputs": given[0], "state": given[1], "changedPropIds": []}).encode()


def runs_of_many_shapes(port: int, process: int) -> None:
    """Start a run of each size, ask for figures until it has ended, and look at the memory of the server and its workers."""
    import psutil

    server, memory, seen, path = psutil.Process(process), [], [], "/_dash-update-component"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    problem = {"alpha": 0.5, "rho": 0.1, "eta": 0.02, "delta": 1e-4, "pi": 5, "x": "gauss-bernoulli", "f": "gaussian"}

    def asked(path: str, body: bytes) -> Any:
        began = time.perf_counter()
        connection.request("POST", path, body)
        answer = connection.getresponse()
        content = answer.read()
        seen.append((time.perf_counter() - began, answer.status))
        return json.loads(content)["response"] if answer.status == 200 and path.startswith("/_dash") else None

    for n in SIZES:
        begin = {"state.data": problem, "instance.data": {"n": n, "seed": 1}}
        run = asked(path, callback("..run.data...live.data...clock.disabled..", {"start.n_clicks": 1}, begin))["run"]["data"]
        while True:
            send = callback(
                "download.data", {"wanted.data": {"which": "atoms", "format": "json"}}, {"state.data": problem, "run.data": run}
            )
            send = json.dumps({**json.loads(send), "outputs": {"id": "download", "property": "data"}}).encode()
            found = json.loads(base64.b64decode(asked(path, send)["download"]["data"]["content"]))["data_vars"]["angle"]["data"]
            asked("/figures", random.choice(STATES))
            if found:
                break
            time.sleep(0.2)
        memory.append(sum(each.memory_info().rss for each in (server, *server.children(recursive=True))))
    took, codes = zip(*seen, strict=True)
    print(f"{len(memory)} runs of different shapes, {len(seen)} answers meanwhile: slowest {max(took):.2f} s, codes {sorted(set(codes))};")
    least, most, end = (value / 1e6 for value in (min(memory), max(memory), memory[-1]))
    print(f"memory of the server and its workers from {least:.0f} to {most:.0f} MB, {end:.0f} at the end")


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
        for each in silent:
            each.close()
        runs_of_many_shapes(port, server.pid)
    finally:
        server.terminate()
        server.wait(timeout=10)
