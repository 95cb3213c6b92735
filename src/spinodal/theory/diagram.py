"""Phase diagrams over the density rho and the calibration error eta: figure 1 of KMZ13, for any noise and priors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError, check
from ..model.model import Problem
from .folds import transitions
from .outcomes import outcomes, pi_star

if TYPE_CHECKING:
    from .labelled import ErrorCurves, PhaseDiagram

PHASES = ("impossible", "hard", "easy", "nothing to gain")
# Problems whose curves are held in memory together.
_CHUNK = 64


def phase_diagram(
    problem: Problem, *, rho: Any, eta: Any, pi: Any = None, progress: Callable[[int, int], None] | None = None
) -> PhaseDiagram:
    """Transitions over (eta, rho), `pi_star`, `pi_appears`, `pi_bayes`, `pi_spinodal`, `pi_gain`; given pi, `phase` over (eta, rho, pi).

    `problem` gives everything else; the prior of X must have a density `rho`. Absent transitions are NaN. Below `pi_gain` AMP recovers less
    than 5% of X and of F: nothing to gain, unless the other transitions make it hard or impossible. `phase` holds indices
    into the list of names in its attribute `phases`. `progress(done, total)` is called as points are finished.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> diagram = sp.phase_diagram(problem, rho=[0.1, 0.2], eta=[0.1, 1.0])
        >>> diagram.pi_spinodal.dims, diagram.pi_spinodal.shape
        (('eta', 'rho'), (2, 2))
        >>> print(f"{float(diagram.pi_spinodal.sel(eta=1.0, rho=0.2)):.2f}")
        3.58
    """
    from .labelled import PhaseDiagram

    axes = {"eta": np.atleast_1d(np.asarray(eta, dtype=float)), "rho": np.atleast_1d(np.asarray(rho, dtype=float))}
    check("eta", axes["eta"], 0.0, np.inf)
    check("rho", axes["rho"], 0.0, 1.0, low_open=True, high_open=True)
    if not hasattr(problem.prior.X, "rho"):
        raise InputError(f"problem must have a prior of X with a density rho, but {type(problem.prior.X).__name__} was given.")
    # eta runs fastest, so that a chunk shares as many curves (which depend on rho alone) as it can.
    problems = [
        problem.replace(eta=float(e), prior=problem.prior._replace(X=problem.prior.X.replace(rho=float(r))))
        for r in axes["rho"]
        for e in axes["eta"]
    ]
    bounds = [pi_star(each) for each in problems]
    signals = np.zeros(0) if pi is None else np.atleast_1d(np.asarray(pi, dtype=float))
    check("pi", signals, 0.0, np.inf, low_open=True, high_open=True)
    total = len(problems) * (1 + signals.size)
    parts = []
    for start in range(0, len(problems), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        parts.append(transitions(problems[chunk], bounds[chunk], maxwell=True, gain=True))
        if progress is not None:
            progress(min(start + _CHUNK, len(problems)), total)
    shape = (axes["rho"].size, axes["eta"].size)
    appears, bayes, spinodal, gain = (np.concatenate(values).reshape(shape).T for values in zip(*parts, strict=True))
    data = {
        "pi_star": (("eta", "rho"), np.reshape(bounds, shape).T),
        "pi_appears": (("eta", "rho"), appears),
        "pi_bayes": (("eta", "rho"), bayes),
        "pi_spinodal": (("eta", "rho"), spinodal),
        "pi_gain": (("eta", "rho"), gain),
    }
    attributes = _attributes(problem) | {"prior_X": type(problem.prior.X).__name__}
    dataset = PhaseDiagram(data, coords=axes, attrs=attributes)
    if signals.size:
        # Not from the transitions: between them, three branches may make "hard" what looks impossible.
        every = [each.replace(pi=float(p)) for each in problems for p in signals]
        labels: list[int] = []
        for start in range(0, len(every), _CHUNK):
            labels += [PHASES.index(result.phase) for result in outcomes(every[start : start + _CHUNK])]
            if progress is not None:
                progress(len(problems) + len(labels), total)
        phases = np.reshape(labels, (*shape, signals.size)).swapaxes(0, 1).astype(np.int8)
        dataset = dataset.assign_coords(pi=signals)
        dataset["phase"] = (("eta", "rho", "pi"), phases)
        dataset["phase"].attrs["phases"] = ", ".join(PHASES)
    return dataset


class Region(NamedTuple):
    """A part of a phase diagram: from which pi to which, at each density."""

    phase: str
    bottom: np.ndarray
    top: np.ndarray


def phase_regions(
    appears: np.ndarray, bayes: np.ndarray, spinodal: np.ndarray, gain: np.ndarray, *, noiseless: bool, low: float, high: float
) -> list[Region]:
    """The phases from pi = `low` to `high` as the transitions bound them, in the order in which to draw them: each hides those before it.

    The transitions are arrays over density, NaN where there is none.
    """
    jumps = np.flatnonzero(~np.isnan(spinodal))
    # Where nothing jumps there is no room between the transitions; they meet where those of the nearest density are.
    meet = bayes[jumps[np.argmin(np.abs(np.arange(bayes.size)[:, None] - jumps), axis=1)]] if jumps.size else low

    def clipped(values: np.ndarray) -> np.ndarray:
        return np.clip(np.where(np.isnan(values), meet, values), low, high)

    ground, middle = np.full(bayes.shape, low), clipped(bayes)
    return [
        Region("easy", ground, np.full(bayes.shape, high)),
        Region("nothing to gain", ground, ground if noiseless else clipped(gain)),
        Region("impossible", ground if noiseless else clipped(appears), middle),
        Region("hard", middle, np.maximum(clipped(spinodal), middle)),
    ]


def error_curves(problem: Problem, *, eta: Any, pi: Any, progress: Callable[[int, int], None] | None = None) -> ErrorCurves:
    """Bayes-optimal and AMP errors over (eta, pi), figure 2 of KMZ13: `bayes_mse_X`, `bayes_mse_F`, `amp_mse_X`, `amp_mse_F`, `phase`.

    `phase` holds indices into the list of names in its attribute `phases`.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> curves = sp.error_curves(problem, eta=[1.0], pi=[3.0, 5.0])
        >>> (curves.amp_mse_X > 10 * curves.bayes_mse_X).values
        array([[ True, False]])
    """
    from .labelled import ErrorCurves

    axes = {"eta": np.atleast_1d(np.asarray(eta, dtype=float)), "pi": np.atleast_1d(np.asarray(pi, dtype=float))}
    check("eta", axes["eta"], 0.0, np.inf)
    check("pi", axes["pi"], 0.0, np.inf, low_open=True, high_open=True)
    problems = [problem.replace(eta=float(e), pi=float(p)) for e in axes["eta"] for p in axes["pi"]]
    results = []
    for start in range(0, len(problems), _CHUNK):
        results += outcomes(problems[start : start + _CHUNK])
        if progress is not None:
            progress(len(results), len(problems))
    shape = (axes["eta"].size, axes["pi"].size)
    values = {
        "bayes_mse_X": [r.bayes.mse.X for r in results],
        "bayes_mse_F": [r.bayes.mse.F for r in results],
        "amp_mse_X": [r.amp.mse.X for r in results],
        "amp_mse_F": [r.amp.mse.F for r in results],
    }
    data = {name: (("eta", "pi"), np.reshape(column, shape)) for name, column in values.items()}
    data["phase"] = (("eta", "pi"), np.reshape([PHASES.index(r.phase) for r in results], shape).astype(np.int8))
    dataset = ErrorCurves(data, coords=axes, attrs=_attributes(problem) | {"prior_X": repr(problem.prior.X)})
    dataset["phase"].attrs["phases"] = ", ".join(PHASES)
    return dataset


def _attributes(problem: Problem) -> dict[str, Any]:
    """What a dataset says about the problem; `noise_variance` where the channel has one."""
    variance = problem.noise_variance
    return {
        "alpha": float(problem.alpha),
        "channel": repr(problem.channel),
        **({} if variance is None else {"noise_variance": float(variance)}),
        "observed_fraction": float(problem.observed_fraction),
        "prior_F": repr(problem.prior.F),
    }
