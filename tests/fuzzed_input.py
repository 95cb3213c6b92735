"""Cases of fuzzing.py: what a user gives to a command. Something sound is spoiled, and the command must answer."""

from __future__ import annotations

import gzip
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import spinodal as sp
from fuzzed_shared import HINTED, OTHER_SPEC, QUICK, SPEC, SWEEP, Family, M, N, P, data, saved, write_measurements
from mutations import WORDS, npy_header, odd_array, pickled, spoiled_bytes, spoiled_npz, spoiled_text
from spinodal.sweeps.ledger import LEDGER


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
