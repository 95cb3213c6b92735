"""Instances drawn from a problem: what a solver may see, and the truth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..effort import LITTLE
from ..errors import check_count, check_room, check_seed
from ..pair import Pair
from ..short import in_short
from .model import Problem, stacked

# A draw runs once. With little effort one of this many entries, at most, compiles in a quarter of the time (1.4 s at full effort, 0.3 s),
# and runs 40 ms longer at 300,000; numbers differ in the last digit.
_SMALL = 10**6


class Observed(NamedTuple):
    """What a solver may see: Y (M x P), F' (M x N; None at eta = inf), mask (M x P of bools; None when all is observed).

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp

        Your own measurements, without F' and complete:

        >>> Y = np.random.default_rng(0).normal(size=(10, 50))
        >>> sp.Observed(Y, None, None).Y.shape
        (10, 50)
    """

    Y: Any
    F_prime: Any
    mask: Any

    def __repr__(self) -> str:
        return in_short(self)


class Instance(NamedTuple):
    """One draw of a problem: the observed part, and the truth to score against.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> instance.observed.Y.shape, instance.observed.F_prime.shape, instance.truth.X.shape
        ((12, 120), (12, 20), (20, 120))
    """

    observed: Observed
    truth: Pair[Any]


def sample(problem: Problem, n: int, *, seed: int, batch: int | None = None) -> Instance:
    """Draw F, X, F' and Y with N = n from a seed, Eqs. (1)-(3) of KMZ13, as NumPy float64; with `batch`, stacked along a first axis.

    Instance k of a batch is the same draw whatever the batch size. Unobserved entries of Y are NaN.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> instance.observed.Y.shape, instance.truth.F.shape
        ((12, 120), (12, 20))
    """
    check_count("n", n, 1)
    check_seed("seed", seed)
    if batch is not None:
        check_count("batch", batch, 1)
    M, N, P = problem.sizes(n)
    check_room("n", bytes_to_draw(M, N, P, batch or 1), f"an instance with M = {M}, N = {N}, P = {P}")
    with jax.enable_x64(True):
        shape = problem.sizes(n), float(problem.observed_fraction) < 1, batch or 1
        small = (M * P + N * P + 2 * M * N) * (batch or 1) < _SMALL
        try:
            try:
                drawn = (_draw_small if small else _draw_large)(problem, *shape, seed)
            except jax.errors.JaxRuntimeError as error:
                if "option" not in str(error):  # else a version of XLA that does not have these options
                    raise
                drawn = _draw_large(problem, *shape, seed)
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):  # a sampler that looks at its parameters
            drawn = _draw_batch(problem, *shape, seed)
        return jax.tree.map(lambda leaf: np.array(leaf if batch is not None else leaf[0]), drawn)


def bytes_to_draw(M: int, N: int, P: int, count: int = 1) -> int:
    """Bytes that the draw of so many instances takes, at most: the arrays where they are computed, their copies, and as much again."""
    return 3 * 8 * count * (M * P + N * P + 2 * M * N)


def sample_each(problems: Sequence[Problem], n: int, *, seeds: Sequence[int]) -> Instance:
    """A draw of each of several problems of one shape and kind, each from its own seed, stacked: what `sample` gives, to rounding."""
    shape = problems[0].sizes(n), float(problems[0].observed_fraction) < 1
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, _draw_each(stacked(problems, float), *shape, np.asarray(seeds)))


def _draw_batch(problem: Problem, sizes: tuple[int, int, int], masked: bool, count: int, seed: Any) -> Instance:
    keys = jax.vmap(lambda k: jax.random.fold_in(jax.random.key(seed), k))(jnp.arange(count))
    return jax.vmap(lambda key: _draw(problem, sizes, masked, key))(keys)


_draw_large = jax.jit(_draw_batch, static_argnums=(1, 2, 3))
_draw_small = jax.jit(_draw_batch, static_argnums=(1, 2, 3), compiler_options=LITTLE)


@partial(jax.jit, static_argnums=(1, 2))
def _draw_each(problems: Problem, sizes: tuple[int, int, int], masked: bool, seeds: Any) -> Instance:
    keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 0))(seeds)
    return jax.vmap(lambda problem, key: _draw(problem, sizes, masked, key))(problems, keys)


def _draw(problem: Problem, sizes: tuple[int, int, int], masked: bool, key: Any) -> Instance:
    M, N, P = sizes
    for_F, for_X, for_hint, for_noise, for_mask = jax.random.split(key, 5)
    F = problem.prior.F.sample(for_F, (M, N))
    X = problem.prior.X.sample(for_X, (N, P))
    Y = problem.channel.sample(for_noise, F @ X / np.sqrt(N))
    F_prime = problem.knowledge.observe(for_hint, F)
    mask = jax.random.bernoulli(for_mask, problem.observed_fraction, (M, P)) if masked else None
    if mask is not None:
        Y = jnp.where(mask, Y, jnp.nan)
    return Instance(Observed(Y, F_prime, mask), Pair(F, X))
