"""TO BE DELETED WHEN THE NEW `solve` IS MERGED, with every line that names it (grep new_solve): the new signature on top of the old solve.

It does nothing where `spinodal.inference.solve` takes F_prime, as the new one does.
"""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import spinodal as sp
from spinodal import inference
from spinodal.inference.solution import Solution, Status, Trace
from spinodal.model.channels import GaussianNoise
from spinodal.model.knowledge import knowledge_of
from spinodal.model.model import Model
from spinodal.model.priors import GaussBernoulli, Gaussian

NEEDED = "F_prime" not in inspect.signature(inference.solve).parameters
old_solve: Any = inference.solve
_LEARNED = {"density": "rho", "noise_variance": "noise", "eta": "eta"}
_REASON = {
    "converged": "the estimates no longer change",
    "max_iterations": "the estimates still change",
    "diverged": "the residuals are larger than the data",
    "degenerate": "atoms are copies, unused or overused",
}


@dataclass(frozen=True, eq=False, repr=False)
class _WithCandidates(Solution):
    candidates: tuple[Any, ...] = ()


def solve(
    Y: Any,
    model: Any = None,
    solver: Any = None,
    *,
    density: Any = None,
    noise_variance: Any = None,
    eta: Any = None,
    n_atoms: Any = None,
    progress: Any = None,
    checkpoint: Any = None,
    **options: Any,
) -> Any:
    """What the new `solve` does with what the command line gives it."""
    if isinstance(n_atoms, list):
        if checkpoint is not None or Y.F_prime is not None:
            raise sp.InputError("n_atoms must be one number here, but several were given.")
        tried = [solve(Y, model, solver, density=density, noise_variance=noise_variance, eta=eta, n_atoms=n, **options) for n in n_atoms]
        evidence = [float(each.free_entropy * n / Y.Y.shape[0]) for each, n in zip(tried, n_atoms, strict=True)]
        best = tried[int(np.argmax(evidence))]
        rows = zip(n_atoms, evidence, (each.status for each in tried), (each.iterations for each in tried), strict=True)
        return _WithCandidates(**vars(best), candidates=tuple(rows))
    learned: tuple[str, ...] = ()
    if model is None:
        given = {"density": density, "noise_variance": noise_variance, "eta": eta}
        if Y.F_prime is None and eta is None:
            given["eta"] = np.inf
        learned = tuple(name for name, value in given.items() if value in (None, "auto"))
        power = float(np.nanmean(np.square(Y.Y)))
        first = {"density": 0.1, "noise_variance": 0.01 * power, "eta": 0.1}
        value = {name: first[name] if name in learned else given[name] for name in given}
        if not 0 < value["density"] < 1:
            raise sp.InputError(f"density must be a number in (0, 1), but {value['density']} was given.")
        slab = 1.0
        if "density" in learned:
            slab, learned = power / value["density"], (*learned, "slab_variance")
        prior = sp.Pair(F=Gaussian(), X=GaussBernoulli(value["density"], 0.0, slab))
        model = Model(prior, GaussianNoise(value["noise_variance"]), knowledge_of(value["eta"]))
    if learned:
        if solver is not None:
            raise sp.InputError(f"solver must be AMP() where parameters are to be learned, but {solver!r} was given.")
        solver = inference.AMP(learn=tuple(_LEARNED.get(name, "variance") for name in learned))
    problem = model if isinstance(model, sp.Problem) else sp.Problem.of(model, alpha=1.0, pi=1.0)
    watched = None
    if progress is not None:
        progress("compiling", 0, np.nan)
        watched = lambda iteration, residual, damping: progress("iterating", iteration, residual)  # noqa: E731
    started = time.perf_counter()
    found = old_solve(Y, problem, solver, n_atoms=n_atoms, progress=watched, checkpoint=checkpoint, **options)
    used = Model(problem.prior, problem.channel, problem.knowledge)
    if learned:
        numbers = found.parameters
        prior = problem.prior._replace(X=GaussBernoulli(float(numbers.rho), float(numbers.mean), float(numbers.variance)))
        used = Model(
            prior, GaussianNoise(float(numbers.noise)), used.knowledge if numbers.eta is None else knowledge_of(float(numbers.eta))
        )
    batched = np.ndim(found.mean.F) == 3
    status = np.array([Status(str(s)) for s in found.status], dtype=object) if batched else Status(str(found.status))
    reason = np.array([_REASON[str(s)] for s in found.status], dtype=object) if batched else _REASON[str(found.status)]
    return Solution(
        sp.Pair(*found.mean),
        sp.Pair(*found.variance),
        status,
        reason,
        found.iterations,
        found.residual,
        found.free_entropy,
        Trace(*found.trace) if found.trace is not None else Trace(*(np.zeros(0),) * 4),
        model=used,
        learned=learned,
        observed=Y,
        seconds=time.perf_counter() - started,
    )


def install() -> None:
    """In place of the old one, for a process that runs the command."""
    if NEEDED:
        inference.solve = solve  # type: ignore[assignment]
