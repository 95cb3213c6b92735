"""Your own measurements, from files."""

from .read import Measurements, read_measurements

__all__ = ["Measurements", "read_measurements"]
