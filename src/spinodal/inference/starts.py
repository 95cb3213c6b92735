"""Where parameters that nobody gave start from, and which are then learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError, check, check_nonnegative, shown
from ..model.channels import Channel, GaussianNoise, channel_and_said
from ..model.channels.guesses import NOISE_SHARE
from ..model.knowledge import knowledge_of
from ..model.model import Model
from ..model.priors import GaussBernoulli, Gaussian
from ..model.sampling import Observed
from ..pair import Pair
from .search.learning import as_learned

AUTO, ROWS = "auto", "rows"
# Where estimates start: the density, the noise as a share of the data's power where there is an F', and the error of F'.
_DENSITY, _WITH_HINT, _ETA = 0.1, 0.01, 0.1


def automatic(
    observed: Observed, *, density: Any = None, noise_variance: Any = None, eta: Any = None, channel: Channel | str | None = None
) -> tuple[Model, tuple[str, ...]]:
    """A sparse model for these data, and the names of the parameters to learn: those that are "auto" or None.

    Where the density is learned the units of the data are anybody's guess too, so the variance of the slab is learned with it, unless a
    channel hides it. A channel that is given is taken as it is; where words name one, parameters that they leave out and that have no
    usual value follow from the data, and are learned if they can be. Without F' there is only dictionary learning.
    """
    seen = observed.Y if observed.mask is None else observed.Y[observed.mask]
    power = max(float(np.mean(np.square(seen))), float(np.finfo(float).tiny))
    learn: list[str] = []

    def value(name: str, given: Any, first: float) -> float:
        if given is None or (isinstance(given, str) and given.strip().lower() == AUTO):
            learn.append(name)
            return first
        if np.ndim(given) != 0 or np.asarray(given).dtype.kind not in "fiu":
            rows = ', "rows"' if name == "noise_variance" else ""
            raise InputError(f'{name} must be a number{rows} or "auto", but {shown(given)} was given.')
        return float(given)

    share = NOISE_SHARE if observed.F_prime is None else _WITH_HINT
    if channel is not None:
        if isinstance(channel, str):
            words = channel
            channel, said = channel_and_said(words)
            guessed = {name: first for name, first in channel.first_guess(seen).items() if name not in said}
            for name in (name for name, first in guessed.items() if first is None):
                raise InputError(f"{name} must be given for the channel {words!r}, because Y does not show them.")
            channel = channel.replace(**guessed)
            learn += as_learned(dict.fromkeys(name for name in guessed if name in channel.learns))
        if not isinstance(channel, Channel):
            raise InputError(f"channel must be a spinodal.Channel, such as Clipped(-1.0, 1.0), but {channel!r} was given.")
        if noise_variance is not None:
            raise InputError("noise_variance must be left out where a channel is given, which says it.")
        noise = min(float(getattr(channel, "variance", 0.0)), power)
    elif isinstance(noise_variance, str) and noise_variance.strip().lower() == ROWS:
        learn.append("row_variances")
        noise = share * power
        channel = GaussianNoise(np.full((observed.Y.shape[-2], 1), noise))
    elif np.ndim(noise_variance) > 0:
        channel = GaussianNoise(noise_variance)
        noise = min(float(np.median(channel.variance)), power)
    else:
        noise = value("noise_variance", noise_variance, share * power)
    rho = value("density", density, _DENSITY)
    check_nonnegative("noise_variance", noise)
    check("density", rho, 0.0, 1.0, low_open=True, high_open=True)
    slab = 1.0
    size = power if channel is None else channel.first_power(seen)
    if "density" in learn and size is not None:
        slab = max(size - noise, _WITH_HINT * size, float(np.finfo(float).tiny)) / rho
        learn.append("slab_variance")
    if observed.F_prime is None:
        if eta not in (None, np.inf) and eta != AUTO:
            raise InputError(f"F_prime must be given with eta = {eta}; without it eta can only be inf.")
        error = np.inf
    else:
        error = value("eta", eta, _ETA)
    return Model(Pair(F=Gaussian(), X=GaussBernoulli(rho, 0.0, slab)), channel or GaussianNoise(noise), knowledge_of(error)), tuple(learn)
