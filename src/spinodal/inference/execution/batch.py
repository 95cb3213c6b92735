"""Compiled calls on a batch of instances: begin, run. A leading axis on everything, also on the numbers of the problem."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax

from ...model.model import Problem
from ...model.priors.base import Moments
from ...model.sampling import Observed
from ...pair import Pair
from ..loop.iterate import Progress, Tolerance, begin, going, iterate, iterate_together
from ..messages.data import NO_MEANS, Data, make_data
from ..search.annealing import heated


class Model(NamedTuple):
    """What is fixed during a solve and known when it is compiled."""

    solver: Any
    N: int
    matrix: str
    dtype: str
    centre: Pair[bool] = NO_MEANS

    def data(self, observed: Observed, problem: Problem) -> Data:
        return make_data(observed, problem, self.N, self.matrix, self.dtype, self.centre)


@partial(jax.jit, static_argnums=(0, 4))
def begin_batch(model: Model, observed: Observed, problem: Problem, keys: Any, max_iterations: int) -> Progress:
    def one(observed: Observed, problem: Problem, key: Any) -> Progress:
        return begin(
            model.solver.init(model.data(observed, problem), key), max_iterations, model.solver.first_damping, model.solver.keeps_best
        )

    return jax.vmap(one)(observed, problem, keys)


@partial(jax.jit, static_argnums=0)
def start_batch(model: Model, observed: Observed, problem: Problem, run: Progress, mean: Pair[Any], variance: Pair[Any]) -> Progress:
    """Runs that have not started, with these estimates to start from; no noise is added."""

    def one(observed: Observed, problem: Problem, run: Progress, mean: Pair[Any], variance: Pair[Any]) -> Progress:
        data = model.data(observed, problem)
        F, X = (Moments(*values) for values in zip(mean, variance, strict=True))
        state = run.state._replace(F=run.state.F if model.matrix == "exact" else F, X=X)
        return run._replace(state=heated(data, state, 0))

    return mapped(one)(observed, problem, run, mean, variance)


@partial(jax.jit, static_argnums=0, donate_argnums=3)
def run_batch(
    model: Model, observed: Observed, problem: Problem, run: Progress, limit: Any, goal: Any, tolerance: Tolerance
) -> tuple[Progress, Any]:
    """Advance every instance to its `limit`, and say which could go on to their `goal`."""
    data = jax.vmap(model.data)(observed, problem)
    if data.Y.shape[0] > 1 and jax.default_backend() == "cpu":
        # One after another: each stays in cache, stops when it is done, and has the numbers it would have alone.
        run = jax.lax.map(lambda each: iterate(model.solver, each[0], each[1], each[2], tolerance), (data, run, limit))
    elif data.Y.shape[0] > 1:
        run = iterate_together(model.solver, data, run, limit, tolerance)
    else:
        run = mapped(lambda data, run, limit: iterate(model.solver, data, run, limit, tolerance))(data, run, limit)
    return run, going(run, goal, tolerance)


def mapped(function: Any) -> Any:
    """vmap over the leading axis; a batch of one runs as itself, without the cost of batched branches and loops."""

    def call(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        return jax.tree.map(lambda value: value[None], function(*jax.tree.map(lambda value: value[0], arguments)))

    return call
