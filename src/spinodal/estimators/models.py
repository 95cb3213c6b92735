"""DictionaryLearner and BlindCalibration: what scikit-learn sees."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError, check_count, check_positive
from ..inference.coding import Given, Nominal
from .factorizer import Factorizer
from .frames import Framed
from .streaming import Streaming


class DictionaryLearner(Framed, Streaming):
    """Bayesian dictionary learning: data = codes @ components_ + noise, nothing known of the components.

    Args:
        n_components: how many; as many as there are features if None. `score` tells which number is right (see docs/estimators.md).
        density: share of nonzero codes; "auto" learns it.
        noise_variance: variance of the noise, in the units of the data; "auto" learns it. Where message passing finds less than 3e-5 of the
            power, 3e-4 of it is assumed: codes need some noise.
        slab_mean: mean of the nonzero codes; "auto" learns it.
        slab_variance: variance of the nonzero codes; "auto" learns it.
        own_density: True if every sample has a density of its own, near the common one: for data of unequal complexity, such as patches
            of photographs. "auto" if the numbers of nonzero codes differ more from sample to sample than chance explains.
        center: True to take the features' means off first (kept in `mean_`), which is refused where slab_mean, which explains them, is not
            0; False to leave them. "auto" takes them off where they are further from zero than chance takes them and slab_mean is 0, and
            a warning says so.
        n_init: the most runs from starts of their own, which are compared and vote; one run is confirmed by no other.
        max_iter: most iterations of the message passing; 0 for none (samples are the start). "auto" tries it on data that are not large,
            and goes on, up to 2000, where its evidence is higher than that of samples.
        tol: tolerance of the message passing.
        refine_iter: the most rounds of expectation maximisation after it; they make components and parameters fit real data, and are the
            slower part of a large fit (0 for none).
        fast: codes of samples without missing entries by vector approximate message passing, tens of times faster and a little less
            precise; "auto" if expectation propagation would take longer than some seconds. Single precision is faster still.
        warm_start: fit goes on from the components of the last fit, where they have the right shape, and only refines them.
        random_state: an int for the same result every time.
        callback: called as callback(iteration, residual) now and then.
        verbose: print the same.

    After fit: components_ (n_components x n_features) and components_var_, their posterior means and variances. Components have norm 1
    (those that nothing was learned of, less), unless slab_variance or slab_mean is given and fixes their scales. scales_: the norms they
    have in the model in which all nonzero codes have the mean slab_mean_ and the variance slab_variance_; those of component k have these
    times scales_[k] and its square. scales_var_: relative variance of the scales, counted in components_var_ and transform_std.
    density_, noise_variance_: means of component_density_ and feature_noise_, whose values differ only if the data say so; own_density_;
    noise_weight_: how much a feature's own noise counts in `restore` (1: as it is, 0: all features count alike);
    status_, converged_; solver_status_ (of message passing alone);
    reproducibility_: of each component the share of other runs that found it, NaN if there was one run;
    n_iter_ (of message passing, or rounds if there was none);
    history_ (residual, level, damping and change of each iteration, evidence of each round); mean_; n_features_in_, feature_names_in_.

    Examples:
        Data so small need no message passing before the rounds; leave `max_iter` alone otherwise.

        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
        >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
        >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
        >>> print(f"{model.density_:.1f} {model.noise_variance_:.2f}")  # learned
        0.3 0.01
        >>> model.transform(data).shape
        (160, 4)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        density: float | str = "auto",
        noise_variance: float | str = "auto",
        slab_mean: float | str = 0.0,
        slab_variance: float | str = "auto",
        own_density: bool | str = "auto",
        center: bool | str = "auto",
        n_init: int = 1,
        max_iter: int | str = "auto",
        tol: float = 3e-4,
        refine_iter: int = 100,
        fast: bool | str = "auto",
        warm_start: bool = False,
        random_state: Any = None,
        callback: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.density = density
        self.noise_variance = noise_variance
        self.slab_mean = slab_mean
        self.slab_variance = slab_variance
        self.own_density = own_density
        self.center = center
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.refine_iter = refine_iter
        self.fast = fast
        self.warm_start = warm_start
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _given(self) -> Given:
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        return super()._given()


class BlindCalibration(Framed, Factorizer):
    """Dictionary learning around nominal components: `matrix` = (true + sqrt(eta) errors)/sqrt(1 + eta), errors as large as entries.

    The other parameters and attributes are those of DictionaryLearner; components_ come in the order and units of `matrix`, and scales_
    are 1.

    Args:
        matrix: the nominal components (n_components x n_features); the identity if None.
        eta: how badly they are known: 0.01 is 10% off, 1 is as much error as truth.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, eta=0.1, noise_variance=1e-2)
        >>> instance = sp.sample(problem, 4, seed=1)
        >>> data, nominal, true = instance.observed.Y.T, instance.observed.F_prime.T, instance.truth.F.T
        >>> model = sp.BlindCalibration(nominal, eta=0.1, max_iter=0).fit(data)
        >>> bool(np.mean((model.components_ - true) ** 2) < np.mean((nominal - true) ** 2) / 3)
        True
    """

    _array_parameters = ("matrix",)

    def __init__(
        self,
        matrix: Any = None,
        eta: float = 0.1,
        *,
        density: float | str = "auto",
        noise_variance: float | str = "auto",
        slab_mean: float | str = 0.0,
        slab_variance: float | str = "auto",
        own_density: bool | str = "auto",
        center: bool | str = "auto",
        n_init: int = 1,
        max_iter: int | str = "auto",
        tol: float = 3e-4,
        refine_iter: int = 100,
        fast: bool | str = "auto",
        warm_start: bool = False,
        random_state: Any = None,
        callback: Any = None,
        verbose: bool = False,
    ) -> None:
        self.matrix = matrix
        self.eta = eta
        self.density = density
        self.noise_variance = noise_variance
        self.slab_mean = slab_mean
        self.slab_variance = slab_variance
        self.own_density = own_density
        self.center = center
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.refine_iter = refine_iter
        self.fast = fast
        self.warm_start = warm_start
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _given(self) -> Given:
        check_positive("eta", self.eta)
        return super()._given()

    def _nominal(self, X: np.ndarray) -> Nominal:
        if self.matrix is None:
            return Nominal(np.eye(X.shape[1], dtype=X.dtype), float(self.eta))
        try:
            matrix = np.asarray(self.matrix, dtype=X.dtype)
        except (TypeError, ValueError):
            raise InputError(f"matrix must be an array of real numbers, but {type(self.matrix).__name__} was given.") from None
        if matrix.ndim != 2 or 0 in matrix.shape or matrix.shape[1] != X.shape[1]:
            raise InputError(
                f"matrix must have the shape (n_components, {X.shape[1]}), a column for each feature, but its shape is {matrix.shape}."
            )
        if not np.isfinite(matrix).all() or not matrix.any():
            raise InputError("matrix must be finite and not all zero.")
        return Nominal(matrix, float(self.eta))
