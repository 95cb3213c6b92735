"""Sparse coding of handwritten digits: spinodal.DictionaryLearner beside scikit-learn's two dictionary learners.

    python examples/digits.py [--atoms 36] [--out digits.png]

Every learner gets the same training digits. Their errors on other digits are compared at equal sparsity: the codes of all are computed by
orthogonal matching pursuit with the same number of nonzeros. Below, the codes by the model's own posterior.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import DictionaryLearning, MiniBatchDictionaryLearning, sparse_encode

import spinodal as sp

TRAINING = 800
NONZEROS = (2, 4, 6, 8, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--atoms", type=int, default=36)
    parser.add_argument("--out", default="digits.png")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # all three stop before they have settled, on these data

    digits = load_digits().data
    digits = digits[np.random.default_rng(0).permutation(len(digits))]
    mean = digits[:TRAINING].mean(axis=0)
    train, test = digits[:TRAINING] - mean, digits[TRAINING:] - mean

    learners: dict[str, Any] = {
        "spinodal.DictionaryLearner": sp.DictionaryLearner(options.atoms, random_state=0, max_iter=600),
        "DictionaryLearning": DictionaryLearning(options.atoms, alpha=1.0, max_iter=20, random_state=0),
        "MiniBatchDictionaryLearning": MiniBatchDictionaryLearning(options.atoms, alpha=1.0, max_iter=20, random_state=0),
    }
    print(f"{'error / variance, nonzeros per digit:':38s}" + "".join(f"{count:8d}" for count in NONZEROS) + "     fit")
    for name, learner in learners.items():
        begun = time.perf_counter()
        learner.fit(train)
        seconds = time.perf_counter() - begun
        errors = [omp_error(learner.components_, test, count) for count in NONZEROS]
        print(f"{name:38s}" + "".join(f"{error:8.4f}" for error in errors) + f"{seconds:7.1f}s")

    model = learners["spinodal.DictionaryLearner"]
    codes, support = model.transform(test), model.transform_support(test) > 0.5
    for what, used in (("all codes", codes), ("codes more likely than not", np.where(support, codes, 0))):
        error = np.mean((test - model.inverse_transform(used)) ** 2) / np.mean(test**2)
        print(f"posterior, {what}: error {error:.4f} with {np.mean(np.count_nonzero(used, axis=1)):.1f} nonzeros per digit")
    print(f"learned: density {model.density_:.3f}, noise variance {model.noise_variance_:.3g} of {np.mean(train**2):.3g}")
    print(f"held-out log density: {model.score(test):.1f} nats per digit")
    atoms_figure({name: learner.components_ for name, learner in learners.items()}).savefig(options.out, dpi=110)


def omp_error(components: np.ndarray, data: np.ndarray, nonzeros: int) -> float:
    """Mean squared error over the variance, with the best few atoms for each sample that matching pursuit finds."""
    norms = np.linalg.norm(components, axis=1, keepdims=True)
    atoms = components / np.where(norms > 0, norms, 1)
    codes = sparse_encode(data, atoms, algorithm="omp", n_nonzero_coefs=nonzeros)
    return float(np.mean((data - codes @ atoms) ** 2) / np.mean(data**2))


def atoms_figure(learned: dict[str, np.ndarray]) -> plt.Figure:
    """Atoms as images, those of each learner in a panel, each scaled to its own largest entry."""
    figure, panels = plt.subplots(1, len(learned), figsize=(4.2 * len(learned), 4.4))
    figure.set_layout_engine("constrained", wspace=0.08)
    for panel, (name, atoms) in zip(panels, learned.items(), strict=True):
        side = int(np.ceil(np.sqrt(len(atoms))))
        sheet = np.full((9 * side - 1, 9 * side - 1), np.nan)
        for k, atom in enumerate(atoms):
            row, column = 9 * (k // side), 9 * (k % side)
            sheet[row : row + 8, column : column + 8] = atom.reshape(8, 8) / max(np.abs(atom).max(), 1e-12)
        panel.imshow(sheet, cmap="RdBu_r", vmin=-1, vmax=1)
        panel.set_title(name, fontsize=11)
        panel.axis("off")
    return figure


if __name__ == "__main__":
    main()
