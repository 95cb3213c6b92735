"""A photograph denoised, and one with half of its pixels missing filled in: spinodal.DictionaryLearner beside scikit-learn and SPAMS.

    python examples/photograph.py [--fast] [--size 160] [--seed 0] [--out DIR]

All learn atoms of 8 x 8 pixels from the damaged photograph alone and average the overlapping patches they restore. scikit-learn and SPAMS
code a patch by orthogonal matching pursuit, down to the noise level (denoising) or on the observed pixels alone (inpainting), with the best
of several settings by the true photograph, by which the settings of Spinodal were chosen, too. Without SPAMS (pip install spams-bin) its
rows are left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.interpolate import griddata
from sklearn.datasets import load_sample_image
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.linear_model import orthogonal_mp, orthogonal_mp_gram

import spinodal as sp

SIDE, SIGMA, TRAINING = 8, 25.0, 8000
# Noise levels at which missing pixels are restored again and again, and how often the atoms are learned anew.
LEVELS, RELEARN = np.geomspace(30, 5, 15), 3
# Matching pursuit stops at this many times the noise (denoising), or at so many atoms (inpainting).
GAINS, NONZEROS = (1.0, 1.1), (3, 5, 8)


class Result(NamedTuple):
    """A restored image and the seconds it took, learning and coding; `settings` says which of those tried."""

    image: np.ndarray
    seconds: float
    settings: str = ""


class Patches:
    """All patches of an image (or every second, with step=2) as rows, and back."""

    def __init__(self, shape: tuple[int, int], step: int = 1) -> None:
        self.shape, self.step = shape, step
        self.pixels = self.of(np.arange(shape[0] * shape[1]).reshape(shape))

    def of(self, image: np.ndarray) -> np.ndarray:
        return sliding_window_view(image, (SIDE, SIDE))[:: self.step, :: self.step].reshape(-1, SIDE**2)

    def average(self, rows: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """The image of which these are the patches, every pixel the weighted mean of what they say."""
        weights = np.ones_like(rows) if weights is None else weights
        total, norm = (np.bincount(self.pixels.ravel(), each.ravel(), minlength=np.prod(self.shape)) for each in (weights * rows, weights))
        return (total / norm).reshape(self.shape)


def psnr(image: np.ndarray, truth: np.ndarray) -> float:
    """Peak signal-to-noise ratio in decibels."""
    return float(10 * np.log10(255**2 / np.mean((np.clip(image, 0, 255) - truth) ** 2)))


def photograph(size: int) -> np.ndarray:
    """A square of scikit-learn's photograph of a temple, in shades of grey from 0 to 255."""
    return load_sample_image("china.jpg")[154 : 154 + size, 200 : 200 + size] @ np.array([0.299, 0.587, 0.114])


def interpolated(damaged: np.ndarray) -> np.ndarray:
    """Missing pixels by linear interpolation, by the nearest one at the borders."""
    known, everywhere = np.nonzero(~np.isnan(damaged)), np.indices(damaged.shape)
    linear, nearest = (griddata(known, damaged[known], tuple(everywhere), method=method) for method in ("linear", "nearest"))
    return np.where(np.isnan(linear), nearest, linear)


