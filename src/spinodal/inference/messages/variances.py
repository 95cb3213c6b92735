"""How the variance of y - omega is shared among entries, and what follows for the messages' precisions.

With z = F X/sqrt(N), means and variances s (of F) and c (of X), exact sums over an index cost a matrix product each. Sharing the variance
among the entries of a column of Y turns them into products with a vector, and still knows each signal's and each atom's own size. A
structure offers

`prepare`    what is needed of F, computed once an iteration
`average`    mean over the observed entries of a signal (or of all)
`share`      the channel's precisions, averaged over the entries that share one
`spread`     the parts of Var[z]: from X (mean^2 c), from F (s mean^2), and from both (s c)
`to_signals` precision of the message to X, and the part of it that is the echo of X in F, sum of s g^2, each as two factors to multiply
`terms`      what is to be summed over signals for the message to F: arrays and weights
`products`   the same where the sums are matrix products, else None
`to_matrix`  precision and echo of the message to F from those sums

where `g2` is the measured square of g and `precision` the channel's, both averaged. `local` says whether a signal's variance depends on
that signal alone, `separable` whether precisions have a factor for each atom and one for each signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.priors import Moments
from ..execution.machine import over_atoms
from ..task import Task


class Spread(NamedTuple):
    """The parts of the variance of z: from the uncertainty of X, of F, and of both together."""

    X: Any
    F: Any
    both: Any


class Precision(NamedTuple):
    """Precision of a message, and the part of it that is the estimate's own echo."""

    precision: Any
    echo: Any


class Squares(NamedTuple):
    """Mean squares and variances of F, averaged as the structure wants them."""

    mean2: Any
    variance: Any


class Scalar:
    """One variance for all: the paper's choice."""

    local = separable = False

    @staticmethod
    def prepare(F: Moments) -> Squares:
        return Squares(jnp.mean(F.mean**2), jnp.mean(F.variance))

    @staticmethod
    def average(task: Task, values: Any) -> Any:
        return values if jnp.ndim(values) == 0 else jnp.mean(values) / jnp.mean(task.seen_by_signal)

    share = average

    @staticmethod
    def spread(F: Squares, X: Moments) -> Spread:
        c, x2 = jnp.mean(X.variance), jnp.mean(X.mean**2)
        return Spread(F.mean2 * c, F.variance * x2, F.variance * c)

    @staticmethod
    def to_signals(task: Task, F: Squares, precision: Any, g2: Any) -> Precision:
        M, N, _ = task.sizes
        rate = M / N * jnp.mean(task.seen_by_signal)
        return Precision((F.mean2, rate * precision), (F.variance, rate * g2))

    @staticmethod
    def terms(X: Moments, precision: Any, g2: Any) -> tuple[tuple[Any, Any], ...]:
        return (X.mean**2, precision), (X.variance, g2)

    @staticmethod
    def products(task: Task, X: Moments, precision: Any, g2: Any) -> None:
        return None

    @staticmethod
    def to_matrix(task: Task, sums: Sequence[Any]) -> Precision:
        _, N, _ = task.sizes
        return Precision(*(jnp.mean(total) / N * jnp.mean(task.seen_by_signal) for total in sums))


class RowColumn:
    """A variance for each signal, and precisions that know each atom: the sums are products with a vector."""

    local = separable = True

    @staticmethod
    def prepare(F: Moments) -> Squares:
        return Squares(jnp.mean(F.mean**2, axis=0), jnp.mean(F.variance, axis=0))

    @staticmethod
    def average(task: Task, values: Any) -> Any:
        return values if jnp.ndim(values) < 2 else jnp.mean(values, axis=0) / task.seen_by_signal

    share = average

    @staticmethod
    def spread(F: Squares, X: Moments) -> Spread:
        N = X.mean.shape[0]
        from_X, from_both, from_F = over_atoms(((F.mean2 / N, F.variance / N), X.variance), ((F.variance / N,), X.mean**2))
        return Spread(from_X, from_F, from_both)

    @staticmethod
    def to_signals(task: Task, F: Squares, precision: Any, g2: Any) -> Precision:
        M, N, _ = task.sizes
        rate = M / N * task.seen_by_signal
        return Precision((F.mean2[:, None], (rate * precision)[None]), (F.variance[:, None], (rate * g2)[None]))

    @staticmethod
    def terms(X: Moments, precision: Any, g2: Any) -> tuple[tuple[Any, Any], ...]:
        return (X.mean**2, precision), (X.variance, g2)

    products = Scalar.products

    @staticmethod
    def to_matrix(task: Task, sums: Sequence[Any]) -> Precision:
        share = task.seen_by_row / task.sizes[1]
        return Precision(*(total * share for total in sums))


class Entry:
    """A variance for each entry of Y: exact sums, six more matrix products an iteration."""

    local, separable = True, False

    @staticmethod
    def prepare(F: Moments) -> Squares:
        return Squares(F.mean**2, F.variance)

    average = RowColumn.average

    @staticmethod
    def share(task: Task, values: Any) -> Any:
        return jnp.broadcast_to(values, task.Y.shape)

    @staticmethod
    def spread(F: Squares, X: Moments) -> Spread:
        N = X.mean.shape[0]
        return Spread(F.mean2 @ X.variance / N, F.variance @ X.mean**2 / N, F.variance @ X.variance / N)

    @staticmethod
    def to_signals(task: Task, F: Squares, precision: Any, g2: Any) -> Precision:
        N = F.mean2.shape[1]
        return Precision(
            (F.mean2.T @ task.seen(precision) / N, 1.0), (F.variance.T @ task.seen(jnp.broadcast_to(g2, task.Y.shape)) / N, 1.0)
        )

    @staticmethod
    def terms(X: Moments, precision: Any, g2: Any) -> tuple[tuple[Any, Any], ...]:
        return ()

    @staticmethod
    def products(task: Task, X: Moments, precision: Any, g2: Any) -> Precision:
        N = X.mean.shape[0]
        return Precision(task.seen(precision) @ (X.mean**2).T / N, task.seen(jnp.broadcast_to(g2, task.Y.shape)) @ X.variance.T / N)

    to_matrix = RowColumn.to_matrix  # never reached: there are products


STRUCTURES: dict[str, Any] = {"scalar": Scalar, "row-column": RowColumn, "entry": Entry}
