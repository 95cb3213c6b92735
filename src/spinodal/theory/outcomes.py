"""What can be learned and what it takes: fixed points, Bayes-optimal errors, transitions and phases of one problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..model.model import Problem
from ..pair import Pair
from .curve import crossings
from .folds import transitions
from .gain import LEAST_GAIN, best_share, errors_before, recovered
from .potential import potential_at
from .setup import Batch


class FixedPoint(NamedTuple):
    """A fixed point of the state evolution.

    Attributes:
        snr_X: the signal-to-noise ratio on X.
        mse: the mean squared errors of F and X.
        recovered: the shares of what was unknown of F and X that are recovered, 1 - mse over the error before any data: the variance of X,
            and that of F given F'. NaN for an F that was known.
        stable: whether the state evolution stays there.
        free_entropy: the potential.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> point = sp.amp_mse(problem)
        >>> point.stable
        True
        >>> print(f"{point.recovered.X:.2f} = 1 - {point.mse.X:.3f}/{0.2}")
        0.68 = 1 - 0.065/0.2
    """

    snr_X: float
    mse: Pair[float]
    recovered: Pair[float]
    stable: bool
    free_entropy: float


class Outcome(NamedTuple):
    """What can be reached: the Bayes-optimal and AMP's fixed points, the phase, and all fixed points with 0 < snr_X < inf."""

    bayes: FixedPoint
    amp: FixedPoint
    phase: str
    fixed_points: tuple[FixedPoint, ...]


def outcomes(problems: Sequence[Problem]) -> list[Outcome]:
    """The outcome of each of many problems with priors and channels of the same kinds, computed together."""
    batch = Batch(problems)
    found = crossings(batch)
    phi = batch(potential_at, found.owner, found.point.mse_X, found.point.mse_F)
    rows = np.arange(batch.size)
    idle_phi = batch(potential_at, rows, batch.setup.power.X, batch.setup.power.F)
    before = errors_before(batch)
    share = recovered(Pair(*(most[found.owner] for most in before)), Pair(F=found.point.mse_F, X=found.point.mse_X))
    out = []
    for k, problem in enumerate(problems):
        inner = tuple(
            FixedPoint(
                float(found.point.snr_X[j]),
                Pair(F=float(found.point.mse_F[j]), X=float(found.point.mse_X[j])),
                Pair(F=float(share.F[j]), X=float(share.X[j])),
                bool(found.stable[j]),
                float(phi[j]),
            )
            for j in np.flatnonzero(found.owner == k)
        )
        idle = Pair(F=float(batch.setup.power.F[k]), X=float(batch.setup.power.X[k]))
        held = [FixedPoint(0.0, idle, Pair(F=0.0, X=0.0), True, float(idle_phi[k]))] if found.uninformed_stable[k] else []
        exact = FixedPoint(np.inf, Pair(F=0.0, X=0.0), Pair(F=1.0 if before.F[k] > 0 else np.nan, X=1.0), True, np.inf)
        out.append(_outcome(problem, held, inner, exact))
    return out


def _outcome(problem: Problem, held: list[FixedPoint], inner: tuple[FixedPoint, ...], exact: FixedPoint) -> Outcome:
    """Choose among the stable points. `held` is the point where nothing is learned, if an uninformed start stays there."""
    stable = held + [point for point in inner if point.stable]
    noiseless = bool(problem.channel.noiseless)
    possible = float(problem.pi) > pi_star(problem)
    # Without noise, exact recovery lies at the end of the curve; it attracts, and wins, above the counting bound.
    if noiseless and (possible or not stable):
        stable.append(exact)
    bayes = max(stable, key=lambda point: point.free_entropy)
    amp, best = stable[0], stable[-1]
    if noiseless:
        label = "impossible" if bayes.mse.X > 0 else "hard" if amp.mse.X > 0 else "easy"
    elif amp is best:
        label = "easy" if best_share(amp.recovered) >= LEAST_GAIN else "nothing to gain"
    else:
        label = "impossible" if bayes is amp else "hard"
    return Outcome(bayes, amp, label, inner)


