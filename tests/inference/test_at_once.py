"""Small runs on several cores: the numbers of one after another, told and interrupted like them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.execution import at_once, machine
from spinodal.inference.execution.programs import leaves_cores, often

PROBLEM = sp.Problem.sparse(alpha=0.75, pi=15.0, rho=0.15, noise_variance=0.05)
Y = sp.sample(PROBLEM, 12, seed=0).observed.Y


def on_cores(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    for module in (at_once, machine):
        monkeypatch.setattr(module, "cores", lambda: number)


def solved(monkeypatch: pytest.MonkeyPatch, cores: int, **options: Any) -> sp.Solution:
    on_cores(monkeypatch, cores)
    return sp.solve(Y, PROBLEM, n_atoms=12, max_iterations=120, **options)


def test_cores_do_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    one, three = (solved(monkeypatch, cores) for cores in (1, 3))
    assert (one.status, one.reason, one.iterations, one.runs) == (three.status, three.reason, three.iterations, three.runs)
    for a, b in zip((*one.mean, *one.variance), (*three.mean, *three.variance), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.claims
def test_a_batch_is_made_on_all_cores_too(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.05, noise_variance=1e-4)
    observed, threads = sp.sample(problem, 12, seed=0, batch=4).observed, set()
    group = at_once.at_once

    def noted(make: Any, *rest: Any) -> Any:
        def named(*arguments: Any) -> Any:
            threads.add(threading.current_thread().name)
            return make(*arguments)

        return group(named, *rest)

    monkeypatch.setattr("spinodal.inference.execution.runs.at_once", noted)
    on_cores(monkeypatch, 2)
    together = sp.solve(observed, problem)
    assert threads == {"run_0", "run_1"}
    on_cores(monkeypatch, 1)
    assert np.array_equal(together.mean.X, sp.solve(observed, problem).mean.X)


def test_whoever_is_told_hears_of_all_runs_in_his_own_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[str, int]] = []

    def progress(stage: str, iteration: int, _: float) -> None:
        assert threading.current_thread() is threading.main_thread()
        heard.append((stage, iteration))

    solution = solved(monkeypatch, 2, progress=progress)
    iterations = [iteration for stage, iteration in heard if stage == "iterating"]
    assert iterations == sorted(iterations)
    assert iterations[-1] >= solution.iterations


def test_an_interruption_ends_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solved(monkeypatch, 2, progress=interrupted)
    assert not any(thread.name.startswith("run_") for thread in threading.enumerate())


def test_what_goes_wrong_in_a_run_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: Any) -> None:
        raise ValueError("of a run")

    monkeypatch.setattr("spinodal.inference.execution.runs.solve_group", fault)
    with pytest.raises(ValueError, match="of a run"):
        solved(monkeypatch, 2)


@pytest.mark.claims
@pytest.mark.parametrize("options", [{"watch": lambda *_: None}, {"checkpoint": "state.npz"}])
def test_who_watches_each_step_sees_one_run_after_another(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spinodal.inference.execution.runs.at_once", None)
    solved(monkeypatch, 2, **options)


def test_large_runs_and_sweeps_have_their_cores_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert leaves_cores(30, 40, 500)
    assert not leaves_cores(50, 100, 500)
    assert not leaves_cores(1, 1000, 1200)  # whose looks at X are divided
    with often():
        assert not leaves_cores(30, 40, 500)
    monkeypatch.setenv("NPROC", "1")
    assert machine.cores() == 1
    monkeypatch.delenv("NPROC")
    assert machine.cores() >= 1
