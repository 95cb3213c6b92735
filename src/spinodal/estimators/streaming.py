"""Data outside memory: `partial_fit`, and fits to what is read in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from ..errors import InputError
from ..inference.checks import is_centered
from ..inference.coding import LEAST_ROWS, Given, Ongoing, begun, fit_minibatches, fitted_so_far, is_lazy, went_on
from ..inference.execution.machine import one_thread_each
from .factorizer import Factorizer
from .sanity import means_to_take
from .validation import options_of, weights_of


class Streaming(Factorizer):
    """An estimator that goes on learning with more samples."""

    _ongoing: Ongoing

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more samples, of which nothing is kept: memory does not grow, and time is linear in the samples.

        The first call starts from its samples (or from a fitted model) and should have some thousands of them; each needs a minibatch's
        worth, 4096, to be of full use. `mean_`, if it is taken off, is that of the first.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=400.0, rho=0.3, noise_variance=1e-2)
            >>> data = sp.sample(problem, 4, seed=1).observed.Y.T  # 1600 samples of 8 features, made of 4 atoms
            >>> model = sp.DictionaryLearner(4, random_state=0)
            >>> for part in range(4):
            ...     model = model.partial_fit(data[400 * part : 400 * (part + 1)])
            >>> model.components_.shape, model.n_iter_
            ((4, 8), 4)
        """
        given = self._given()
        again = getattr(self, "_ongoing", None)
        X = self._validated(X, reset=not hasattr(self, "components_"))
        if again is None:
            n_components = self._count(X, None)
            known = hasattr(self, "components_") and self.components_.shape == (n_components, X.shape[1])
            if not known:
                self.mean_ = means_to_take(is_centered(self.center), X, n_components, self.slab_mean)
            options = options_of(self, n_components, X.shape)
            again = begun((X - self.mean_).astype(np.float32), given, options, self._learned() if known else None)
        with one_thread_each():
            self._ongoing = went_on(again, X - self.mean_, weights_of(sample_weight, X))
            self._keep(fitted_so_far(self._ongoing, X.dtype))
        return self

    def _reads_parts(self, X: Any) -> bool:
        return isinstance(X, Iterator) or is_lazy(X)

    def _fit_outside_memory(self, source: Any, given: Given, sample_weight: Any) -> Self:
        """A fit to data that are read in parts."""
        if sample_weight is not None:
            raise InputError("sample_weight goes with data in memory, or with partial_fit.")
        if isinstance(source, Iterator):
            for name in ("components_", "n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            for part in source:
                self.partial_fit(part)
            if not hasattr(self, "components_"):
                raise InputError("X must hold samples, but the iterator is empty.")
            return self._warned()
        first = self._validated(source[: 2 * LEAST_ROWS], reset=True)
        n_components = self._count(first, None)
        self.mean_ = means_to_take(is_centered(self.center), first, n_components, self.slab_mean)
        options = options_of(self, n_components, source.shape, minibatches=True)
        with one_thread_each():
            self._keep(fit_minibatches(source, given, options, mean=self.mean_))
        return self._warned()
