"""What is known of F before Y is seen: nothing, a hint F', or F itself.

A hint is a message (a, b) to every entry of F, as the data's own are. A kind of knowledge says which message a given F' is, how F' comes
from F, and how many entries are known how well; the rest follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import check
from .parametric import Parametric
from .priors import Moments, Prior


class Classes(NamedTuple):
    """Signal-to-noise ratios with which entries of F are known beforehand, and the share of the entries that has each.

    Examples:
        >>> import spinodal as sp
        >>> sp.Hint(0.1).classes()
        Classes(snr=array([10.]), share=array([1.]))
    """

    snr: Any
    share: Any


class Knowledge(Parametric):
    """Base of all kinds of knowledge. A subclass needs `message`, `observe` and `classes`.

    `given` is what was observed of F, an M x N array (F'), or None where there is nothing to observe.

    Examples:
        >>> import spinodal as sp
        >>> [isinstance(each, sp.Knowledge) for each in (sp.Nothing(), sp.Hint(0.1), sp.Known())]
        [True, True, True]
    """

    fixed = False  # whether F is known exactly, so that there is nothing to infer

    def message(self, given: Any) -> tuple[Any, Any]:
        """The message (a, b) that F' sends to F: a factor exp(b F - a F^2/2) for every entry.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> a, b = sp.Hint(0.5).message(np.array([[2.0]]))
            >>> float(a)
            2.0
        """
        raise TypeError(f"{type(self).__name__} must define message(given).")

    def observe(self, key: Any, F: Any) -> Any:
        """F' drawn for a true F; None if nothing is observed.

        Examples:
            >>> import jax
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.Hint(0.5).observe(jax.random.key(0), np.zeros((3, 4))).shape
            (3, 4)
            >>> sp.Nothing().observe(jax.random.key(0), np.zeros((3, 4))) is None
            True
        """
        raise TypeError(f"{type(self).__name__} must define observe(key, F).")

    def classes(self) -> Classes:
        """How well entries are known, for the theory: exact where the classes are spread over rows and columns at random.

        Examples:
            >>> import spinodal as sp
            >>> sp.Hint(0.5).classes().snr
            array([2.])
        """
        raise TypeError(f"{type(self).__name__} must define classes().")

    # ---- derived

    def posterior(self, prior: Prior, given: Any, a: Any, b: Any) -> Moments:
        """Posterior of F under its prior, F' and the data's message (a, b).

        Examples:
            >>> import spinodal as sp
            >>> mean, variance = sp.Hint(1.0).posterior(sp.Gaussian(), 0.0, 2.0, 4.0)
            >>> float(mean), float(variance)
            (1.0, 0.25)
        """
        own_a, own_b = self.message(given)
        return prior.posterior(a + own_a, b + own_b)

    def log_partition(self, prior: Prior, given: Any, a: Any, b: Any) -> Any:
        """log of the integral of p(F | F') exp(b F - a F^2/2) over F.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.Nothing().log_partition(sp.Gaussian(), None, 1.0, 2.0)):.4f}")
            0.6534
        """
        own_a, own_b = self.message(given)
        return prior.log_partition(a + own_a, b + own_b) - prior.log_partition(own_a, own_b)

    def unknown_share(self, prior: Prior) -> float:
        """The share of F's power that is left unknown: 0 for a known matrix, 1 where nothing is known. Of a batch, the largest.

        Examples:
            >>> import spinodal as sp
            >>> sp.Hint(1.0).unknown_share(sp.Gaussian())
            0.5
        """
        power, (snr, share) = np.asarray(prior.second_moment())[..., None], self.classes()
        return float(np.max(np.sum(share / (1 + power * np.asarray(snr)), axis=-1)))


@dataclass(frozen=True)
class Nothing(Knowledge):
    """F is not known at all: dictionary learning, eta = inf.

    Examples:
        >>> import spinodal as sp
        >>> sp.Nothing().eta
        inf
    """

    @property
    def eta(self) -> float:
        return np.inf

    def message(self, given: Any) -> tuple[Any, Any]:
        return 0.0, 0.0

    def observe(self, key: Any, F: Any) -> None:
        return None

    def classes(self) -> Classes:
        return Classes(np.zeros(1), np.ones(1))

    def posterior(self, prior: Prior, given: Any, a: Any, b: Any) -> Moments:
        return prior.posterior(a, b)

    def log_partition(self, prior: Prior, given: Any, a: Any, b: Any) -> Any:
        return prior.log_partition(a, b)


@dataclass(frozen=True)
class Hint(Knowledge):
    """F' = (F + sqrt(eta) W)/sqrt(1 + eta) is given, W standard normal: Eq. (3) of KMZ13.

    Examples:
        >>> import spinodal as sp
        >>> sp.Hint(0.1)
        Hint(eta=0.1)
    """

    eta: Any

    def __post_init__(self) -> None:
        check("eta", self.eta, 0.0, np.inf, low_open=True, high_open=True)

    def message(self, given: Any) -> tuple[Any, Any]:
        return 1 / self.eta, jnp.sqrt(1 + self.eta) * given / self.eta

    def observe(self, key: Any, F: Any) -> Any:
        return (F + jnp.sqrt(self.eta) * jax.random.normal(key, F.shape)) / jnp.sqrt(1.0 + self.eta)

    def classes(self) -> Classes:
        snr = 1 / np.asarray(self.eta, dtype=float)[..., None]
        return Classes(snr, np.ones_like(snr))


@dataclass(frozen=True)
class Known(Knowledge):
    """F itself is given: compressed sensing, eta = 0.

    Examples:
        >>> import spinodal as sp
        >>> sp.Known().fixed
        True
    """

    fixed = True

    @property
    def eta(self) -> float:
        return 0.0

    def message(self, given: Any) -> tuple[Any, Any]:
        return jnp.inf, jnp.inf * given

    def observe(self, key: Any, F: Any) -> Any:
        return F

    def classes(self) -> Classes:
        return Classes(np.full(1, np.inf), np.ones(1))

    def posterior(self, prior: Prior, given: Any, a: Any, b: Any) -> Moments:
        return Moments(given, jnp.zeros_like(given))

    def log_partition(self, prior: Prior, given: Any, a: Any, b: Any) -> Any:
        return b * given - a * given**2 / 2


def knowledge_of(eta: Any) -> Knowledge:
    """The kind of knowledge that an eta stands for: 0 is a known F, inf is nothing, and anything between a hint."""
    check("eta", eta, 0.0, np.inf)
    concrete = np.ndim(eta) == 0 and isinstance(eta, (int, float, np.generic, np.ndarray))
    return Known() if concrete and eta == 0 else Nothing() if concrete and np.isinf(eta) else Hint(eta)
