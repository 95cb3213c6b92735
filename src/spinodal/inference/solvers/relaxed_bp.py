"""Belief propagation with Gaussian messages, Eqs. (8)-(11) after the central limit theorem: one message per edge, M N P of each kind.

The factor y_mu,l sends to x_il the likelihood of x_il with everything else averaged, expanded to second order in 1/sqrt(N):

    B = r g/sqrt(N),   A = r^2 precision/N,   g and precision of the channel at omega and V without i,

with r the mean of the message from F_mu,i; and the same to F_mu,i with the roles exchanged. (The expansion has one more term in A,
proportional to the variance of F_mu,i times g^2 - precision. It averages to zero as N grows, and at sizes that one can run it makes single
precisions negative and the errors larger; it is left out here as in AMP.) AMP must approach this as N grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from ...errors import check
from ...model.priors import Moments
from ..messages.free_entropy import free_entropy
from ..messages.update import Rules, first_state, mix
from ..messages.variances import STRUCTURES
from ..task import Task, output_where
from .base import Estimate, Measured, Solver

# Precisions of single messages may be negative; their sums are kept from vanishing.
_LEAST_PRECISION = 1e-12


class Edges(NamedTuple):
    """Moments of the message on every edge (M x N x P), from F and from X; what the last step measured; the number of iterations."""

    F: Moments
    X: Moments
    g: Any
    level: Any
    square: Any
    nonzeros: Any
    age: Any


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

    def __post_init__(self) -> None:
        check("damping", self.damping, 0.0, 1.0, high_open=True)
        check("residual_floor", self.residual_floor, 0.0, 1.0)

    def init(self, task: Task, draws: Any, start: Any = None) -> Edges:
        # The edges start at their nodes' values: every message is a copy of its marginal.
        state = first_state(task) if start is None else first_state(task, start.F, start.X)
        shape = task.sizes
        F = Moments(*(jnp.broadcast_to(value[:, :, None], shape) for value in state.F))
        X = Moments(*(jnp.broadcast_to(value[None], shape) for value in state.X))
        return Edges(F, X, state.g, state.level, state.square, state.nonzeros, state.age)

    def _factors(self, task: Task, state: Edges) -> tuple[Edges, tuple[Any, Any], tuple[Any, Any]]:
        """What the factors send: the (A, B) of every edge to X and to F; and the state with its residuals."""
        F, X = state.F, state.X
        N = task.sizes[1]
        root = jnp.sqrt(1.0 * N).astype(task.Y.dtype)
        own = F.mean * X.mean / root
        spread = (F.mean**2 * X.variance + F.variance * (X.mean**2 + X.variance)) / N
        mean, variance = jnp.sum(own, axis=1), jnp.sum(spread, axis=1)
        # As in `messages.update.residual`: where the measured square of g is above what the precision says, variance is added.
        g, precision = output_where(task.channel, task.Y, mean, variance, task.mask, task.temperature)
        g2, typical = (jnp.mean(value, axis=0) / task.seen_by_signal for value in (g**2, precision))
        excess = jnp.maximum(1, self.residual_floor * g2 / typical)
        more = (excess - 1) / typical
        others = jnp.maximum(variance[:, None] - spread, 0) + more
        seen = None if task.mask is None else task.mask[:, None]
        out = output_where(task.channel.beside_atoms(), task.Y[:, None], mean[:, None] - own, others, seen, task.temperature)

        def send(other: Moments) -> tuple[Any, Any]:
            return other.mean**2 * out.precision / N, other.mean * out.g / root

        measured = state._replace(g=g / excess, level=excess / typical, square=g2 / typical**2)
        return measured, send(F), send(X)

    def step(self, task: Task, state: Edges) -> Edges:
        # All messages of the graph once: from the factors to the variables, and back without the receiver's own.
        old, step_size = state, 1 - self.damping
        state, (A_X, B_X), (A_F, B_F) = self._factors(task, state)
        a, b = _positive(jnp.sum(A_X, axis=0)), jnp.sum(B_X, axis=0)
        X = task.prior.X.posterior(_positive(a - A_X), b - B_X)
        F = state.F
        if not task.knowledge.fixed:
            sum_A, sum_B = (jnp.sum(value, axis=2, keepdims=True) for value in (A_F, B_F))
            given = None if task.given is None else task.given[:, :, None]
            F = task.knowledge.posterior(task.prior.F, given, _positive(sum_A - A_F), sum_B - B_F)
        F, X = mix(old.F, F, step_size), mix(old.X, X, jnp.where(old.age == 0, 1, step_size))
        return state._replace(F=F, X=X, nonzeros=_expected_nonzeros(task, a, b), age=old.age + 1)

    def measure(self, task: Task, state: Edges) -> Measured:
        return Measured(state.level, state.square, jnp.asarray(self.damping, task.Y.dtype))

    def estimate(self, task: Task, state: Edges) -> Estimate:
        """The posteriors of the variables themselves, from all of their messages.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> solver = sp.RelaxedBP()
            >>> solver.estimate(task, solver.init(task, None)).F.mean.shape
            (12, 20)
        """
        state, to_X, (A, B) = self._factors(task, state)
        a, b = (jnp.sum(value, axis=0) for value in to_X)
        F = task.matrix_posterior(_positive(jnp.sum(A, axis=2)), jnp.sum(B, axis=2))
        return Estimate(F, task.prior.X.posterior(_positive(a), b), state.nonzeros, state.square)

    def free_entropy(self, task: Task, state: Edges) -> Any:
        estimate = self.estimate(task, state)
        nodes = first_state(task, estimate.F, estimate.X)._replace(g=state.g)
        return free_entropy(Rules(STRUCTURES["entry"], self.residual_floor, False, True), task, nodes)

    def divided(self, state: Edges) -> Edges:
        yes = Moments(True, True)
        return Edges(yes, yes, True, True, True, False, False)


def _expected_nonzeros(task: Task, a: Any, b: Any) -> Any:
    against = task.prior.X.posterior_and_odds(a, b)[1]
    return jnp.sum(1 / (1 + against), axis=1)


def _positive(precision: Any) -> Any:
    return jnp.maximum(precision, _LEAST_PRECISION)
