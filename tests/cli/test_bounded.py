"""Nothing that is asked for takes more memory or time than there is: it is refused first, in one sentence, and nothing is written."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import spinodal as sp
from conftest import Done
from spinodal import errors

Run = Callable[..., Done]
Refuse = Callable[..., None]

SAMPLE = ("sample", "--alpha", "0.5", "--rho", "0.2", "--out", "i.npz")
GRID = "[grid]\nalpha = 0.5\nrho = 0.1\n"
# More than any machine that runs tests has.
HUGE = 10**15


@pytest.fixture
def refuse(run_cli: Run, tmp_path: Path) -> Refuse:
    """Run a command, and see that it is refused in one sentence with these words, with nothing written."""

    def refuse(words: tuple[str, ...], *expected: str) -> None:
        before = sorted(tmp_path.iterdir())
        code, out, err = run_cli(*words)
        assert (code, out) == (2, ""), err
        assert err.startswith("spinodal: ")
        assert err.count("\n") == 1
        for word in expected:
            assert word in err
        assert sorted(tmp_path.iterdir()) == before

    return refuse


@pytest.mark.parametrize(
    ("n", "pi", "word"),
    [
        ("1000000", "3", "n must leave room in memory"),
        ("10", "1e12", "n must leave room in memory"),
        ("10", "1e308", "n must leave"),
        ("1" * 400, "3", "n must leave"),
    ],
)
def test_instances_that_no_memory_holds(refuse: Refuse, n: str, pi: str, word: str) -> None:
    refuse((*SAMPLE, "--n", n, "--pi", pi), word)


def test_the_process_does_not_end_inside_the_compiler(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spinodal", "--no-cache", *SAMPLE, "--n", "1000000", "--pi", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "n must leave room in memory, but an instance with M = 500000, N = 1000000, P = 2000000 needs about" in done.stderr
    assert os.listdir(tmp_path) == []


def test_what_a_draw_takes_is_counted_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sp.Problem.sparse(alpha=1.0, pi=1.0, rho=0.1)
    monkeypatch.setattr(errors, "_ALWAYS_THERE", 0)
    monkeypatch.setattr(errors, "host_memory", lambda: 10_000.0)
    with pytest.raises(sp.InputError, match="n must leave room in memory"):
        sp.sample(problem, 20, seed=0)
    assert sp.sample(problem, 5, seed=0).observed.Y.shape == (5, 5)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--max-iter", "1000000000"), "max_iterations must be a whole number from 1 to 1000000"),
        (("--max-iter", str(10**30)), "max_iterations must be"),
        (("--n-atoms", "20", "--runs", "1000000"), "runs must be a whole number from 1 to 1000"),
        (("--n-atoms", "9" * 400), "needs about more than 1e6 GB"),
        (("--n-atoms", ",".join(map(str, range(1, 200)))), "n_atoms must be a whole number from 1 to 100"),
        (("--n-atoms", "20", "--seed", str(2**63)), "seed must be a whole number from 0 to 9223372036854775807"),
        (("--n-atoms", "20", "--seed", str(2**64)), "seed must be"),
    ],
)
def test_work_that_nobody_waits_for(refuse: Refuse, tmp_path: Path, options: tuple[str, ...], word: str) -> None:
    np.savez(tmp_path / "in.npz", Y=np.random.default_rng(0).normal(size=(12, 60)))
    refuse(("solve", "in.npz", *(options if "--n-atoms" in options else ("--n-atoms", "20", *options))), word)


def test_the_largest_seed_draws(run_cli: Run) -> None:
    assert run_cli(*SAMPLE, "--n", "10", "--pi", "2", "--seed", str(2**63 - 1)).code == 0


@pytest.mark.parametrize("seed", [str(2**63), str(2**64), "9" * 400])
def test_seeds_that_are_too_large(refuse: Refuse, seed: str) -> None:
    refuse((*SAMPLE, "--n", "10", "--pi", "2", "--seed", seed), "seed")


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (f"N = 10\ninstances = 1000000000\n{GRID}pi = 2.0", "at most 1000000 points, but it has 1000000000"),
        (f"N = 10\n{GRID}pi = {{ from = 1.0, to = 2.0, count = 1000000000 }}", "count must be a whole number from 2 to 1000000"),
        (
            "N = 10\n[grid]\n" + "\n".join(f"{name} = {{ from = 0.1, to = 0.9, count = 1000 }}" for name in ("alpha", "pi", "rho")),
            "at most 1000000 points, but it has 1000000000",
        ),
        ("N = 10\n[random]\npoints = 1000000000\nalpha = 0.5\npi = 2.0\nrho = 0.1", "at most 1000000 points"),
        (f"N = 10\n{GRID}pi = 1e12", "N, alpha, pi and batch must leave room in memory"),
        (f"N = 1000000\n{GRID}pi = 2.0", "N, alpha, pi and batch must leave room in memory"),
        (f"N = 10\n{GRID}pi = 1e308", "n must leave"),
        (f"N = 10\nbatch = 1000000000\n{GRID}pi = 2.0", "batch must be a whole number from 1 to 10000"),
        (f"N = 10\nmax_iterations = 1000000000\n{GRID}pi = 2.0", "max_iterations must be a whole number from 1 to 1000000"),
        (f"N = 10\nruns = 1000000\n{GRID}pi = 2.0", "runs must be a whole number from 1 to 1000"),
        (f"N = 10\nseed = {2**63}\n{GRID}pi = 2.0", "seed must be a whole number from 0 to"),
        (f"N = 10\n{GRID}pi = {'9' * 400}", "pi must be a number of at most"),
        (f"N = {'9' * 5000}\n{GRID}pi = 2.0", "the spec must be valid TOML"),
        ("N = 10\n[random]\npoints = 2\nalpha = { from = -1e308, to = 1e308 }\npi = 1\nrho = 0.1", "alpha must run from"),
    ],
)
def test_sweeps_of_too_much(refuse: Refuse, tmp_path: Path, spec: str, word: str) -> None:
    (tmp_path / "s.toml").write_text(spec)
    refuse(("sweep", "run", "s.toml", "--out", "out"), word)


def test_more_workers_than_any_machine_has(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f"N = 10\n{GRID}pi = 2.0")
    refuse(("sweep", "run", "s.toml", "--out", "out", "--workers", "1000000000"), "workers must be a whole number from 1 to 1000")


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("reproduce", "fig4", "--sizes", "inf"), "sizes must be"),
        (("reproduce", "fig4", "--sizes", "1000000"), "sizes must be a whole number from 2 to 10000"),
        (("reproduce", "dictionary", "--sizes", "1e300"), "sizes must be"),
        (("reproduce", "phase", "--seeds", "1000000000"), "seeds must be a whole number from 1 to 1000"),
        (("diagram", "--alpha", "0.5", "--rho", "0.1:0.2:100000"), "density must be LO:HI:N"),
        (("diagram", "--alpha", "0.5", "--rho", "0.1:0.2:10000", "--eta", "1,2,3"), "the number of points of the figure"),
        (("curve", "--alpha", "0.5", "--rho", "0.1", "--pi", "0.1:0.2:10000", "--eta", "1,2,3"), "the number of points of the figure"),
    ],
)
def test_figures_that_nobody_waits_for(refuse: Refuse, words: tuple[str, ...], word: str) -> None:
    refuse(words, word)


def npy_header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue()


def bomb(path: Path) -> None:
    """A file of megabytes whose member unpacks to a gigabyte."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file, file.open("Y.npy", "w") as member:
        member.write(npy_header((1000, 125_000)))
        for _ in range(60):
            member.write(bytes(2**24))


