"""Other dictionary learners, a few passes over the data at a time, so that their error can be watched against their time.

Each `*_learner(Y, start)` returns `step(penalty)`, which goes on from where it was with that l1 penalty and returns the dictionary.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

Step = Callable[[float], np.ndarray]
# Passes over the data in a step.
PASSES = 5
# The batch of the online learners: scikit-learn's default.
BATCH = 256


def data_columns(Y: np.ndarray, n_atoms: int, seed: int) -> np.ndarray:
    """Where all start: columns of Y, normalised."""
    columns = Y[:, np.random.default_rng(seed).choice(Y.shape[1], n_atoms, replace=False)]
    return columns / np.linalg.norm(columns, axis=0)


def sklearn_learner(Y: np.ndarray, start: np.ndarray) -> Step:
    from sklearn.decomposition import DictionaryLearning
    from sklearn.exceptions import ConvergenceWarning

    dictionary, code = start.T, np.zeros((Y.shape[1], start.shape[1]))

    def step(penalty: float) -> np.ndarray:
        nonlocal dictionary, code
        learner = DictionaryLearning(
            start.shape[1],
            alpha=penalty,
            max_iter=PASSES,
            tol=0.0,
            fit_algorithm="cd",
            dict_init=dictionary,
            code_init=code,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of single signals whose penalty is still far too small for the atoms
            # What the learning itself ends with; fit_transform is the documented way to it and does no second encoding.
            code = learner.fit_transform(Y.T)
        dictionary = learner.components_
        return dictionary.T

    return step


def sklearn_online_learner(Y: np.ndarray, start: np.ndarray) -> Step:
    from sklearn.decomposition import MiniBatchDictionaryLearning
    from sklearn.exceptions import ConvergenceWarning

    learner = MiniBatchDictionaryLearning(start.shape[1], fit_algorithm="cd", batch_size=BATCH, dict_init=start.T, random_state=0)
    random = np.random.default_rng(0)

    def step(penalty: float) -> np.ndarray:
        learner.set_params(alpha=penalty)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for _ in range(PASSES):
                order = random.permutation(Y.shape[1])
                for first in range(0, order.size, BATCH):
                    learner.partial_fit(Y.T[order[first : first + BATCH]])
        return learner.components_.T

    return step


def spams_learner(Y: np.ndarray, start: np.ndarray) -> Step:
    """All signals in every iteration."""
    import spams

    data, dictionary = np.asfortranarray(Y), np.asfortranarray(start)

    def step(penalty: float) -> np.ndarray:
        nonlocal dictionary
        learned = spams.trainDL(data, D=dictionary, lambda1=penalty, iter=PASSES, batch=True, numThreads=-1, verbose=False)
        dictionary = np.asfortranarray(learned)
        return dictionary

    return step


def spams_online_learner(Y: np.ndarray, start: np.ndarray) -> Step:
    """A batch of signals an iteration, with running averages of what was seen: what SPAMS does unless told otherwise."""
    import spams

    data, dictionary = np.asfortranarray(Y), np.asfortranarray(start)
    iterations = PASSES * -(-Y.shape[1] // BATCH)
    model: dict[str, Any] = {}

    def step(penalty: float) -> np.ndarray:
        nonlocal dictionary, model
        learned, averages = spams.trainDL(
            data, D=dictionary, lambda1=penalty, iter=iterations, batchsize=BATCH, numThreads=-1, verbose=False, return_model=True, **model
        )
        dictionary, model = np.asfortranarray(learned), {"model": averages}
        return dictionary

    return step


# Name, package to import, learner: DictionaryLearning, MiniBatchDictionaryLearning, and trainDL with batch=True and False.
_ALL = (
    ("scikit-learn, batch", "sklearn", sklearn_learner),
    ("scikit-learn, online", "sklearn", sklearn_online_learner),
    ("SPAMS, batch", "spams", spams_learner),
    ("SPAMS, online", "spams", spams_online_learner),
)


def installed() -> dict[str, Callable[[np.ndarray, np.ndarray], Step]]:
    """Those that can be run here; says which can not."""
    for package in sorted({package for _, package, _ in _ALL if find_spec(package) is None}):
        print(f"{package} is not installed and is left out: pip install 'spinodal[bench]'")
    return {name: learner for name, package, learner in _ALL if find_spec(package) is not None}
