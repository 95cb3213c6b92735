"""What a solver sees: the observed part of an instance and the model, as one pytree. The truth is not in it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ..model.channels import Channel, Output
from ..model.knowledge import Knowledge
from ..model.model import Model
from ..model.priors import Moments, Prior
from ..model.sampling import Observed
from ..pair import Pair

# Without noise, or below rounding, the noise variance is set to this many squared rounding errors of the data.
_ROUNDING = 1e4


class Data(NamedTuple):
    """What is observed, with some entries held out: they are not in the mask, and say how well they are predicted. None but zeros: nothing
    is held out now, but was when the parameters were learned. `keeps_noise` says, for each signal alike, that the noise variance is to
    stay what it is."""

    Y: Any
    F_prime: Any
    mask: Any
    held: Any
    keeps_noise: Any


class Task(NamedTuple):
    """Y (0 where unobserved), the mask (None when all is observed), and what is assumed of them.

    `given` is what was observed of F beforehand (F'), `start` what that and the prior say of F. `temperature` is variance added to the
    channel's input, to melt a wrong state. `power` is that of z = F X/sqrt(N), as the data have it. `centre` holds the prior means that are
    taken off before messages are passed (`means`), None for zero. `rows` are the fractions of the rows of Y that are observed, where Y is
    a block of the signals; else they follow from the mask. `held` marks entries that are held out to learn the noise from (None: nobody
    holds any), and `keeps_noise` says that the noise stays what it is all the same.
    """

    Y: Any
    mask: Any
    prior: Pair[Prior]
    channel: Channel
    knowledge: Knowledge
    given: Any
    start: Moments
    power: Any
    temperature: Any
    rounding: Any
    centre: Pair[Any]
    rows: Any = None
    held: Any = None
    keeps_noise: Any = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(M, N, P)."""
        return (*self.start.mean.shape, self.Y.shape[1])

    @property
    def from_scratch(self) -> bool:
        """Whether nothing is known of F beforehand."""
        return self.given is None

    @property
    def removes_means(self) -> bool:
        """Whether prior means are taken off before messages are passed."""
        return self.centre.F is not None or self.centre.X is not None

    @property
    def seen_by_signal(self) -> Any:
        """Fraction of the entries of each column of Y that are observed."""
        return 1.0 if self.mask is None else jnp.mean(self.mask, axis=0)

    @property
    def seen_by_row(self) -> Any:
        """Fraction of the entries of each row of Y that are observed, as a column."""
        if self.rows is not None:
            return self.rows
        return 1.0 if self.mask is None else jnp.mean(self.mask, axis=1, keepdims=True)

    def seen(self, values: Any) -> Any:
        """Values of the entries of Y, zero where those were not observed."""
        return values if self.mask is None else values * self.mask

    def matrix_posterior(self, a: Any, b: Any) -> Moments:
        """Posterior of F given the data's message (a, b), its prior and F', if there is one."""
        if self.from_scratch:
            return self.prior.F.posterior(a, b)
        return self.knowledge.posterior(self.prior.F, self.given, a, b)

    def with_model(self, prior: Pair[Prior], channel: Channel, knowledge: Knowledge) -> Task:
        """The task under other parameters of the same kind."""
        start, dtype = self.start, self.Y.dtype
        if not (self.from_scratch or knowledge.fixed):
            start = _start(knowledge, prior.F, self.given, start.mean.shape, dtype)
        centre = Pair(*(None if old is None else jnp.asarray(p.moments().mean, dtype) for old, p in zip(self.centre, prior, strict=True)))
        return self._replace(prior=prior, channel=channel, knowledge=knowledge, start=start, centre=centre)


def output_where(channel: Channel, y: Any, w: Any, V: Any, mask: Any, heat: Any = 0.0) -> Output:
    """g and precision of the entries that were observed, where the mask is 1; zero in the others. A mask of None: all were. `heat` is the
    temperature, on top of the variance V that z really has."""
    if channel.by_rows:
        return channel.output_where(y, w, V, mask, heat)  # type: ignore[attr-defined]
    g, precision = channel.output(y, w, V + heat)
    if mask is None:
        return Output(g, precision)
    return Output(g * mask, precision * mask if jnp.ndim(precision) >= jnp.ndim(mask) else precision)


def centred(values: Any, mean: Any) -> Any:
    """Values less their prior mean; None where that is zero, and nothing is copied."""
    return values if mean is None else values - mean


def make_task(observed: Observed | Data, model: Model, N: int, dtype: Any, centre: Pair[bool]) -> Task:
    """Prepare an instance; `centre` says which prior means are taken off."""
    Y = jnp.asarray(observed.Y, dtype)
    mask = known = None if observed.mask is None else jnp.asarray(observed.mask, dtype)
    held = keeps_noise = None
    if isinstance(observed, Data):
        held, keeps_noise = jnp.asarray(observed.held, dtype), jnp.any(observed.keeps_noise)
        known = mask + held
    if known is not None:
        Y = jnp.where(known > 0, Y, 0)
    prior, knowledge = model.prior, model.knowledge
    given = None if observed.F_prime is None else jnp.asarray(observed.F_prime, dtype)
    expected = prior.F.second_moment() * prior.X.second_moment()
    share = 1.0 if known is None else jnp.mean(known)
    power = jnp.asarray(model.channel.input_power(jnp.mean(Y**2) / share, expected), dtype)
    rounding = _ROUNDING * jnp.finfo(dtype).eps ** 2 * jnp.maximum(power, expected)
    means = Pair(*(jnp.asarray(p.moments().mean, dtype) if wanted else None for p, wanted in zip(prior, centre, strict=True)))
    return Task(
        Y=Y,
        mask=mask,
        prior=prior,
        channel=model.channel.at_least(rounding.astype(dtype)),
        knowledge=knowledge,
        given=given,
        start=_start(knowledge, prior.F, given, (Y.shape[0], N), dtype),
        power=power,
        temperature=jnp.zeros((), dtype),
        rounding=rounding.astype(dtype),
        centre=means,
        held=held,
        keeps_noise=keeps_noise,
    )


def _start(knowledge: Knowledge, prior: Prior, given: Any, shape: tuple[int, ...], dtype: Any) -> Moments:
    """What is known of F before Y is seen."""
    start = prior.moments() if given is None else knowledge.posterior(prior, given, 0.0, 0.0)
    return Moments(*(jnp.broadcast_to(jnp.asarray(value, dtype), shape) for value in start))
