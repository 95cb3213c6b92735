"""Channels, p(y | z): how an entry of Y comes from the entry z of F X/sqrt(N). One file for each."""

from .base import Channel, Output
from .gaussian import GaussianNoise

__all__ = ["Channel", "GaussianNoise", "Output"]
