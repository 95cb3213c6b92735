"""The messages of AMP, Eqs. (12)-(20) of KMZ13, shared by every solver of the family.

An iteration is one pass over the signals: residuals of some columns of Y, their message to those columns of X, and their contribution to
the message to F.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...model.priors.base import Moments
from ..execution.blocks import after, blocks, over_blocks
from ..execution.kernels import can_sweep, is_large, only_if, sweep
from .data import Data
from .means import centred, moved, without_offsets
from .state import State, mix, rescaled
from .variances import RowColumn, Squares, ToMatrix, over_signals, power

# Iterations between two counts of the nonzeros (and so between two gauge steps): scales drift slowly.
_COUNT_EVERY = 4


class Rules(NamedTuple):
    """Choices that do not change from iteration to iteration.

    `structure` is one of `variances.STRUCTURES`; the variance of y - omega is the modelled one, raised to at least `floor` times the
    measured one, or the measured one alone if `measured` (the paper's choice); `clip` keeps the Onsager gains in [0, 1].
    """

    structure: Any
    floor: float
    measured: bool
    clip: bool


class Learns(NamedTuple):
    """Which factors the data are telling something. A factor that is not learned has no echo to be taken off."""

    F: bool
    X: bool


BOTH = Learns(F=True, X=True)


class Residual(NamedTuple):
    """g = (y - omega)/V with V shared as the structure says, and the squares it was made of."""

    g: Any
    level: Any
    square: Any
    onsager: Any

    @property
    def weights(self) -> tuple[Any, Any]:
        """1/V, and the measured square of g."""
        return 1 / self.level, self.square / self.level**2


class Signals(NamedTuple):
    """The arrays that have a column for each signal."""

    Y: Any
    mask: Any
    X: Any
    g: Any
    level: Any
    square: Any
    offset: Any


class ForMatrix(NamedTuple):
    """What the signals say about F and about each atom's use: sums over signals."""

    precision: Any
    echo: Any
    product: Any
    nonzeros: Any
    power: Any
    push: Any = None  # sums of g and of 1/V in each row, where the means' offsets need them
    weight: Any = None


class Matrix(NamedTuple):
    """F less its prior mean, as the passes over the signals need it: over sqrt(N), turned around, and its squares, averaged."""

    mean: Any
    transposed: Any
    squares: Any


def prepare(rules: Rules, data: Data, F: Moments) -> Matrix:
    """What is computed of F once an iteration. The transpose is made here: products with it are faster than with F turned around."""
    F = F._replace(mean=centred(F.mean, data.centre.F))
    transposed = F.mean.T
    if jax.default_backend() == "cpu":
        transposed = jax.lax.optimization_barrier(transposed)  # lest the compiler turns F around in the product after all
    return Matrix(F.mean / _root_N(data), transposed, rules.structure.prepare(F))


def residual(rules: Rules, data: Data, F: Any, squares: Any, X: Moments, state: State, learns: Learns) -> Residual:
    """omega = F X/sqrt(N) - (Onsager variance) g, Eq. (12) of KMZ13, and the new g. F is the mean over sqrt(N); prior means are off."""
    spread = rules.structure.spread(squares, X)
    onsager = spread.X * learns.X + spread.F * learns.F
    error = without_offsets(state.offset, data.Y) - F @ X.mean + onsager * state.g
    if data.mask is not None:
        error = error * data.mask
    square = rules.structure.average(data, error**2)
    if rules.measured:
        level = jnp.maximum(square, jnp.finfo(error.dtype).tiny ** 0.25)  # kept from zero so that 1/level^2 stays finite
    else:
        level = jnp.maximum(state.noise + sum(spread), rules.floor * square)
    return Residual(error * (1 / level), level, square, onsager)


def _root_N(data: Data) -> Any:
    return jnp.asarray(data.sizes[1] ** 0.5, data.Y.dtype)


def _kept(rules: Rules, precision: Any, echo: Any) -> Any:
    """The weight of the old estimate in a message, Eqs. (15) and (16): its precision less its own echo."""
    return jnp.clip(precision - echo, 0, precision) if rules.clip else precision - echo


def message_to_signals(rules: Rules, data: Data, F: Matrix, X: Any, out: Residual, learns: Learns) -> tuple[Any, Any]:
    """(a, b) for every entry of X: a = 1/Sigma_R^2 and b = R/Sigma_R^2, Eqs. (13) and (15) of KMZ13. X is the mean, less the prior's."""
    return _with_old_signals(rules, data, F.squares, X, out.weights, learns, F.transposed @ out.g)


def _with_old_signals(rules: Rules, data: Data, squares: Any, X: Any, weights: Any, learns: Learns, product: Any) -> tuple[Any, Any]:
    """The message of which the matrix product is known."""
    a, echo = rules.structure.to_signals(data, squares, *weights)
    b = product * (1 / _root_N(data)) + _kept(rules, a, echo if learns.F else 0) * X
    return a, b if data.centre.X is None else b + a * data.centre.X


def message_to_matrix(rules: Rules, data: Data, F: Any, sums: ForMatrix, learns: Learns) -> tuple[Any, Any]:
    """(a, b) for every entry of F: a = 1/Sigma_S^2 and b = S/Sigma_S^2, Eqs. (14) and (16) of KMZ13. F is the mean alone."""
    a = sums.precision
    b = sums.product / _root_N(data) + _kept(rules, a, sums.echo if learns.X else 0) * centred(F, data.centre.F)
    return a, b if data.centre.F is None else b + a * data.centre.F


def one_pass(rules: Rules, data: Data, F: Matrix, state: State, learns: Learns, step_size: Any, count: Any) -> tuple[Signals, ForMatrix]:
    """The signals in `data` and `state` with new (damped) X and g, and what they say about F.

    X is read as it is stored; its pending scale k goes into the small arrays that it meets, so that no rescaled copy of X is made.
    """
    raw = state.X
    k = state.scale if rules.structure.local else jnp.ones((), data.Y.dtype)  # applied already where the sums do not know the atoms
    squares = type(F.squares)(*(value / k**2 for value in F.squares))
    off = raw if data.centre.X is None else raw._replace(mean=raw.mean - (k * data.centre.X)[..., None])
    out = residual(rules, data, F.mean / k, squares, off, state, learns)
    product = out.g @ off.mean.T if learns.F and data.known is None else None

    def to_matrix() -> ToMatrix:
        said = ToMatrix(*(value / k**2 for value in rules.structure.to_matrix(data, off, *out.weights)))
        return said if off is raw else said._replace(power=power(raw) / k**2)

    new, nonzeros = raw, jnp.zeros_like(state.nonzeros)
    if not learns.X:
        said = to_matrix()
    else:
        towards_X = F.transposed @ out.g
        inverse = (1 / k)[..., None]

        def message(raw: Moments, towards_X: Any) -> tuple[Any, Any]:
            return _with_old_signals(rules, data, F.squares, centred(raw.mean * inverse, data.centre.X), out.weights, learns, towards_X)

        def tally(raw: Moments, towards_X: Any) -> Any:
            return expected_nonzeros(data, *message(raw, towards_X))

        def damped(raw: Moments, posterior: Moments, step_size: Any) -> Moments:
            return mix(Moments(raw.mean * inverse, raw.variance * inverse**2), posterior, step_size)

        if jax.default_backend() == "cpu":
            prior, against = data.prior.X, None
            if hasattr(prior, "posterior_and_odds"):
                posterior, against = prior.posterior_and_odds(*message(raw, towards_X))
            else:
                posterior = prior.posterior(*message(raw, towards_X))

            def counted() -> Any:
                """Where the odds are known, no second exponential."""
                return tally(raw, towards_X) if against is None else _by_atom(data, 1 / (1 + against))

            nonzeros, use = jax.lax.cond(count, lambda: (counted(), power(raw) / k**2), lambda: (nonzeros, nonzeros))
            said = to_matrix()._replace(power=use)  # asked for by the gauge alone, when the nonzeros are counted
            # All else that reads the old X comes first, so that the new one can take its place without a copy.
            new = damped(raw, posterior, after(step_size, *said, *([] if product is None else [product])))
        elif _sweeps(rules, data):
            # All else that reads the old X comes first, so that the new one can take its place without a copy.
            raw, towards_X, out, product = jax.lax.optimization_barrier((raw, towards_X, out, product))
            new, said, nonzeros = _sweep(rules, data, F.squares, raw, k, out, learns, step_size, towards_X)
        else:
            said = to_matrix()
            nonzeros = only_if(count, lambda _: tally(raw, towards_X), nonzeros) if is_large(raw.mean) else tally(raw, towards_X)
            raw, towards_X, out, said, product, nonzeros = jax.lax.optimization_barrier((raw, towards_X, out, said, product, nonzeros))
            new = damped(raw, data.prior.X.posterior(*message(raw, towards_X)), step_size)
    sums = ForMatrix(said.precision, said.echo, None if product is None else product / k, nonzeros, said.power)
    if state.offset.F is not None:
        sums = sums._replace(push=jnp.sum(out.g, axis=1, keepdims=True), weight=jnp.sum(_certainty(data, out), axis=1, keepdims=True))
    P = data.sizes[2]
    v = state.offset.X
    if v is not None:
        v = moved(v, jnp.sum(out.g, axis=0), jnp.sum(_certainty(data, out), axis=0), step_size)
    return Signals(None, None, new, out.g, _by_signal(out.level, P), _by_signal(out.square, P), v), sums


def _certainty(data: Data, out: Residual) -> Any:
    """1/V of every observed entry."""
    inverse = jnp.broadcast_to(1 / out.level, data.Y.shape)
    return inverse if data.mask is None else inverse * data.mask


def _sweeps(rules: Rules, data: Data) -> bool:
    """Whether one look at X does it all: on some GPUs, where every signal is seen as a whole and the prior knows the quick way."""
    scalars = all(jnp.ndim(leaf) == 0 for leaf in jax.tree.leaves(data.prior.X))
    plain = rules.structure is RowColumn and data.mask is None and data.centre.X is None
    return plain and scalars and hasattr(data.prior.X, "posterior_and_slab") and can_sweep()


def _sweep(
    rules: Rules, data: Data, squares: Any, raw: Moments, k: Any, out: Residual, learns: Learns, step_size: Any, towards_X: Any
) -> tuple[Moments, ToMatrix, Any]:
    """New X, what the old one says about F, and the expected nonzeros, in one look at X."""

    def look(tiles: Any, rows: Any, columns: Any, scalars: Any) -> Any:
        mean, variance, towards_X = tiles
        *squares, inverse = rows
        prior, step_size = scalars
        old = Moments(mean * inverse, variance * inverse**2)
        a, b = _with_old_signals(rules, data, Squares(*squares), old.mean, columns, learns, towards_X)
        posterior, nonzero = prior.posterior_and_slab(a, b)
        terms = [values * weights for values, weights in RowColumn.terms(Moments(mean, variance), *columns)]
        return mix(old, posterior, step_size), [*terms, nonzero]

    new, (*sums, nonzeros) = sweep(look, [*raw, towards_X], [*squares, 1 / k], out.weights, (data.prior.X, step_size), (2, 4))
    return Moments(*new), ToMatrix(*(value / k**2 for value in RowColumn.of_sums(data, sums))), nonzeros


def _by_signal(values: Any, P: int) -> Any:
    """One value for each signal, however the values were shared."""
    return jnp.mean(values, axis=0) if jnp.ndim(values) == 2 else jnp.broadcast_to(values, (P,))


def expected_nonzeros(data: Data, a: Any, b: Any) -> Any:
    """Expected number of nonzeros of each atom; all of them for priors without a point at zero."""
    _, N, P = data.sizes
    if data.prior.X.density() is not None:
        return _by_atom(data, data.prior.X.slab_probability(a, b))
    return jnp.full(N, float(P), data.Y.dtype)


def _by_atom(data: Data, values: Any) -> Any:
    """The sum over signals for each atom."""
    return over_signals((values, jnp.ones(data.sizes[2], data.Y.dtype)))[0]


def counts_now(state: State) -> Any:
    """Whether this iteration counts the nonzeros of each atom, which costs another look at X and is needed now and then only."""
    return state.age % _COUNT_EVERY == 0


def update(rules: Rules, data: Data, state: State, step_size: Any, learns: Learns = BOTH) -> tuple[State, Any]:
    """One damped iteration, Eqs. (12)-(20) of KMZ13, all from the old estimates; and the old power of each row of X, for the gauge."""
    P = data.sizes[2]
    if not rules.structure.local:
        state = rescaled(state)
    matrix = prepare(rules, data, state.F)
    count = counts_now(state)
    step_X = jnp.where(state.age == 0, 1, step_size)  # the first estimate of X replaces nothing, so it is taken whole
    rows = None if data.mask is None else data.seen_by_row

    def over(block: Signals, last: Signals | None) -> tuple[Signals, ForMatrix]:
        part = data._replace(Y=block.Y, mask=block.mask, rows=rows)
        here = state._replace(X=block.X, g=block.g, offset=state.offset._replace(X=block.offset))
        squares = matrix.squares
        if last is not None:
            squares = jax.tree.map(lambda value: after(value, last.X.mean), squares)
        return one_pass(rules, part, matrix._replace(squares=squares), here, learns, step_X, count)

    everything = Signals(data.Y, data.mask, state.X, state.g, state.level, state.square, state.offset.X)
    new, sums = over_blocks(over, everything, blocks(P, rules.structure.local))
    offset = state.offset._replace(X=new.offset)
    state = state._replace(X=new.X, g=new.g, level=new.level, square=new.square, offset=offset)
    return after_pass(rules, data, state, sums, step_size, learns), sums.power


def after_pass(rules: Rules, data: Data, state: State, sums: ForMatrix, step_size: Any, learns: Learns = BOTH) -> State:
    """The state after all signals have been passed over: the new F, and what is kept of each atom."""
    F, count = state.F, counts_now(state)
    if learns.F and data.known is None:
        F = mix(F, data.matrix_posterior(*message_to_matrix(rules, data, F.mean, sums, learns)), step_size)
    # A pass that leaves X alone leaves its pending scale pending.
    scale = jnp.ones_like(state.scale) if learns.X else state.scale
    nonzeros = jnp.where(count, sums.nonzeros, state.nonzeros) if learns.X else state.nonzeros
    offset = state.offset._replace(F=moved(state.offset.F, sums.push, sums.weight, step_size))
    return state._replace(F=F, nonzeros=nonzeros, scale=scale, age=state.age + 1, offset=offset)


def divergence(prior: Any, a: Any, b: Any, posterior: Moments) -> Any:
    """Kullback-Leibler divergence of each entry's posterior under the message (a, b) from its prior."""
    return b * posterior.mean - a * (posterior.variance + posterior.mean**2) / 2 - prior.log_partition(a, b)


def free_entropy(rules: Rules, data: Data, state: State, learns: Learns = BOTH) -> Any:
    """Bethe free entropy log Z/(N P) of the current estimates, in the convention of the replica potential (log sqrt(2 pi) per measurement
    left out).

    Minus the energy of the residuals and the divergences of the posteriors from the priors; no truth is needed. Signals whose residual is
    above its modelled variance count with the residual's own variance. `state` must have its scale applied.
    """
    _, N, P = data.sizes
    F, X = state.F, state.X
    matrix = prepare(rules, data, F)
    off = X._replace(mean=centred(X.mean, data.centre.X))
    out = residual(rules, data, matrix.mean, matrix.squares, off, state, learns)
    level = jnp.broadcast_to(out.level, data.Y.shape)
    share = out.g**2 * (level - out.onsager) + jnp.log(level)
    energy = jnp.sum(share if data.mask is None else share * data.mask) / 2
    a, b = message_to_signals(rules, data, matrix, off.mean, out, learns)
    cost = jnp.sum(divergence(data.prior.X, a, b, data.prior.X.posterior(a, b)))
    if learns.F and data.known is None:
        precision, echo, _ = rules.structure.to_matrix(data, off, *out.weights)
        a, b = message_to_matrix(rules, data, F.mean, ForMatrix(precision, echo, out.g @ off.mean.T, None, None), learns)
        total = data.with_side(a, b)
        posterior = data.prior.F.posterior(*total)
        # Relative to what F' says: the divergence between two posteriors under nested messages.
        here = b * posterior.mean - a * (posterior.variance + posterior.mean**2) / 2
        before = 0 if data.side is None else data.prior.F.log_partition(*data.side)
        cost += jnp.sum(here - data.prior.F.log_partition(*total) + before)
    return -(energy + cost) / (N * P)
