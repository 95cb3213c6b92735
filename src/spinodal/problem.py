"""Problem, Instance and sample: equations (1)-(3) of KMZ13."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .channels import GaussianNoise
from .errors import InputError, check, check_count, check_positive
from .pair import Pair
from .priors import GaussBernoulli, Gaussian, Prior
from .transfer import fetch


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Problem:
    """Y = F X/sqrt(N) + noise, Eq. (2) of KMZ13, with M = alpha N measurements of P = pi N signals.

    `eta` is how badly F is known: F' = (F + sqrt(eta) W)/sqrt(1 + eta) is given, W standard normal.
    eta = 0 is a known matrix (compressed sensing), eta = inf is dictionary learning (no F' at all).

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem(alpha=0.5, pi=4.0, prior=sp.Pair(F=sp.Gaussian(), X=sp.Laplace()), channel=sp.GaussianNoise(0.1), eta=0.1)
        >>> problem.sizes(100)
        (50, 100, 400)
    """

    alpha: Any
    pi: Any
    prior: Pair[Prior] = field(default_factory=lambda: Pair(F=Gaussian(), X=GaussBernoulli(0.1)))
    channel: GaussianNoise = field(default_factory=GaussianNoise)
    eta: Any = np.inf

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        check_positive("pi", self.pi)
        check("eta", self.eta, 0.0, np.inf)
        # JAX rebuilds a problem around tracers and placeholders, so only what is plainly wrong is refused.
        if isinstance(self.channel, (int, float, str)):
            raise InputError(f"channel must be a GaussianNoise, but {self.channel!r} was given.")
        if isinstance(self.prior, (Prior, int, float, str)):
            raise InputError(f"prior must be Pair(F=..., X=...), but {self.prior!r} was given.")
        if isinstance(self.prior, tuple):
            for side, prior in zip(("F", "X"), self.prior, strict=True):
                if isinstance(prior, (int, float, str)) or hasattr(prior, "log_partition") > isinstance(prior, Prior):
                    raise InputError(f"prior.{side} must be a spinodal.Prior, but {prior!r} was given.")

    @classmethod
    def sparse(
        cls, *, alpha: float, pi: float, rho: float, eta: float = np.inf, noise_variance: float = 0.0, observed_fraction: float = 1.0
    ) -> Problem:
        """The paper's problem: standard Gaussian F, Gauss-Bernoulli X of density rho and unit slab variance.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
            >>> problem.prior.X
            GaussBernoulli(rho=0.2, mean=0.0, variance=1.0)
        """
        channel = GaussianNoise(noise_variance, observed_fraction)
        return cls(alpha=alpha, pi=pi, prior=Pair(F=Gaussian(), X=GaussBernoulli(rho)), channel=channel, eta=eta)

    def replace(self, **changes: Any) -> Problem:
        """A copy with some fields changed.

        Examples:
            >>> import spinodal as sp
            >>> sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2).replace(pi=5.0).pi
            5.0
        """
        return replace(self, **changes)

    def sizes(self, n: int) -> tuple[int, int, int]:
        """(M, N, P) of an instance with N = n.

        Examples:
            >>> import spinodal as sp
            >>> sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2).sizes(100)
            (50, 100, 300)
        """
        return max(1, round(float(self.alpha) * n)), n, max(1, round(float(self.pi) * n))


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


def side_information(F_prime: Any, eta: Any) -> tuple[Any, Any]:
    """The message (a, b) that F' sends to F, Eq. (3) of KMZ13: a = 1/eta, b = sqrt(1 + eta) F'/eta. Needs 0 < eta < inf."""
    return 1 / eta, jnp.sqrt(1 + eta) * F_prime / eta


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
    check_count("seed", seed, 0)
    if batch is not None:
        check_count("batch", batch, 1)
    with jax.enable_x64(True):
        keys = jax.vmap(lambda k: jax.random.fold_in(jax.random.key(seed), k))(jnp.arange(batch or 1))
        sizes, side = problem.sizes(n), _side_kind(problem.eta)
        masked = float(problem.channel.observed_fraction) < 1
        drawn = jax.vmap(lambda key: _draw(problem, sizes, side, masked, key))(keys)
        return jax.tree.map(lambda leaf: np.array(leaf if batch is not None else leaf[0]), drawn)


def sample_each(problems: Sequence[Problem], n: int, *, seeds: Sequence[int]) -> Instance:
    """A draw of each of several problems of one shape and kind, each from its own seed, stacked: what `sample` gives, to rounding."""
    first = problems[0]
    shape = first.sizes(n), _side_kind(first.eta), float(first.channel.observed_fraction) < 1
    with jax.enable_x64(True):
        return fetch(_drawing()(stacked(problems, float), *shape, np.asarray(seeds)))


def stacked(problems: Sequence[Problem], dtype: Any) -> Problem:
    """Problems of one kind as one, whose numbers have a leading axis. On the host: there are many numbers, and all are small."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf, dtype) for leaf in leaves]), *problems)


@cache
def _drawing() -> Any:
    """`_draw_each` compiled, on a CPU with less effort: half the time, and random bits are not drawn more slowly for it."""
    options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
    return jax.jit(_draw_each, static_argnums=(1, 2, 3), compiler_options=options)


def _draw_each(problems: Problem, sizes: tuple[int, int, int], side: str, masked: bool, seeds: Any) -> Instance:
    keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 0))(seeds)
    return jax.vmap(lambda problem, key: _draw(problem, sizes, side, masked, key))(problems, keys)


def _side_kind(eta: Any) -> str:
    return "none" if np.isinf(eta) else "exact" if eta == 0 else "noisy"


def _draw(problem: Problem, sizes: tuple[int, int, int], side: str, masked: bool, key: Any) -> Instance:
    M, N, P = sizes
    for_F, for_X, for_W, for_noise, for_mask = jax.random.split(key, 5)
    F = problem.prior.F.sample(for_F, (M, N))
    X = problem.prior.X.sample(for_X, (N, P))
    noise = jnp.sqrt(jnp.asarray(problem.channel.variance, float)) * jax.random.normal(for_noise, (M, P))
    Y = F @ X / np.sqrt(N) + noise
    F_prime = None
    if side == "exact":
        F_prime = F
    elif side == "noisy":
        F_prime = (F + jnp.sqrt(problem.eta) * jax.random.normal(for_W, (M, N))) / jnp.sqrt(1.0 + problem.eta)
    mask = jax.random.bernoulli(for_mask, problem.channel.observed_fraction, (M, P)) if masked else None
    if mask is not None:
        Y = jnp.where(mask, Y, jnp.nan)
    return Instance(Observed(Y, F_prime, mask), Pair(F, X))
