"""Run, look for trouble, mend it and run again; keep the best state; put the atoms in the order of F'.

With a strong hint F' nothing of this is needed and one run does it all. Without F' every epoch is annealed, and epochs become longer: the
estimates of F survive from one to the next and improve with the time spent near the temperature where they can still turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from ...model.model import Problem
from ...model.sampling import Observed
from ..execution.batch import Model, mapped
from ..loop.iterate import Progress
from ..messages.state import rescaled
from .annealing import SHORTEST
from .learning import informed
from .repair import Checks, checks, mend

# Iterations of the first run and of each run after a repair (beyond its slow cooling), and how many repairs are tried.
_FIRST_RUN, _RUN, _REPAIRS = 600, 400, 40
# With F', repairs from this one on also raise the noise level and let it fall again; without F', all do.
_REHEAT_FROM = 2
# The most iterations of slow cooling in an epoch.
_LONGEST = 1000
# The variance of F given F', as a share of its power: below this F' holds the atoms apart and nothing needs repair.
_STRONG_HINT = 0.1
# Iterations allowed for scales to settle after atoms were put back in the hint's order.
_AFTER_ORDERING = 100

# Epochs without F' end when the level settles to within this many tolerances: enough to see what is wrong.
_LOOSER = 100.0

# Where the data are explained and so many repairs in a row bring no atom's worth of free entropy, trouble will not go away: too many atoms,
# or a wrong prior.
_PATIENCE = 6
# What an atom that is put right brings, at least, as a share of 1/N.
_WORTH = 0.2

Go = Callable[..., Progress]


class Place(NamedTuple):
    """Where a search stands while a run goes on: the stage, the number of the repair, and what is kept meanwhile.

    That is the best state so far with its verdict during repairs, and the verdict alone after them.
    """

    stage: str = "first"
    repair: int = 0
    kept: Any = None


def search(
    model: Model, observed: Observed, problem: Problem, go: Go, run: Progress, max_iterations: int, place: Place | None = None
) -> tuple[Progress, Any]:
    """From a run that has not started to the best state found, and whether there is still trouble in it (None: nobody looked).

    `go(run, n, looser, place)` allows every instance n more iterations, until its level settles (to `looser` tolerances, if given). A
    search that was interrupted goes on from the `place` and run that its `go` was last given.
    """
    place = place or Place()
    if not model.solver.repair:
        return go(run, max_iterations, None, place), None
    if is_strong(problem):
        run = go(run, max_iterations, None, place)
        return run, _trouble(model, observed, problem, run)
    if place.stage in ("first", "repair"):
        run, best = _mended(model, observed, problem, go, run, max_iterations, place)
        place = Place("settle", kept=best)
    best = place.kept
    if place.stage == "settle":
        run = go(run, _RUN, None, place)  # where the last run ended before it had settled
        run, moved = _in_order(model, observed, problem, run) if model.matrix == "noisy" else (run, False)
        if not moved:
            return run, best.found.trouble
    return go(run, _AFTER_ORDERING, None, Place("order", kept=best)), best.found.trouble


def _mended(
    model: Model, observed: Observed, problem: Problem, go: Go, run: Progress, max_iterations: int, place: Place
) -> tuple[Progress, _Verdict]:
    """The first run and its repairs: the best of them, with the iterations and trace of all."""
    looser = _LOOSER if model.matrix == "none" else None
    run = go(run, _FIRST_RUN, looser, place)
    verdict = inspect(model, observed, problem, run)
    kept, best, first = run, verdict, 0
    if place.stage == "repair":
        kept, best = _keep_better(place.kept, (run, verdict))
        first = place.repair + 1
    for k in range(first, _REPAIRS):
        hopeless = np.asarray(best.found.explained) & (np.asarray(best.in_vain) >= _PATIENCE)
        again = (np.asarray(run.iteration) < max_iterations) & np.asarray(verdict.found.trouble) & ~hopeless
        if not again.any():
            break
        heat = model.solver.anneal != 0 and (model.matrix == "none" or k >= _REHEAT_FROM)
        slow = cooling_time(k) if heat else 0
        mended = _repair(model, observed, problem, run, verdict.found, again, slow)
        run = go(mended, slow + _RUN, looser, Place("repair", k, (kept, best)))
        verdict = inspect(model, observed, problem, run)
        kept, best = _keep_better((kept, best), (run, verdict))
    return kept._replace(iteration=run.iteration, trace=run.trace), best


def cooling_time(k: int) -> int:
    """Iterations of slow cooling after the k-th repair: what quick cooling does not solve is given more time."""
    return min(SHORTEST * 2 ** (k // 2), _LONGEST)


def share_unknown(problem: Problem) -> float:
    """The share of F's power that F' leaves unknown: 0 for a known matrix, 1 without F'. Of a batch, the largest."""
    power, eta = np.asarray(problem.prior.F.second_moment()), np.asarray(problem.eta)
    return float(np.max(1 - power / (power + eta)))  # eta = inf leaves everything


