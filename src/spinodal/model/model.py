"""Model: what is assumed of the data, Eqs. (1)-(3) of KMZ13. Problem: a model with alpha and pi, for the theory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import jax
import numpy as np

from ..errors import InputError, check, check_positive, shown
from ..pair import Pair
from .channels import Channel, GaussianNoise
from .knowledge import Knowledge, Nothing, knowledge_of
from .priors import GaussBernoulli, Gaussian, Prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Larger sizes are no sizes of arrays.
_LARGEST_SIZE = 1e15


def _default_priors() -> Pair[Prior]:
    return Pair(F=Gaussian(), X=GaussBernoulli(0.1))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Model:
    """Y = F X/sqrt(N) seen through a channel, Eq. (2) of KMZ13: the priors of F and X, the channel, and what is known of F beforehand.

    Examples:
        >>> import spinodal as sp
        >>> model = sp.Model(prior=sp.Pair(F=sp.Gaussian(), X=sp.Laplace()), channel=sp.GaussianNoise(0.1), knowledge=sp.Hint(0.1))
        >>> model.eta
        0.1
    """

    prior: Pair[Prior] = field(default_factory=_default_priors)
    channel: Channel = field(default_factory=GaussianNoise)
    knowledge: Knowledge = field(default_factory=Nothing)

    def __post_init__(self) -> None:
        # JAX rebuilds a model around tracers and placeholders, so only what is plainly wrong is refused.
        if isinstance(self.channel, (int, float, str)):
            raise InputError(f"channel must be a spinodal.Channel, such as GaussianNoise, but {self.channel!r} was given.")
        if isinstance(self.knowledge, (int, float, str)):
            raise InputError(f"knowledge must be Nothing(), Hint(eta) or Known(), but {self.knowledge!r} was given.")
        if isinstance(self.prior, (Prior, int, float, str)):
            raise InputError(f"prior must be Pair(F=..., X=...), but {self.prior!r} was given.")
        if isinstance(self.prior, tuple):
            for side, prior in zip(("F", "X"), self.prior, strict=True):
                if isinstance(prior, (int, float, str)) or hasattr(prior, "log_partition") > isinstance(prior, Prior):
                    raise InputError(f"prior.{side} must be a spinodal.Prior, but {prior!r} was given.")

    @classmethod
    def sparse(cls, *, rho: float, eta: float = np.inf, noise_variance: float = 0.0) -> Model:
        """The paper's model: standard Gaussian F, Gauss-Bernoulli X of density rho and unit slab variance, Gaussian noise.

        Examples:
            >>> import spinodal as sp
            >>> sp.Model.sparse(rho=0.2, noise_variance=1e-6).channel
            GaussianNoise(variance=1e-06)
        """
        return Model(Pair(F=Gaussian(), X=GaussBernoulli(rho)), GaussianNoise(noise_variance), knowledge_of(eta))

    @property
    def eta(self) -> Any:
        """How badly F is known: 0 is known exactly, inf not at all; None where one number does not say it.

        Examples:
            >>> import spinodal as sp
            >>> sp.Model().eta
            inf
        """
        return getattr(self.knowledge, "eta", None)

    @property
    def noise_variance(self) -> Any:
        """The variance of Gaussian noise, if it is one for all entries; None for any other channel.

        Examples:
            >>> import spinodal as sp
            >>> sp.Model.sparse(rho=0.2, noise_variance=1e-6).noise_variance
            1e-06
        """
        return self.channel.variance if isinstance(self.channel, GaussianNoise) and not self.channel.several else None

    def _repr_html_(self) -> str:
        from ..report.objects import model_table

        return model_table(self)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; `eta` is short for the knowledge that goes with it.

        Examples:
            >>> import spinodal as sp
            >>> sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2).replace(pi=5.0, eta=0.1).knowledge
            Hint(eta=0.1)
        """
        if "eta" in changes:
            changes["knowledge"] = knowledge_of(changes.pop("eta"))
        return replace(self, **changes)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class Problem(Model):
    """A model with M = alpha N measurements of P = pi N signals: what the theory speaks of.

    `observed_fraction` is the probability with which each entry of Y is observed.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem(alpha=0.5, pi=4.0, channel=sp.GaussianNoise(0.1), knowledge=sp.Hint(0.1))
        >>> problem.sizes(100)
        (50, 100, 400)
    """

    alpha: Any
    pi: Any
    observed_fraction: Any = 1.0

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        check_positive("pi", self.pi)
        check("observed_fraction", self.observed_fraction, 0.0, 1.0, low_open=True)
        super().__post_init__()

    @classmethod
    def sparse(  # type: ignore[override]
        cls, *, alpha: float, pi: float, rho: float, eta: float = np.inf, noise_variance: float = 0.0, observed_fraction: float = 1.0
    ) -> Problem:
        """The paper's problem: `Model.sparse` with alpha and pi.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
            >>> problem.prior.X
            GaussBernoulli(rho=0.2, mean=0.0, variance=1.0)
        """
        model = Model.sparse(rho=rho, eta=eta, noise_variance=noise_variance)
        return cls.of(model, alpha=alpha, pi=pi, observed_fraction=observed_fraction)

    @classmethod
    def of(cls, model: Model, *, alpha: float, pi: float, observed_fraction: float = 1.0) -> Problem:
        """The problem that a model makes with alpha and pi.

        Examples:
            >>> import spinodal as sp
            >>> sp.Problem.of(sp.Model.sparse(rho=0.2), alpha=0.5, pi=3.0).pi
            3.0
        """
        return cls(
            prior=model.prior, channel=model.channel, knowledge=model.knowledge, alpha=alpha, pi=pi, observed_fraction=observed_fraction
        )

    def plot(self) -> Figure:
        """The potential, the fixed points and the state evolution of this problem, as a matplotlib figure.

        Examples:
            >>> import spinodal as sp
            >>> figure = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6).plot()
            >>> len(figure.axes) > 1
            True
        """
        from ..figures.theory import explain_figure

        return explain_figure(self)

    def sizes(self, n: int) -> tuple[int, int, int]:
        """(M, N, P) of an instance with N = n.

        Examples:
            >>> import spinodal as sp
            >>> sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2).sizes(100)
            (50, 100, 300)
        """
        alpha, pi = float(self.alpha), float(self.pi)
        if n > _LARGEST_SIZE or max(alpha, pi) * n > _LARGEST_SIZE:
            raise InputError(
                f"n must leave M = alpha n and P = pi n of at most {_LARGEST_SIZE:g}, but {shown(n)} was given "
                f"with alpha = {alpha:g} and pi = {pi:g}."
            )
        return max(1, round(alpha * n)), n, max(1, round(pi * n))


Kind = TypeVar("Kind", bound=Model)


def stacked(models: Sequence[Kind], dtype: Any) -> Kind:
    """Models of one kind as one, whose numbers have a leading axis. On the host: there are many numbers, and all are small."""
    if all(model is models[0] for model in models):
        return jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf, dtype)[None], len(models), axis=0), models[0])
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf, dtype) for leaf in leaves]), *models)
