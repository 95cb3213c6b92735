"""The explorer under load: 50 clients, each asking about once a second, beside 200 connections that never finish their request.

Then live runs of 100 shapes, two at a time, with figures asked for meanwhile. Answers must come within 2 s, none may be an error of the
server, and when no run is under way the server and its workers must have the same memory to 100 MB, however many shapes there were. All is
compiled anew, some 7 s of CPU time for each shape. Writes results/load.csv: a line for the clients, and one for each two runs.
"""

from __future__ import annotations

import argparse
import base64
import csv
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

LONG = True
RESULTS = Path(__file__).parent / "results" / "load.csv"
COLUMNS = ("after", "answers", "slowest_s", "errors", "rest_MB", "peak_MB")
CLIENTS, SILENT, SECONDS, RUNS = 50, 200, 60, 100
# What must hold: seconds for an answer, bytes between most and least memory. A run that takes longer than so many seconds is given up.
QUICK, FLAT, PATIENCE = 2.0, 100e6, 300
# The smallest N, and runs at a time, which is what the explorer allows.
SMALLEST, AT_A_TIME = 10, 2
PROBLEM = {"alpha": 0.5, "rho": 0.1, "eta": 0.02, "delta": 1e-4, "pi": 5, "x": "gauss-bernoulli", "f": "gaussian"}
CALLBACK = "/_dash-update-component"
HEADERS = {"Content-Type": "application/json"}
# Enough of them that most answers have to be computed.
STATES = [
    json.dumps({"pi": pi, "alpha": alpha, "rho": rho}).encode()
    for pi in (2, 3, 4, 5, 6, 7, 8)
    for alpha in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    for rho in (0.05, 0.1, 0.15, 0.2, 0.25)
]


