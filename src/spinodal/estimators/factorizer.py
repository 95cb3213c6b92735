"""What the two estimators share: fit, codes with their uncertainties, restored samples, scores."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from ..errors import InputError, check
from ..inference.checks import is_centered
from ..inference.coding import (
    Codes,
    Fitted,
    Given,
    Learned,
    Nominal,
    code_interval,
    code_std,
    fit_components,
    for_restoring,
    published_codes,
    restored_std,
)
from ..inference.execution.machine import one_thread_each
from .coders import check_coder, sparse_codes
from .sanity import means_to_take, without_masked
from .storage import Storable
from .validation import check_parameters, is_auto, is_fast, options_of, warn_before, weights_of

_WHY = {
    "max_iterations": "Not settled after max_iter={self.max_iter} iterations, refine_iter={self.refine_iter} rounds: raise them.",
    "diverged": "The iterations diverged, and the best state is kept; the model does not suit the data.",
    "degenerate": "Components are copies or unused, or nothing was learned: try fewer components, more samples or n_init > 1.",
    "unconfirmed": "Other runs did not find all components again (see reproducibility_): try fewer components or more samples.",
}


class Factorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Storable, BaseEstimator):
    """What the two estimators share: data = codes @ components_ + noise, with most codes zero."""

    components_: np.ndarray

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the components from data (samples x features); NaN is a missing entry.

        DictionaryLearner learns many samples in minibatches. It reads memory maps, Zarr arrays and other tables outside memory in parts,
        and an iterator of arrays once.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> model.components_.shape, model.status_
            ((4, 8), 'converged')
        """
        given = self._given()
        self.__dict__.pop("_ongoing", None)
        if self._reads_parts(X):
            return self._fit_outside_memory(X, given, sample_weight)
        X = self._validated(X, reset=True)
        weight = weights_of(sample_weight, X)
        nominal = self._nominal(X)
        n_components = self._count(X, nominal)
        warn_before(self, X, n_components)
        self.mean_ = means_to_take(is_centered(self.center), X, n_components, self.slab_mean, weight)
        known = self.warm_start and hasattr(self, "components_") and self.components_.shape == (n_components, X.shape[1])
        before = self._learned() if known else None
        data = X - self.mean_ if self.mean_.any() else X
        with one_thread_each():
            self._keep(fit_components(data, given, nominal, options_of(self, n_components, X.shape), before, weight))
        return self._warned()

    def _reads_parts(self, X: Any) -> bool:
        """Whether the data are outside memory, and the estimator can learn from parts of them."""
        return False

    def _fit_outside_memory(self, source: Any, given: Given, sample_weight: Any) -> Self:
        raise NotImplementedError

    def _warned(self) -> Self:
        if not self.converged_ or (self.status_ == "unconfirmed" and self.n_init > 1):
            warnings.warn(_WHY[self.status_].format(self=self), ConvergenceWarning, stacklevel=3)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Posterior means of the codes (samples x components), given the learned components.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> model.transform(data).shape
            (160, 4)
        """
        return self._infer(X, "mean")

    def transform_sparse(self, X: Any, coder: str = "posterior", *, n_nonzero: int | None = None, penalty: float | None = None) -> Any:
        """Sparse codes, as a scipy.sparse.csr_array: posterior means where a code is rather not zero, or those of another coder.

        Args:
            X: samples x features.
            coder: "posterior"; "omp", orthogonal matching pursuit; "lars", least angles (l1). The last two are SPAMS's if it is
                installed, else scikit-learn's, and need complete samples.
            n_nonzero: the most nonzero codes of a sample for "omp"; until what is left is noise if None.
            penalty: the l1 penalty of "lars", in the units of the data; as much as noise would pass in one of the components if None.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> model.transform_sparse(data).shape, model.transform_sparse(data, "omp", n_nonzero=2).nnz <= 320
            ((160, 4), True)
        """
        check_is_fitted(self)
        check_coder(coder, n_nonzero, penalty)
        X = self._validated(X, reset=False)
        return sparse_codes(self, X, coder, n_nonzero, penalty)

    def transform_std(self, X: Any) -> np.ndarray:
        """Posterior standard deviations of the codes.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> bool((model.transform_std(data) > 0).all())
            True
        """
        codes, X = self._codes(X)
        return code_std(self._learned(), codes).astype(X.dtype)

    def transform_support(self, X: Any) -> np.ndarray:
        """Posterior probabilities that the codes are not zero.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> bool(0.2 < (model.transform_support(data) > 0.5).mean() < 0.4)
            True
        """
        return self._infer(X, "probability")

    def transform_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that hold the codes with probability `level` if they are not zero.

        Whether they are is what `transform_support` tells. So a share `level` of the codes that are truly not zero is covered and, unless
        the slab has a mean, about the same share of those that are.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> low, high = model.transform_interval(data, level=0.9)
            >>> bool((low < high).all()), low.shape
            (True, (160, 4))
        """
        check("level", level, 0.0, 1.0, low_open=True, high_open=True)
        codes, X = self._codes(X)
        low, high = code_interval(self._learned(), codes, level)
        return low.astype(X.dtype), high.astype(X.dtype)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Data with these codes: codes @ components_, and the mean_ that was taken off.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> left = data - model.inverse_transform(model.transform(data))
            >>> bool(left.var() < 1.5e-2)  # the noise has variance .01
            True
        """
        check_is_fitted(self)
        codes = np.asarray(X)
        if codes.ndim != 2 or codes.shape[1] != len(self.components_):
            raise InputError(f"X must hold codes in the shape (n_samples, {len(self.components_)}), but its shape is {codes.shape}.")
        return codes @ self.components_ + self.mean_

    def restore(self, X: Any, noise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Samples without noise and with the missing entries filled in, and their standard deviations.

        With `noise` the standard deviations are those of measurements, so that entries held back can be compared with them.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> holes = data.copy()
            >>> holes[::2, 0] = np.nan
            >>> values, deviations = model.restore(holes)
            >>> bool(np.isfinite(values).all()), deviations.shape
            (True, (160, 8))
        """
        codes, X = self._codes(X, learned=for_restoring(self._learned()))
        return self.inverse_transform(codes.mean).astype(X.dtype), restored_std(self._learned(), codes, noise).astype(X.dtype)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log of the probability density of each sample under the learned model, in nats: higher is better.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> model.score_samples(data).shape
            (160,)
        """
        return self._infer(X, "evidence")

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the samples, in nats. On held-out data it compares models with different numbers of components.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 160 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).fit(data)
            >>> model.score(data) > model.score(-10 * data)  # such large samples are unlikely
            True
        """
        return float(np.mean(self.score_samples(X)))

    def _keep(self, fitted: Fitted) -> None:
        """Fitted attributes, by the names that scikit-learn gives them."""
        for name, value in fitted.learned._asdict().items():
            setattr(self, f"{name}_", value)
        self.status_, self.solver_status_ = fitted.status, fitted.solver_status
        self.n_iter_, self.history_ = fitted.iterations, fitted.history
        again = fitted.reproducibility
        unknown = np.full(len(self.components_), np.nan)
        self.reproducibility_ = (unknown if again is None else again).astype(self.components_.dtype)
        self.converged_ = fitted.status in ("converged", "unconfirmed")

    def _learned(self) -> Learned:
        return Learned(*(getattr(self, f"{name}_") for name in Learned._fields))

    def _infer(self, X: Any, what: str) -> np.ndarray:
        codes, X = self._codes(X, what)
        return getattr(codes, what).astype(X.dtype, copy=False)

    def _codes(self, X: Any, *only: str, learned: Learned | None = None) -> tuple[Codes, np.ndarray]:
        """The codes of the samples, or only some fields of them, and the samples as they were understood. `learned` is another model."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        fast = is_fast(self, X.shape, len(self.components_))
        # Where speed was not asked for but is needed, single precision does: VAMP's own errors are larger.
        kind = np.float32 if fast and is_auto(self.fast) else X.dtype
        data = (X - self.mean_ if self.mean_.any() else X).astype(kind, copy=False)
        own = None if is_auto(self.own_density) else bool(self.own_density)
        with one_thread_each():
            return published_codes(self._learned() if learned is None else learned, data, own_density=own, fast=fast, only=only), X

    def _validated(self, X: Any, *, reset: bool) -> np.ndarray:
        return validate_data(self, without_masked(X), reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")

    def _given(self) -> Given:
        """The parameters that the user gives or leaves to be learned, checked."""
        check_parameters(self)
        return Given(*(None if is_auto(getattr(self, name)) else getattr(self, name) for name in Given._fields))

    def _nominal(self, X: np.ndarray) -> Nominal | None:
        return None

    def _count(self, X: np.ndarray, nominal: Nominal | None) -> int:
        """How many components there will be."""
        if nominal is not None:
            return len(nominal.matrix)
        return X.shape[1] if self.n_components is None else int(self.n_components)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
