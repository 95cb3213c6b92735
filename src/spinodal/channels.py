"""How Y is measured: Gaussian noise, on the entries that are observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from .errors import check, check_nonnegative


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GaussianNoise:
    """y = z + noise of the given variance, each entry of Y being observed with the given probability.

    Examples:
        >>> import spinodal as sp
        >>> sp.Problem(alpha=0.5, pi=4.0, channel=sp.GaussianNoise(1e-4, observed_fraction=0.7)).channel
        GaussianNoise(variance=0.0001, observed_fraction=0.7)
    """

    variance: Any = 0.0
    observed_fraction: Any = 1.0

    def __post_init__(self) -> None:
        check_nonnegative("noise variance", self.variance)
        check("observed_fraction", self.observed_fraction, 0.0, 1.0, low_open=True)
