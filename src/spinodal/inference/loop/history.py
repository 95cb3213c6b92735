"""What a loop remembers of its iterations, and when they have settled."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

# The level is compared with its running mean, which forgets at this rate, and with itself this many iterations ago.
FORGET, AGO = 0.9, (5, 10)


class Tolerance(NamedTuple):
    """When the level has settled: near its running mean or, if a number is given, near where it was lately.

    The second says so sooner after a steep fall; the first gives slow signals, which the level does not see, time to catch up.
    """

    mean: Any
    lately: Any = -1.0

    @classmethod
    def of(cls, tolerance: float, looser: float | None = None) -> Tolerance:
        """A tolerance to end with or, if it is to be so many times looser, one that is in a hurry."""
        return cls(tolerance) if looser is None else cls(looser * tolerance, looser * tolerance)


class History(NamedTuple):
    """The logarithm of the typical level: its running mean, how far it is from that (`change`) and from where it was lately (`moved`);
    `stuck` is the same for the mean residual. `recent` holds the last logarithms of both, the newest first; `age` counts iterations."""

    smoothed: Any
    change: Any
    moved: Any
    stuck: Any
    recent: Any
    level: Any
    residual: Any
    age: Any

    @classmethod
    def start(cls, dtype: Any) -> History:
        """Nothing has happened."""
        far = jnp.asarray(jnp.inf, dtype)
        return cls(far, far, far, far, jnp.full((2, max(AGO)), jnp.nan, dtype), far, far, jnp.asarray(0))

    def after(self, level: Any, residual: Any) -> History:
        """The history with one more iteration."""
        log_level = jnp.log(level)
        smoothed = jnp.where(self.age == 0, log_level + 1, FORGET * self.smoothed + (1 - FORGET) * log_level)
        logs = jnp.stack([log_level, jnp.log(residual)])[:, None]
        distance = jnp.max(jnp.abs(logs - self.recent[:, [ago - 1 for ago in AGO]]), axis=1)
        moved, stuck = jnp.where(self.age >= max(AGO), distance, jnp.inf)
        recent = jnp.concatenate([logs, self.recent[:, :-1]], axis=1)
        return History(smoothed, jnp.abs(log_level - smoothed), moved, stuck, recent, level, residual, self.age + 1)

    @property
    def healthy(self) -> Any:
        """Whether everything is still finite."""
        return jnp.isfinite(self.change) | (self.age == 0)

    def settled(self, tolerance: Tolerance) -> Any:
        """Whether the level no longer changes."""
        return (self.change <= tolerance.mean) | (self.moved <= tolerance.lately)
