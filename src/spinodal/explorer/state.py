"""What is on screen: the values that the page offers, and a state as it travels in the page's address."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import numpy as np

from ..errors import InputError
from ..model.channels import Channel, GaussianNoise, named_channel
from ..model.knowledge import knowledge_of
from ..model.model import Problem
from ..model.priors import GaussBernoulli, Gaussian, Laplace, Mixture, NonnegativeGaussBernoulli, Prior, Rademacher
from ..pair import Pair

# Two digits at the lower end of a decade and one at its upper: even enough on a logarithmic slider, and all are numbers that people write.
_MANTISSAS = (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9)


def _decades(first: int, last: int) -> tuple[float, ...]:
    return (*(float(f"{m}e{k}") for k in range(first, last) for m in _MANTISSAS), float(f"1e{last}"))


def _steps(low: int, high: int, per_unit: int) -> tuple[float, ...]:
    return tuple(k / per_unit for k in range(low, high + 1))


# The values of each slider.
VALUES: dict[str, tuple[float, ...]] = {
    "alpha": _steps(5, 200, 100),
    "rho": _steps(1, 99, 100),
    "eta": (*_decades(-4, 2), math.inf),
    "delta": (0.0, *_decades(-12, 0)),
    "pi": _decades(-1, 2),
}
# Bounds of the live run: what an instance may be, and how long it is iterated.
SIZES = (10, 400)
SEEDS = (0, 999_999)
MOST_ENTRIES = 2_000_000
MOST_ITERATIONS = 2_000
# Longer queries than this are not looked at.
_LONGEST_QUERY = 500

_UNIT_LAPLACE = 0.7071  # unit variance, to four digits


class Kind(NamedTuple):
    """A prior that the page offers: its name, the prior itself (of a density, if it has one), and the Python that makes it."""

    label: str
    make: Callable[[float], Prior]
    code: str
    has_density: bool = False


PRIORS_X = {
    "gauss-bernoulli": Kind("Gauss–Bernoulli, density ρ", GaussBernoulli, "sp.GaussBernoulli({rho})", True),
    "nonnegative": Kind("nonnegative, density ρ", NonnegativeGaussBernoulli, "sp.NonnegativeGaussBernoulli({rho})", True),
    "mixture": Kind(
        "zero or near ±1, density ρ",
        lambda rho: Mixture([1 - rho, rho / 2, rho / 2], [0.0, -1.0, 1.0], [0.0, 0.05, 0.05]),
        "sp.Mixture([1 - {rho}, {rho} / 2, {rho} / 2], [0, -1, 1], [0, 0.05, 0.05])",
        True,
    ),
    "gaussian": Kind("Gaussian", lambda _: Gaussian(), "sp.Gaussian()"),
    "rademacher": Kind("±1", lambda _: Rademacher(), "sp.Rademacher()"),
    "laplace": Kind("Laplace", lambda _: Laplace(_UNIT_LAPLACE), f"sp.Laplace({_UNIT_LAPLACE})"),
}
PRIORS_F = {
    "gaussian": Kind("Gaussian", lambda _: Gaussian(), "sp.Gaussian()"),
    "rademacher": Kind("±1", lambda _: Rademacher(), "sp.Rademacher()"),
    "gauss-bernoulli": Kind("half zero, half Gaussian", lambda _: GaussBernoulli(0.5, 0.0, 2.0), "sp.GaussBernoulli(0.5, 0.0, 2.0)"),
    "nonnegative": Kind("nonnegative, half zero", lambda _: NonnegativeGaussBernoulli(0.5, 2.0), "sp.NonnegativeGaussBernoulli(0.5, 2.0)"),
    "mixture": Kind(
        "near ±1", lambda _: Mixture([0.5, 0.5], [-0.9, 0.9], [0.19, 0.19]), "sp.Mixture([0.5, 0.5], [-0.9, 0.9], [0.19, 0.19])"
    ),
    "laplace": Kind("Laplace", lambda _: Laplace(_UNIT_LAPLACE), f"sp.Laplace({_UNIT_LAPLACE})"),
}


class Measured(NamedTuple):
    """A channel that the page offers: its name, and the words for `named_channel` with {delta} or its root {scale} in them."""

    label: str
    words: str

    @property
    def has_noise(self) -> bool:
        """Whether the slider of the noise means anything to it."""
        return "{" in self.words


CHANNELS = {
    "gaussian": Measured("Gaussian noise", "gaussian:variance={delta}"),
    "outliers": Measured("noise, and 5% outliers", "outliers:variance={delta},share=0.05,outlier_variance=2"),
    "student": Measured("heavy-tailed noise", "student:scale={scale},nu=3"),
    "clipped": Measured("clipped at ±0.5", "clipped:low=-0.5,high=0.5,variance={delta}"),
    "two-bit": Measured("2 bits, reach ±0.6", "quantized:bits=2,reach=0.6,variance={delta}"),
    "one-bit": Measured("1 bit: the sign", "one-bit:variance={delta}"),
    "logistic": Measured("yes or no, logistic", "binary:link=logistic,scale=0.25"),
    "poisson": Measured("counts, Poisson", "poisson:rate=3"),
    "gains": Measured("sensors of unknown gain", "gains:variance={delta},spread=0.3"),
    "offsets": Measured("sensors with offsets", "offsets:variance={delta},offset_variance=0.1"),
    "faulty": Measured("sensors, 10% faulty", "faulty:variance={delta},faulty=0.1,fault_variance=1"),
    "sensors": Measured(
        "sensors with all of these", "sensors:variance={delta},spread=0.3,offset_variance=0.1,faulty=0.05,fault_variance=1"
    ),
}
# Channels other than Gaussian noise have noise of at least this variance: the theory integrates over what they put out.
_LEAST_NOISE = 1e-8
_CHOICES: dict[str, Mapping[str, Any]] = {"x": PRIORS_X, "f": PRIORS_F, "channel": CHANNELS}
_COUNTS = {"n": SIZES, "seed": SEEDS}


class State(NamedTuple):
    """Everything the page shows depends on this."""

    alpha: float = 0.6
    rho: float = 0.1
    eta: float = 1.0
    delta: float = 1e-6
    pi: float = 5.0
    x: str = "gauss-bernoulli"
    f: str = "gaussian"
    channel: str = "gaussian"
    n: int = 100
    seed: int = 1

    @property
    def has_density(self) -> bool:
        return PRIORS_X[self.x].has_density

    @property
    def is_gaussian(self) -> bool:
        """Whether the channel is Gaussian noise, for which everything has a closed form."""
        return self.channel == "gaussian"

    def channel_words(self) -> str:
        """The channel as the command line names it."""
        delta = self.delta if self.is_gaussian else max(self.delta, _LEAST_NOISE)
        return CHANNELS[self.channel].words.format(delta=written(delta), scale=f"{math.sqrt(delta):.6g}")

    def channel_object(self) -> Channel:
        """How Y is measured."""
        return GaussianNoise(self.delta) if self.is_gaussian else named_channel(self.channel_words())

    def problem(self) -> Problem:
        """The problem on screen."""
        prior = Pair(F=PRIORS_F[self.f].make(0.0), X=PRIORS_X[self.x].make(self.rho))
        return Problem(alpha=self.alpha, pi=self.pi, prior=prior, channel=self.channel_object(), knowledge=knowledge_of(self.eta))

    def query(self) -> str:
        """The state as the part of an address after the question mark."""
        return urlencode({name: written(value) for name, value in self._asdict().items()})


def written(value: Any) -> str:
    """A value as people and command lines write it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def nearest(name: str, value: float) -> int:
    """The place of the slider's value that is nearest to a number in its range, in logarithm where the slider is logarithmic."""
    values = VALUES[name]
    if value in values:
        return values.index(value)
    above = bisect_left(values, value)
    low, high = values[above - 1], values[above]
    if name in ("alpha", "rho"):
        return above if value - low > high - value else above - 1
    return above if low == 0 or (math.isfinite(high) and value / low > high / value) else above - 1


