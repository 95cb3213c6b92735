"""Approximate message passing for F and X together: the paper's algorithm, Eqs. (12)-(20), and what makes it converge.

As printed (with the misprints mended), parallel updates of F and X from one shared variance diverge at any size one can run. Four changes
cure it, none of which changes the fixed points that the state evolution describes: a variance for each signal and each atom, raised to a
share of the measured residual; Onsager gains kept in [0, 1]; damping; and a gauge step that holds each atom's scale at its posterior
mode. Prior means that are not zero are taken off first (`offsets`). `AMP.as_printed()` is the literal version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import InputError, check, check_choice, check_count
from ..messages.data import Data
from ..messages.gauge import gauge_step, has_gauge
from ..messages.state import State, first_state, rescaled
from ..messages.update import Rules, counts_now, free_entropy, update
from ..messages.variances import STRUCTURES
from ..search.annealing import SHORTEST, cooled, first_guess, heated
from ..search.learning import LEARNABLE, informed, learn, nothing_learned
from .options import Solver


@dataclass(frozen=True)
class AMP(Solver):
    """Joint message passing for F and X.

    Args:
        variance: how the variance of y - omega is shared: "row-column" (a value for each signal and atom), "entry" (exact, slower),
            "scalar" (the paper's).
        damping: weight of the old value, or "adaptive": raised when the Bethe free entropy falls, lowered while it rises.
        residual_floor: the variance used is at least this share of the measured one.
        measured_variance: use the measured one alone.
        clip_gains: keep the Onsager gains in [0, 1].
        gauge: hold each atom's scale at its posterior mode.
        remove_means: take prior means that are not zero off first.
        anneal: iterations of slow cooling from a noise level near the data's power at the start; 0 for the known level always, also
            after repairs; None for the known level at the start with F', and a short cooling without.
        learn: parameters to learn on the way, any of "noise", "rho", "mean", "variance" (of the slab of X) and "eta", from the given
            ones on.
        repair: look for duplicated, unused or overused atoms when the iterations have settled, and start those again.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> instance = sp.sample(problem, 20, seed=1)
        >>> solution = sp.solve(instance.observed, problem, sp.AMP(damping=0.5))
        >>> str(solution.status), sp.AMP(learn=("noise", "rho")).learn
        ('converged', ('noise', 'rho'))
    """

    variance: str = "row-column"
    damping: float | str = 0.5
    residual_floor: float = 0.7
    measured_variance: bool = False
    clip_gains: bool = True
    gauge: bool = True
    remove_means: bool = True
    anneal: int | None = None
    learn: tuple[str, ...] = ()
    repair: bool = True

    def __post_init__(self) -> None:
        check_choice("variance", self.variance, tuple(STRUCTURES))
        if isinstance(self.damping, str):
            check_choice("damping", self.damping, ("adaptive",))
        else:
            check("damping", self.damping, 0.0, 1.0, high_open=True)
        check("residual_floor", self.residual_floor, 0.0, 1.0)
        if self.anneal is not None:
            check_count("anneal", self.anneal, 0)
        object.__setattr__(self, "learn", tuple(self.learn))
        for name in self.learn:
            check_choice("learn", name, LEARNABLE)
        if self.measured_variance and self.anneal:
            raise InputError("anneal must be None or 0 with measured_variance=True, which never uses the noise level.")

    @classmethod
    def as_printed(cls, damping: float = 0.0) -> AMP:
        """The paper's algorithm: one measured variance, no clipping, no gauge, no repair, means left in.

        Examples:
            >>> import spinodal as sp
            >>> sp.AMP.as_printed().variance
            'scalar'
        """
        return cls("scalar", damping, 0.0, True, clip_gains=False, gauge=False, remove_means=False, anneal=0, repair=False)

    @property
    def rules(self) -> Rules:
        return Rules(STRUCTURES[self.variance], self.residual_floor, self.measured_variance, self.clip_gains)

    @property
    def blockwise(self) -> bool:
        return bool(self.rules.structure.local)

    @property
    def first_damping(self) -> float:
        return 0.5 if isinstance(self.damping, str) else self.damping

    @property
    def adaptive(self) -> bool:
        return isinstance(self.damping, str)

    @property
    def keeps_best(self) -> bool:
        """Versions that can diverge keep a copy of their best state."""
        return self.measured_variance or not self.clip_gains or self.residual_floor == 0

    def init(self, data: Data, key: Any) -> State:
        state = first_state(data)
        from_scratch = data.known is None and data.side is None
        if from_scratch:
            state = state._replace(F=first_guess(data, key))
        slow = self.anneal if self.anneal is not None else SHORTEST if from_scratch else 0
        return heated(data, state._replace(learned=nothing_learned(data) if self.learn else None), slow)

    def step(self, data: Data, state: State, step_size: Any) -> State:
        data = informed(data, state)
        state = cooled(data, state)
        now = counts_now(state)
        state, power = update(self.rules, data, state, step_size)
        if self.gauge and has_gauge(data):
            state = gauge_step(data, state, power, now)
        return learn(self.learn, data, state, power, now) if self.learn else state

    def cost(self, data: Data, state: State) -> Any:
        return -free_entropy(self.rules, informed(data, state), rescaled(state))
