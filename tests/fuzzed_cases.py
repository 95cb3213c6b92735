"""The cases of fuzzing.py: for each kind of input something sound that is spoiled, and what must hold of what comes of it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import resource
import socket
import sqlite3
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import spinodal as sp
from mutations import WORDS, npy_header, odd_array, pickled, spoiled_bytes, spoiled_npz, spoiled_text, spoiled_value
from spinodal.errors import InputError
from spinodal.inference.execution.checkpoint import Checkpoint
from spinodal.sweeps.ledger import LEDGER, _checksum
from tiny_sweep import TINY

Family = Callable[[random.Random], None]
# One shape for all, so that little is compiled.
M, N, P = 6, 4, 14
QUICK = ("--max-iter", "3", "--runs", "1")
HINTED = ("--eta", "0.1", "--density", "0.2", "--noise-variance", "0.01")
LONGER = (*HINTED, "--max-iter", "30", "--every", "2")
VOTING = (
    "--eta",
    "inf",
    "--n-atoms",
    str(N),
    "--density",
    "0.2",
    "--noise-variance",
    "0.01",
    "--max-iter",
    "60",
    "--runs",
    "3",
    "--every",
    "4",
)
SPEC = TINY.replace("instances = 12", "instances = 2").replace("N = 8", "N = 6").replace("max_iterations = 20", "max_iterations = 3")
OTHER_SPEC = """
name = "other"
seed = 3
N = 6
batch = 2
max_iterations = 3
[random]
points = 2
alpha = 0.5
rho = { from = 0.1, to = 0.3, scale = "log" }
pi = 2.0
eta = [0.05, 0.06]
noise_variance = 1e-4
[prior]
F = { kind = "Gaussian" }
[[solver]]
method = "mu-amp"
damping = 0.5
"""
SWEEP = ("--executor", "in-process", "--workers", "1")


def families(world: Any) -> dict[str, tuple[int, Family]]:
    """How many cases of each kind, and what makes one. Everything sound is made here, and compiled."""
    warnings.filterwarnings("ignore", "Duplicate name", UserWarning)  # of zip files that hold a name twice
    return {
        "tables": (170, tables(world)),
        "options": (120, options(world)),
        "specs": (70, specs(world)),
        "checkpoints": (50, checkpoints(world)),
        "models": (70, models(world)),
        "ledgers": (60, ledgers(world)),
        "requests": (100, requests()),
        "disks": (25, disks(world)),
    }


def data() -> tuple[np.ndarray, np.ndarray]:
    """Y and F'."""
    rng = np.random.default_rng(19)
    F, X = rng.normal(size=(M, N)), rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.3)
    return F @ X / np.sqrt(N) + 0.1 * rng.normal(size=(M, P)), F + 0.1 * rng.normal(size=(M, N))


