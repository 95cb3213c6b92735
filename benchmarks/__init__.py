"""Benchmarks: each prints its ratios, measured in one run. `python -m benchmarks [name ...]`."""