def without_mean(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Patches less their mean over the observed pixels, and that."""
    mean = np.nanmean(rows, axis=1, keepdims=True)
    return rows - mean, mean


def some(rows: np.ndarray, seed: int) -> np.ndarray:
    """Patches to learn from."""
    return rows[np.random.default_rng(seed).permutation(len(rows))[:TRAINING]]


def learner(atoms: int, density: float, level: float, seed: int) -> sp.DictionaryLearner:
    return sp.DictionaryLearner(
        atoms, density=density, noise_variance=level**2, own_density=True, fast=True, max_iter=0, refine_iter=12, random_state=seed
    )


def restored(model: sp.DictionaryLearner, image: np.ndarray, patches: Patches, level: float) -> np.ndarray:
    """Posterior means of all patches at a noise level, weighted by their precisions."""
    centred, mean = without_mean(patches.of(image))
    model.noise_variance_ = level**2
    values, doubt = model.restore(centred)
    return patches.average(values + mean, 1 / (doubt**2 + level**2 / SIDE**2))


def denoise(noisy: np.ndarray, patches: Patches, seed: int) -> np.ndarray:
    """Twice: half of what the first pass took off is put back, as noise of half the size."""
    model = learner(128, 0.05, SIGMA, seed).fit(some(without_mean(patches.of(noisy))[0], seed))
    first = restored(model, noisy, patches, SIGMA)
    return restored(model, (first + noisy) / 2, patches, SIGMA / 2)


def inpaint(damaged: np.ndarray, patches: Patches, seed: int) -> np.ndarray:
    """Missing pixels as the patches around them have it, at falling noise levels; atoms learned from what is there so far."""
    image = interpolated(damaged)
    for k, level in enumerate(LEVELS):
        if k % RELEARN == 0:
            model = learner(64, 0.1, level, seed).fit(some(without_mean(patches.of(image))[0], seed))
        image = np.where(np.isnan(damaged), restored(model, image, patches, level), damaged)
    return image


def sklearn_atoms(rows: np.ndarray, alpha: float, seed: int) -> np.ndarray:
    learned = MiniBatchDictionaryLearning(128, alpha=alpha, batch_size=256, max_iter=5, random_state=seed).fit(some(rows, seed))
    return learned.components_ / np.maximum(np.linalg.norm(learned.components_, axis=1, keepdims=True), 1e-9)


def spams_atoms(rows: np.ndarray, alpha: float, seed: int) -> np.ndarray:
    import spams

    chosen = np.asfortranarray(some(rows, seed).T)
    return np.ascontiguousarray(spams.trainDL(chosen, K=128, lambda1=alpha, iter=200, numThreads=2, verbose=False).T)


def sklearn_omp(atoms: np.ndarray, rows: np.ndarray, tolerance: float) -> np.ndarray:
    """Codes up to a squared error."""
    return orthogonal_mp_gram(atoms @ atoms.T, atoms @ rows.T, tol=tolerance, norms_squared=np.sum(rows**2, axis=1)).T


def spams_omp(atoms: np.ndarray, rows: np.ndarray, tolerance: float) -> np.ndarray:
    import spams

    return spams.omp(np.asfortranarray(rows.T), np.asfortranarray(atoms.T), L=SIDE**2, eps=tolerance, numThreads=2).T.toarray()


def sklearn_omp_observed(atoms: np.ndarray, rows: np.ndarray, nonzeros: int) -> np.ndarray:
    """Codes that fit the observed pixels of each patch, atoms scaled to norm 1 on those."""
    codes = np.empty((len(rows), len(atoms)))
    for code, row in zip(codes, rows, strict=True):
        seen = ~np.isnan(row)
        norms = np.maximum(np.linalg.norm(atoms[:, seen], axis=1), 1e-9)
        code[:] = orthogonal_mp((atoms[:, seen] / norms[:, None]).T, row[seen], n_nonzero_coefs=nonzeros) / norms
    return codes


def spams_omp_observed(atoms: np.ndarray, rows: np.ndarray, nonzeros: int) -> np.ndarray:
    import spams

    seen = ~np.isnan(rows)
    data, mask = np.asfortranarray(np.where(seen, rows, 0).T), np.asfortranarray(seen.T)
    return spams.ompMask(data, np.asfortranarray(atoms.T), mask, L=nonzeros, eps=0.0, numThreads=2).T.toarray()


def best_pursuit(
    learn: Callable[[], np.ndarray], pursue: Callable[[np.ndarray, Any], np.ndarray], settings: dict[str, Any], truth: np.ndarray
) -> Result:
    """Atoms learned once, patches coded with each setting: the best by the truth, and the time of that one alone."""
    begun = time.perf_counter()
    atoms = learn()
    learning = time.perf_counter() - begun
    found = []
    for name, value in settings.items():
        begun = time.perf_counter()
        found.append(Result(pursue(atoms, value), learning + time.perf_counter() - begun, name))
    return max(found, key=lambda result: psnr(result.image, truth))


def timed(restore: Callable[[], np.ndarray]) -> Result:
    begun = time.perf_counter()
    image = restore()
    return Result(image, time.perf_counter() - begun)


def compare_denoising(truth: np.ndarray, seed: int) -> dict[str, Result]:
    noisy = truth + SIGMA * np.random.default_rng(seed).normal(size=truth.shape)
    patches = Patches(truth.shape)
    rows, mean = without_mean(patches.of(noisy))
    settings = {f"to {gain} sigma": SIDE**2 * (gain * SIGMA) ** 2 for gain in GAINS}
    results = {"damaged": Result(noisy, 0.0), "Spinodal": timed(lambda: denoise(noisy, patches, seed))}
    for name, (learn, omp) in others({"scikit-learn": (sklearn_atoms, sklearn_omp), "SPAMS": (spams_atoms, spams_omp)}).items():
        pursue = lambda atoms, tolerance, omp=omp: patches.average(omp(atoms, rows, tolerance) @ atoms + mean)  # noqa: E731
        results[name] = best_pursuit(lambda learn=learn: learn(rows, 40.0, seed), pursue, settings, truth)
    return results


def compare_inpainting(truth: np.ndarray, seed: int) -> dict[str, Result]:
    seen = np.random.default_rng(seed).random(truth.shape) < 0.5
    damaged = np.where(seen, truth, np.nan)
    patches = Patches(truth.shape, step=2)
    rows, mean = without_mean(patches.of(damaged))
    filled = without_mean(patches.of(interpolated(damaged)))[0]
    settings = {f"{count} atoms": count for count in NONZEROS}
    results = {"damaged": Result(np.where(seen, truth, 0), 0.0), "interpolation": timed(lambda: interpolated(damaged))}
    results["Spinodal"] = timed(lambda: inpaint(damaged, patches, seed))
    pursuits = {"scikit-learn": (sklearn_atoms, sklearn_omp_observed), "SPAMS": (spams_atoms, spams_omp_observed)}
    for name, (learn, omp) in others(pursuits).items():
        pursue = lambda atoms, count, omp=omp: np.where(seen, truth, patches.average(omp(atoms, rows, count) @ atoms + mean))  # noqa: E731
        results[name] = best_pursuit(lambda learn=learn: learn(filled, 10.0, seed), pursue, settings, truth)
    return results


def others(learners: dict[str, Any]) -> dict[str, Any]:
    """Those of the learners that are installed."""
    try:
        import spams  # noqa: F401
    except ImportError:
        print("SPAMS is left out: pip install spams-bin")
        return {name: each for name, each in learners.items() if name != "SPAMS"}
    return learners


def figure(truth: np.ndarray, tasks: dict[str, dict[str, Result]]) -> plt.Figure:
    """A row for each task: the photograph, damaged, and restored by two."""
    drawing, panels = plt.subplots(len(tasks), 4, figsize=(11, 2.95 * len(tasks)), layout="constrained")
    for row, (task, results) in zip(panels, tasks.items(), strict=True):
        images = {"photograph": truth} | {name: results[name].image for name in ("damaged", "Spinodal", "scikit-learn")}
        for panel, (name, image) in zip(row, images.items(), strict=True):
            panel.imshow(image, cmap="gray", vmin=0, vmax=255)
            panel.set_title(name if name == "photograph" else f"{task}, {name}: {psnr(image, truth):.2f} dB", fontsize=9)
            panel.axis("off")
    return drawing


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="a small piece of the photograph")
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # none of them settles in so few rounds
    truth = photograph(64 if options.fast else options.size)
    tasks = {"sigma = 25": compare_denoising(truth, options.seed), "half missing": compare_inpainting(truth, options.seed)}
    for task, results in tasks.items():
        for name, result in results.items():
            print(f"{task:14s}{name:16s}{psnr(result.image, truth):7.2f} dB{result.seconds:8.1f} s  {result.settings}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    figure(truth, tasks).savefig(options.out / "photograph.png", dpi=70)


if __name__ == "__main__":
    main()
