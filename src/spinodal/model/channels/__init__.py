"""Channels, p(y | z): how an entry of Y comes from the entry z of F X/sqrt(N). One file for each."""

from .averages import ChannelAverages, ChannelTable
from .base import Channel, Output
from .gaussian import GaussianNoise
from .outcomes import Outcomes

__all__ = ["Channel", "ChannelAverages", "ChannelTable", "GaussianNoise", "Outcomes", "Output"]