def from_query(query: str) -> tuple[State, list[str]]:
    """The state that an address asks for. What can't be used is left as it is by default, and complained of in a sentence each."""
    if len(query) > _LONGEST_QUERY:
        return State(), [f"The address was longer than {_LONGEST_QUERY} characters and was ignored."]
    state, complaints = State(), []
    for name, text in parse_qsl(query.removeprefix("?"), keep_blank_values=True):
        if name not in State._fields:
            complaints.append(f"The address has {_shown(name)}, which is not one of {', '.join(State._fields)}; it was ignored.")
            continue
        try:
            value = _read(name, text)
        except InputError as error:
            complaints.append(f"{error} It was ignored.")
            continue
        if isinstance(value, float) and value not in VALUES[name]:
            on_grid = VALUES[name][nearest(name, value)]
            complaints.append(f"{name} = {written(value)} lies between two steps of its slider; {written(on_grid)} is shown.")
            value = on_grid
        state = state._replace(**{name: value})
    return state, complaints


def from_client(data: Any) -> State:
    """A state as the page sends it: every value is checked again, whoever sent it."""
    if not isinstance(data, Mapping) or not set(data) <= set(State._fields):
        raise InputError(f"state must have the fields {', '.join(State._fields)} only.")
    for name, value in data.items():
        if not isinstance(value, str | int | float):
            raise InputError(f"{name} must be a number or a word.")
    values = {name: _read(name, str(value)[:_LONGEST_QUERY]) for name, value in data.items()}
    for name in VALUES.keys() & values.keys():
        if values[name] not in VALUES[name]:
            raise InputError(f"{name} must be one of its slider's values, but {written(values[name])} was given.")
    return State(**values)


def _read(name: str, text: str) -> Any:
    """The value of a word, or a sentence about why it is none."""
    if name in _CHOICES:
        if text not in _CHOICES[name]:
            raise InputError(f"{name} must be one of {', '.join(_CHOICES[name])}, but {_shown(text)} was given.")
        return text
    if name in _COUNTS:
        low, high = _COUNTS[name]
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(high)) and low <= int(text) <= high):
            raise InputError(f"{name} must be a whole number from {low} to {high}, but {_shown(text)} was given.")
        return int(text)
    values = VALUES[name]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (values[0] <= value <= values[-1]):
        raise InputError(f"{name} must be a number from {written(values[0])} to {written(values[-1])}, but {_shown(text)} was given.")
    if np.isfinite(value) and not np.isfinite(values[-1]) and value > values[-2]:
        raise InputError(f"{name} must be at most {written(values[-2])}, or inf, but {_shown(text)} was given.")
    return value


def _shown(text: str) -> str:
    """What someone else wrote, short enough to be quoted."""
    return repr(text if len(text) <= 30 else text[:30] + "…")
