"""The replica potential of KMZ13: the display after Eq. (5), and its closed form Eq. (7)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors import InputError, check
from ..model.channels import GaussianNoise
from ..model.model import Problem
from ..model.priors import GaussBernoulli, Gaussian
from ..model.priors.base import Support
from ..model.quadrature import message_averages, nodes_and_weights
from ..pair import Pair
from .curve import ROOT_TOLERANCE, matrix_mmse, over_classes
from .roots import find_root
from .setup import Batch, Setup, channel_averages

# Where a standard normal integral is cut.
_NORMAL_SPAN = 12.0
# The least error on F that is looked for, in units of that without data.
_LEAST_ERROR = 1e-40
# Keeps the logarithm of a vanishing error defined.
_SMALLEST = 1e-300


def conjugates(s: Setup, mse_X: Any, mse_F: Any) -> tuple[Any, Any, Any]:
    """V, m_X and m_F of Eq. (6) of KMZ13, for any channel, variances and observed fraction."""
    unexplained = s.power.F * mse_X + s.power.X * mse_F - mse_X * mse_F
    V = unexplained + channel_averages(s, unexplained).equivalent_noise
    m_X = s.observed * s.alpha * (s.power.F - mse_F) / V
    m_F = s.observed * s.pi * (s.power.X - mse_X) / V
    return V, m_X, m_F


def potential_at(s: Setup, mse_X: Any, mse_F: Any) -> Any:
    """Phi(E, D), the display after Eq. (5) of KMZ13, with the terms of order 1/V combined on paper so that nothing cancels at small error.

    Its two integrals are m E[x^2]/2 minus the mutual information; the first parts join the energy. With t = q_F q_X,
    m_X (Var[X] - q_X)/2 + alpha/pi m_F (Var[F] - q_F)/2 = eps alpha (q_F mse_X + q_X mse_F)/(2 V).
    """
    V, m_X, m_F = conjugates(s, mse_X, mse_F)
    unexplained = s.power.F * mse_X + s.power.X * mse_F - mse_X * mse_F
    gained = ((s.power.F - mse_F) * mse_X + (s.power.X - mse_X) * mse_F) / (2 * V)
    energy = s.observed * s.alpha * (channel_averages(s, unexplained).free_entropy + gained)
    information_X = message_averages(s.prior.X, s.support.X, m_X).information

    def information_F(snr: Any) -> Any:
        with_data, without = (message_averages(s.prior.F, s.support.F, at).information for at in (snr + m_F, snr))
        return with_data - without

    return energy - information_X - s.alpha / s.pi * over_classes(s, information_F)


def potential(problem: Problem, mse: Pair[Any]) -> np.ndarray:
    """The replica potential (free entropy per signal entry, log Z/(N P)) at given errors, for any priors: after Eq. (5) of KMZ13.

    Its stationary points are the fixed points of the state evolution; they are saddles of it as a function of two variables,
    see `effective_potential` for a function of one variable whose maxima are the stable ones.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> print(f"{float(sp.potential(problem, sp.Pair(F=0.5, X=0.1))):.4f}")
        0.1960
    """
    batch, shape, E, D = _prepare(problem, mse)
    return batch(potential_at, np.zeros(E.size, int), E, D).reshape(shape)


def _prepare(problem: Problem, mse: Pair[Any]) -> tuple[Batch, tuple[int, ...], np.ndarray, np.ndarray]:
    batch = Batch([problem])
    check("mse.X", mse.X, 0.0, float(batch.setup.power.X[0]))
    check("mse.F", mse.F, 0.0, float(batch.setup.power.F[0]))
    E, D = np.broadcast_arrays(np.asarray(mse.X, dtype=float), np.asarray(mse.F, dtype=float))
    return batch, E.shape, E.ravel(), D.ravel()


def _gauss_bernoulli_potential_at(s: Setup, E: Any, D: Any) -> Any:
    """Eq. (7) of KMZ13, as printed."""
    rho = s.prior.X.rho  # type: ignore[attr-defined]
    V, m_X, m_F = conjugates(s, E, D)

    def integral(gain: Any) -> Any:
        # The integrand bends where gain z^2 passes a few units: nodes in u = z sqrt(gain) resolve it.
        scale = jnp.sqrt(jnp.maximum(gain, 1.0))
        u, w = nodes_and_weights(Support(jnp.zeros(1), _NORMAL_SPAN), scale**2)
        z = u / scale
        Dz = w / scale * jnp.exp(-(z**2) / 2) / jnp.sqrt(2 * jnp.pi)
        return jnp.sum(Dz * jnp.logaddexp(jnp.log1p(-rho), jnp.log(rho) - jnp.log1p(m_X) / 2 + gain * z**2 / 2))

    noise, side_snr = s.channel.variance, s.classes.snr[0]  # type: ignore[attr-defined]
    energy = -s.alpha / 2 * jnp.log(V) - s.alpha * (noise + rho) / V + s.alpha / 2
    signal = (1 - rho) * integral(m_X / (m_X + 1)) + rho * integral(m_X)
    matrix = s.alpha / (2 * s.pi) * (m_F - jnp.log1p(m_F / (1 + side_snr)))
    return energy + signal + matrix


def potential_gauss_bernoulli(problem: Problem, mse: Pair[Any]) -> np.ndarray:
    """Eq. (7) of KMZ13 as printed: standard Gaussian F, Gauss-Bernoulli X of unit slab, all entries observed.

    An independent route to `potential` for moderate errors; below mse about 1e-6 its terms cancel and `potential` should be used.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> print(f"{float(sp.potential_gauss_bernoulli(problem, sp.Pair(F=0.5, X=0.1))):.4f}")
        0.1960
    """
    F, X = problem.prior
    printed_priors = Gaussian() == F and isinstance(X, GaussBernoulli) and X.mean == 0 and X.variance == 1
    one_eta = len(problem.knowledge.classes().snr) == 1
    if not printed_priors or not isinstance(problem.channel, GaussianNoise) or not one_eta or problem.observed_fraction != 1:
        raise InputError(
            "problem must have prior F = Gaussian(0, 1), X = GaussBernoulli(rho, 0, 1), Gaussian noise, one eta and all entries observed "
            "for Eq. (7)."
        )
    batch, shape, E, D = _prepare(problem, mse)
    return batch(_gauss_bernoulli_potential_at, np.zeros(E.size, int), E, D).reshape(shape)


def _matrix_excess(s: Setup, log_D: Any, E: Any) -> Any:
    """Positive where F is known less well than D says: falls with D."""
    D = jnp.exp(log_D)
    return jnp.log(jnp.maximum(matrix_mmse(s, conjugates(s, E, D)[2]), _SMALLEST)) - log_D


def _error_without_data(s: Setup) -> Any:
    return matrix_mmse(s, 0.0)


def effective_potential(problem: Problem, mse_X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Phi(E, D*(E)) and D*(E), where D* is the error on F that goes with E: a function of E alone with honest maxima.

    D* solves D = mmse_F(m_F(E, D)).

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> value, matrix_error = sp.effective_potential(problem, [1e-6, 7e-3, 6e-2])
        >>> bool(value[0] > value[2] > value[1])  # two hills, and the good one is higher
        True
    """
    batch, shape, E, _ = _prepare(problem, Pair(F=0.0, X=mse_X))
    index = np.zeros(E.size, int)
    most = float(batch.each(_error_without_data)[0])
    if most == 0:
        D = np.zeros(E.size)
    else:
        low, high = np.full(E.size, np.log(most * _LEAST_ERROR)), np.full(E.size, np.log(most))
        root = find_root(lambda x, i, e: batch(_matrix_excess, i, x, e), low, high, index, E, absolute=ROOT_TOLERANCE)
        # No root: the error is 0 if it is less than the least, else what it is without data.
        unsolved = np.where(batch(_matrix_excess, index, low, E) > 0, most, 0.0)
        D = np.where(np.isnan(root), unsolved, np.exp(root))
    return batch(potential_at, index, E, D).reshape(shape), D.reshape(shape)