def test_a_zip_bomb_is_not_unpacked(refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb(tmp_path / "in.npz")
    monkeypatch.setattr(errors, "host_memory", lambda: 1e9)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_, **__: pytest.fail("unpacked before its size was looked at"))
    refuse(("solve", "in.npz", "--n-atoms", "3"), "FILE must leave room in memory, but what 'in.npz' unpacks to needs about 2.01 GB")


def test_arrays_that_say_they_are_larger_than_their_file(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "in.npy").write_bytes(npy_header((HUGE, 8)) + bytes(1000))
    refuse(("solve", "in.npy", "--n-atoms", "3"), "FILE must be a whole .np", "ends before that")
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as file:
        file.writestr("Y.npy", npy_header((HUGE, 8)) + bytes(1000))
    refuse(("solve", "in.npz", "--n-atoms", "3"), "FILE must be a whole .np", "ends before that")


def test_sparse_matrices_that_can_not_be_filled(refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diagonal = np.arange(9)
    scipy.io.savemat(tmp_path / "in.mat", {"Y": scipy.sparse.csc_matrix((np.ones(9), (diagonal, diagonal)), shape=(40_000, 40_000))})
    monkeypatch.setattr(errors, "host_memory", lambda: 24e9)
    refuse(("solve", "in.mat", "--n-atoms", "3"), "FILE must leave room in memory", "needs about 25.6 GB")


def matlab_variable(content: np.ndarray, said: int, shape: tuple[int, int], name: bytes = b"Y") -> bytes:
    """A .mat file with one compressed variable of doubles, which says that it unpacks to so many bytes."""
    parts = struct.pack("<4I", 6, 8, 6, 0) + struct.pack("<2I2i", 5, 8, *shape)
    parts += struct.pack("<2I", 1, len(name)) + name + bytes(-len(name) % 8) + struct.pack("<2I", 9, content.nbytes) + content.tobytes()
    packed = zlib.compress(struct.pack("<2I", 14, len(parts) if said < 0 else said) + parts, 1)
    return b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM" + struct.pack("<2I", 15, len(packed)) + packed


def test_a_compressed_matrix_is_not_unpacked_where_there_is_no_room(
    refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sound.mat").write_bytes(matlab_variable(np.eye(4), -1, (4, 4)))
    np.testing.assert_array_equal(sp.read_measurements(tmp_path / "sound.mat").observed.Y, np.eye(4))
    monkeypatch.setattr(errors, "host_memory", lambda: 1e9)
    monkeypatch.setattr(scipy.io, "loadmat", lambda *_, **__: pytest.fail("unpacked before its size was looked at"))
    zeros = np.zeros(4_000_000)
    for content, said, shape, words in (
        (zeros[:9], -1, (1000, 125_000), ("FILE must leave room in memory, but what 'in.mat' unpacks to", "needs about 2 GB")),
        (zeros[:9], 1_000_000_000, (3, 3), ("FILE must leave room in memory", "needs about 2 GB")),
        (zeros, 200, (3, 3), ("FILE must be a whole .mat file", "Y unpacks to more than the 200 bytes that it says")),
    ):
        (tmp_path / "in.mat").write_bytes(matlab_variable(content, said, shape))
        refuse(("solve", "in.mat", "--n-atoms", "3"), *words)
    (tmp_path / "in.mat").write_bytes(matlab_variable(zeros[:9], -1, (3, 3), bytes(4_000_000)))
    refuse(("solve", "in.mat", "--n-atoms", "3"), "FILE must be a whole .mat file", "a name or a list of sizes is too long")


@pytest.mark.parametrize("compressed", [True, False])
def test_structs_and_cells_are_not_unpacked(refuse: Refuse, tmp_path: Path, compressed: bool) -> None:
    cells = np.empty((1, 2), object)
    cells[0, :] = [np.zeros(2_000_000)] * 2
    held = {"s": {"a": np.zeros(2_000_000)}, "c": cells}
    scipy.io.savemat(tmp_path / "in.mat", held, do_compression=compressed)
    scipy.io.savemat(tmp_path / "with.mat", {**held, "Y": np.eye(4), "F_prime": np.ones((4, 2))}, do_compression=compressed)
    refuse(("solve", "in.mat", "--n-atoms", "3"), "FILE must hold an array Y or one matrix only", "s (1 x 1, object), c (1 x 2, object)")
    refuse(("solve", "in.mat", "--n-atoms", "3", "--array", "s"), "Y must hold real numbers, but in 'in.mat' it holds object")
    tracemalloc.start()
    found = sp.read_measurements(tmp_path / "with.mat").observed
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found.Y, np.eye(4))
    np.testing.assert_array_equal(found.F_prime, np.ones((4, 2)))
    assert peak < 8e6  # 16 MB are in either


def test_of_variables_of_one_name_the_last_counts(refuse: Refuse, tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "struct.mat", {"Y": {"a": np.ones((4, 4))}})
    scipy.io.savemat(tmp_path / "matrix.mat", {"Y": np.eye(4)})
    one, other = ((tmp_path / name).read_bytes() for name in ("struct.mat", "matrix.mat"))
    (tmp_path / "in.mat").write_bytes(one + other[128:])
    np.testing.assert_array_equal(sp.read_measurements(tmp_path / "in.mat").observed.Y, np.eye(4))
    (tmp_path / "in.mat").write_bytes(other + one[128:])
    refuse(("solve", "in.mat", "--n-atoms", "3"), "Y must hold real numbers, but in 'in.mat' it holds object")


def test_text_far_larger_than_memory(refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "in.csv").open("wb") as file:
        file.truncate(10**9)  # a hole: it takes no room on the disk
    monkeypatch.setattr(errors, "host_memory", lambda: 4e9)
    refuse(("solve", "in.csv", "--n-atoms", "3"), "FILE must leave room in memory, but the text in 'in.csv' needs about 8 GB")
    os.truncate(tmp_path / "in.csv", 0)
