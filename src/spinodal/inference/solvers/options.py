"""What every solver with iterations offers, and the options that those which update one factor at a time share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import check, check_choice
from ..messages.data import Data
from ..messages.state import State, first_state
from ..messages.update import Rules
from ..messages.variances import STRUCTURES


class Solver:
    """What a solver with iterations offers to the one loop that drives them all (`solvers/iterate.py`).

    Solvers are frozen dataclasses of options. `data` is `solvers.data.Data`, which has no truth in it; the state is `solvers.state.State`.

    Examples:
        >>> import spinodal as sp
        >>> from spinodal.inference import Solver
        >>> [isinstance(each, Solver) for each in (sp.AMP(), sp.BiGAMP(), sp.MUAMP(), sp.RelaxedBP(), sp.Lasso())]  # no iterations of ours
        [True, True, True, True, False]
    """

    @property
    def blockwise(self) -> bool:
        """Whether an iteration goes over the signals block by block (`solvers/blocks.py`).

        Examples:
            >>> import spinodal as sp
            >>> sp.AMP().blockwise, sp.AMP(variance="scalar").blockwise
            (True, False)
        """
        return False

    def init(self, data: Data, key: Any) -> State:
        """The state before the first iteration: what the priors and F' say, and without F' a random guess from `key`.

        Examples:
            >>> import jax
            >>> import spinodal as sp
            >>> from spinodal.inference.messages.data import make_data
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> observed = sp.sample(problem, 20, seed=1).observed
            >>> with jax.enable_x64(True):
            ...     data = make_data(observed, problem, 20, "noisy", "float64")
            ...     state = sp.AMP().init(data, jax.random.key(0))
            >>> state.F.mean.shape, state.X.mean.shape
            ((12, 20), (20, 120))
        """
        raise TypeError(f"{type(self).__name__} must define init(data, key).")

    def step(self, data: Data, state: State, step_size: Any) -> State:
        """One iteration; `step_size` is the share of the new values, one less the damping.

        Examples:
            >>> import jax
            >>> import spinodal as sp
            >>> from spinodal.inference.messages.data import make_data
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> observed = sp.sample(problem, 20, seed=1).observed
            >>> with jax.enable_x64(True):
            ...     data = make_data(observed, problem, 20, "noisy", "float64")
            ...     state = sp.MUAMP().init(data, jax.random.key(0))
            ...     state = jax.jit(sp.MUAMP().step)(data, state, 0.5)
            >>> int(state.age)
            1
        """
        raise TypeError(f"{type(self).__name__} must define step(data, state, step_size).")

    def cost(self, data: Data, state: State) -> Any:
        """Minus the Bethe free entropy of the state: what adaptive damping watches, and restarts are compared by.

        Examples:
            >>> import jax
            >>> import numpy as np
            >>> import spinodal as sp
            >>> from spinodal.inference.messages.data import make_data
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> observed = sp.sample(problem, 20, seed=1).observed
            >>> with jax.enable_x64(True):
            ...     data = make_data(observed, problem, 20, "noisy", "float64")
            ...     state = sp.MUAMP().init(data, jax.random.key(0))
            ...     cost = float(jax.jit(sp.MUAMP().cost)(data, state))
            >>> bool(np.isfinite(cost))
            True
        """
        raise TypeError(f"{type(self).__name__} must define cost(data, state).")


@dataclass(frozen=True)
class Plain(Solver):
    """Constant damping, no repair, and the start that the priors and F' give. The options are those of AMP."""

    variance: str = "row-column"
    damping: float = 0.5
    residual_floor: float = 0.7
    clip_gains: bool = True

    adaptive = False
    keeps_best = False
    repair = False
    remove_means = True

    def __post_init__(self) -> None:
        check_choice("variance", self.variance, tuple(STRUCTURES))
        check("damping", self.damping, 0.0, 1.0, high_open=True)
        check("residual_floor", self.residual_floor, 0.0, 1.0)

    @property
    def rules(self) -> Rules:
        return Rules(STRUCTURES[self.variance], self.residual_floor, False, self.clip_gains)

    @property
    def blockwise(self) -> bool:
        return bool(self.rules.structure.local)

    @property
    def first_damping(self) -> float:
        return self.damping

    def init(self, data: Data, key: Any) -> State:
        return first_state(data)
