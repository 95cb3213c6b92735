"""A prior is its log-partition function; everything else follows from it.

For a scalar prior p and a Gaussian message exp(b x - a x^2/2),

    log Z(a, b) = log of the integral of p(x) exp(b x - a x^2/2),
    posterior mean = d log Z/db,    posterior variance = d^2 log Z/db^2.

With b = a x0 + sqrt(a) z (x0 from the prior, z standard normal) the scaled message u = b/sqrt(a) has the density
exp(-u^2/2 + log Z(a, sqrt(a) u))/sqrt(2 pi), so averages over the message need nothing but log Z either.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InputError, check
from ..parametric import Parametric

# Sample size from which a prior that only has `log_partition` and `sample` is inspected for atoms and extent.
_PROBE_SAMPLES = 20_000
# An integral is carried this many times beyond the largest of those samples: enough for any tail with a variance that float64 can see.
_PROBE_MARGIN = 1e3
# Signal-to-noise ratio, in units of the inverse second moment, at which a generic prior's information dimension is read off.
_DIMENSION_SNR = 1e10
# What is read off lies between 0 and 1 to within this; beyond, rounding has spoiled it.
_DIMENSION_ERROR = 0.05
# Stands for a = 0 where a prior's log_partition is not defined at 0 itself.
_TINY_SNR = 1e-10


class Moments(NamedTuple):
    """Posterior mean and variance of every entry."""

    mean: Any
    variance: Any


class Averages(NamedTuple):
    """mmse = E[posterior variance], overlap = E[posterior mean^2], and the mutual information in nats."""

    mmse: Any
    overlap: Any
    information: Any


class Support(NamedTuple):
    """Values of x around which a prior has structure (atoms, centres, ends), and a bound on |x| that float64 never sees passed."""

    landmarks: Any
    span: Any


class Prior(Parametric):
    """Base of all priors. A subclass needs `log_partition` and `sample`; its attributes are its parameters.

    The pure methods (`log_partition`, `posterior`, `log_evidence`) are elementwise and follow the dtype of their inputs.
    The others return NumPy float64.

    Examples:
        A prior of your own needs two methods; here a fair coin:

        >>> import jax
        >>> import jax.numpy as jnp
        >>> import spinodal as sp
        >>> class Coin(sp.Prior):
        ...     def log_partition(self, a, b):
        ...         return jnp.logaddexp(0.0, b - a / 2) - jnp.log(2.0)
        ...     def sample(self, key, shape):
        ...         return jax.random.bernoulli(key, 0.5, shape).astype(float)
        >>> print(f"{float(Coin().posterior(4.0, 3.0).mean):.4f}")
        0.7311
    """

    def log_partition(self, a: Any, b: Any) -> Any:
        """log of the integral of p(x) exp(b x - a x^2/2) over x, elementwise.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.Gaussian().log_partition(1.0, 2.0)):.4f}")  # b^2/(2 (1 + a)) - log(1 + a)/2
            0.6534
        """
        raise TypeError(f"{type(self).__name__} must define log_partition(a, b).")

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Independent draws, an array of the given shape.

        Examples:
            >>> import jax
            >>> import spinodal as sp
            >>> sp.Gaussian(mean=2.0).sample(jax.random.key(0), (3, 5)).shape
            (3, 5)
        """
        raise TypeError(f"{type(self).__name__} must define sample(key, shape).")

    elementary = False  # whether `posterior_and_odds` is made of arithmetic, exp, log and sqrt alone, which any kernel has

    # ---- derived from log_partition; overridden where float64 or speed asks for it

    def posterior(self, a: Any, b: Any) -> Moments:
        """Posterior mean and variance under the message (a, b): the denoisers f_a, f_c (f_r, f_s for F), Eqs. (21)-(24) of KMZ13.

        Examples:
            >>> import spinodal as sp
            >>> mean, variance = sp.GaussBernoulli(0.1).posterior(10.0, 8.0)  # a measurement of .8 with variance .1
            >>> print(f"{float(mean):.3f} {float(variance):.3f}")
            0.277 0.159
        """
        shape = jnp.broadcast_shapes(jnp.shape(a), jnp.shape(b))
        b = jnp.broadcast_to(jnp.asarray(b), shape)
        one = jnp.ones_like(b)

        def mean(b: Any) -> Any:
            return jax.jvp(lambda b: self.log_partition(a, b), (b,), (one,))[1]

        value, slope = jax.jvp(mean, (b,), (one,))
        return Moments(value, slope)

    def density(self) -> Any:
        """Probability of not being zero: the parameter `rho` where there is one, None for a prior that is never exactly zero.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussBernoulli(0.1).density()
            0.1
            >>> sp.Gaussian().density() is None
            True
        """
        return getattr(self, "rho", None)

    def slab_probability(self, a: Any, b: Any) -> Any:
        """Posterior probability of not being zero: one less the weight of zero, which the message multiplies by 1/Z.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.GaussBernoulli(0.1).slab_probability(10.0, 8.0)):.3f}")
            0.381
        """
        density = self.density()
        shape = jnp.broadcast_shapes(jnp.shape(a), jnp.shape(b))
        return jnp.ones(shape) if density is None else -jnp.expm1(jnp.minimum(jnp.log1p(-density) - self.log_partition(a, b), 0))

    def posterior_and_odds(self, a: Any, b: Any) -> tuple[Moments, Any]:
        """`posterior`, and (1 - p)/p for the probability p that the entry is not zero: what an iteration needs of an entry.

        Examples:
            >>> import spinodal as sp
            >>> _, against = sp.GaussBernoulli(0.1).posterior_and_odds(10.0, 8.0)
            >>> print(f"{1 / (1 + float(against)):.3f}")
            0.381
        """
        posterior = self.posterior(a, b)
        if self.density() is None:
            return posterior, jnp.zeros_like(posterior.mean)
        probability = self.slab_probability(a, b)
        return posterior, (1 - probability) / probability

    def log_evidence(self, a: Any, u: Any) -> Any:
        """log of the density of u = b/sqrt(a), up to log sqrt(2 pi).

        From log_partition alone this loses about a times 1e-16 to cancellation; the built-in priors override it.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.Gaussian().log_evidence(3.0, 1.0)):.4f}")  # u is normal with variance 1 + a
            -0.8181
        """
        return -(u**2) / 2 + self.log_partition(a, jnp.sqrt(a) * u)

    def evidence(self, a: Any, u: Any) -> Any:
        """The density of u = b/sqrt(a) times sqrt(2 pi): the exponential of `log_evidence`, unless a sum is cheaper.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.Gaussian().evidence(3.0, 1.0)):.4f}")
            0.4412
        """
        return jnp.exp(self.log_evidence(a, u))

    def support(self) -> Support:
        """Where the prior lives, for the quadrature. Found from `sample` unless a subclass knows better.

        Examples:
            >>> import spinodal as sp
            >>> sp.Rademacher().support().landmarks
            array([-1.,  1.])
        """
        return _probe(self)

    def exact_averages(self, a: Any) -> Averages | None:
        """The averages over the message in closed form, where there is one; quadrature does the rest.

        Examples:
            >>> import spinodal as sp
            >>> sp.Gaussian().exact_averages(1.0).mmse
            0.5
            >>> sp.GaussBernoulli(0.1).exact_averages(1.0) is None
            True
        """
        return None

    def moments(self) -> Moments:
        """Prior mean and variance.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussBernoulli(0.1).moments()
            Moments(mean=0.0, variance=0.1)
        """
        at_zero, next_to_it = self.posterior(0.0, 0.0), self.posterior(_TINY_SNR, 0.0)
        return Moments(*(jnp.where(jnp.isfinite(x), x, y) for x, y in zip(at_zero, next_to_it, strict=True)))

    def second_moment(self) -> Any:
        """E[x^2] under the prior.

        Examples:
            >>> import spinodal as sp
            >>> sp.Laplace(scale=2.0).second_moment()
            8.0
        """
        mean, variance = self.moments()
        return mean**2 + variance

    def dimension(self) -> Any:
        """Information dimension: the limit of a mmse(a), e.g. rho for Gauss-Bernoulli, 1 if continuous, 0 if discrete.

        Examples:
            >>> import spinodal as sp
            >>> [prior.dimension() for prior in (sp.GaussBernoulli(0.1), sp.Laplace(), sp.Rademacher())]
            [0.1, 1.0, 0.0]
        """
        with jax.enable_x64(True):
            snr = _DIMENSION_SNR / float(self.second_moment())
        found = float(snr * self.mmse(snr))
        if not -_DIMENSION_ERROR <= found <= 1 + _DIMENSION_ERROR:
            raise InputError(
                f"{type(self).__name__} must have a method dimension() that returns its information dimension, from 0 to 1: rounding in "
                f"log_partition makes it {found:.3g} where it is read off."
            )
        return found

    # ---- averages over the message, by quadrature, NumPy in and out

    def mmse(self, snr: Any) -> np.ndarray:
        """Minimal mean squared error at signal-to-noise ratio a: E[posterior variance].

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussBernoulli(0.1).mmse([0.0, 1.0, 100.0]).round(4)
            array([0.1   , 0.0855, 0.0017])
        """
        return self._average(snr).mmse

    def overlap(self, snr: Any) -> np.ndarray:
        """E[posterior mean^2] = second moment - mmse, without the cancellation.

        Examples:
            >>> import spinodal as sp
            >>> prior = sp.GaussBernoulli(0.1)
            >>> float((prior.overlap(10.0) + prior.mmse(10.0)).round(12))  # the second moment
            0.1
        """
        return self._average(snr).overlap

    def information(self, snr: Any) -> np.ndarray:
        """Mutual information between x and the message, in nats; equals a E[x^2]/2 - free entropy.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.Gaussian().information(3.0)):.4f}")  # log(1 + a)/2
            0.6931
        """
        return self._average(snr).information

    def free_entropy(self, snr: Any) -> np.ndarray:
        """psi(a) = E[log Z(a, b)]; its slope is (E[x^2] - mmse(a))/2.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.Gaussian().free_entropy(3.0)):.4f}")  # a/2 - log(1 + a)/2
            0.8069
        """
        average = self._average(snr)
        with jax.enable_x64(True):
            return np.asarray(snr, dtype=float) * np.asarray(self.second_moment()) / 2 - average.information

    def _average(self, snr: Any) -> Averages:
        from ..quadrature import averages

        check("snr", snr, 0.0, np.inf)
        return averages(self, snr)


def _probe(prior: Prior) -> Support:
    """Support of a prior known by its sampler: a value drawn twice is an atom, the extremes mark the ends."""
    with jax.enable_x64(True):
        draws = np.asarray(prior.sample(jax.random.key(0), (_PROBE_SAMPLES,)), dtype=float)
    values, counts = np.unique(draws, return_counts=True)
    landmarks = np.unique(np.concatenate([values[counts > 1], [0.0, draws.min(), draws.max()]]))
    return Support(landmarks, float(_PROBE_MARGIN * np.abs(draws).max()))
