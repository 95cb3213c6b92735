"""The Bethe free entropy of a state of message passing, for any channel."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ...model.priors import Moments
from ..execution.machine import over_signals
from ..task import Task, centred
from .update import ForMatrix, Rules, State, message_to_matrix, message_to_signals, prepare, residual

# The replica potential of KMZ13 leaves log sqrt(2 pi) out for each measurement.
_LEFT_OUT = float(np.log(2 * np.pi) / 2)


def divergence(prior: Any, a: Any, b: Any, posterior: Moments) -> Any:
    """Kullback-Leibler divergence of each entry's posterior under the message (a, b) from its prior."""
    return b * posterior.mean - a * (posterior.variance + posterior.mean**2) / 2 - prior.log_partition(a, b)


def free_entropy(rules: Rules, task: Task, state: State) -> Any:
    """Bethe free entropy log Z/(N P) of the current estimates, in the convention of the replica potential.

    What the channel says of every measurement, and the divergences of the posteriors from the priors; no truth is needed. Signals whose
    residual is above what the model says count with the residual's own variance. `state` must have its scale applied.
    """
    _, N, P = task.sizes
    F, X = state.F, state.X
    matrix = prepare(rules, task, F)
    off = X._replace(mean=centred(X.mean, task.centre.X))
    out = residual(rules, task, matrix.mean, matrix.squares, off, state)
    said = task.channel.log_densities(task.Y, out.mean, out.variance, task.mask)
    energy = -jnp.sum(said + task.seen(_LEFT_OUT + out.onsager * out.g**2 / 2))
    a, b = message_to_signals(rules, task, matrix, off.mean, out)
    cost = jnp.sum(divergence(task.prior.X, a, b, task.prior.X.posterior(a, b)))
    if rules.learns_F and not task.knowledge.fixed:
        structure = rules.structure
        said = structure.products(task, off, out.precision, out.g2)
        if said is None:
            terms = structure.terms(off, *(jnp.broadcast_to(value, (P,)) for value in (out.precision, out.g2)))
            said = structure.to_matrix(task, over_signals(*terms))
        a, b = message_to_matrix(rules, task, F.mean, ForMatrix(said.precision, said.echo, out.g @ off.mean.T, None, None))
        posterior = task.matrix_posterior(a, b)
        # Relative to what F' says: the divergence between two posteriors under nested messages.
        here = b * posterior.mean - a * (posterior.variance + posterior.mean**2) / 2
        cost += jnp.sum(here - task.knowledge.log_partition(task.prior.F, task.given, a, b))
    return -(energy + cost) / (N * P)