def is_strong(problem: Problem) -> bool:
    """Whether F' holds the atoms apart, so that nothing needs repair."""
    return share_unknown(problem) < _STRONG_HINT


class _Verdict(NamedTuple):
    """What a look at a settled state says; of the best one, also after how many repairs in a row nothing better was found."""

    found: Checks
    free_entropy: Any
    in_vain: Any


@partial(jax.jit, static_argnums=0)
def inspect(model: Model, observed: Observed, problem: Problem, run: Progress) -> _Verdict:
    def one(observed: Observed, problem: Problem, run: Progress) -> _Verdict:
        data = model.data(observed, problem)
        return _Verdict(checks(informed(data, run.state), run.state), -model.solver.cost(data, run.state), jnp.asarray(0))

    return mapped(one)(observed, problem, run)


@partial(jax.jit, static_argnums=0)
def _trouble(model: Model, observed: Observed, problem: Problem, run: Progress) -> Any:
    """Whether a settled state can't be trusted, where nothing will be done about it."""

    def one(observed: Observed, problem: Problem, run: Progress) -> Any:
        return checks(informed(model.data(observed, problem), run.state), run.state).trouble

    return mapped(one)(observed, problem, run)


@partial(jax.jit, static_argnums=0)
def _repair(model: Model, observed: Observed, problem: Problem, run: Progress, found: Checks, again: Any, slow: Any) -> Progress:
    def one(observed: Observed, problem: Problem, run: Progress, found: Checks, again: Any) -> Progress:
        data = informed(model.data(observed, problem), run.state)
        mended = mend(data, run.state, found, slow)
        state = jax.tree.map(lambda new, old: jnp.where(again, new, old), mended, run.state)
        change = jnp.where(again, jnp.inf, 0.0).astype(run.change.dtype)
        return run._replace(state=state, change=change, moved=change, epoch_start=run.iteration)

    return mapped(one)(observed, problem, run, found, again)


@jax.jit
def _keep_better(kept: tuple[Progress, _Verdict], new: tuple[Progress, _Verdict]) -> tuple[Progress, _Verdict]:
    """Of two runs the one without trouble, or else the one of higher free entropy."""
    old, now = kept[1], new[1]
    higher = (now.free_entropy > old.free_entropy) | ~jnp.isfinite(old.free_entropy)
    better = jnp.where(now.found.trouble == old.found.trouble, higher, old.found.trouble)
    run, best = jax.tree.map(lambda b, a: jnp.where(better.reshape((-1,) + (1,) * (b.ndim - 1)), b, a), new, kept)
    gained = now.free_entropy - old.free_entropy > _WORTH / run.state.F.mean.shape[-1]
    return run, best._replace(in_vain=jnp.where(gained, 0, old.in_vain + 1))


def _in_order(model: Model, observed: Observed, problem: Problem, run: Progress) -> tuple[Progress, bool]:
    """Y does not see the order and signs of the atoms, only F' does: move each to the place where F' fits it best."""
    overlap = np.asarray(_overlap_with_hint(model, observed, problem, run.state.F.mean))
    size, N, _ = overlap.shape
    place, sign = np.tile(np.arange(N), (size, 1)), np.ones((size, N))
    for k in range(size):
        if np.isfinite(overlap[k]).all():
            rows, columns = linear_sum_assignment(-np.abs(overlap[k]))
            place[k, columns] = rows
            sign[k] = np.where(overlap[k][place[k], np.arange(N)] < 0, -1.0, 1.0)
    moved = (place != np.arange(N)).any(axis=1) | (sign < 0).any(axis=1)
    if not moved.any():
        return run, False
    return _reorder(run, place, sign.astype(run.state.g.dtype), moved), True


@partial(jax.jit, static_argnums=0)
def _overlap_with_hint(model: Model, observed: Observed, problem: Problem, F: Any) -> Any:
    return mapped(lambda observed, problem, F: F.T @ model.data(observed, problem).start.mean)(observed, problem, F)


@jax.jit
def _reorder(run: Progress, place: Any, sign: Any, moved: Any) -> Progress:
    def one(run: Progress, place: Any, sign: Any, moved: Any) -> Progress:
        plain = rescaled(run.state)
        F, X = plain.F, plain.X
        state = plain._replace(
            F=F._replace(mean=F.mean[:, place] * sign, variance=F.variance[:, place]),
            X=X._replace(mean=X.mean[place] * sign[:, None], variance=X.variance[place]),
            nonzeros=plain.nonzeros[place],
        )
        change = jnp.where(moved, jnp.inf, run.change)
        return run._replace(state=state, change=change, moved=change, epoch_start=run.iteration)

    return mapped(one)(run, place, sign, moved)
