"""What a solver is: init, step, finished, estimate, and a state of its own. Nothing around it knows more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...model.model import Model
from ...model.priors import Moments
from ...pair import Pair
from ..loop import History, Tolerance
from ..task import Task


class Measured(NamedTuple):
    """What an iteration is watched by: of each signal the variance level that was used and the measured one, and the damping.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> sp.Measured(level=np.ones(5), square=np.ones(5), damping=0.5).damping
        0.5
    """

    level: Any
    square: Any
    damping: Any


class Estimate(NamedTuple):
    """Where a solver stands: posterior moments of F and X, the expected nonzeros of each atom, and each signal's squared residual.

    `offset` is what prior means that were taken off contribute to Y, and `level` the variance of y - omega, per signal. As a start, an
    estimate may be of F alone.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> atoms = np.ones((3, 4))
        >>> sp.Estimate(F=sp.Gaussian().posterior(1.0, atoms)).X is None
        True
    """

    F: Moments
    X: Any = None
    nonzeros: Any = None
    square: Any = None
    offset: Any = Pair(None, None)
    level: Any = None


class Cooling(NamedTuple):
    """A temperature, as a share of the power of z, and the iterations of its slow fall (none: it is cold from the start)."""

    hot: Any
    slow: Any


COLD = Cooling(0.0, 0)


class Solver(ABC):
    """Base of all solvers with iterations, and of what wraps one. Solvers are frozen dataclasses of options.

    `task` is an `inference.task.Task`, which has no truth in it. The state is whatever the solver likes: a pytree of arrays.

    Examples:
        >>> import spinodal as sp
        >>> [isinstance(each, sp.Solver) for each in (sp.AMP(), sp.BiGAMP(), sp.MUAMP(), sp.RelaxedBP())]
        [True, True, True, True]
    """

    remove_means = False  # whether prior means that are not zero are taken off first (`messages/means.py`)
    searches = False  # whether `solve` surrounds it with a `Search` unless told otherwise
    can_diverge = False  # whether its best state on the way is worth keeping
    blockwise = False  # whether a step goes over the signals block by block, so that a loop may keep large arrays in blocks

    @abstractmethod
    def init(self, task: Task, draws: Any, start: Any = None) -> Any:
        """The state before the first iteration: what the priors and F' say, and without F' a random guess from `draws`; or a `start`, an
        Estimate, perhaps of F alone. `draws` are random numbers between 0 and 1, in the shape of F with one row more, or None.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> state.F.mean.shape, state.X.mean.shape
            ((12, 20), (20, 120))
        """

    @abstractmethod
    def step(self, task: Task, state: Any) -> Any:
        """One iteration.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> after = sp.AMP().step(task, state)
            >>> int(state.age), int(after.age)
            (0, 1)
        """

    @abstractmethod
    def measure(self, task: Task, state: Any) -> Measured:
        """What the last iteration measured.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> sp.AMP().measure(task, sp.AMP().step(task, state)).level.shape  # one for each signal
            (120,)
        """

    @abstractmethod
    def estimate(self, task: Task, state: Any) -> Estimate:
        """The estimates as they are now, in the units of the model.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> sp.AMP().estimate(task, state).X.variance.shape
            (20, 120)
        """

    @abstractmethod
    def free_entropy(self, task: Task, state: Any) -> Any:
        """log Z/(N P) of the state: what runs and repairs are compared by.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> after = sp.AMP().step(task, state)
            >>> bool(sp.AMP().free_entropy(task, after) > sp.AMP().free_entropy(task, state))
            True
        """

    def inputs(self, task: Task, state: Any) -> Moments:
        """Mean and variance of every z as the channel is told them: from everything but its own y, where the solver can tell.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> sp.AMP().inputs(task, sp.AMP().init(task, None)).mean.shape
            (12, 120)
        """
        (F, s), (X, c), *_ = self.estimate(task, state)
        N = task.sizes[1]
        return Moments(F @ X / jnp.asarray(N**0.5, task.Y.dtype), (F**2 @ c + s @ (X**2 + c)) / N)

    def finished(self, task: Task, state: Any, history: History, tolerance: Tolerance) -> Any:
        """Whether the iterations have settled.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> from spinodal.inference.loop import History, Tolerance
            >>> bool(sp.AMP().finished(task, state, History.start(task.Y.dtype), Tolerance(1e-3)))
            False
        """
        return history.settled(tolerance)

    def suited(self, channel: Any) -> Solver:
        """The solver with the choices that a channel asks for.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.AMP().suited(sp.GaussianNoise(np.array([[0.1], [10.0]]))).variance  # rows that differ in their noise
            'entry'
        """
        return self

    # ---- what wrappers change

    def restart(self, task: Task, state: Any, start: Estimate, cooling: Cooling) -> Any:
        """The state that goes on from this estimate, perhaps of F alone, and is cooled if the solver knows how to.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> from spinodal.inference.solvers.base import COLD
            >>> again = sp.AMP().restart(task, sp.AMP().step(task, state), sp.Estimate(state.F), COLD)
            >>> bool((again.X.mean == state.X.mean).all())
            True
        """
        return self.init(task, None, start)

    def reordered(self, state: Any, place: Any, sign: Any) -> Any:
        """The state with atom place[i] times sign[i] at place i; None if that can't be done.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> import numpy as np
            >>> turned = sp.AMP().reordered(state, np.arange(20)[::-1], -np.ones(20))
            >>> bool((turned.F.mean[:, 0] == -state.F.mean[:, -1]).all())
            True
        """
        return None

    def best(self, state: Any) -> Any:
        """The best state so far, to be returned if this one can't be; None if none was kept.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> sp.AMP().best(state) is None  # it does not come apart, so none is kept
            True
        """
        return None

    def learned(self, task: Task, state: Any) -> Task:
        """The task with the parameters learned so far in the place of the given ones.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> sp.AMP().learned(task, state) is task  # alone it learns none
            True
        """
        return task

    def divided(self, state: Any) -> Any:
        """Which arrays of a state have the signals as their last axis: a tree of truth values.

        Examples:
            >>> import spinodal as sp
            >>> from spinodal.inference.task import make_task
            >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
            >>> task = make_task(sp.sample(problem, 20, seed=1).observed, problem, 20, "float32", sp.Pair(False, False))
            >>> state = sp.AMP().init(task, None)
            >>> flags = sp.AMP().divided(state)
            >>> flags.X.mean, flags.F.mean
            (True, False)
        """
        return jax.tree.map(lambda _: False, state)


class Wrapper(Solver):
    """A solver with an `inner` one, whose state is the `inner` field of its own. Subclasses are frozen dataclasses."""

    inner: Solver

    @property
    def remove_means(self) -> bool:  # type: ignore[override]
        return self.inner.remove_means

    @property
    def blockwise(self) -> bool:  # type: ignore[override]
        return self.inner.blockwise

    def inside(self, task: Task, state: Any) -> Task:
        """The task as the inner solver sees it."""
        return task

    def measure(self, task: Task, state: Any) -> Measured:
        return self.inner.measure(self.inside(task, state), state.inner)

    def estimate(self, task: Task, state: Any) -> Estimate:
        return self.inner.estimate(self.inside(task, state), state.inner)

    def inputs(self, task: Task, state: Any) -> Moments:
        return self.inner.inputs(self.inside(task, state), state.inner)

    def free_entropy(self, task: Task, state: Any) -> Any:
        return self.inner.free_entropy(self.inside(task, state), state.inner)

    def finished(self, task: Task, state: Any, history: History, tolerance: Tolerance) -> Any:
        return self.inner.finished(self.inside(task, state), state.inner, history, tolerance)

    def restart(self, task: Task, state: Any, start: Estimate, cooling: Cooling) -> Any:
        return state._replace(inner=self.inner.restart(self.inside(task, state), state.inner, start, cooling))

    def reordered(self, state: Any, place: Any, sign: Any) -> Any:
        inner = self.inner.reordered(state.inner, place, sign)
        return None if inner is None else state._replace(inner=inner)

    def best(self, state: Any) -> Any:
        inner = self.inner.best(state.inner)
        return None if inner is None else state._replace(inner=inner)

    def learned(self, task: Task, state: Any) -> Task:
        return self.inner.learned(self.inside(task, state), state.inner)

    def divided(self, state: Any) -> Any:
        return jax.tree.map(lambda _: False, state)._replace(inner=self.inner.divided(state.inner))


def model_of(task: Task) -> Model:
    """The model that a task assumes."""
    return Model(task.prior, task.channel, task.knowledge)
