"""State evolution: the errors of AMP iteration by iteration in the limit of large N, Eqs. (25) and (26) of KMZ13."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import check, check_choice, check_count
from ..model.model import Problem
from ..model.quadrature import message_averages
from ..pair import Pair
from ..short import in_short
from .curve import matrix_mmse
from .potential import conjugates
from .setup import Setup, is_known, is_unknown, setup
from .unequal import evolve, typical

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# At eta = inf with centred priors nothing is learned from scratch unless the symmetry is broken: by this overlap, relative.
_SYMMETRY_BREAKING = 1e-8
# An informed start is this close to the truth, relative.
_INFORMED_ERROR = 1e-12
# Errors below this, relative, count as exact recovery (Delta = 0).
_EXACT = 1e-14
# Iterations that are run and recorded together.
_STRETCH = 512


class Trajectory(NamedTuple):
    """Errors at iterations 0, 1, ..., with the start first. `converged` is False if the iterations ran out.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> sp.state_evolution(problem).converged
        True
    """

    mse: Pair[np.ndarray]
    converged: bool
    iterations: int

    def __repr__(self) -> str:
        return in_short(self)

    def plot(self) -> Figure:
        """Both errors against the iteration, as a matplotlib figure.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
            >>> sp.state_evolution(problem).plot().axes[0].get_xlabel()
            'iteration'
        """
        from ..figures.theory import trajectory_figure

        return trajectory_figure(self)


def evolution_step(s: Setup, mse: Pair[Any]) -> Pair[Any]:
    """One iteration for both errors: Eqs. (25) and (26) of KMZ13."""
    _, m_X, m_F = conjugates(s, mse.X, mse.F)
    return Pair(F=matrix_mmse(s, m_F), X=message_averages(s.prior.X, s.support.X, m_X).mmse)


def state_evolution(
    problem: Problem,
    start: str | Pair[float] = "uninformed",
    *,
    max_iterations: int = 10_000,
    tolerance: float = 1e-10,
) -> Trajectory:
    """Eqs. (25) and (26) of KMZ13, from "uninformed" (what the priors and F' say), "informed" (next to the truth) or given errors.

    Stops when both errors change by less than `tolerance`, relative, or vanish. Where the noise differs from row to row or from column to
    column of Y, or sensors have gains, each row of F and each signal has an error of its own, and the means are returned.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> path = sp.state_evolution(problem)
        >>> print(f"{path.mse.X[0]:.1f} {path.mse.X[-1]:.4f}")  # stopped before the good fixed point
        0.2 0.0646
        >>> path = sp.state_evolution(problem, "informed")
        >>> print(f"{path.mse.X[-1]:.1e}")
        1.7e-06
    """
    check_count("max_iterations", max_iterations)
    check("tolerance", tolerance, 0.0, 1.0, high_open=True)
    problem = problem.replace(channel=problem.channel.rows_apart())
    unequal = bool(problem.channel.entry_shape)  # entries that differ
    s = typical(problem) if unequal else setup(problem)
    with jax.enable_x64(True):
        if isinstance(start, str):
            check_choice("start", start, ("uninformed", "informed"))
            first = _uninformed(s) if start == "uninformed" else Pair(s.power.F * _INFORMED_ERROR, s.power.X * _INFORMED_ERROR)
        else:
            check("start.X", start.X, 0.0, s.power.X)
            check("start.F", start.F, 0.0, s.power.F)
            first = Pair(float(start.F), float(start.X))
        if is_known(s.classes):
            first = first._replace(F=0.0)
        if unequal:
            course, settled = evolve(problem, first, max_iterations, tolerance)
            return Trajectory(course, settled, len(course.F) - 1)
        return _trajectory(s, first, max_iterations, tolerance)


def _uninformed(s: Setup) -> Pair[float]:
    if is_unknown(s.classes):
        # Both are nudged: with one alone, parallel updates would pass it back and forth for ever.
        return Pair(F=s.power.F * (1 - _SYMMETRY_BREAKING), X=s.power.X * (1 - _SYMMETRY_BREAKING))
    # As long as nothing is known of X, one iteration leaves of F what is known of it beforehand.
    return Pair(F=float(_trajectory(s, s.power, 1, 0.0).mse.F[1]), X=s.power.X)


def _trajectory(s: Setup, first: Pair[float], max_iterations: int, tolerance: float) -> Trajectory:
    """Iterate from the errors `first`, stretch by stretch, so that the number of iterations is not part of what is compiled."""
    traced, mse = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), (s, first))
    records = [[value] for value in mse]
    steps, done = 0, False
    while steps < max_iterations and not done:
        record, count, settled = _iterate(traced, mse, min(_STRETCH, max_iterations - steps), tolerance)
        count, done = int(count), bool(settled)
        steps += count
        # Cut in NumPy: JAX would compile every length anew.
        for values, new in zip(records, record, strict=True):
            values.extend(np.asarray(new)[:count])
        mse = Pair(*(np.asarray(values[-1]) for values in records))
    return Trajectory(Pair(*(np.array(values, dtype=float) for values in records)), done, steps)


@jax.jit
def _iterate(s: Setup, first: Pair[Any], most: Any, tolerance: Any) -> tuple[Pair[Any], Any, Any]:
    """At most `most` iterations: the errors after each, how many there were, and whether they have settled."""
    scale = Pair(s.power.F, s.power.X)

    def settled(new: Pair[Any], old: Pair[Any]) -> Any:
        still = [jnp.abs(n - o) <= tolerance * o for n, o in zip(new, old, strict=True)]
        gone = [n <= _EXACT * unit for n, unit in zip(new, scale, strict=True)]
        return (still[0] & still[1]) | (gone[0] & gone[1])

    def go_on(carry: Any) -> Any:
        _, _, t, done = carry
        return ~done & (t < most)

    def body(carry: Any) -> Any:
        record, mse, t, _ = carry
        new = evolution_step(s, mse)
        record = Pair(*(values.at[t].set(value) for values, value in zip(record, new, strict=True)))
        return record, new, t + 1, settled(new, mse)

    empty = Pair(F=jnp.zeros(_STRETCH), X=jnp.zeros(_STRETCH))
    record, _, t, done = jax.lax.while_loop(go_on, body, (empty, first, 0, False))
    return record, t, done
