"""The messages of AMP, Eqs. (12)-(20) of KMZ13, for any channel, shared by every solver of the family.

An iteration is one pass over the signals: what the channel says of some columns of Y, its message to those columns of X, and their
contribution to the message to F.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp

from ...model.priors import Moments
from ...pair import Pair
from ..execution.machine import Looked, over_blocks, renew, turned
from ..task import Task, centred, output_where
from .means import first_offsets, moved, with_offsets
from .variances import Precision, Squares

# Iterations between two counts of the nonzeros (and so between two gauge steps): scales drift slowly.
COUNT_EVERY = 4


class Rules(NamedTuple):
    """Choices that do not change from iteration to iteration.

    `structure` is one of `variances.STRUCTURES`. The channel's g and precision are divided by a common factor such that the measured square
    of g is at most 1/`floor` times what the precision says it should be (by Nishimori's identity their means are equal), or exactly that
    if `measured` (the paper's choice). For Gaussian noise this raises the variance of y - omega to a share of the measured one. `clip`
    keeps the Onsager gains in [0, 1]. `learns_F` is False where F stays as its prior and F' have it: then it has no echo to be taken off.
    """

    structure: Any
    floor: float
    measured: bool
    clip: bool
    learns_F: bool = True


class State(NamedTuple):
    """Estimates of F and X, the residual message g, and what the last step measured.

    The means of X are to be divided by `scale` (one number for each atom), the variances by its square: the gauge's last word, applied
    when X is next read.
    `level` is the variance of y - omega that was used and `square` the measured one, per signal; `nonzeros` the expected number per atom;
    `age` counts iterations since X was last forgotten. `offset` is what the prior means contribute to Y (`means`).
    """

    F: Moments
    X: Moments
    g: Any
    scale: Any
    level: Any
    square: Any
    nonzeros: Any
    age: Any
    offset: Pair[Any] = Pair(None, None)


class Residual(NamedTuple):
    """What the channel says: g, its precision and the measured square of g as the structure shares them, the part of the variance of z
    that the Onsager term undoes, mean and variance of z without that entry's own message; and, per signal or for all, the variance level
    1/precision and the measured one."""

    g: Any
    precision: Any
    g2: Any
    onsager: Any
    mean: Any
    variance: Any
    level: Any
    square: Any


class Signals(NamedTuple):
    """The arrays that have a column for each signal. X comes first: blocks wait for it."""

    X: Any
    g: Any
    level: Any
    square: Any
    offset: Any
    Y: Any = None
    mask: Any = None
    of_channel: Any = ()  # its parameters that have a column for each signal, by name


class ForMatrix(NamedTuple):
    """What the signals say about F and about each atom's use: sums over signals."""

    precision: Any
    echo: Any
    product: Any
    nonzeros: Any
    power: Any
    push: Any = None  # sums of g and of its precision in each row, where the means' offsets need them
    weight: Any = None


class Matrix(NamedTuple):
    """F less its prior mean, as the passes over the signals need it: over sqrt(N), turned around, and its squares, averaged."""

    mean: Any
    transposed: Any
    squares: Any


class _Beside(NamedTuple):
    """What an entry of X meets when it is renewed: the channel's message, factors of its precision and echo, weights of the sums."""

    towards: Any
    a: tuple[Any, Any]
    echo: tuple[Any, Any]
    precision: Any
    g2: Any
    inverse: Any  # of the pending scale
    centre: Any
    prior: Any


def first_state(task: Task, F: Moments | None = None, X: Moments | None = None) -> State:
    """F as its prior and F' say, X as its prior says, unless others are given; no residual message yet (g = 0)."""
    M, N, P = task.sizes
    dtype = task.Y.dtype
    ones = jnp.ones(P, dtype)
    return State(
        F=task.start if F is None else F,
        X=unknown_signals(task) if X is None else X,
        g=jnp.zeros((M, P), dtype),
        scale=jnp.ones(N, dtype),
        level=ones,
        square=ones,
        nonzeros=jnp.zeros(N, dtype),
        age=jnp.asarray(0),
        offset=first_offsets(task) if task.removes_means else Pair(None, None),
    )


def unknown_signals(task: Task) -> Moments:
    """X as its prior has it."""
    _, N, P = task.sizes
    return Moments(*(jnp.broadcast_to(jnp.asarray(value, task.Y.dtype), (N, P)) for value in task.prior.X.moments()))


def rescaled(state: State) -> State:
    """The same state with the pending scale applied to X."""
    k = state.scale[:, None]
    return state._replace(X=Moments(state.X.mean / k, state.X.variance / k**2), scale=jnp.ones_like(state.scale))


def mix(old: Moments, new: Moments, step_size: Any) -> Moments:
    """Damped means and variances: a share `step_size` of the new ones."""
    return Moments(*(o + step_size * (n - o) for o, n in zip(old, new, strict=True)))


def by_signal(state: State) -> State:
    """Which arrays of a state have the signals as their last axis: the same tree, of truth values."""
    offset = Pair(*(None if value is None else side == "X" for side, value in zip(("F", "X"), state.offset, strict=True)))
    yes, no = Moments(True, True), Moments(False, False)
    return State(F=no, X=yes, g=True, scale=False, level=True, square=True, nonzeros=False, age=False, offset=offset)


def prepare(rules: Rules, task: Task, F: Moments) -> Matrix:
    """What is computed of F once an iteration."""
    F = F._replace(mean=centred(F.mean, task.centre.F))
    return Matrix(F.mean / _root_N(task), turned(F.mean), rules.structure.prepare(F))


def residual(rules: Rules, task: Task, F: Any, squares: Squares, X: Moments, state: State) -> Residual:
    """omega = F X/sqrt(N) - (Onsager variance) g, Eq. (12) of KMZ13, and what the channel says. F is the mean over sqrt(N); prior means
    are off."""
    structure = rules.structure
    spread = structure.spread(squares, X)
    onsager = spread.X + spread.F if rules.learns_F else spread.X
    mean = F @ X.mean - onsager * state.g
    mean = with_offsets(state.offset, mean) if task.removes_means else mean
    variance = sum(spread)
    g, precision = output_where(task.channel, task.Y, mean, variance, task.mask, task.temperature)
    g2, typical = structure.average(task, g**2), structure.average(task, precision)
    least = jnp.finfo(g.dtype).tiny ** 0.25  # kept from zero so that 1/level^2 stays finite
    excess = jnp.maximum(g2 / typical, least) if rules.measured else jnp.maximum(1, rules.floor * g2 / typical)
    down = 1 / excess
    return Residual(
        g=g * down,
        precision=structure.share(task, precision) * down,
        # Where entries differ in how much they tell, their own share of the measured square: noisy rows have uncertain F and small g.
        g2=(structure.share(task, precision) * (g2 / typical) if task.channel.unequal else g2) * down**2,
        onsager=onsager,
        mean=mean,
        variance=variance + task.temperature + (excess - 1) / typical,
        level=excess / typical,
        square=g2 / typical**2,
    )


def inputs(rules: Rules, task: Task, state: State) -> Moments:
    """Mean and variance of every z as the channel is told them, before it looks at y. `state` must have its scale applied."""
    matrix = prepare(rules, task, state.F)
    out = residual(rules, task, matrix.mean, matrix.squares, state.X._replace(mean=centred(state.X.mean, task.centre.X)), state)
    return Moments(out.mean, jnp.broadcast_to(out.variance, task.Y.shape))


def _root_N(task: Task) -> Any:
    return jnp.asarray(task.sizes[1] ** 0.5, task.Y.dtype)


def _kept(rules: Rules, precision: Any, echo: Any) -> Any:
    """The weight of the old estimate in a message, Eqs. (15) and (16): its precision less its own echo."""
    return jnp.clip(precision - echo, 0, precision) if rules.clip else precision - echo


def _message(rules: Rules, a: Any, echo: Any, old: Any, product: Any, centre: Any) -> tuple[Any, Any]:
    """(a, b) from the product F^T g/sqrt(N) (or g X^T) and the old mean less the prior's `centre`."""
    b = product + _kept(rules, a, echo) * old
    return a, b if centre is None else b + a * centre


def message_to_signals(rules: Rules, task: Task, F: Matrix, X: Any, out: Residual) -> tuple[Any, Any]:
    """(a, b) for every entry of X: a = 1/Sigma_R^2 and b = R/Sigma_R^2, Eqs. (13) and (15) of KMZ13. X is the mean, less the prior's."""
    (left, right), echo = rules.structure.to_signals(task, F.squares, out.precision, out.g2)
    return _message(rules, left * right, echo[0] * echo[1] if rules.learns_F else 0, X, F.transposed @ out.g / _root_N(task), task.centre.X)


def message_to_matrix(rules: Rules, task: Task, F: Any, sums: ForMatrix) -> tuple[Any, Any]:
    """(a, b) for every entry of F: a = 1/Sigma_S^2 and b = S/Sigma_S^2, Eqs. (14) and (16) of KMZ13. F is the mean alone."""
    return _message(rules, sums.precision, sums.echo, centred(F, task.centre.F), sums.product / _root_N(task), task.centre.F)


def one_pass(rules: Rules, task: Task, F: Matrix, state: State, step_size: Any, count: Any) -> tuple[Signals, ForMatrix]:
    """The signals in `task` and `state` with new (damped) X and g, and what they say about F.

    X is read as it is stored; its pending scale k goes into the small arrays that it meets, so that no rescaled copy of X is made.
    """
    structure, raw, P = rules.structure, state.X, task.sizes[2]
    k = state.scale if structure.local else jnp.ones_like(state.scale)  # applied already where the sums do not know the atoms
    squares = Squares(*(value / k**2 for value in F.squares)) if structure.local else F.squares
    shift = None if task.centre.X is None else (k * task.centre.X)[:, None]
    off = raw._replace(mean=centred(raw.mean, shift))
    out = residual(rules, task, F.mean / k, squares, off, state)
    product = out.g @ off.mean.T / k if rules.learns_F and not task.knowledge.fixed else None
    products = structure.products(task, off, out.precision, out.g2)
    a, echo = structure.to_signals(task, F.squares, out.precision, out.g2)
    beside = _Beside(
        towards=F.transposed @ out.g,
        a=a,
        echo=echo,
        precision=_row(out.precision) if products is None else None,
        g2=_row(out.g2) if products is None else None,
        inverse=(1 / k)[:, None],
        centre=task.centre.X,
        prior=task.prior.X,
    )
    over_root = task.sizes[1] ** -0.5

    def look(old: Any, at: _Beside) -> Looked:
        """Eqs. (13), (15), (17) and (18) for some entries; and what their old values add to Eqs. (14) and (16)."""
        before = Moments(old[0] * at.inverse, old[1] * at.inverse**2)
        precision, echo = at.a[0] * at.a[1], at.echo[0] * at.echo[1] if rules.learns_F else 0
        message = _message(rules, precision, echo, centred(before.mean, at.centre), at.towards * over_root, at.centre)
        posterior, against = at.prior.posterior_and_odds(*message)
        shifted = old[0] if at.centre is None else old[0] - at.centre / at.inverse
        terms = structure.terms(Moments(shifted, old[1]), at.precision, at.g2)
        return Looked(partial(mix, before, posterior), terms, lambda: ((1 / (1 + against), 1), (old[0] ** 2 + old[1], 1)))

    first = [] if product is None else [product]
    first += [] if products is None else list(products)
    new, always, (nonzeros, power) = renew(
        look, raw, beside, step_size, now=count, first=first, kernel=structure.separable and task.prior.X.elementary
    )
    said = structure.to_matrix(task, [total / k**2 for total in always]) if products is None else products
    said = said if products is None else Precision(*(value / k**2 for value in said))
    sums = ForMatrix(said.precision, said.echo, product, nonzeros, power / k**2)
    v = state.offset.X
    if task.removes_means:
        certain = task.seen(jnp.broadcast_to(out.precision, task.Y.shape))
        sums = sums._replace(push=jnp.sum(out.g, axis=1, keepdims=True), weight=jnp.sum(certain, axis=1, keepdims=True))
        v = moved(v, jnp.sum(out.g, axis=0), jnp.sum(certain, axis=0), step_size)
    return Signals(Moments(*new), out.g, jnp.broadcast_to(out.level, (P,)), jnp.broadcast_to(out.square, (P,)), v), sums


def _row(values: Any) -> Any:
    return values[None] if jnp.ndim(values) == 1 else values


def counts_now(state: State) -> Any:
    """Whether this iteration counts the nonzeros of each atom, which costs another look at X and is needed now and then only."""
    return state.age % COUNT_EVERY == 0


def update(rules: Rules, task: Task, state: State, step_size: Any) -> tuple[State, Any]:
    """One damped iteration, Eqs. (12)-(20) of KMZ13, all from the old estimates; and the old power of each row of X, for the gauge."""
    if not rules.structure.local:
        state = rescaled(state)
    matrix = prepare(rules, task, state.F)
    step_X = jnp.where(state.age == 0, 1, step_size)  # the first estimate of X replaces nothing, so it is taken whole
    rows = None if task.mask is None else task.seen_by_row

    def over(block: Signals, squares: Squares) -> tuple[Signals, ForMatrix]:
        channel = task.channel.replace(**block.of_channel) if block.of_channel else task.channel
        part = task._replace(Y=block.Y, mask=block.mask, rows=rows, channel=channel)
        here = state._replace(X=block.X, g=block.g, offset=state.offset._replace(X=block.offset))
        return one_pass(rules, part, matrix._replace(squares=squares), here, step_X, counts_now(state))

    everything = Signals(state.X, state.g, state.level, state.square, state.offset.X, task.Y, task.mask, task.channel.by_signal())
    new, sums = over_blocks(over, everything, matrix.squares, rules.structure.local and not task.channel.by_rows)
    offset = state.offset._replace(X=new.offset)
    state = state._replace(X=new.X, g=new.g, level=new.level, square=new.square, offset=offset)
    return after_pass(rules, task, state, sums, step_size), sums.power


def after_pass(rules: Rules, task: Task, state: State, sums: ForMatrix, step_size: Any) -> State:
    """The state after all signals have been passed over: the new F, and what is kept of each atom."""
    F = state.F
    if sums.product is not None:
        F = mix(F, task.matrix_posterior(*message_to_matrix(rules, task, F.mean, sums)), step_size)
    nonzeros = jnp.where(counts_now(state), sums.nonzeros, state.nonzeros)
    offset = state.offset
    if task.removes_means:
        offset = offset._replace(F=moved(offset.F, sums.push, sums.weight, step_size))
    return state._replace(F=F, nonzeros=nonzeros, scale=jnp.ones_like(state.scale), age=state.age + 1, offset=offset)
