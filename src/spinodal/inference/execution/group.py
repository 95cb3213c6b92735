"""One solve of a group of instances: the search, driven from the host, with its progress, checkpoints and placement on devices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np

from ...model.model import Model
from ...model.priors import Moments
from ...model.sampling import Observed
from ...pair import Pair
from ..loop import RECORDED, Run, Tolerance
from ..search.annealing import FIRST
from ..search.diagnostics import judge
from ..search.search import Engine, Place, Search, search
from ..solution import Solution, Trace
from ..solvers.base import Cooling, Estimate
from . import batch
from .batch import Conclusion, Plan, Verdict
from .checkpoint import Checkpoint
from .machine import OneDevice, one_by_one

# Who is told how a solve is going: the stage, the iteration and the residual.
Told = Callable[[str, int, float], None]
# Iterations between two calls of a progress callback.
_PROGRESS_STRIDE = 10
# Whoever watches is shown every iteration at first, then one each time their number has grown by this share, or by so many.
_WATCHED_SHARE, _WATCHED_MOST = 0.1, 20


class Wishes(NamedTuple):
    """How long to go on, what surrounds the solver, and who is told. One that `explores` stops as soon as there is something to compare;
    with a `strong` hint, or from the end of another run, there is nothing to search. `cooling` is that of a run which is told where to
    start, and the least after a repair."""

    max_iterations: int
    tolerance: float
    search: Search
    strong: bool
    progress: Told | None = None
    watch: Callable[[int, Pair[Any]], None] | None = None
    explores: bool = False
    cooling: Cooling = FIRST


class Outcome(NamedTuple):
    """The conclusion and, where somebody looked, the verdict on every instance; iterations and traces. NumPy arrays."""

    conclusion: Conclusion
    verdict: Verdict | None
    lost: np.ndarray
    iterations: np.ndarray
    trace: Trace


class Recorder:
    """The traces of all calls, joined."""

    def __init__(self, placement: OneDevice) -> None:
        self.placement = placement
        self.parts: list[tuple[np.ndarray, np.ndarray, Trace]] = []

    def add(self, run: Run) -> np.ndarray:
        """Keep the trace of a call; the iterations after it."""
        begun, end, trace = self.placement.fetched((run.begun, run.iteration, run.trace))
        longest = int(np.max(end - begun))
        if longest:
            self.parts.append((begun, end, Trace(*(values[:, :longest] for values in trace))))
        return np.asarray(end)

    def merged(self) -> list[tuple[np.ndarray, np.ndarray, Trace]]:
        """The traces of all calls as one, which takes their place: so that a file that has them does not grow by arrays with every call."""
        if len(self.parts) > 1:
            end = np.max([end for _, end, _ in self.parts], axis=0)
            self.parts = [(np.zeros_like(end), end, self.joined(len(end)))]
        return self.parts

    def joined(self, size: int) -> Trace:
        """All traces, NaN where a run had ended."""
        length = max((int(end.max()) for _, end, _ in self.parts), default=0)
        whole = np.full((4, size, length), np.nan)
        for begun, end, part in self.parts:
            for k in range(size):
                whole[:, k, begun[k] : end[k]] = [values[k, : end[k] - begun[k]] for values in part]
        return Trace(*whole)


def widths(count: int, widest: int, most: int, placement: OneDevice) -> list[int]:
    """How many runs of so many are made together, and again, until all are made.

    One after another on a CPU, where each stays in cache and stops when it is done. Elsewhere at most as many as fit, and else the `widest`
    number of the solve so far, or a quarter, a sixteenth, ... of it, the last group filled up: every width is compiled.
    """
    if count == 0 or (one_by_one() and placement.devices == 1):
        return [1] * count
    width = max(widest, min(count, most))
    while width >= 4 * count:
        width //= 4
    return [width] * -(-count // width)


def solve_group(
    plan: Plan,
    observed: Observed,
    model: Model,
    draws: Any,
    wishes: Wishes,
    placement: OneDevice,
    saved: Checkpoint | None = None,
    start: Estimate | None = None,
) -> Outcome:
    """Solve instances together. Everything has a leading axis."""
    told = wishes.progress
    if told is not None:
        told("compiling", 0, float("nan"))
    hinted = observed.F_prime is not None and not model.knowledge.fixed
    if placement.devices == 1:
        inspects = wishes.search.repair
        repairs = inspects and not (wishes.strong or hinted)  # what has a hint seldom needs one
        batch.make_ready(plan, observed, model, draws, start, wishes.cooling, inspects, repairs)
    run = batch.begin_batch(plan, observed, model, draws, start, wishes.cooling)
    run = placement.run(run, plan.solver.divided(run.state))
    recorder, place, goal_left = Recorder(placement), Place(), None

    def inspect(run: Run) -> Verdict:
        return batch.completed(placement.fetched(batch.inspect_batch(plan, observed, model, run)))

    if saved is not None and saved.goes_on:
        place, goal_left, run, recorder.parts = saved.load(inspect, run, wishes.max_iterations, placement, plan.solver)

    def go(run: Run, allowed: Any, looser: float | None, place: Place) -> Run:
        """Up to `allowed` more iterations for every instance."""
        nonlocal goal_left
        settled = Tolerance.of(wishes.tolerance, looser)
        iteration = placement.fetched(run.iteration)
        goal = np.minimum(iteration + allowed, wishes.max_iterations) if goal_left is None else goal_left
        goal_left = None  # of a run that was interrupted
        while True:
            limit = np.minimum(goal, iteration + _stride(wishes, int(np.max(iteration)), saved))
            run, unfinished = batch.run_batch(plan, observed, model, run, limit, goal, settled)
            iteration = recorder.add(run)
            _tell(plan, observed, model, wishes, run, recorder)
            if saved is not None:
                saved.offer(place, goal, run, recorder.merged, placement)
            if not placement.fetched(unfinished).any():
                return run

    def repair(run: Run, verdict: Verdict, again: Any, gently: Any, slow: Any) -> Run:
        cooling = Cooling(np.full(len(slow), wishes.cooling.hot), slow)
        return batch.repair_batch(plan, observed, model, run, verdict.found, again, gently, cooling)

    engine = Engine(
        go=go,
        inspect=inspect,
        repair=repair,
        keep_better=batch.keep_better,
        overlap=lambda run: batch.overlap_batch(plan, observed, model, run),
        reorder=lambda run, places, sign, moved: batch.reorder_batch(plan, run, places, sign.astype(plan.dtype), moved),
    )
    run, verdict = search(
        wishes.search,
        engine,
        run,
        wishes.max_iterations,
        strong=wishes.strong,
        hinted=hinted,
        explores=wishes.explores,
        least=int(wishes.cooling.slow),
        place=place,
    )
    if told is not None:
        told("predicting", int(np.max(run.iteration)), float("nan"))
    return _outcome(plan, observed, model, draws, start, wishes, run, verdict, recorder)


def _stride(wishes: Wishes, iteration: int, saved: Checkpoint | None) -> int:
    stride = RECORDED if wishes.progress is None else _PROGRESS_STRIDE
    stride = stride if saved is None else min(stride, saved.every)
    if wishes.watch is not None:
        stride = min(stride, _WATCHED_MOST, 1 + int(_WATCHED_SHARE * iteration))
    return stride


def _tell(plan: Plan, observed: Observed, model: Model, wishes: Wishes, run: Run, recorder: Recorder) -> None:
    if wishes.progress is not None and recorder.parts:
        residual = recorder.parts[-1][2].residual[:, -1]
        wishes.progress(
            "iterating", int(np.max(run.iteration)), float(np.nanmean(residual)) if np.isfinite(residual).any() else float("nan")
        )
    if wishes.watch is not None:
        wishes.watch(int(np.max(run.iteration)), recorder.placement.fetched(batch.means_batch(plan, observed, model, run)))


def _outcome(
    plan: Plan, observed: Observed, model: Model, draws: Any, start: Any, wishes: Wishes, run: Run, verdict: Any, recorder: Recorder
) -> Outcome:
    def concluded(run: Run) -> Conclusion:
        return batch.conclude_batch(plan, observed, model, run, wishes.tolerance)

    if verdict is not None:  # what repairs needed, and no status does
        verdict = verdict._replace(found=verdict.found._replace(ratio=None, directions=None))
    found, verdict, iterations = recorder.placement.fetched((concluded(run), verdict, run.iteration))
    lost = ~(found.finite & found.fits)
    if lost.any():
        # The best state of a run that came apart: the one that was kept, or where it started.
        best = plan.solver.best(run.state)
        state = best if best is not None else batch.begin_batch(plan, observed, model, draws, start, wishes.cooling).state
        other = recorder.placement.fetched(concluded(run._replace(state=state)))
        found = jax.tree.map(lambda kept, new: np.where(lost.reshape((-1,) + (1,) * (new.ndim - 1)), new, kept), found, other)
    return Outcome(found, verdict, lost, iterations, recorder.joined(len(lost)))


def solution_of(outcome: Outcome, from_scratch: bool) -> Solution:
    """What came out, with a status for each instance."""
    end = outcome.conclusion
    judged = [judge(outcome, k, from_scratch) for k in range(len(outcome.lost))]
    return Solution(
        mean=end.mean,
        variance=end.variance,
        status=np.array([status for status, _ in judged], dtype=object),
        reason=np.array([reason for _, reason in judged], dtype=object),
        iterations=outcome.iterations,
        residual=end.residual,
        free_entropy=end.free_entropy,
        trace=outcome.trace,
        model=_each(end.model, len(judged)),
    )


def _each(model: Model, size: int) -> list[Model]:
    """A model whose numbers have a leading axis, as one for each instance."""
    leaves, structure = jax.tree.flatten(model)
    # Numbers become Python's; arrays, such as an eta for each column, stay arrays.
    columns = [leaf.tolist() if leaf.ndim == 1 else list(leaf) for leaf in leaves]
    return [jax.tree.unflatten(structure, [column[k] for column in columns]) for k in range(size)]


def estimate_of(solution: Solution, k: int | None, dtype: Any) -> Estimate:
    """A solution, or one of a batch, as the start of a run."""
    F, X = (
        Moments(*(np.asarray(value if k is None else value[k], dtype) for value in pair))
        for pair in zip(solution.mean, solution.variance, strict=True)
    )
    return Estimate(F, X)


@contextmanager
def reporter(progress: bool | Told | None) -> Iterator[Told | None]:
    """The function to call with the stage, the iteration and the residual: the given one, or one that keeps a line on the terminal."""
    if not progress or (progress is True and not sys.stderr.isatty()):
        yield None
    elif progress is not True:
        yield progress
    else:
        from rich.console import Console

        with Console(stderr=True).status("reading") as status:

            def told(stage: str, iteration: int, residual: float) -> None:
                status.update(stage if stage != "iterating" else f"iteration {iteration}   residual {residual:.3e}")

            told_any: Any = told
            yield told_any
