"""Sweeps end to end: one set of numbers whoever computes them, killed or not, and a ledger that nothing damages."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from conftest import Done
from spinodal.evaluation import record
from spinodal.figures.sweeps import sweep_figure
from spinodal.sweeps import (
    Dask,
    InProcess,
    dataset,
    executors,
    parse_spec,
    resume_sweep,
    run_sweep,
    standing,
    suited,
    table,
)
from spinodal.sweeps.ledger import LEDGER, open_ledger
from spinodal.sweeps.plan import make_plan
from tiny_sweep import TINY

Run = Callable[..., Done]

QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def points(directory: Path) -> list[tuple[Any, ...]]:
    """The rows of all points as they are in the file, without their checksums."""
    with sqlite3.connect(directory / LEDGER) as connection:
        return [row[:-1] for row in connection.execute("SELECT * FROM points ORDER BY id")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep, uninterrupted."""
    directory = tmp_path_factory.mktemp("whole")
    now = run_sweep(parse_spec(TINY), directory, InProcess(1))
    assert now.finished == now.total == 24
    return directory


def test_a_point_is_what_solve_gives(whole: Path) -> None:
    rows = table(whole).iloc[[5, 17]]  # one of each density
    problems = [sp.Problem.sparse(alpha=0.5, pi=2.0, rho=rho, eta=0.05, noise_variance=1e-4) for rho in rows.rho]
    drawn = [sp.sample(problem, 8, seed=seed) for problem, seed in zip(problems, rows.seed, strict=True)]
    Y, F_prime = (np.stack([getattr(one.observed, name) for one in drawn]) for name in ("Y", "F_prime"))
    solution = sp.solve(sp.Observed(Y, F_prime, None), problems, sp.MUAMP(), seed=list(rows.seed), max_iterations=20)
    assert list(rows.rho) == [0.1, 0.2]
    assert list(rows.status) == list(solution.status)
    for k, one in enumerate(drawn):
        found = sp.score(sp.Pair(solution.mean.F[k], solution.mean.X[k]), one.truth)
        assert rows.mse_X.iloc[k] == pytest.approx(found.mse.X, rel=1e-9)


@pytest.mark.parametrize(
    "executor", [lambda: InProcess(), pytest.param(lambda: Dask(workers=2), marks=pytest.mark.slow)], ids=["in process", "dask"]
)
def test_the_numbers_do_not_depend_on_who_computes(whole: Path, tmp_path: Path, executor: Callable[[], Any]) -> None:
    spec = parse_spec(TINY.replace("instances = 12", "instances = 4"))
    run_sweep(spec, tmp_path, executor())
    mine = {row[0]: row[2:] for row in points(tmp_path)}
    theirs = {row[0]: row[2:] for row in points(whole)}
    assert len(mine) == 8
    assert mine.items() <= theirs.items()


@pytest.mark.slow
def test_the_numbers_do_not_depend_on_the_cores(tmp_path: Path) -> None:
    """Large enough that a process with all cores divides its products among them."""
    spec = parse_spec(TINY.replace("N = 8", "N = 100").replace("instances = 12", "instances = 2").replace('"mu-amp"', '"amp"'))
    ledgers = []
    for executor in (InProcess(), Dask(workers=2)):
        directory = tmp_path / type(executor).__name__
        directory.mkdir()
        run_sweep(spec, directory, executor)
        ledgers.append([row[2:] for row in points(directory)])
    assert ledgers[0] == ledgers[1]