def fixed_points(problem: Problem) -> tuple[FixedPoint, ...]:
    """Fixed points with 0 < snr_X < inf, by rising snr_X.

    Two limits are left out, and accounted for by `bayes_mmse`, `amp_mse` and `phase`: exact recovery (Delta = 0) and, for centred
    priors without side information, the point where nothing is learned.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> [(f"{point.mse.X:.1e}", point.stable) for point in sp.fixed_points(problem)]
        [('6.5e-02', True), ('7.0e-03', False), ('1.7e-06', True)]
    """
    return outcomes([problem])[0].fixed_points


def bayes_mmse(problem: Problem) -> FixedPoint:
    """The Bayes-optimal errors: among the stable fixed points, the one of largest potential. Eq. (5) of KMZ13, corrected.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> print(f"{sp.bayes_mmse(problem).mse.X:.2e}")
        1.67e-06
    """
    return outcomes([problem])[0].bayes


def amp_mse(problem: Problem) -> FixedPoint:
    """The errors that the state evolution reaches from an uninformed start: the first stable fixed point.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> print(f"{sp.amp_mse(problem).mse.X:.2e}")
        6.46e-02
    """
    return outcomes([problem])[0].amp


def phase(problem: Problem) -> str:
    """One of "impossible", "hard", "easy" or "nothing to gain".

    Without noise: impossible if exact recovery is not Bayes-optimal, hard if it is but AMP stops before it, else easy.
    With noise: where there are several stable fixed points, hard if the Bayes-optimal one is better than AMP's, impossible if it
    is AMP's own though a better one exists. Everywhere else AMP does as well as can be done: easy, or nothing to gain if it recovers less
    than 5% of what is unknown of X, and of F (`amp_mse(problem).recovered`).

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> sp.phase(problem)
        'hard'
        >>> sp.phase(problem.replace(pi=5.0))
        'easy'
        >>> sp.phase(problem.replace(channel=sp.GaussianNoise(2.0)))
        'nothing to gain'
    """
    return outcomes([problem])[0].phase


def pi_star(problem: Problem) -> float:
    """The counting bound: exact recovery without noise is possible above it.

    alpha/(alpha - rho) for the paper's priors; in general alpha d_F/(eps alpha - d_X) with the information dimensions d of the
    priors and the observed fraction eps, times the share of F that is not known exactly; 0 when F is known or discrete, infinite when
    eps alpha <= d_X.

    Examples:
        >>> import spinodal as sp
        >>> sp.pi_star(sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.25))
        2.0
    """
    rate = float(problem.observed_fraction) * float(problem.alpha)
    spare = rate - float(problem.prior.X.dimension())
    if spare <= 0:
        return np.inf
    snr, share = problem.knowledge.classes()
    unknown = float(np.sum(np.where(np.isinf(snr), 0.0, share)))
    return float(problem.alpha) * unknown * float(problem.prior.F.dimension()) / spare


def pi_gain(problem: Problem) -> float:
    """The pi above which AMP recovers at least 5% of what is unknown of X or of F; infinite where no pi is enough (a known F).

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1.0)
        >>> enough = sp.theory.pi_gain(problem)
        >>> [sp.phase(problem.replace(pi=factor * enough)) for factor in (0.99, 1.01)]
        ['nothing to gain', 'easy']
    """
    return float(transitions([problem], [pi_star(problem)], gain=True).gain[0])


def spinodal(problem: Problem) -> float | None:
    """The pi above which the state evolution reaches the good fixed point from an uninformed start.

    None where nothing jumps (noise too large for a transition, or a known matrix that is easy at every pi); infinite where no pi
    is enough. Without noise this is the largest pi on the fixed-point curve. `problem.pi` plays no part.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> print(f"{sp.spinodal(problem):.4f}")
        3.5836
    """
    value = float(transitions([problem], [pi_star(problem)]).spinodal[0])
    return None if np.isnan(value) else value


def bayes_transition(problem: Problem) -> float | None:
    """The pi at which the Bayes-optimal error jumps: equal potentials of the two stable branches (Maxwell construction).

    Where there are three branches it is the jump to the best one. Without noise it is `pi_star`; None where there is no jump.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> print(f"{sp.bayes_transition(problem):.4f}")
        2.2815
    """
    value = float(transitions([problem], [pi_star(problem)], maxwell=True).bayes[0])
    return None if np.isnan(value) else value