def ask(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[float, int]:
    """Seconds until the answer is there, and its code."""
    began = time.perf_counter()
    connection.request("POST", path, body, HEADERS)
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


class Memory:
    """The memory of a process and those that it started: now, and at most."""

    def __init__(self, process: int) -> None:
        import psutil

        self._process, self._lost, self.peak = psutil.Process(process), psutil.NoSuchProcess, 0
        threading.Thread(target=self._watch, daemon=True).start()

    def now(self) -> int:
        total = 0
        for each in (self._process, *self._process.children(recursive=True)):
            try:
                total += each.memory_info().rss
            except self._lost:  # it has ended since
                continue
        return total

    def at_rest(self) -> int:
        """What there is when the explorer keeps one worker, as it does between runs."""
        deadline = time.perf_counter() + PATIENCE
        while len(self._process.children()) > 1 and time.perf_counter() < deadline:
            time.sleep(0.05)
        return self.now()

    def _watch(self) -> None:
        while self._process.is_running():
            self.peak = max(self.peak, self.now())
            time.sleep(0.2)


class Asker:
    """Asks on a connection of its own, and remembers how long it waited and what the codes were."""

    def __init__(self, port: int) -> None:
        self._connection, self.seen = http.client.HTTPConnection("127.0.0.1", port, timeout=60), list[tuple[float, int]]()

    def __call__(self, path: str, body: bytes) -> Any:
        began = time.perf_counter()
        self._connection.request("POST", path, body, HEADERS)
        answer = self._connection.getresponse()
        content = answer.read()
        self.seen.append((time.perf_counter() - began, answer.status))
        return json.loads(content)["response"] if answer.status == 200 and path == CALLBACK else None

    def start(self, n: int) -> str:
        """Start a run of this size: its name."""
        begin = {"state.data": PROBLEM, "instance.data": {"n": n, "seed": 1}}
        return self(CALLBACK, callback("..run.data...live.data...clock.disabled..", {"start.n_clicks": 1}, begin))["run"]["data"]

    def has_ended(self, run: str) -> bool:
        """Whether a run has a result."""
        wanted = {"wanted.data": {"which": "atoms", "format": "json"}}
        question = json.loads(callback("download.data", wanted, {"state.data": PROBLEM, "run.data": run}))
        found = self(CALLBACK, json.dumps({**question, "outputs": {"id": "download", "property": "data"}}).encode())
        return bool(json.loads(base64.b64decode(found["download"]["data"]["content"]))["data_vars"]["angle"]["data"])


def measured(after: str, seen: Sequence[tuple[float, int]], rest: float, peak: float) -> dict[str, Any]:
    """A line of the file."""
    took, codes = zip(*seen, strict=True)
    errors = sum(code >= 500 for code in codes)
    return dict(zip(COLUMNS, (after, len(seen), round(max(took), 3), errors, round(rest / 1e6), round(peak / 1e6)), strict=True))


def clients(port: int, memory: Memory, seconds: float) -> dict[str, Any]:
    """Many clients beside silent connections."""
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(SILENT)]
    for each in silent:
        each.sendall(b"POST /figures HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    with ThreadPoolExecutor(CLIENTS) as pool:
        end = time.perf_counter() + seconds
        seen = [one for some in pool.map(lambda number: client(port, number, end), range(CLIENTS)) for one in some]
    for each in silent:
        each.close()
    return measured(f"{CLIENTS} clients", seen, memory.now(), memory.peak)


def runs_of_many_shapes(port: int, memory: Memory, count: int) -> Iterator[dict[str, Any]]:
    """Start runs of new sizes, and ask for figures until they have ended."""
    for first in range(0, count, AT_A_TIME):
        memory.peak, asker = 0, Asker(port)
        left = [asker.start(SMALLEST + k) for k in range(first, min(first + AT_A_TIME, count))]
        deadline = time.perf_counter() + PATIENCE
        while left and time.perf_counter() < deadline:
            left = [run for run in left if not asker.has_ended(run)]
            asker("/figures", random.choice(STATES))
            time.sleep(0.2)
        if left:
            raise TimeoutError(f"a run among those of N = {SMALLEST + first} and on has not ended after {PATIENCE} s")
        yield measured(f"{min(first + AT_A_TIME, count)} runs", asker.seen, memory.at_rest(), memory.peak)


@contextmanager
def server() -> Iterator[tuple[int, Memory]]:
    """The explorer with an empty cache: its port and its memory."""
    words = [sys.executable, "-m", "spinodal", "explore", "--no-browser", "--port", "0"]
    with tempfile.TemporaryDirectory() as cache:
        environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment | {"SPINODAL_CACHE": f"{cache}/jax"})
        try:
            assert process.stdout is not None
            port = int(urlsplit(process.stdout.readline().split()[4]).port or 0)
            first = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            for path in ("/figures", "/diagram"):  # compiled before
                for state in STATES[:4]:
                    ask(first, path, state)
            yield port, Memory(process.pid)
        finally:
            process.terminate()
            process.wait(timeout=10)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks load", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the clients ask")
    given = parser.parse_args(arguments)
    with server() as (port, memory):
        lines = [clients(port, memory, given.seconds)]
        print(f"{SILENT} silent connections, " + told(lines), flush=True)
        began = time.perf_counter()
        for line in runs_of_many_shapes(port, memory, given.runs):
            lines.append(line)
            if len(lines) % 10 == 1:
                print(told(lines[1:]), flush=True)
    rest = [line["rest_MB"] for line in lines[1:]]
    print(f"{given.runs} runs of different shapes in {time.perf_counter() - began:.0f} s, " + told(lines[1:]))
    print(f"memory without a run under way: {rest[0]} MB after the first, {min(rest)} to {max(rest)} MB, {rest[-1]} MB after the last")
    held = (
        max(line["slowest_s"] for line in lines) < QUICK
        and not sum(line["errors"] for line in lines)
        and max(rest) - min(rest) < FLAT / 1e6
    )
    print("held" if held else f"NOT HELD: answers within {QUICK:g} s, no errors of the server, memory flat to {FLAT / 1e6:.0f} MB")
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def told(lines: Sequence[dict[str, Any]]) -> str:
    """Lines of the file in one sentence."""
    answers, errors = (sum(line[name] for line in lines) for name in ("answers", "errors"))
    slowest, peak = (max(line[name] for line in lines) for name in ("slowest_s", "peak_MB"))
    return f"{lines[-1]['after']}: {answers} answers, slowest {slowest:.2f} s, {errors} errors of the server, {peak} MB at most"