@pytest.mark.claims
def test_workers_share_the_cache_and_are_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where JAX is there already, which then has XLA write pages about compiled code that is loaded."""
    from distributed import Client

    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")  # as JAX sets it
    told = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    monkeypatch.setattr(executors, "for_children", lambda: told)
    with executors._local_cluster(1) as cluster, Client(cluster) as client:
        theirs = client.submit(lambda names: {name: os.environ.get(name) for name in names}, [*told, "NPROC"]).result()
    assert theirs == {**told, "NPROC": os.environ.get("NPROC", str(executors.cores()))}
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "1"


def test_who_computes_if_nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    little, much = (make_plan(parse_spec(TINY.replace("N = 8", f"N = {N}"))).batches for N in (8, 400))
    monkeypatch.setattr(executors, "cores", lambda: 4)
    assert isinstance(suited(little), InProcess)
    chosen = suited(much)
    assert isinstance(chosen, Dask)
    assert chosen.workers == 4
    assert isinstance(suited(much[:1]), InProcess)
    assert isinstance(suited(much, 1), InProcess)
    assert isinstance(suited(little, 2), Dask)
    monkeypatch.setattr(executors, "dask_is_installed", lambda: False)
    said: list[str] = []
    assert isinstance(suited(much, say=said.append), InProcess)
    assert said == ["this process computes alone, since Dask is not installed; spinodal[dask] would use all 4 cores."]
    with pytest.raises(sp.InputError, match="install spinodal"):
        suited(much, 2)
    monkeypatch.setattr(executors, "cores", lambda: 1)
    assert isinstance(suited(much), InProcess)


def test_arrays_and_provenance(whole: Path) -> None:
    data = dataset(whole)
    assert dict(data.sizes) == {
        "alpha": 1, "pi": 1, "rho": 2, "eta": 1, "noise_variance": 1, "observed_fraction": 1, "N": 1, "solver": 1, "instance": 12,
    }  # fmt: skip
    assert np.isfinite(data.mse_X).all()
    assert data.attrs["spec"] == TINY
    assert data.attrs["float_type"] == "float64"
    assert data.attrs["spinodal_version"] == sp.__version__
    assert "jaxlib" in data.attrs["machines"]
    frame = table(whole)
    for k, rho in enumerate((0.1, 0.2)):
        here = frame[frame.rho == rho].sort_values("instance")
        assert np.array_equal(data.mse_X.values.squeeze()[k], here.mse_X)


def test_a_random_design_has_one_axis_for_its_points(tmp_path: Path, spinodal_command: Run) -> None:
    import xarray

    text = TINY.replace("[grid]", "[random]\npoints = 5").replace("rho = [0.1, 0.2]", "rho = { from = 0.05, to = 0.3 }")
    directory = tmp_path / "sweep"
    directory.mkdir()
    run_sweep(parse_spec(text.replace("instances = 12", "instances = 2")), directory, InProcess())
    assert spinodal_command("sweep", "export", str(directory), "--out", str(tmp_path / "all.nc")).code == 0
    data = xarray.load_dataset(tmp_path / "all.nc", engine="scipy")
    assert dict(data.sizes) == {"point": 5, "N": 1, "solver": 1, "instance": 2}
    assert ((data.rho > 0.05) & (data.rho < 0.3)).all()
    assert np.isfinite(data.mse_X).all()
    frame = table(directory)
    for k in range(5):
        assert set(frame.mse_X[np.isclose(frame.rho, data.rho[k])]) == set(data.mse_X[k].values.ravel())


def test_failures_are_rows_and_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_spec(TINY.replace("instances = 12", "instances = 2"))

    def breaks(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("out of\n  luck")

    with monkeypatch.context() as patched:
        patched.setattr(record, "solve", breaks)
        now = run_sweep(spec, tmp_path, InProcess(1))
    assert now.statuses == {"failed": 4}
    frame = table(tmp_path)
    assert set(frame.error) == {"RuntimeError: out of luck"}
    assert np.isnan(frame.mse_X).all()
    assert resume_sweep(tmp_path, InProcess(1)).statuses == {"failed": 4}
    assert "failed" not in resume_sweep(tmp_path, InProcess(1), retry_failed=True).statuses
    assert np.isfinite(table(tmp_path).mse_X).all()


def command(*words: str) -> subprocess.Popen[str]:
    code = "from spinodal.cli import main; main()"
    line = [sys.executable, "-c", code, "sweep", *words]
    return subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=QUIET)


def kill_and_resume(text: str, whole: Path, directory: Path, kills: int, executor: tuple[str, ...], seed: int) -> None:
    """Kill the sweep `kills` times at random moments after it began to hand out batches, then let it end, and look at the ledger."""
    spec = directory.parent / "tiny.toml"
    spec.write_text(text)
    rng = random.Random(seed)
    killed = 0
    while killed < kills:
        there = (directory / LEDGER).exists()
        before = attempts(directory) if there else 0
        process = command("resume", str(directory), *executor) if there else command("run", str(spec), "--out", str(directory), *executor)
        while process.poll() is None and not ((directory / LEDGER).exists() and attempts(directory) > before):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL  # it was still at work
        killed += 1
    final = command("resume", str(directory), *executor)
    assert final.wait() == 0, final.stderr.read() if final.stderr else ""
    assert points(directory) == points(whole)
    nothing_twice(directory, lost=2 * killed)


def nothing_twice(directory: Path, lost: int) -> None:
    """Nothing was handed out again once it was in the ledger, and what was handed out in vain is what was in flight when it was killed."""
    with sqlite3.connect(directory / LEDGER) as connection:
        again = connection.execute(
            "SELECT a.batch FROM attempts a JOIN batches b ON a.batch = b.batch WHERE a.started > b.finished"
        ).fetchall()
        most = connection.execute("SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM attempts GROUP BY run, batch)").fetchone()[0]
        in_vain = (
            connection.execute("SELECT COUNT(*) FROM attempts").fetchone()[0]
            - connection.execute("SELECT COUNT(*) FROM batches").fetchone()[0]
        )
    assert not again
    assert most == 1
    assert in_vain <= lost


def attempts(directory: Path) -> int:
    try:
        ledger = open_ledger(directory, read_only=True)
        try:
            return len(ledger.rows("attempts").sound)
        finally:
            ledger.close()
    except sp.InputError:
        return 0


EXECUTORS = [
    pytest.param(("--workers", "1"), id="in-process"),
    pytest.param(("--executor", "dask", "--workers", "1"), id="dask", marks=pytest.mark.claims),  # starts two processes
]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_killed_and_resumed_is_the_same_as_never_killed(whole: Path, tmp_path: Path, executor: tuple[str, ...]) -> None:
    """A command is killed, which ends its workers too; this process computes the rest."""
    import psutil

    spec, out = tmp_path / "tiny.toml", tmp_path / "out"
    spec.write_text(TINY)
    process = command("run", str(spec), "--out", str(out), *executor)
    while process.poll() is None and attempts(out) < 3:
        time.sleep(0.005)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # it was still at work
    assert bool(workers) == ("dask" in executor)
    assert not psutil.wait_procs(workers, timeout=20)[1]
    assert 0 < standing(out).finished < 24
    resume_sweep(out, InProcess())
    assert points(out) == points(whole)  # bit for bit: SQLite keeps the doubles as they are
    nothing_twice(out, lost=1)


def test_bad_circumstances(spinodal_command: Run, whole: Path, tmp_path: Path) -> None:
    """A sweep that is there already, a directory that refuses everyone, a damaged ledger, another database, a misspelt key."""
    spec = tmp_path / "spec.toml"
    spec.write_text(TINY)
    was = (whole / LEDGER).read_bytes()

    def refused(*words: str) -> str:
        done = spinodal_command("sweep", *words)
        assert done.code == 2
        assert done.out == ""
        assert len(done.err.splitlines()) == 1
        return done.err

    assert "spinodal sweep resume" in refused("run", str(spec), "--out", str(whole))
    assert (whole / LEDGER).read_bytes() == was
    assert "can't" in refused("run", str(spec), "--out", "/proc/nowhere")
    assert "no ledger.sqlite" in refused("status", str(tmp_path))
    assert "no ledger.sqlite" in refused("resume", str(tmp_path))
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for content in (b"not a database at all" * 100, was[:5000], was[:4096] + b"\x07" * (len(was) - 4096), b""):
        (damaged / LEDGER).write_bytes(content)
        for words in (("status", str(damaged)), ("resume", str(damaged)), ("run", str(spec), "--out", str(damaged))):
            assert "ledger" in refused(*words)
            assert (damaged / LEDGER).read_bytes() == content
    spec.write_text(TINY.replace("max_iterations", "max_iteratoins"))
    assert "did you mean max_iterations?" in refused("run", str(spec), "--out", "fresh")
    assert not (tmp_path / "fresh").exists()
    assert "executor must be one of" in refused("resume", str(whole), "--executor", "cloud")
    assert "must be one of" in refused("figure", str(whole), "--x", "rhoo")
    assert "ending in .nc, .csv, .parquet" in refused("export", str(whole), "--out", "x.xlsx")


def test_a_second_run_on_a_ledger_is_refused(whole: Path, tmp_path: Path, spinodal_command: Run) -> None:
    from spinodal.sweeps.ledger import sole_writer

    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / LEDGER).write_bytes((whole / LEDGER).read_bytes())
    with sole_writer(copy):
        done = spinodal_command("sweep", "resume", str(copy))
        assert done.code == 2
        assert "another run is adding to the ledger" in done.err
        assert spinodal_command("sweep", "status", str(copy)).code == 0  # looking is allowed
    assert spinodal_command("sweep", "resume", str(copy)).code == 0


def test_a_full_disk_is_one_sentence_and_leaves_a_sound_ledger(whole: Path, tmp_path: Path) -> None:
    """The system refuses to let the ledger grow, as it does when there is no space. All that runs was compiled before."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((whole / LEDGER).stat().st_size, limits[1]))
    try:
        with pytest.raises(sp.InputError, match="can't be used") as refused:
            run_sweep(parse_spec(TINY.replace("instances = 12", "instances = 24")), tmp_path, InProcess(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(str(refused.value).splitlines()) == 1
    before = standing(tmp_path)
    assert 0 < before.finished < before.total
    assert resume_sweep(tmp_path, InProcess(1)).finished == before.total


def test_export_files(whole: Path, spinodal_command: Run, tmp_path: Path) -> None:
    import pandas
    import xarray

    for name in ("a.nc", "a.csv", "a.parquet"):
        assert spinodal_command("sweep", "export", str(whole), "--out", name).code == 0
    expected = table(whole)
    for read in (pandas.read_csv(tmp_path / "a.csv", comment="#"), pandas.read_parquet(tmp_path / "a.parquet")):
        assert np.array_equal(read.mse_X, expected.mse_X)
        assert list(read.id) == list(expected.id)
    with xarray.open_dataset(tmp_path / "a.nc", engine="scipy") as stored:
        assert stored.attrs["spec"] == TINY
        assert np.array_equal(stored.mse_X, dataset(whole).mse_X)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("x", "y", "value"), [("rho", "eta", "mse_X"), ("noise_variance", "pi", "success"), ("rho", "pi", "noise_used")])
def test_a_map_over_any_two_axes(whole: Path, x: str, y: str, value: str) -> None:
    """Also over one that else has a panel for each value, one of a single value, and of numbers that there are none of."""
    data = dataset(whole)
    assert len(sweep_figure(data.assign({value: data[value] * np.nan}), x=x, y=y, value=value).axes) == 2
    assert len(sweep_figure(data, x=x, y=y, value=value).axes) == 2  # the map and its colours


def test_no_map_over_an_axis_that_is_not_of_finite_numbers(whole: Path) -> None:
    data = dataset(whole)
    with pytest.raises(sp.InputError, match="y must be an axis of finite numbers"):
        sweep_figure(data.assign_coords(eta=[np.inf]), x="rho", y="eta")
    with pytest.raises(sp.InputError, match="x must be an axis of finite numbers"):
        sweep_figure(data, x="solver", y="rho")


@pytest.mark.slow
def test_killed_twenty_times_with_workers(tmp_path: Path) -> None:
    """The sweep is as large as twenty kills need. tests/test_kills.py has the same in one process."""
    text = TINY.replace("instances = 12", "instances = 300")
    (tmp_path / "whole").mkdir()
    run_sweep(parse_spec(text), tmp_path / "whole", InProcess(1))
    kill_and_resume(text, tmp_path / "whole", tmp_path / "out", 20, ("--executor", "dask", "--workers", "2"), seed=1)
