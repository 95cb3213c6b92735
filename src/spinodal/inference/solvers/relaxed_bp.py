"""Belief propagation with Gaussian messages, Eqs. (8)-(11) after the central limit theorem: one message per edge, M N P of each kind.

The factor y_mu,l sends to x_il the likelihood of x_il with everything else averaged, expanded to second order in 1/sqrt(N):

    B = r g/sqrt(N),   A = r^2/(N V),   g = (y - omega without i)/V,   V without i,

with r the mean of the message from F_mu,i; and the same to F_mu,i with the roles exchanged. (The expansion has one more term in A,
proportional to the variance of F_mu,i times g^2 - 1/V. It averages to zero as N grows, and at sizes that one can run it makes single
precisions negative and the errors larger, see docs/solvers.md; it is left out here as in AMP.) AMP must approach this as N grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from ...errors import check
from ...model.priors.base import Moments
from ..messages.data import Data
from ..messages.state import State, first_state, mix
from ..messages.update import Rules, expected_nonzeros, free_entropy
from ..messages.variances import STRUCTURES
from .options import Solver

# Precisions of single messages may be negative; their sums are kept from vanishing.
_LEAST_PRECISION = 1e-12


@dataclass(frozen=True)
class RelaxedBP(Solver):
    """Belief propagation with Gaussian messages, Eqs. (8)-(11) of KMZ13: the reference for small sizes, M N P messages an iteration.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> sp.solve(instance.observed, problem, sp.RelaxedBP()).mean.X.shape
        (20, 120)
    """

    damping: float = 0.5
    residual_floor: float = 0.7

    adaptive = False
    keeps_best = False
    repair = False
    remove_means = False

    def __post_init__(self) -> None:
        check("damping", self.damping, 0.0, 1.0, high_open=True)
        check("residual_floor", self.residual_floor, 0.0, 1.0)

    @property
    def first_damping(self) -> float:
        return self.damping

    @property
    def rules(self) -> Rules:
        return Rules(STRUCTURES["entry"], self.residual_floor, False, True)

    def init(self, data: Data, key: Any) -> State:
        # The edges start at their nodes' values: every message is a copy of its marginal.
        state = first_state(data)
        M, N, P = data.sizes
        F = Moments(*(jnp.broadcast_to(value[:, :, None], (M, N, P)) for value in state.F))
        X = Moments(*(jnp.broadcast_to(value[None], (M, N, P)) for value in state.X))
        return state._replace(F=F, X=X)

    def _factors(self, data: Data, state: State) -> tuple[State, tuple[Any, Any], tuple[Any, Any]]:
        """What the factors send: the (A, B) of every edge to X and to F; and the state with its residuals."""
        F, X = state.F, state.X
        _, N, _ = data.sizes
        root = jnp.sqrt(1.0 * N).astype(data.Y.dtype)
        own = F.mean * X.mean / root
        spread = (F.mean**2 * X.variance + F.variance * (X.mean**2 + X.variance)) / N
        error = data.Y - jnp.sum(own, axis=1)
        if data.mask is not None:
            error = error * data.mask
        square = jnp.mean(error**2, axis=0) / data.seen_by_signal
        level = jnp.maximum(data.noise + jnp.sum(spread, axis=1), self.residual_floor * square)
        V = jnp.maximum(level[:, None] - spread, data.noise)
        g = (error[:, None] + own) / V
        seen = 1.0 if data.mask is None else data.mask[:, None]

        def send(other: Moments) -> tuple[Any, Any]:
            A = other.mean**2 / V / N
            return A * seen, other.mean * g / root * seen

        return state._replace(g=error / level, level=jnp.median(level, axis=0), square=square), send(F), send(X)

    def step(self, data: Data, state: State, step_size: Any) -> State:
        # All messages of the graph once: from the factors to the variables, and back without the receiver's own.
        old = state
        state, (A_X, B_X), (A_F, B_F) = self._factors(data, state)
        a, b = _positive(jnp.sum(A_X, axis=0)), jnp.sum(B_X, axis=0)
        X = data.prior.X.posterior(_positive(a - A_X), b - B_X)
        F = state.F
        if data.known is None:
            sum_A, sum_B = (jnp.sum(value, axis=2, keepdims=True) for value in (A_F, B_F))
            side = (0.0, jnp.zeros_like(data.start.mean)) if data.side is None else data.side
            F = data.prior.F.posterior(_positive(sum_A - A_F) + side[0], sum_B - B_F + side[1][:, :, None])
        F, X = mix(old.F, F, step_size), mix(old.X, X, jnp.where(old.age == 0, 1, step_size))
        return state._replace(F=F, X=X, nonzeros=expected_nonzeros(data, a, b), age=old.age + 1)

    def marginals(self, data: Data, state: State) -> State:
        """The posteriors of the variables themselves, from all of their messages.

        Examples:
            >>> import jax
            >>> import spinodal as sp
            >>> from spinodal.inference.messages.data import make_data
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> observed = sp.sample(problem, 20, seed=1).observed
            >>> with jax.enable_x64(True):
            ...     data = make_data(observed, problem, 20, "noisy", "float64")
            ...     edges = sp.RelaxedBP().init(data, jax.random.key(0))
            ...     nodes = jax.jit(sp.RelaxedBP().marginals)(data, edges)
            >>> edges.X.mean.shape, nodes.X.mean.shape
            ((12, 20, 120), (20, 120))
        """
        state, to_X, to_F = self._factors(data, state)
        a, b = (jnp.sum(value, axis=0) for value in to_X)
        F = data.matrix_posterior(*(f(jnp.sum(value, axis=2)) for f, value in zip((_positive, lambda x: x), to_F, strict=True)))
        return state._replace(F=F, X=data.prior.X.posterior(_positive(a), b))

    def cost(self, data: Data, state: State) -> Any:
        return -free_entropy(self.rules, data, state)


def _positive(precision: Any) -> Any:
    return jnp.maximum(precision, _LEAST_PRECISION)
