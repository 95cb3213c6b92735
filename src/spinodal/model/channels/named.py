"""Channels by name, as on the command line: NAME or NAME:key=value,key=value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from ...errors import InputError, check_choice, shown
from .base import Channel
from .binary import Binary
from .clipped import Clipped
from .counts import Poisson
from .gains import LogNormalGains, UniformGains
from .gaussian import GaussianNoise
from .outliers import Outliers
from .quantized import OneBit, Quantized
from .sensors import FaultySensors, SensorGains, SensorOffsets, Sensors
from .student import StudentNoise


def _uniform(bits: float = 2.0, reach: float = 1.0, variance: float = 0.0) -> Quantized:
    return Quantized.uniform(bits=int(bits) if bits.is_integer() else bits, reach=reach, variance=variance)  # type: ignore[arg-type]


def _parameters(channel: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(channel))


def _gains(variance: float = 0.0, spread: float = 0.3, low: float | None = None, high: float | None = None) -> SensorGains:
    law = None if low is None and high is None else UniformGains(low or 1.0, high or 1.0)
    return SensorGains(variance, spread, gains=law)


def _sensors(
    variance: float = 0.0, spread: float = 0.3, offset_variance: float = 0.1, faulty: float = 0.05, fault_variance: float = 1.0
) -> Sensors:
    return Sensors(variance, LogNormalGains(spread), offset_variance, faulty, fault_variance)


_NAMED: dict[str, tuple[Callable[..., Channel], tuple[str, ...]]] = {
    "gaussian": (GaussianNoise, _parameters(GaussianNoise)),
    "outliers": (Outliers, _parameters(Outliers)),
    "student": (StudentNoise, _parameters(StudentNoise)),
    "clipped": (Clipped, _parameters(Clipped)),
    "quantized": (_uniform, ("bits", "reach", "variance")),
    "one-bit": (OneBit, _parameters(OneBit)),
    "binary": (Binary, _parameters(Binary)),
    "gains": (_gains, ("variance", "spread", "low", "high")),
    "offsets": (SensorOffsets, ("variance", "offset_variance")),
    "faulty": (FaultySensors, ("variance", "faulty", "fault_variance")),
    "sensors": (_sensors, ("variance", "spread", "offset_variance", "faulty", "fault_variance")),
    "poisson": (Poisson, _parameters(Poisson)),
}
NAMES = tuple(_NAMED)
# What words say that are no parameter of the channel itself.
_SAY = {"bits": "thresholds", "reach": "thresholds"}


def named_channel(text: str) -> Channel:
    """The channel that some words name: "clipped:low=-1,high=1,variance=0.01"."""
    return channel_and_said(text)[0]


def channel_and_said(text: str) -> tuple[Channel, frozenset[str]]:
    """The channel, and the names of the parameters that the words say."""
    name, _, rest = text.strip().partition(":")
    check_choice("channel", name, NAMES)
    make, known = _NAMED[name]
    values: dict[str, float | str] = {}
    for part in (part for part in rest.split(",") if part.strip()):
        key, equals, word = (piece.strip() for piece in part.partition("="))
        if not equals or key not in known:
            raise InputError(f"channel {name} must have its parameters as key=value with {', '.join(known)}, but {shown(part)} was given.")
        values[key] = word if key == "link" else _number(name, key, word)
    return make(**values), frozenset(_SAY.get(key, key) for key in values)


def _number(name: str, key: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    if value != value:
        raise InputError(f"{key} of the channel {name} must be a number, but {shown(word)} was given.")
    return value
