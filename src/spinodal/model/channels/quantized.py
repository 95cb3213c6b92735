"""Quantisers: all that is known of z is in which cell it lies, perhaps after noise or dither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from ...errors import InputError, check_count, check_nonnegative, check_positive
from .base import Output
from .cells import BehindNoise, cell_output, log_between, tail_output
from .guesses import NOISE_SHARE
from .outcomes import MOST_THRESHOLDS, Outcomes, normal_width

# More bits than any converter has.
_MOST_BITS = 16
# A table of more different values is not that of a coarse converter.
_MOST_READ = 256
# A quantiser of more thresholds than can be resolved one by one must have noise of at least this share of its largest step.
_RESOLVED = 0.5
# Where learning the noise of signs starts. Noise that is taken for zero, and is not, makes runs settle on wrong atoms.
_FIRST_NOISE = 0.03
# Up to so many thresholds y is compared with each; among more its cell is looked up.
_COMPARED = 16


@dataclass(frozen=True, eq=False)
class Quantized(BehindNoise):
    """z, plus noise or dither of the given variance, known to lie in one of the cells between `thresholds`; y is any value in the cell.

    Examples:
        >>> import spinodal as sp
        >>> converter = sp.Quantized.uniform(bits=2, reach=1.0)
        >>> converter.thresholds.tolist(), converter.levels.tolist()
        ([-0.5, 0.0, 0.5], [-0.75, -0.25, 0.25, 0.75])
    """

    thresholds: Any
    variance: Any = 0.0

    learns = ("variance",)

    def __post_init__(self) -> None:
        thresholds = np.asarray(self.thresholds, dtype=float)
        if thresholds.ndim != 1 or not thresholds.size or not np.all(np.isfinite(thresholds)) or np.any(np.diff(thresholds) <= 0):
            raise InputError(f"thresholds must be finite numbers in rising order, but {self.thresholds!r} was given.")
        object.__setattr__(self, "thresholds", thresholds)
        check_nonnegative("variance", self.variance)

    @classmethod
    def uniform(cls, *, bits: int, reach: float, variance: float = 0.0) -> Quantized:
        """2^bits cells of equal width between -reach and reach, the outer ones without end.

        Examples:
            >>> import spinodal as sp
            >>> sp.Quantized.uniform(bits=3, reach=2.0).levels.size
            8
        """
        check_count("bits", bits, 1, _MOST_BITS)
        check_positive("reach", reach)
        return cls(np.linspace(-reach, reach, 2**bits + 1)[1:-1], variance)

    def first_guess(self, seen: np.ndarray) -> dict[str, Any]:
        values = np.unique(seen)
        read = 1 < values.size <= min(_MOST_READ, seen.size / 2)
        thresholds = (values[1:] + values[:-1]) / 2 if read else None
        return {"thresholds": thresholds, "variance": NOISE_SHARE * float(np.mean(np.square(seen)))}

    def first_power(self, seen: np.ndarray) -> float:
        return float(np.mean(np.square(seen)))

    @property
    def levels(self) -> Any:
        """A value in each cell: its middle, and as far outside the last thresholds as the middle of their neighbours is inside.

        Examples:
            >>> import spinodal as sp
            >>> sp.Quantized([0.0]).levels.tolist()
            [-1.0, 1.0]
        """
        edges = jnp.asarray(self.thresholds)
        if edges.shape[-1] == 1:
            return jnp.concatenate([edges - 1.0, edges + 1.0])
        steps = jnp.diff(edges) / 2
        return jnp.concatenate([edges[:1] - steps[:1], edges[:-1] + steps, edges[-1:] + steps[-1:]])

    def _cell(self, y: Any) -> tuple[Any, Any]:
        thresholds, dtype = jnp.asarray(self.thresholds), jnp.result_type(y, float)
        if thresholds.shape[-1] > _COMPARED:
            edges = jnp.concatenate([jnp.array([-jnp.inf]), thresholds, jnp.array([jnp.inf])]).astype(dtype)
            place = jnp.searchsorted(thresholds, y, side="right")
            return edges[place], edges[place + 1]
        low, high = jnp.full(jnp.shape(y), -jnp.inf, dtype), jnp.full(jnp.shape(y), jnp.inf, dtype)
        for k in range(thresholds.shape[-1]):  # in vectors, where looking up goes entry by entry
            low = jnp.where(y >= thresholds[k], thresholds[k], low)
            high = jnp.where(y < thresholds[-1 - k], thresholds[-1 - k], high)
        return low.astype(dtype), high.astype(dtype)

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        width = jnp.sqrt(self.variance + V)
        low, high = self._cell(y)
        return log_between((low - w) / width, (high - w) / width)

    def output(self, y: Any, w: Any, V: Any) -> Output:
        return cell_output(*self._cell(y), w, self.variance + V)

    def sample(self, key: Any, z: Any) -> Any:
        return self.levels[jnp.searchsorted(jnp.asarray(self.thresholds), self._noisy(key, z), side="right")]

    def predicted(self, z: Any) -> Any:
        return self.levels[jnp.searchsorted(jnp.asarray(self.thresholds), z, side="right")].astype(jnp.result_type(z))

    def outcomes(self, power: float) -> Outcomes:
        thresholds, width = np.asarray(self.thresholds, dtype=float), normal_width(self.variance)
        if thresholds.size > MOST_THRESHOLDS and np.sqrt(float(self.variance)) < _RESOLVED * np.max(np.diff(thresholds)):
            raise InputError(
                f"thresholds must be at most {MOST_THRESHOLDS} for the theory unless noise of half a step blurs them, "
                f"but {thresholds.size} were given with variance {float(self.variance):g}."
            )
        some = thresholds if thresholds.size <= MOST_THRESHOLDS else np.zeros(0)
        return Outcomes(np.asarray(self.levels), None, some, np.full(some.size, width))


@dataclass(frozen=True)
class OneBit(BehindNoise):
    """y = 1 if z, plus noise or dither of the given variance, is above the threshold, and -1 otherwise.

    Examples:
        >>> import spinodal as sp
        >>> print(f"{float(sp.OneBit().log_partition(1.0, 0.0, 0.1)):.4f}")  # either sign is as likely
        -0.6931
    """

    threshold: Any = 0.0
    variance: Any = 0.0

    learns = ("variance",)

    def __post_init__(self) -> None:
        check_nonnegative("variance", self.variance)

    def first_guess(self, seen: np.ndarray) -> dict[str, Any]:
        return {"variance": _FIRST_NOISE}  # signs are in no unit: it is beside codes of unit variance, of which a tenth is not zero

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        return log_ndtr(jnp.sign(y) * (w - self.threshold) / jnp.sqrt(self.variance + V))

    def output(self, y: Any, w: Any, V: Any) -> Output:
        return tail_output(jnp.sign(y), self.threshold, w, self.variance + V)

    def sample(self, key: Any, z: Any) -> Any:
        return jnp.where(self._noisy(key, z) > self.threshold, 1.0, -1.0)

    def predicted(self, z: Any) -> Any:
        return jnp.where(z > self.threshold, 1.0, -1.0).astype(jnp.result_type(z))

    def outcomes(self, power: float) -> Outcomes:
        return Outcomes(np.array([-1.0, 1.0]), None, np.array([float(self.threshold)]), np.array([normal_width(self.variance)]))

    def fault_of(self, y: np.ndarray) -> str | None:
        return None if np.all(np.abs(y) == 1) else "must hold -1 and 1 for this channel"