def saved(write: Callable[[Any], Any]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def tables(world: Any) -> Family:
    import pyarrow
    import pyarrow.parquet
    import scipy.io
    import scipy.sparse

    Y, F_prime = data()
    bare = "\n".join(",".join(f"{value:.6g}" for value in row) for row in Y) + "\n"
    names = ";".join(["sensor", *(f"signal {k}" for k in range(P))])
    full = names + "\n" + "\n".join(f"sensor {i};" + ";".join(f"{value:.6g}" for value in row) for i, row in enumerate(Y)) + "\n"
    arrays = {"Y": Y, "F_prime": F_prime, "mask": np.ones((M, P), bool), "parameters": np.array('{"density": 0.2, "eta": 0.1}')}
    npz = saved(lambda file: np.savez(file, **arrays))
    columns = {f"signal {k}": Y[:, k] for k in range(P)}
    nc = bytes(sp.solve(Y, n_atoms=N, max_iterations=3, runs=1).to_xarray().to_netcdf(engine="scipy"))
    odd_columns = [
        pyarrow.array(["a", None, "b", "c", "d", "e"]),
        pyarrow.array([b"\xff"] * M),
        pyarrow.array([[1.0]] * M),
        pyarrow.array([{"a": 1}] * M),
        pyarrow.array([2**63 - 1] * M),
        pyarrow.array([None] * M),
        pyarrow.array([1] * M, pyarrow.timestamp("ns")),
        pyarrow.array(["x", "y"] * (M // 2)).dictionary_encode(),
        pyarrow.array([np.nan, np.inf] * (M // 2)),
    ]
    sparse = scipy.sparse.csc_matrix((np.ones(1), (np.array([0]), np.array([0]))), shape=(40_000, 40_000))
    in_matlab: list[Any] = [{"Y": Y, "b": "text"}, np.array([[1, "x"]], object), sparse, "text", Y > 0, Y + 1j, Y.astype("i2")]

    def parquet(rng: random.Random) -> bytes:
        kept = dict(columns)
        if rng.random() < 0.7:
            kept[rng.choice(["id", "signal 3", "", "\x00", "__index_level_0__"])] = rng.choice(odd_columns)
        return saved(lambda file: pyarrow.parquet.write_table(pyarrow.table(kept), file))

    def mat(rng: random.Random) -> bytes:
        value = rng.choice([odd_array(rng, Y), rng.choice(in_matlab)])
        if getattr(getattr(value, "dtype", None), "kind", "f") in "mMg" or np.ndim(value) > 4:
            value = Y
        return saved(lambda file: scipy.io.savemat(file, {"Y": value, "t": Y[0]}, do_compression=rng.random() < 0.5))

    made: dict[str, Callable[[random.Random], bytes]] = {
        "csv": lambda rng: spoiled_text(rng, rng.choice([bare, full])).encode("utf-8", "surrogatepass"),
        "tsv": lambda rng: spoiled_text(rng, bare.replace(",", "\t")).encode(rng.choice(["utf-8", "utf-16"]), "surrogatepass"),
        "txt": lambda rng: spoiled_bytes(rng, full.encode()),
        "csv.gz": lambda rng: rng.choice([lambda data: data, lambda data: spoiled_bytes(rng, data)])(
            gzip.compress(spoiled_text(rng, full).encode("utf-8", "surrogatepass"))
        ),
        "npy": lambda rng: rng.choice(
            [
                lambda: saved(lambda file: np.save(file, odd_array(rng, Y))),
                lambda: npy_header(rng, numbers_only=True),
                lambda: spoiled_bytes(rng, saved(lambda file: np.save(file, Y))),
                lambda: pickled(world.canary),
            ]
        )(),
        "npz": lambda rng: rng.choice([lambda: spoiled_npz(rng, npz, world.canary), lambda: spoiled_bytes(rng, npz)])(),
        "mat": lambda rng: rng.choice([lambda data: data, lambda data: spoiled_bytes(rng, data)])(mat(rng)),
        "parquet": lambda rng: rng.choice([lambda data: data, lambda data: spoiled_bytes(rng, data)])(parquet(rng)),
        "nc": lambda rng: spoiled_bytes(rng, nc),
    }
    more = [("--transpose",), ("--decimal", ","), ("--na", "0"), ("--header",), ("--index-col", "1"), ("--center",), ("--array", "Y"), ()]

    def case(rng: random.Random) -> None:
        kind = rng.choice(list(made))
        Path(f"in.{kind}").write_bytes(made[kind](rng))
        world.command("solve", f"in.{kind}", "--n-atoms", str(N), *QUICK, *rng.choice([(), rng.choice(more)]))

    Path("in.csv").write_text(bare)
    world.command("solve", "in.csv", "--n-atoms", str(N), *QUICK)
    Path("in.csv").unlink()
    return case


def write_measurements() -> None:
    Y, F_prime = data()
    np.savez("in.npz", Y=Y, F_prime=F_prime)


def options(world: Any) -> Family:
    from spinodal.explorer.server import Server

    Server.serve_forever = lambda self: None  # type: ignore[method-assign]  # a case that is served would never end
    point = ("--alpha", "0.5", "--rho", "0.2", "--eta", "1", "--noise-variance", "0.01")
    known = (
        ("theory", *point, "--pi", "3"),
        ("sample", *point, "--pi", "2", "--n", "6", "--seed", "1", "--out", "instance.npz"),
        ("diagram", *point[:2], "--rho", "0.1:0.2:2", "--eta", "1", "--out", "out"),
        ("curve", *point[:4], "--pi", "2:3:2", "--eta", "1", "--out", "out"),
        ("solve", "in.npz", *HINTED, "--max-iter", "3", "--out", "solution.npz", "--report", "report.html", "--seed", "0"),
        ("solve", "in.npz", *HINTED, "--max-iter", "3", "--out", "solution.csv", "--method", "amp", "--every", "3"),
        ("solve", "in.npz", "--eta", "inf", "--n-atoms", str(N), *QUICK, "--out", "solution.nc", "--array", "Y", "--na", "-9"),
        ("sweep", "run", "sweep.toml", "--out", "out", *SWEEP),
        ("explore", "--no-browser", "--host", "127.0.0.1", "--port", "0"),
        ("reproduce", "fig4", "--sizes", "odd", "--seeds", "1", "--out", "out"),
    )

    def case(rng: random.Random) -> None:
        write_measurements()
        Path("sweep.toml").write_text(SPEC)
        words = list(rng.choice(known))
        for _ in range(rng.choice((1, 1, 2))):
            place = rng.randrange(1, len(words))
            kind = rng.randrange(10)
            if kind <= 5:
                place = rng.choice([k for k in range(1, len(words)) if not words[k].startswith("--")])
                words[place] = rng.choice(WORDS)
            elif kind == 6:
                del words[place]
            elif kind == 7:
                words[place:place] = words[place : place + 2]
            else:
                words[place:place] = rng.choice([["--json"], ["--float32"], ["--center"], ["--nonsense"], ["x"], [rng.choice(WORDS)]])
        if words[0] == "reproduce" and "fig4" in words and "odd" not in words:  # what is sound takes minutes
            words += ["--sizes", "odd"]
        world.command(*words)

    write_measurements()
    Path("sweep.toml").write_text(SPEC)
    for words in known[:-1]:
        world.run(*words)
    return case


def failures(directory: Path) -> list[str]:
    """Reasons of failed points in a ledger."""
    if not (directory / LEDGER).exists():
        return []
    connection = sqlite3.connect(directory / LEDGER)
    try:
        return [str(row[0]) for row in connection.execute("SELECT error FROM points WHERE error IS NOT NULL")]
    finally:
        connection.close()


def specs(world: Any) -> Family:
    def case(rng: random.Random) -> None:
        text = spoiled_text(rng, rng.choice([SPEC, OTHER_SPEC])).encode("utf-8", "surrogatepass")
        Path("s.toml").write_bytes(spoiled_bytes(rng, text) if rng.random() < 0.2 else text)
        world.command("sweep", "run", "s.toml", "--out", "out", *SWEEP)
        for why in failures(Path("out")):
            assert why.startswith(("InputError: ", "Enough: ")), f"a point failed: {why}"

    Path("s.toml").write_text(OTHER_SPEC)
    assert world.run("sweep", "run", "s.toml", "--out", "other", *SWEEP).code == 0
    return case


def checkpoints(world: Any) -> Family:
    alone, compared = (
        ("solve", "in.npz", *options, "--checkpoint", "state.npz", "--out", "solution.npz", "--lenient") for options in (LONGER, VOTING)
    )
    known = [interrupted(world, alone, 4), interrupted(world, compared, 30)]

    def case(rng: random.Random) -> None:
        forged = rng.random() < 0.6
        words, state, whole = rng.choice(known)
        content = spoiled_npz(rng, state, world.canary) if forged else spoiled_bytes(rng, state)
        write_measurements()
        Path("state.npz").write_bytes(content)
        done = world.command(*words)
        if done.code == 2:
            assert "checkpoint" in done.err, done.err
            assert Path("state.npz").read_bytes() == content, "the file was changed"
        elif not forged:
            np.testing.assert_equal(arrays_of(Path("solution.npz")), whole)

    return case


def interrupted(world: Any, words: tuple[str, ...], saves: int) -> tuple[tuple[str, ...], bytes, dict[str, np.ndarray]]:
    """A command, the state that it leaves if it is interrupted after so many are saved, and the arrays that it ends with."""
    write_measurements()
    offer, left = Checkpoint.offer, [saves]

    def counted(self: Checkpoint, *arguments: Any) -> None:
        offer(self, *arguments)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    Checkpoint.offer = counted  # type: ignore[method-assign]
    assert world.run(*words).code == 130
    Checkpoint.offer = offer  # type: ignore[method-assign]
    state = Path("state.npz").read_bytes()
    assert world.run(*words).code == 0
    whole = arrays_of(Path("solution.npz"))
    for path in ("state.npz", "solution.npz"):
        Path(path).unlink()
    return words, state, whole


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "parameters"}  # which say how long it took


def models(world: Any) -> Family:
    rows = np.random.default_rng(1).normal(size=(20, M))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sound = sp.DictionaryLearner(3, max_iter=0, refine_iter=2, random_state=0).fit(rows)
    sound.save("model.npz")
    content, codes = Path("model.npz").read_bytes(), sound.transform(rows)

    def with_header(rng: random.Random) -> bytes:
        with np.load(io.BytesIO(content)) as file:
            arrays = {name: file[name] for name in file.files}
        header = spoiled_value(rng, json.loads(str(arrays.pop("header"))))
        return saved(lambda file: np.savez(file, header=np.asarray(json.dumps(header)), **arrays))

    def case(rng: random.Random) -> None:
        kind = rng.randrange(3)
        Path("model.npz").write_bytes(
            (spoiled_bytes(rng, content), spoiled_npz(rng, content, world.canary), with_header(rng))[kind]  # each draws, one is kept
        )
        try:
            model = sp.DictionaryLearner.load("model.npz")
        except InputError as error:
            refusal = str(error)
        else:
            refusal = ""
        if refusal:
            assert refusal.startswith("path must be a file written by DictionaryLearner.save, but "), refusal
            assert "\n" not in refusal
            assert len(refusal) < 1000, f"a sentence of {len(refusal)} characters"
            return
        found = model.transform(rows)
        assert found.shape == (20, len(model.components_))
        if kind == 0:
            np.testing.assert_array_equal(found, codes)
        model.save("again.npz")
        np.testing.assert_array_equal(sp.DictionaryLearner.load("again.npz").transform(rows), found)
        assert repr(model)

    return case


def ledgers(world: Any) -> Family:
    Path("s.toml").write_text(SPEC)
    assert world.run("sweep", "run", "s.toml", "--out", "sound", *SWEEP).code == 0
    content = (Path("sound") / LEDGER).read_bytes()
    statements = (
        "CREATE VIEW more AS SELECT * FROM points",
        "CREATE TRIGGER more AFTER INSERT ON points BEGIN DELETE FROM batches; END",
        "DROP TABLE attempts",
        "PRAGMA user_version = 99",
        "ALTER TABLE points ADD COLUMN more TEXT",
        "INSERT INTO points SELECT * FROM points",
        "DELETE FROM runs",
    )

    def forge(rng: random.Random, path: Path) -> None:
        connection = sqlite3.connect(path)
        with connection:
            if rng.random() < 0.3:
                connection.execute(rng.choice(statements))
            table = rng.choice([name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")])
            row = connection.execute(f"SELECT rowid, * FROM {table}").fetchone() if rng.random() < 0.8 else None
            if row is not None:
                names = [each[1] for each in connection.execute(f"PRAGMA table_info({table})")]
                values = list(row[1:])
                place = rng.randrange(len(values))
                values[place] = rng.choice([None, "", "x" * 5000, 1e308, -1, 2**62, b"\x00\xff", 0.5, "\x1b[31m", float("inf")])
                if rng.random() < 0.5:  # with a checksum that is right
                    values[names.index("checksum")] = _checksum(table, values[: names.index("checksum")])
                with contextlib.suppress(sqlite3.IntegrityError):  # of what the table itself refuses
                    marks = ", ".join("?" * len(names))
                    connection.execute(f"UPDATE {table} SET ({', '.join(names)}) = ({marks}) WHERE rowid = ?", [*values, row[0]])
        connection.close()

    def case(rng: random.Random) -> None:
        ledger = Path("out", LEDGER)
        ledger.parent.mkdir()
        ledger.write_bytes(content)
        if rng.random() < 0.5:
            ledger.write_bytes(spoiled_bytes(rng, content))
        else:
            forge(rng, ledger)
        words = rng.choice([("status",), ("export", "x.csv"), ("export", "x.nc"), ("export", "x.parquet"), ("resume",), ("figure",)])
        end = {"export": ("--out", words[-1]), "resume": SWEEP, "figure": ("--y", "eta", "--value", "mse_X")}.get(words[0], ())
        world.command("sweep", words[0], "out", *end)

    return case


def requests() -> Family:
    from spinodal.explorer import server as module
    from spinodal.explorer.runs import Run

    Run._solve = lambda self: None  # type: ignore[method-assign]  # runs have tests of their own
    server = module.make_server(port=0)
    threading.Thread(target=answer_forever, args=(server,), daemon=True).start()
    state = {"alpha": 0.5, "rho": 0.2, "eta": 1.0, "delta": 1e-6, "pi": 5.0, "x": "gauss-bernoulli", "f": "gaussian"}
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
        path, body = rng.choice(bodies)
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
    return case


def answer_forever(server: Any) -> None:
    """What `serve_forever` does, which `options` has turned off."""
    from waitress import wasyncore

    wasyncore.loop(timeout=1, map=server._serving._map, use_poll=True)


def disks(world: Any) -> Family:
    """Commands that are sound, on a disk that takes no file beyond a size."""
    point = ("--alpha", "0.5", "--pi", "2", "--rho", "0.2", "--eta", "1", "--noise-variance", "0.01")
    known = (
        ("sample", *point, "--n", "6", "--out", "instance.npz"),
        ("solve", "in.npz", *HINTED, "--max-iter", "3", "--out", "solution.npz", "--report", "report.html", "--lenient"),
        ("solve", "in.npz", *HINTED, "--max-iter", "3", "--out", "solution.csv", "--lenient"),
        ("solve", "in.npz", *LONGER, "--checkpoint", "state.npz", "--out", "solution.npz", "--lenient"),
        ("sweep", "run", "sweep.toml", "--out", "out", *SWEEP),
        ("sweep", "export", "sound", "--out", "x.csv"),
    )
    for words in known[:-2]:
        world.run(*words)
    sound = Path("sound", LEDGER).read_bytes()

    def case(rng: random.Random) -> None:
        write_measurements()
        Path("sweep.toml").write_text(SPEC)
        Path("sound").mkdir()
        Path("sound", LEDGER).write_bytes(sound)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (rng.choice((0, 1, 100, 1000, 5000, 20_000, 100_000)), limits[1]))
        try:
            world.command(*rng.choice(known), before_work=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return case
