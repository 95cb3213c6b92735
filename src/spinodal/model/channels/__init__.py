"""Channels, p(y | z): how an entry of Y comes from the entry z of F X/sqrt(N). One file for each."""

from .averages import ChannelAverages, ChannelTable
from .base import Channel, Output
from .binary import Binary
from .clipped import Clipped
from .counts import Poisson
from .gains import GainLaw, LogNormalGains, UniformGains
from .gaussian import GaussianNoise
from .named import channel_and_said, named_channel
from .outcomes import Outcomes
from .outliers import Outliers
from .quantized import OneBit, Quantized
from .sensors import FaultySensors, Readings, SensorGains, SensorOffsets, Sensors
from .student import StudentNoise

__all__ = [
    "Readings",
    "GainLaw",
    "UniformGains",
    "Sensors",
    "SensorOffsets",
    "SensorGains",
    "LogNormalGains",
    "FaultySensors",
    "Binary",
    "Channel",
    "ChannelAverages",
    "ChannelTable",
    "Clipped",
    "GaussianNoise",
    "OneBit",
    "Outcomes",
    "Outliers",
    "Output",
    "Poisson",
    "Quantized",
    "StudentNoise",
    "channel_and_said",
    "named_channel",
]
