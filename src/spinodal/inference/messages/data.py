"""What a solver sees: the observed part of an instance and the model, as one pytree. The truth is not in it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.knowledge import Hint
from ...model.model import Problem
from ...model.priors import Prior
from ...model.priors.base import Moments
from ...model.sampling import Observed
from ...pair import Pair

# Without noise, or below rounding, the noise variance is set to this many squared rounding errors of the data.
_ROUNDING = 1e4
# No prior mean is taken off.
NO_MEANS = Pair(False, False)


class Data(NamedTuple):
    """Y (0 where unobserved), the mask (None when all is observed), priors, side information on F, and the noise variance."""

    Y: Any
    mask: Any
    prior: Pair[Prior]
    side: tuple[Any, Any] | None  # message (a, b) of F' to F, None without F'
    known: Any  # F itself where eta = 0, else None
    start: Moments  # what is known of F before Y is seen
    noise: Any
    rounding: Any  # the least noise variance that can be told from rounding errors
    rows: Any = None  # fractions of the rows of Y that are observed, where Y is a block of the signals; else they follow from the mask
    centre: Pair[Any] = Pair(None, None)  # prior means that are taken off before messages are passed (`offsets`), None for zero

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(M, N, P)."""
        return (*self.start.mean.shape, self.Y.shape[1])

    @property
    def seen_by_signal(self) -> Any:
        """Fraction of the entries of each column of Y that are observed."""
        return 1.0 if self.mask is None else jnp.mean(self.mask, axis=0)

    @property
    def seen_by_row(self) -> Any:
        """Fraction of the entries of each row of Y that are observed, as a column."""
        if self.rows is not None:
            return self.rows
        return 1.0 if self.mask is None else jnp.mean(self.mask, axis=1, keepdims=True)

    def matrix_posterior(self, a: Any, b: Any) -> Moments:
        """Posterior of F given the data's message (a, b), its prior and F'."""
        if self.known is not None:
            return self.start
        return self.prior.F.posterior(*self.with_side(a, b))

    def with_side(self, a: Any, b: Any) -> tuple[Any, Any]:
        """The message (a, b) to F together with that of F'."""
        return (a, b) if self.side is None else (a + self.side[0], b + self.side[1])


def make_data(observed: Observed, problem: Problem, N: int, matrix: str, dtype: Any, centre: Pair[bool] = NO_MEANS) -> Data:
    """Prepare an instance. `matrix` says how F is known: "exact", "noisy" (through F') or "none"; `centre`, which means are taken off."""
    Y = jnp.asarray(observed.Y, dtype)
    mask = None if observed.mask is None else jnp.asarray(observed.mask, dtype)
    if mask is not None:
        Y = jnp.where(mask > 0, Y, 0)
    M = Y.shape[0]
    prior = problem.prior
    zero = jnp.zeros((M, N), dtype)
    side: tuple[Any, Any] | None = None
    known = None
    if matrix == "exact":
        known = jnp.asarray(observed.F_prime, dtype)
        start = Moments(known, zero)
    else:
        if matrix == "noisy":
            F_prime = jnp.asarray(observed.F_prime, dtype)
            side = Hint(jnp.asarray(problem.eta, dtype)).message(F_prime)
            start = prior.F.posterior(*side)
        else:
            start = prior.F.moments()
        start = Moments(*(jnp.broadcast_to(jnp.asarray(value, dtype), (M, N)) for value in start))
    power = prior.F.second_moment() * prior.X.second_moment()
    rounding = _ROUNDING * jnp.finfo(dtype).eps ** 2 * jnp.maximum(jnp.mean(Y**2), power)
    noise = jnp.maximum(jnp.asarray(problem.noise_variance, dtype), rounding).astype(dtype)
    means = Pair(*(jnp.asarray(p.moments().mean, dtype) if wanted else None for p, wanted in zip(prior, centre, strict=True)))
    return Data(Y, mask, prior, side, known, start, noise, rounding.astype(dtype), centre=means)
