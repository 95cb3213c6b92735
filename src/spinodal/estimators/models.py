"""DictionaryLearner and BlindCalibration: what scikit-learn sees."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from ..errors import InputError, check, check_count, check_finite, check_nonnegative, check_positive
from .codes import Codes, Model, Slab
from .fitting import Nominal, Run, Wanted, code_counts, fit_components
from .shared import infer
from .storage import Storable

# More operations than this, or more bytes for second moments, are worth a warning: about half an hour, and what few machines have.
_LONG_WORK, _MUCH_ROOM = 2e13, 8e9
# Seeds are drawn below this.
_SEEDS = 2**31 - 1
_WHY = {
    "max_iterations": "Not settled after max_iter={self.max_iter} iterations and refine_iter={self.refine_iter} rounds; raise them.",
    "diverged": "The iterations diverged, and the best state is kept; the model does not suit the data.",
    "degenerate": "Components are copies or unused, or nothing was learned: try fewer components, more samples or n_init > 1.",
}


class Factorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Storable, BaseEstimator):
    """What the two estimators share: data = codes @ components_ + noise, with most codes zero."""

    components_: np.ndarray

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the components from data (samples x features); NaN is a missing entry."""
        wanted = self._wanted()
        X = self._validated(X, reset=True)
        nominal = self._nominal(X)
        n_components = self._count(X, nominal)
        if len(X) < n_components:
            warnings.warn(
                f"{len(X)} samples for {n_components} components: a component may be the copy of a sample.",
                UserWarning,
                stacklevel=2,
            )
        self.mean_ = _column_means(X) if self.center else np.zeros(X.shape[1], X.dtype)
        self._warn_of_work(X, n_components)
        known = self.warm_start and hasattr(self, "components_") and self.components_.shape == (n_components, X.shape[1])
        before = self._model() if known else None
        with _one_thread():
            fitted = fit_components(X - self.mean_, wanted, nominal, self._run(n_components), before)
        self.scales_, self.scales_var_ = fitted.scales
        self.components_ = fitted.components
        self.components_var_ = fitted.components_var + fitted.components**2 * self.scales_var_[:, None]
        self.noise_variance_, self.density_ = fitted.noise_variance, fitted.density
        self.slab_mean_, self.slab_variance_ = fitted.slab_mean, fitted.slab_variance
        self.status_, self.solver_status_ = fitted.status, fitted.solver_status
        self.n_iter_, self.history_ = fitted.iterations, fitted.history
        self.converged_ = fitted.status == "converged"
        if not self.converged_:
            warnings.warn(_WHY[fitted.status].format(self=self), ConvergenceWarning, stacklevel=2)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Posterior means of the codes (samples x components), given the learned components."""
        return self._infer(X, "mean")

    def transform_std(self, X: Any) -> np.ndarray:
        """Posterior standard deviations of the codes."""
        codes, X = self._codes(X)
        return np.sqrt(codes.variance + (codes.mean**2 + codes.variance) * self.scales_var_).astype(X.dtype)

    def transform_support(self, X: Any) -> np.ndarray:
        """Posterior probabilities that the codes are not zero."""
        return self._infer(X, "probability")

    def transform_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that hold the codes with probability `level` if they are not zero.

        Whether they are is what `transform_support` tells. So a share `level` of the codes that are truly not zero is covered and, unless
        the slab has a mean, about the same share of those that are.
        """
        check("level", level, 0.0, 1.0, low_open=True, high_open=True)
        codes, X = self._codes(X)
        middle, square = codes.slab_mean, codes.slab_variance
        half = ndtri((1 + level) / 2) * np.sqrt(square + (middle**2 + square) * self.scales_var_)
        return (middle - half).astype(X.dtype), (middle + half).astype(X.dtype)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Data with these codes: codes @ components_, and the mean_ that was taken off."""
        check_is_fitted(self)
        codes = np.asarray(X)
        if codes.ndim != 2 or codes.shape[1] != len(self.components_):
            raise InputError(f"X must hold codes in the shape (n_samples, {len(self.components_)}), but its shape is {codes.shape}.")
        return codes @ self.components_ + self.mean_

    def restore(self, X: Any, noise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Samples without noise and with the missing entries filled in, and their standard deviations.

        With `noise` the standard deviations are those of measurements, so that entries held back can be compared with them.
        """
        codes, X = self._codes(X)
        mean = self.inverse_transform(codes.mean)
        variance = codes.signal_variance + (codes.mean**2 + codes.variance) @ self._given_scales()
        return mean.astype(X.dtype), np.sqrt(variance + noise * self.noise_variance_).astype(X.dtype)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log of the probability density of each sample under the learned model, in nats: higher is better."""
        return self._infer(X, "evidence")

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the samples, in nats. On held-out data it compares models with different numbers of components."""
        return float(np.mean(self.score_samples(X)))

    def _warn_of_work(self, X: np.ndarray, n_components: int) -> None:
        """Rounds of refinement take samples x n_components^2 x the smaller side, and with missing entries a matrix for each feature."""
        side = min(n_components, X.shape[1])
        work = 0.0 if self.fast else float(self.refine_iter) * len(X) * n_components**2 * side
        room = 8.0 * X.shape[1] * n_components**2 if np.isnan(X).any() else 0.0
        if work > _LONG_WORK or (self.refine_iter and room > _MUCH_ROOM):
            warnings.warn(
                f"refine_iter={self.refine_iter} rounds on {len(X)} samples with {n_components} components may take {work:.0e} operations "
                f"and {room / 1e9:.2g} GB; refine_iter=0 leaves them out.",
                UserWarning,
                stacklevel=3,
            )

    def _infer(self, X: Any, what: str) -> np.ndarray:
        codes, X = self._codes(X)
        return getattr(codes, what).astype(X.dtype)

    def _codes(self, X: Any) -> tuple[Codes, np.ndarray]:
        """The codes of the samples, and the samples as they were understood."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        with _one_thread():
            found = infer(self._model(), X - self.mean_)
        size = self.scales_.astype(np.float64)
        sized = {name: getattr(found, name) * size for name in ("mean", "slab_mean")}
        sized |= {name: getattr(found, name) * size**2 for name in ("variance", "slab_variance")}
        return found._replace(**sized), X

    def _model(self) -> Model:
        """The model in which all codes have the same slab."""
        slab = Slab(self.density_, self.slab_mean_, self.slab_variance_)
        size = self.scales_.astype(np.float64)[:, None]
        components, variances = self.components_ * size, self._given_scales() * size**2
        return Model(components, variances, slab, self.noise_variance_, code_counts(self.own_density), self.fast)

    def _given_scales(self) -> np.ndarray:
        """The variances of the components without what their scales add, which no product with codes can tell."""
        return np.maximum(self.components_var_.astype(np.float64) - self.components_.astype(np.float64) ** 2 * self.scales_var_[:, None], 0)

    def _validated(self, X: Any, *, reset: bool) -> np.ndarray:
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")

    def _wanted(self) -> Wanted:
        """The parameters, checked."""
        given = {name: None if _is_auto(getattr(self, name)) else getattr(self, name) for name in Wanted._fields}
        if given["density"] is not None:
            check("density", given["density"], 0.0, 1.0, low_open=True, high_open=True)
        if given["noise_variance"] is not None:
            check_nonnegative("noise_variance", given["noise_variance"])
        if given["slab_mean"] is not None:
            check_finite("slab_mean", given["slab_mean"])
        if given["slab_variance"] is not None:
            check_positive("slab_variance", given["slab_variance"])
        check_count("max_iter", self.max_iter, 0)
        check_count("n_init", self.n_init)
        check_count("refine_iter", self.refine_iter, 0)
        check("tol", self.tol, 0.0, 1.0, high_open=True)
        return Wanted(**given)

    def _nominal(self, X: np.ndarray) -> Nominal | None:
        return None

    def _count(self, X: np.ndarray, nominal: Nominal | None) -> int:
        """How many components there will be."""
        if nominal is not None:
            return len(nominal.matrix)
        return X.shape[1] if self.n_components is None else int(self.n_components)

    def _run(self, n_components: int) -> Run:
        seed = int(check_random_state(self.random_state).randint(_SEEDS - self.n_init))
        return Run(
            n_components, self.n_init, self.max_iter, self.tol, self.refine_iter, self.own_density, self.fast, seed, self._progress()
        )

    def _progress(self) -> Any:
        if not self.verbose:
            return self.callback

        def tell(iteration: int, residual: float, damping: float) -> None:
            print(f"[{type(self).__name__}] iteration {iteration}, residual {residual:.3g} of the data's power")
            if self.callback is not None:
                self.callback(iteration, residual, damping)

        return tell

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class DictionaryLearner(Factorizer):
    """Bayesian dictionary learning: data = codes @ components_ + noise, nothing known of the components.

    n_components: how many; as many as there are features if None. `score` tells which number is right (see docs/estimators.md).
    density, noise_variance, slab_mean, slab_variance: share of nonzero codes, variance of the noise, mean and variance of the nonzero
    codes, in the units of the data; "auto" learns them.
    center: take the features' means off first (kept in `mean_`).
    own_density: every sample has a density of its own, near the common one: for data of unequal complexity, such as patches of photographs.
    n_init: starts, of which the one of best evidence is kept. max_iter, tol: of the message passing (max_iter=0: none, samples are the
    start). refine_iter: the most rounds of expectation maximisation after it; they make components and parameters fit real data, and are
    the slower part of a large fit (0 for none).
    fast: codes of samples without missing entries by vector approximate message passing, tens of times faster and a little less precise.
    warm_start: fit goes on from the components of the last fit, where they have the right shape, and only refines them.
    random_state: an int for the same result every time.
    callback: called as callback(iteration, residual, damping) now and then. verbose: print the same.

    After fit: components_ (n_components x n_features) and components_var_, their posterior means and variances. Components have norm 1
    (those that nothing was learned of, less), unless slab_variance or slab_mean is given and fixes their scales. scales_: the norms they
    have in the model in which all nonzero codes have the mean slab_mean_ and the variance slab_variance_; those of component k have these
    times scales_[k] and its square. scales_var_: relative variance of the scales, counted in components_var_ and transform_std.
    density_, noise_variance_; status_, converged_; solver_status_ (of message passing alone);
    n_iter_ (of message passing, or rounds if there was none);
    history_ (residual, level, damping and change of each iteration, evidence of each round); mean_; n_features_in_, feature_names_in_.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        density: float | str = "auto",
        noise_variance: float | str = "auto",
        slab_mean: float | str = 0.0,
        slab_variance: float | str = "auto",
        own_density: bool = False,
        center: bool = False,
        n_init: int = 1,
        max_iter: int = 2000,
        tol: float = 3e-4,
        refine_iter: int = 30,
        fast: bool = False,
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

    def _wanted(self) -> Wanted:
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        return super()._wanted()


