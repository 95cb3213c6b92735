"""The alternating scheme: an iteration for X with F fixed (mean and variance), then one for F with X fixed, and again.

The paper describes bilinear AMP this way. It is not clear that it follows the paper's state evolution; it is here to compare. The factor
that is held was learned from the same Y as the other will be, so its echo is taken off as in AMP, and the fixed points are AMP's. Taken
as independent of Y instead, each factor fits the other's errors and ends far too sure of itself. More than one iteration in a row for
the same factor takes off echoes that the held one no longer sends: tried with 5 and 20, it ends far away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..messages.gauge import gauge_step, has_gauge
from ..messages.update import State, counts_now, update
from ..task import Task
from .amp import AMP


@dataclass(frozen=True)
class BiGAMP(AMP):
    """Message passing for X and F by turns. The options are those of AMP.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> str(sp.solve(instance.observed, problem, sp.BiGAMP()).status)
        'converged'
    """

    def _step(self, task: Task, state: State, step_size: Any) -> State:
        new, power = update(self.rules, task, state, step_size)
        for_X = state.age % 2 == 0
        only_X = new._replace(F=state.F)
        only_F = new._replace(X=state.X, scale=state.scale, nonzeros=state.nonzeros)
        chosen = jax.tree.map(lambda x, f: jnp.where(for_X, x, f), only_X, only_F)
        return gauge_step(task, chosen, power, counts_now(state) & for_X) if self.gauge and has_gauge(task) else chosen
