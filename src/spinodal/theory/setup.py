"""What the theory needs of a problem, as one pytree that can be stacked: many problems are evaluated in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..errors import InputError, check
from ..model.channels import Channel
from ..model.channels.averages import ChannelAverages
from ..model.knowledge import Classes
from ..model.model import Problem
from ..model.priors.base import Prior, Support
from ..model.quadrature import evaluate
from ..pair import Pair

# Ratios and variances that the equations are computed for: beyond, their products leave the range of floating-point numbers.
LEAST, MOST = 1e-50, 1e50


class Setup(NamedTuple):
    """A problem as the equations see it. `table` holds the channel's averages (None where they have a closed form), `classes` how well
    entries of F are known beforehand, `power` and `mean` the variances and means of F and X.

    Variances, where KMZ13 has second moments (its F is centred): the part of Y that the prior means make is common to all signals of a row,
    or all measurements of a signal, so it tells M + P numbers and nothing about single entries. What is left is the problem with centred
    priors, and a prior's mmse does not change when it is shifted.
    """

    alpha: Any
    pi: Any
    observed: Any
    channel: Channel
    table: Any
    classes: Classes
    prior: Pair[Prior]
    support: Pair[Support]
    power: Pair[Any]
    mean: Pair[Any]


def setup(problem: Problem) -> Setup:
    """Translate one problem."""
    if (fault := problem.channel.fault_in_theory()) is not None:
        raise InputError(fault)
    with jax.enable_x64(True):
        mean, power = (Pair(*map(float, values)) for values in zip(*(prior.moments() for prior in problem.prior), strict=True))
    if not all(LEAST <= variance <= MOST for variance in power):
        raise InputError(f"prior must have variances in [{LEAST:g}, {MOST:g}], but those of F and X are {power.F:g} and {power.X:g}.")
    for name in ("alpha", "pi", "observed_fraction"):
        check(name, float(getattr(problem, name)), LEAST, MOST)
    return Setup(
        alpha=float(problem.alpha),
        pi=float(problem.pi),
        observed=float(problem.observed_fraction),
        channel=problem.channel.for_theory(),
        table=problem.channel.table(power.F * power.X),
        classes=Classes(*(np.asarray(values, dtype=float) for values in problem.knowledge.classes())),
        prior=problem.prior,
        support=Pair(*(prior.support() for prior in problem.prior)),
        power=power,
        mean=mean,
    )


def channel_averages(s: Setup, V: Any) -> ChannelAverages:
    """The channel's averages where V of the variance of z is not explained yet."""
    return s.channel.averages_at(V, s.power.F * s.power.X, s.table)


def is_known(classes: Classes) -> Any:
    """Whether every entry of F is known exactly; for NumPy and JAX alike."""
    return ((classes.snr == np.inf) | (classes.share == 0)).all(axis=-1)


def is_unknown(classes: Classes) -> Any:
    """Whether nothing is known of any entry of F; for NumPy and JAX alike."""
    return ((classes.snr == 0) | (classes.share == 0)).all(axis=-1)


def stack(setups: Sequence[Setup]) -> Setup:
    """Many problems with priors, channels and knowledge of the same kinds as one Setup whose leaves have a leading axis."""
    most = Pair(*(max(np.size(getattr(s.support, side).landmarks) for s in setups) for side in ("F", "X")))
    classes = max(s.classes.snr.size for s in setups)
    padded = [s._replace(support=Pair(*map(_pad, s.support, most)), classes=_pad_classes(s.classes, classes)) for s in setups]
    structures = {jax.tree.structure(s) for s in padded}
    if len(structures) != 1:
        raise InputError("problems evaluated together must have priors and channels of the same kinds, but several kinds were given.")
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf, dtype=float) for leaf in leaves]), *padded)


def _pad(support: Support, length: int) -> Support:
    marks = np.atleast_1d(support.landmarks)
    return Support(np.pad(marks, (0, length - marks.size), mode="edge"), support.span)


def _pad_classes(classes: Classes, length: int) -> Classes:
    """More classes, which no entry belongs to."""
    more = length - classes.snr.size
    return Classes(np.pad(classes.snr, (0, more), mode="edge"), np.pad(classes.share, (0, more)))


def _noise_at_ratio(s: Setup, ratio: Any) -> Any:
    return s.channel.noise_at_ratio(ratio, s.power.F * s.power.X, s.table)


class Batch:
    """Problems side by side, and functions of (problem, point) evaluated over them."""

    def __init__(self, problems: Sequence[Problem], *, stacked: Setup | None = None):
        self.setup = stack([setup(problem) for problem in problems]) if stacked is None else stacked
        self.size = int(np.shape(self.setup.alpha)[0])

    @property
    def noiseless(self) -> np.ndarray:
        """Whether y is z itself, for each problem."""
        return np.broadcast_to(self.setup.channel.noiseless, (self.size,))

    def noise_at_ratio(self, ratio: float) -> np.ndarray:
        """The equivalent noise of each problem where the explained part of z is `ratio` times V: 0 at the start, inf once all is known."""
        s = self.setup
        if s.table is None:
            noise = s.channel.noise_at_ratio(ratio, s.power.F * s.power.X, None)
        else:
            noise = self(_noise_at_ratio, np.arange(self.size), np.full(self.size, ratio))
        return np.broadcast_to(noise, (self.size,))

    def at(self, rows: np.ndarray, pi: np.ndarray) -> Batch:
        """Some of the problems (repeats allowed), each at a pi of its own."""
        return Batch([], stacked=jax.tree.map(lambda leaf: leaf[rows], self.setup)._replace(pi=pi))

    def with_classes(self, classes: Classes) -> Batch:
        """The same problems with other knowledge of F."""
        return Batch([], stacked=self.setup._replace(classes=classes))

    def each(self, function: Callable[..., Any]) -> Any:
        """function(setup) of every problem."""
        return evaluate(function, self.setup, np.arange(self.size))

    def __call__(self, function: Callable[..., Any], index: np.ndarray, *points: np.ndarray) -> Any:
        """function(setup of problem index[k], points[0][k], ...) for every k, flat."""
        return evaluate(function, self.setup, index, *points)

    def table(self, function: Callable[..., Any], points: np.ndarray) -> Any:
        """function at each row's points: points is (problems, n), and so is each output."""
        rows, columns = points.shape
        flat = self(function, np.repeat(np.arange(rows), columns), points.ravel())
        return jax.tree.map(lambda leaf: leaf.reshape(rows, columns), flat)