class BlindCalibration(Factorizer):
    """Dictionary learning around nominal components: `matrix` = (true + sqrt(eta) errors)/sqrt(1 + eta), errors as large as entries.

    matrix: the nominal components (n_components x n_features); the identity if None. eta: how badly they are known: 0.01 is 10% off,
    1 is as much error as truth. The other parameters and attributes are those of DictionaryLearner; components_ come in the
    order and units of `matrix`, and scales_ are 1.
    """

    def __init__(
        self,
        matrix: Any = None,
        eta: float = 0.1,
        *,
        density: float | str = "auto",
        noise_variance: float | str = "auto",
        slab_mean: float | str = 0.0,
        slab_variance: float | str = "auto",
        own_density: bool = False,
        center: bool = False,
        n_init: int = 1,
        max_iter: int = 2000,
        tol: float = 3e-4,
        refine_iter: int = 30,
        fast: bool = False,
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

    def _wanted(self) -> Wanted:
        check_positive("eta", self.eta)
        return super()._wanted()

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


def _one_thread() -> Any:
    """Many small matrices: several threads to each would mostly wait for each other. JAX has threads of its own."""
    return threadpool_limits(1, user_api="blas")


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _column_means(X: np.ndarray) -> np.ndarray:
    """Mean of each feature over its observed entries; 0 where there are none."""
    known = ~np.isnan(X)
    return (np.where(known, X, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)).astype(X.dtype)
