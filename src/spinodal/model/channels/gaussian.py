"""Gaussian noise, y = z + noise: every average has a closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InputError, check_nonnegative, check_positive
from .averages import ChannelAverages, ChannelTable, noise_at_ratio, read_table, tabulate
from .base import Channel, Output
from .guesses import NOISE_SHARE
from .outcomes import Outcomes

# Variances for which the averages are computed: beyond, products of them leave the range of floating-point numbers.
_LEAST, _MOST = 1e-50, 1e50


@dataclass(frozen=True)
class GaussianNoise(Channel):
    """y = z + noise of the given variance: one number, or one for each row of Y (M x 1), each column (1 x P) or each entry (M x P).

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> sp.Problem(alpha=0.5, pi=4.0, channel=sp.GaussianNoise(1e-4)).channel
        GaussianNoise(variance=0.0001)
        >>> rows = sp.GaussianNoise(np.array([[0.1], [0.1], [10.0]]))  # the third sensor is worse than the others
        >>> print(f"{rows.averages(0.0).equivalent_noise:.3f}")  # what an entry is worth on average: 3/(1/.1 + 1/.1 + 1/10)
        0.149
    """

    variance: Any = 0.0

    additive = True

    def __post_init__(self) -> None:
        if isinstance(self.variance, (list, tuple, np.ndarray)) and np.ndim(self.variance) > 0:
            check_positive("noise_variance", self.variance)
            object.__setattr__(self, "variance", np.asarray(self.variance, dtype=float))
        else:
            check_nonnegative("noise_variance", self.variance)

    @property
    def entry_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return np.shape(self.variance)

    @property
    def several(self) -> bool:
        """Whether entries have variances of their own, by row, by column or one by one.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).several, sp.GaussianNoise(np.array([[0.1], [0.2]])).several
            (False, True)
        """
        return jnp.ndim(self.variance) >= 2

    @property
    def unequal(self) -> bool:  # type: ignore[override]
        return self.several and jnp.shape(self.variance)[-2] > 1

    @property
    def learns(self) -> tuple[str, ...]:  # type: ignore[override]
        rows = ("row_variances",) if self.several and jnp.shape(self.variance)[-1] == 1 else ()
        return ("variance", *rows)

    def first_guess(self, seen: np.ndarray) -> dict[str, float]:
        return {"variance": NOISE_SHARE * float(np.mean(np.square(seen)))}

    def learnable(self) -> dict[str, Any]:
        return dict.fromkeys(self.learns, self.variance)

    def relearned(self, values: dict[str, Any]) -> GaussianNoise:
        return self.replace(variance=values.get("row_variances", values.get("variance", self.variance)))

    def by_signal(self) -> dict[str, Any]:
        return {"variance": self.variance} if self.several and jnp.shape(self.variance)[-1] > 1 else {}

    def beside_atoms(self) -> GaussianNoise:
        return self.replace(variance=self.variance[:, None]) if self.several else self

    def fault_of_shape(self, shape: tuple[int, ...]) -> str | None:
        given = np.shape(self.variance)
        if not given or (len(given) == 2 and all(size in (1, of_Y) for size, of_Y in zip(given, shape[-2:], strict=True))):
            return None
        M, P = shape[-2:]
        return f"noise_variance must be a number, {M} x 1, 1 x {P} or {M} x {P} for this Y, but its shape is {given}."

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        level = self.variance + V
        return -((y - w) ** 2) / (2 * level) - jnp.log(2 * jnp.pi * level) / 2

    def output(self, y: Any, w: Any, V: Any) -> Output:
        precision = 1 / (self.variance + V)
        return Output((y - w) * precision, precision)

    def sample(self, key: Any, z: Any) -> Any:
        if fault := self.fault_of_shape(jnp.shape(z)):
            raise InputError(fault)
        return z + jnp.sqrt(jnp.asarray(self.variance, float)) * jax.random.normal(key, jnp.shape(z))

    def at_least(self, variance: Any) -> GaussianNoise:
        return self.replace(variance=jnp.maximum(self.variance, variance))

    def input_power(self, measured: Any, expected: Any) -> Any:
        return measured

    def noise_scale(self, power: Any, V: Any = 0.0) -> Any:
        return 1 / jnp.mean(1 / (self.variance + V)) - V if self.several else self.variance

    @property
    def noiseless(self) -> Any:
        return False if self.several else self.variance == 0

    # ---- theory: closed forms for one variance; for several, averages over the entries, which depend on V and are tabulated

    def outcomes(self, power: float) -> Outcomes:
        return Outcomes(np.zeros(0), None, np.zeros(0)) if self.several else super().outcomes(power)

    def over_outcomes(self, w: Any, V: Any) -> tuple[Any, Any]:
        level = self.variance + V
        return jnp.mean(1 / level), -jnp.mean(1 + jnp.log(2 * jnp.pi * level)) / 2

    def table(self, power: float) -> ChannelTable | None:
        if not self.several and self.variance == 0:
            return None
        if not np.all((np.asarray(self.variance) >= _LEAST) & (np.asarray(self.variance) <= _MOST)):
            given = "an array with others" if self.several else f"{self.variance:g}"
            raise InputError(f"noise_variance must be 0 or in [{_LEAST:g}, {_MOST:g}], but {given} was given.")
        return tabulate(self, power) if self.several else None

    def fault_in_theory(self) -> str | None:
        # Scattered over all entries the variances average out; a noisy row, or signal, has a larger error of its own.
        if np.ndim(self.variance) == 1 or 1 in np.shape(self.variance):
            return (
                "noise_variance must be one number, or M x P, for fixed points and transitions, but its shape is "
                f"{np.shape(self.variance)}; use state_evolution for rows and columns."
            )
        return None

    def for_theory(self) -> GaussianNoise:
        return self.replace(variance=float(np.mean(self.variance))) if self.several else self

    def averages_at(self, V: Any, power: Any, table: Any) -> ChannelAverages:
        if table is not None:
            return read_table(table, V, power)
        return ChannelAverages(self.variance, -(1 + jnp.log(self.variance + V)) / 2)

    def noise_at_ratio(self, ratio: Any, power: Any, table: Any) -> Any:
        return self.variance if table is None else noise_at_ratio(self, table, ratio, power)
