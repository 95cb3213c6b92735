"""What users vary is not compiled in: another limit, tolerance, seed, parameter or number of runs compiles nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import pytest
from jax import monitoring

import spinodal as sp

N = 8
PROBLEM = sp.Problem.sparse(alpha=0.6, pi=5.0, rho=0.2, noise_variance=1e-4)


@cache
def observed() -> Any:
    return sp.sample(PROBLEM, N, seed=3).observed


HINTED = PROBLEM.replace(eta=0.5)


@cache
def observed_with_hint() -> Any:
    return sp.sample(HINTED, N, seed=3).observed


# What JAX reports for every program that it makes from a trace, whether or not a file has it compiled.
LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"


@pytest.fixture
def compilations() -> Any:
    """A function that counts the programs made while it runs another."""
    seen: list[str] = []

    def listen(event: str, duration: float, **_: Any) -> None:
        seen.append(event)

    monitoring.register_event_duration_secs_listener(listen)

    def count(function: Callable[[], Any]) -> int:
        seen.clear()
        function()
        return seen.count(LOWERED)

    yield count
    monitoring.unregister_event_duration_listener(listen)


def from_scratch(problem: sp.Problem = PROBLEM, **options: Any) -> sp.Solution:
    return sp.solve(observed(), problem, n_atoms=N, **{"max_iterations": 1000, "tolerance": 3e-4, **options})


def with_hint(problem: sp.Problem = HINTED, **options: Any) -> sp.Solution:
    return sp.solve(observed_with_hint(), problem, **{"max_iterations": 1000, **options})


def test_nothing_that_users_vary_is_compiled_in(compilations: Callable[[Callable[[], Any]], int]) -> None:
    other = sp.Problem.sparse(alpha=0.6, pi=5.0, rho=0.25, noise_variance=2e-4)
    from_scratch(runs=2)
    voted = from_scratch(sp.Problem.sparse(alpha=0.6, pi=5.0, rho=0.3, noise_variance=3e-4), seed=1)
    assert voted.runs > 6  # so that every program was needed once
    # Somebody counts: a program that was not there before is seen.
    assert compilations(lambda: jax.jit(lambda x: x + 17)(3.0)) > 0
    varied: dict[str, dict[str, Any]] = {
        "the limit": {"max_iterations": 1001},
        "the tolerance": {"tolerance": 1e-3},
        "the seed": {"seed": 7},
        "the parameters": {"problem": other},
        "the runs": {"runs": 3},
    }
    made = {what: compilations(lambda options=options: from_scratch(**options)) for what, options in varied.items()}
    assert made == dict.fromkeys(varied, 0)


def test_nor_with_a_hint(compilations: Callable[[Callable[[], Any]], int]) -> None:
    with_hint()
    for options in ({"max_iterations": 1001}, {"tolerance": 1e-3}, {"problem": HINTED.replace(eta=0.6)}):
        assert compilations(lambda options=options: with_hint(**options)) == 0
