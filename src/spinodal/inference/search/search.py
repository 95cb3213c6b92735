"""Run, look for trouble, mend it and run again; keep the best state; put the atoms in the order of F'.

With a strong hint F' nothing of this is needed and one run does it all. Without F' every epoch is annealed, and epochs become longer: the
estimates of F survive from one to the next and improve with the time spent near the temperature where they can still turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import check_count
from ..solvers.base import Solver
from .annealing import SHORTEST, Annealed
from .best import BestSoFar
from .learning import Learning

# Iterations of the first run and of each run after a repair (beyond its slow cooling), and how many repairs are tried.
_FIRST_RUN, _RUN, _REPAIRS = 600, 400, 80
# With F', repairs from this one on also heat the state and let it cool again; without F', all do.
_REHEAT_FROM = 2
# The most iterations of slow cooling in an epoch.
_LONGEST = 1000
# The variance of F given F', as a share of its power: below this F' holds the atoms apart and nothing needs repair.
_STRONG_HINT = 0.1
# Iterations allowed for scales to settle after atoms were put back in the hint's order.
_AFTER_ORDERING = 100
# Epochs without F' end when the level settles to within this many tolerances: enough to see what is wrong.
_LOOSER = 100.0
# Runs that are only compared with others end when the level no longer moves, or is near its running mean, to within this many tolerances:
# at ten, single atoms were still turning.
_NEARLY = 1.0
# Where the data are explained and so many repairs in a row bring no atom's worth of free entropy, trouble will not go away: too many atoms,
# or a wrong prior.
_PATIENCE = 12
# What an atom that is put right brings, at least, as a share of 1/N.
WORTH = 0.2


@dataclass(frozen=True)
class Search:
    """What surrounds a solver.

    Args:
        anneal: iterations of slow cooling at the start; 0 for none ever, also after repairs; None for none at the start with F', and a
            short cooling without.
        repair: look for duplicated, unused or overused atoms when the iterations have settled, and start those again.
        vote: where nothing is known of F, make several runs, and start others from the atoms that they agree on.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> str(sp.solve(instance.observed, problem, search=sp.Search(repair=False)).status)
        'converged'
    """

    anneal: int | None = None
    repair: bool = True
    vote: bool = True

    def __post_init__(self) -> None:
        if self.anneal is not None:
            check_count("anneal", self.anneal, 0)

    def around(self, solver: Solver, learn: tuple[str, ...] = ()) -> Solver:
        """The solver with everything that surrounds it.

        Examples:
            >>> import spinodal as sp
            >>> around = sp.Search(anneal=50).around(sp.AMP(), ("noise_variance",))
            >>> type(around).__name__, type(around.inner).__name__, type(around.inner.inner).__name__
            ('Annealed', 'Learning', 'AMP')
        """
        if solver.can_diverge:
            solver = BestSoFar(solver)
        if learn:
            solver = Learning(solver, learn)
        return Annealed(solver, self.anneal)


# Nothing around a solver but what keeps its best state.
ALONE = Search(anneal=0, repair=False, vote=False)


# What a search goes through: the first run, its repairs, the best run until it has settled, and that with its atoms in the order of F'.
STAGES = ("first", "repair", "settle", "order")


class Place(NamedTuple):
    """Where a search stands while a run goes on: the stage, the number of the repair, and what is kept meanwhile.

    That is the best run so far with its verdict during repairs, and the verdict alone after them.
    """

    stage: str = "first"
    repair: int = 0
    kept: Any = None


class Engine(NamedTuple):
    """What a search needs of whoever computes: compiled calls on runs of one or several instances.

    `go(run, n, looser, place)` allows every instance n more iterations, until its level settles (to `looser` tolerances, if given);
    `inspect(run)` gives a verdict; `repair(run, verdict, again, gently, slow)` mends the instances marked, some of them `gently`;
    `keep_better(old, new)` compares;
    `overlap(run)` is that of the atoms with F'; `reorder(run, place, sign, moved)` moves them.
    """

    go: Callable[..., Any]
    inspect: Callable[..., Any]
    repair: Callable[..., Any]
    keep_better: Callable[..., Any]
    overlap: Callable[..., Any]
    reorder: Callable[..., Any]


def is_strong(knowledge: Any, prior: Any) -> bool:
    """Whether what is known of F holds the atoms apart, so that nothing needs repair."""
    return bool(knowledge.unknown_share(prior) < _STRONG_HINT)


def search(
    wanted: Search, engine: Engine, run: Any, max_iterations: int, *, strong: bool, hinted: bool, explores: bool, least: int, place: Place
) -> tuple[Any, Any]:
    """From a run that has not started to the best one found, and the verdict on it (None: nobody looked).

    Epochs cool for at least (`least`) so many iterations. One that only `explores` leaves the last digits of its result to another run. A
    search that was interrupted goes on from the `place` and run that its `go` was last given.
    """
    if not wanted.repair:
        return engine.go(run, max_iterations, None, place), None
    if strong:
        run = engine.go(run, max_iterations, None, place)
        return run, engine.inspect(run)
    if place.stage in ("first", "repair"):
        run, best = _mended(wanted, engine, run, max_iterations, hinted, least, place)
        place = Place("settle", kept=best)
    best = place.kept
    if place.stage == "settle":
        run = engine.go(run, _RUN, _NEARLY if explores else None, place)  # where the last run ended before it had settled
        run, moved = _in_order(engine, run) if hinted else (run, False)
        if not moved:
            return run, best
    return engine.go(run, _AFTER_ORDERING, None, Place("order", kept=best)), best


def _mended(wanted: Search, engine: Engine, run: Any, max_iterations: int, hinted: bool, least: int, place: Place) -> tuple[Any, Any]:
    """The first run and its repairs: the best of them, with the iterations of all."""
    looser = None if hinted else _LOOSER
    run = engine.go(run, max(_FIRST_RUN, least + _RUN), looser, place)
    verdict = engine.inspect(run)
    kept, best, first = run, verdict, 0
    if place.stage == "repair":
        kept, best = engine.keep_better(place.kept, (run, verdict))
        first = place.repair + 1
    for k in range(first, _REPAIRS):
        hopeless = np.asarray(best.found.explained) & (np.asarray(best.in_vain) >= _PATIENCE)
        again = (np.asarray(run.iteration) < max_iterations) & np.asarray(verdict.trouble) & ~hopeless
        if not again.any():
            break
        heat = wanted.anneal != 0 and (not hinted or k >= _REHEAT_FROM)
        slow = np.maximum(cooling_time(np.asarray(best.heated)), least) if heat else np.zeros_like(best.heated)
        # Where little is wrong it is mended in place: an epoch that begins hot spoils what was right. What that does not mend, heat may.
        gently = np.asarray(verdict.found.local) & (np.asarray(best.in_vain) % 2 == 0)
        mended = engine.repair(run, verdict, again, gently, slow)
        best = best._replace(heated=best.heated + (again & ~gently))
        run = engine.go(mended, slow + _RUN, looser, Place("repair", k, (kept, best)))
        verdict = engine.inspect(run)
        kept, best = engine.keep_better((kept, best), (run, verdict))
    return kept._replace(iteration=run.iteration), best


def cooling_time(heated: Any) -> Any:
    """Iterations of slow cooling for an instance that was heated so often: what quick cooling does not solve is given more time."""
    return np.minimum(SHORTEST * 2 ** np.minimum(heated // 2, 20), _LONGEST)


def _in_order(engine: Engine, run: Any) -> tuple[Any, bool]:
    """Y does not see the order and signs of the atoms, only F' does: move each to the place where F' fits it best."""
    overlap = np.asarray(engine.overlap(run))
    size, N, _ = overlap.shape
    place, fit = np.tile(np.arange(N), (size, 1)), np.abs(overlap)
    known = np.isfinite(overlap).all(axis=(1, 2))
    elsewhere = (np.argmax(fit, axis=1) != np.arange(N)).any(axis=1)  # where every atom fits its own place best, all are there
    for k in np.flatnonzero(known & elsewhere):
        from scipy.optimize import linear_sum_assignment  # half of a second that others need not wait

        rows, columns = linear_sum_assignment(-fit[k])
        place[k, columns] = rows
    against = np.take_along_axis(overlap, place[:, None], axis=1)[:, 0] < 0
    sign = np.where(known[:, None] & against, -1.0, 1.0)
    moved = (place != np.arange(N)).any(axis=1) | (sign < 0).any(axis=1)
    return (engine.reorder(run, place, sign, moved), True) if moved.any() else (run, False)
