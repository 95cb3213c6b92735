"""Cases of fuzzing.py: requests to the explorer."""

from __future__ import annotations

import json
import random
import socket
import threading
from typing import Any

from fuzzed_shared import Family
from mutations import WORDS, spoiled_bytes, spoiled_value


def requests() -> Family:
    from spinodal.explorer import server as module
    from spinodal.explorer.runs import Job

    Job._solve = lambda self: None  # type: ignore[method-assign]  # runs have tests of their own
    server = module.make_server(port=0)
    threading.Thread(target=answer_forever, args=(server,), daemon=True).start()
    state = {"alpha": 0.5, "rho": 0.2, "eta": 1.0, "delta": 1e-6, "pi": 5.0, "x": "gauss-bernoulli", "f": "gaussian", "channel": "gaussian"}
    wires = [{"id": "start", "property": "n_clicks", "value": 1}]
    kept = [{"id": "state", "property": "data", "value": state}, {"id": "instance", "property": "data", "value": {"n": 10, "seed": 1}}]
    outputs = [{"id": id, "property": kind} for id, kind in (("run", "data"), ("live", "data"), ("clock", "disabled"))]
    start = {
        "output": "..run.data...live.data...clock.disabled..",
        "outputs": outputs,
        "inputs": wires,
        "state": kept,
        "changedPropIds": ["start.n_clicks"],
    }
    told = {"output": "readout.children", "outputs": {"id": "readout", "property": "children"}, "inputs": kept[:1], "changedPropIds": []}
    bodies = [("/figures", state), ("/diagram", state), ("/_dash-update-component", start), ("/_dash-update-component", told)]

    solve = {"file": "none", "options": {"transpose": False, "na": "-999", "n_atoms": 3, "density": 0.1, "channel": "one-bit", "seed": 1}}
    of_files = [("/data/solve", solve), ("/data/read", solve), ("/job", {"id": "none"}), ("/job/cancel", {"id": "none"})]

    def written(path: str, body: bytes, method: str = "POST", host: str | None = None) -> bytes:
        host = f"127.0.0.1:{server.port}" if host is None else host
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", "Content-Type: application/json"]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        return head.encode("utf-8", "surrogatepass") + body

    def ask(question: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", server.port), timeout=50) as connection:
            try:
                connection.sendall(question)
                connection.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: connection.recv(65536), b""))
            except (ConnectionResetError, BrokenPipeError):  # refused before it was read
                return b""

    def case(rng: random.Random) -> None:
        path, body = rng.choice(bodies + of_files)
        kind = rng.randrange(4)
        if kind <= 1:
            body = spoiled_value(rng, body)
        text = json.dumps(body).encode()
        if kind == 2:
            text = spoiled_bytes(rng, text)
        question = written(path, text)
        if kind == 3:
            odd = rng.choice([word for word in WORDS if word.isprintable()])
            question = rng.choice(
                [spoiled_bytes(rng, question), written("/" + odd, text), written(path, text, odd), written(path, text, host=odd)]
            )
        answer = ask(question)
        assert not answer or answer.startswith(b"HTTP/1."), answer[:100]
        assert not answer.split(b" ", 2)[1:2] or answer.split(b" ", 2)[1][:1] in b"234", answer[:300]
        assert b"Traceback" not in answer, answer[-300:]

    for path, body in bodies:
        assert b" 200 " in ask(written(path, json.dumps(body).encode()))[:20], path
    for path, body in of_files:
        assert b" 400 " in ask(written(path, json.dumps(body).encode()))[:20], path  # there is no such file, and no such work
    return case


def answer_forever(server: Any) -> None:
    """What `serve_forever` does, which `options` has turned off."""
    from waitress import wasyncore

    wasyncore.loop(timeout=1, map=server._serving._map, use_poll=True)
