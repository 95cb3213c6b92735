"""How the variance of y - omega is shared among entries, and what follows for the messages' precisions.

With z = F X/sqrt(N), means and variances s (of F) and c (of X), exact sums over an index cost a matrix product each. Sharing the variance
among the entries of a column of Y turns them into products with a vector, and still knows each signal's and each atom's own size. A
structure offers

`prepare`    what is needed of F, computed once an iteration
`average`    mean over the observed entries that share a variance
`spread`     the parts of Var[z]: from X (mean^2 c), from F (s mean^2), and from both (s c)
`to_signals` precision of the message to X, and the part of it that is the echo of X in F, sum of s g^2
`to_matrix`  the same for F, and the power of each row of X, which is summed along with it; additive over signals

where `g2` is the measured square of g = (y - omega)/V and `inverse` is 1/V. `local` says whether a signal's variance depends on that
signal alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...model.priors.base import Moments
from .data import Data


def over_atoms(*terms: tuple[Sequence[Any], Any]) -> list[Any]:
    """Sums over atoms (rows) of arrays, one for each vector of weights. A term is (vectors of weights, array)."""
    on_cpu = jax.default_backend() == "cpu"

    def sums(weights: Sequence[Any], values: Any) -> list[Any]:
        if len(weights) > 1:  # a product reads the array once, for all its weights
            return list(jnp.stack(weights) @ values)
        weighted = weights[0][:, None] * values
        return [jnp.ones_like(weights[0]) @ weighted if on_cpu else jnp.sum(weighted, axis=0)]

    return [total for weights, values in terms for total in sums(weights, values)]


def over_signals(*terms: tuple[Any, Any]) -> list[Any]:
    """Weighted sums over signals (columns). A term is (array, weights)."""
    if jax.default_backend() == "cpu":
        return [values @ weights for values, weights in terms]
    # One reduction for all: accelerators then read every array once.
    weighted = [values * weights for values, weights in terms]
    zeros = [jnp.zeros((), values.dtype) for values in weighted]
    return list(jax.lax.reduce(weighted, zeros, lambda left, right: [x + y for x, y in zip(left, right, strict=True)], (1,)))


def power(X: Moments) -> Any:
    """The sum of mean squares and variances of each row of X."""
    ones = jnp.ones(X.mean.shape[1], X.mean.dtype)
    return sum(over_signals((X.mean**2, ones), (X.variance, ones)))


class Spread(NamedTuple):
    """The parts of the variance of z: from the uncertainty of X, of F, and of both together."""

    X: Any
    F: Any
    both: Any


class ToMatrix(NamedTuple):
    """Precision of the message to F, the part of it that is its own echo, and the sum of mean squares and variances of each row of X."""

    precision: Any
    echo: Any
    power: Any


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

    local = False

    @staticmethod
    def prepare(F: Moments) -> Squares:
        return Squares(jnp.mean(F.mean**2), jnp.mean(F.variance))

    @staticmethod
    def average(data: Data, values: Any) -> Any:
        return jnp.mean(values) / jnp.mean(data.seen_by_signal)

    @staticmethod
    def spread(F: Squares, X: Moments) -> Spread:
        c, x2 = jnp.mean(X.variance), jnp.mean(X.mean**2)
        return Spread(F.mean2 * c, F.variance * x2, F.variance * c)

    @staticmethod
    def to_signals(data: Data, F: Squares, inverse: Any, g2: Any) -> Precision:
        M, N, _ = data.sizes
        rate = M / N * jnp.mean(data.seen_by_signal)
        return Precision(rate * F.mean2 * inverse, rate * F.variance * g2)

    @staticmethod
    def to_matrix(data: Data, X: Moments, inverse: Any, g2: Any) -> ToMatrix:
        _, N, P = data.sizes
        rate = P / N * jnp.mean(data.seen_by_signal)
        return ToMatrix(rate * jnp.mean(X.mean**2) * inverse, rate * jnp.mean(X.variance) * g2, power(X))


class RowColumn:
    """A variance for each signal, and precisions that know each atom: the sums are products with a vector."""

    local = True

    @staticmethod
    def prepare(F: Moments) -> Squares:
        return Squares(jnp.mean(F.mean**2, axis=0), jnp.mean(F.variance, axis=0))

    @staticmethod
    def average(data: Data, values: Any) -> Any:
        return jnp.mean(values, axis=0) / data.seen_by_signal

    @staticmethod
    def spread(F: Squares, X: Moments) -> Spread:
        N = X.mean.shape[0]
        from_X, from_both, from_F = over_atoms(((F.mean2 / N, F.variance / N), X.variance), ((F.variance / N,), X.mean**2))
        return Spread(from_X, from_F, from_both)

    @staticmethod
    def to_signals(data: Data, F: Squares, inverse: Any, g2: Any) -> Precision:
        M, N, _ = data.sizes
        rate = M / N * data.seen_by_signal
        return Precision(F.mean2[..., None] * (rate * inverse), F.variance[..., None] * (rate * g2))

    @staticmethod
    def to_matrix(data: Data, X: Moments, inverse: Any, g2: Any) -> ToMatrix:
        return RowColumn.of_sums(data, over_signals(*RowColumn.terms(X, inverse, g2)))

    @staticmethod
    def terms(X: Moments, inverse: Any, g2: Any) -> tuple[tuple[Any, Any], ...]:
        """What is to be summed over signals for the message to F: arrays and weights."""
        square, ones = X.mean**2, jnp.ones_like(inverse)
        return (square, inverse), (X.variance, g2), (square + X.variance, ones)

    @staticmethod
    def of_sums(data: Data, sums: Sequence[Any]) -> ToMatrix:
        """The message to F from those sums."""
        precision, echo, power = sums
        share = data.seen_by_row / data.sizes[1]
        return ToMatrix(precision * share, echo * share, power)


class Entry:
    """A variance for each entry of Y: exact sums, six more matrix products an iteration."""

    local = True

    @staticmethod
    def prepare(F: Moments) -> Squares:
        return Squares(F.mean**2, F.variance)

    @staticmethod
    def average(data: Data, values: Any) -> Any:
        return jnp.broadcast_to(RowColumn.average(data, values), data.Y.shape)

    @staticmethod
    def spread(F: Squares, X: Moments) -> Spread:
        N = X.mean.shape[0]
        return Spread(F.mean2 @ X.variance / N, F.variance @ X.mean**2 / N, F.variance @ X.variance / N)

    @staticmethod
    def to_signals(data: Data, F: Squares, inverse: Any, g2: Any) -> Precision:
        N = F.mean2.shape[1]
        return Precision(F.mean2.T @ _seen(data, inverse) / N, F.variance.T @ _seen(data, g2) / N)

    @staticmethod
    def to_matrix(data: Data, X: Moments, inverse: Any, g2: Any) -> ToMatrix:
        N = X.mean.shape[0]
        return ToMatrix(_seen(data, inverse) @ (X.mean**2).T / N, _seen(data, g2) @ X.variance.T / N, power(X))


def _seen(data: Data, values: Any) -> Any:
    return values if data.mask is None else values * data.mask


STRUCTURES: dict[str, Any] = {"scalar": Scalar, "row-column": RowColumn, "entry": Entry}
