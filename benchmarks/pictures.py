"""Pictures restored: spinodal.images beside SPAMS, scikit-learn, BM3D and biharmonic interpolation.

    python -m benchmarks pictures [--pictures lena,boat] [--levels 15,25,50] [--methods 'Spinodal;BM3D'] [--figure camera]

Pictures come with Python packages (scikit-image, scikit-learn, sporco, spams-bin); those that are not installed are left out, and so are
methods. Squares of 256 x 256 pixels from the middle, grey, 0 to 255, with noise or holes drawn by the picture's name. Rows are added to
benchmarks/results/pictures.csv, in place of older ones of the same case; the tables are made of all rows there.

The others get the best of several settings by the truth, and the time of that setting alone. The settings of Spinodal are the same for
all; they were chosen on the pictures named TUNED, and on no others.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from spinodal import images

LONG = True
TABLE = Path(__file__).parent / "results" / "pictures.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "pictures.png"
TUNED = ("camera", "china")
# Where each picture comes from: a package, and a file of it.
PICTURES = {
    "camera": ("skimage", "data/camera.png"),
    "china": ("sklearn", "datasets/images/china.jpg"),
    "lena": ("spams", "../test/lena.png"),
    "boat": ("spams", "../test/boat.png"),
    "barbara": ("sporco", "data/barbara.png"),
    "monarch": ("sporco", "data/monarch.png"),
    "astronaut": ("skimage", "data/astronaut.png"),
    "chelsea": ("skimage", "data/chelsea.png"),
    "brick": ("skimage", "data/brick.png"),
    "coins": ("skimage", "data/coins.png"),
}
SIZE, SIDE, ATOMS = 256, 8, 256
# Matching pursuit stops at these multiples of the noise; l1 penalties while learning, in units of the noise; atoms for missing pixels.
GAINS, PENALTIES, NONZEROS = (1.0, 1.05, 1.1, 1.15, 1.2), (2.0, 3.0), (3, 5, 8)

# scikit-learn takes minutes: of the penalties it gets those that were the best of SPAMS's for most pictures at that noise.
SKLEARN_PENALTIES = {15: PENALTIES[:1], 25: PENALTIES, 50: PENALTIES[1:]}


class Row(NamedTuple):
    """A picture restored once; `level` is the noise, or the percentage of pixels that miss."""

    task: str
    picture: str
    level: int
    method: str
    psnr: float
    cpu: float
    setting: str
    wall: float = np.nan  # older rows have none


Found = tuple[np.ndarray, np.ndarray, str]


def picture(name: str) -> np.ndarray | None:
    """A square from the middle; None if its package is not installed."""
    from matplotlib.image import pil_to_array
    from PIL import Image

    package, file = PICTURES[name]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    array = np.asarray(pil_to_array(Image.open(Path(spec.origin).parent / file)), dtype=float)
    grey = array[..., :3] @ np.array([0.299, 0.587, 0.114]) if array.ndim == 3 else array
    i, j = ((side - SIZE) // 2 for side in grey.shape)
    return np.ascontiguousarray(grey[i : i + SIZE, j : j + SIZE])


def psnr(image: np.ndarray, truth: np.ndarray) -> float:
    """Peak signal-to-noise ratio in decibels."""
    return float(10 * np.log10(255**2 / np.mean((np.clip(image, 0, 255) - truth) ** 2)))


def patches_of(image: np.ndarray) -> np.ndarray:
    return sliding_window_view(image, (SIDE, SIDE)).reshape(-1, SIDE**2)


def averaged(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The picture of these patches, every pixel the mean of what they say."""
    total, weight = np.zeros(shape), np.zeros(shape)
    height, width = (side - SIDE + 1 for side in shape)
    for k, values in enumerate(np.asarray(rows).reshape(height, width, SIDE**2).transpose(2, 0, 1)):
        i, j = divmod(k, SIDE)
        total[i : i + height, j : j + width] += values
        weight[i : i + height, j : j + width] += 1
    return total / weight


def clock() -> np.ndarray:
    """CPU seconds of all threads, and seconds on the wall."""
    return np.array([time.process_time(), time.perf_counter()])


def spinodal_denoised(noisy: np.ndarray, sigma: float, truth: np.ndarray) -> Iterator[Found]:
    begun = clock()
    image = images.denoise(noisy, sigma).image
    yield image, clock() - begun, ""


def spinodal_auto(noisy: np.ndarray, sigma: float, truth: np.ndarray) -> Iterator[Found]:
    begun = clock()
    image, level = images.denoise(noisy)
    yield image, clock() - begun, f"sigma found: {level:.1f}"


def bm3d_denoised(noisy: np.ndarray, sigma: float, truth: np.ndarray) -> Iterator[Found]:
    import bm3d

    begun = clock()
    image = bm3d.bm3d(noisy, sigma)
    yield image, clock() - begun, ""


def spams_denoised(noisy: np.ndarray, sigma: float, truth: np.ndarray) -> Iterator[Found]:
    """Atoms by trainDL from all patches without their means, 250 minibatches of 512."""
    import spams

    for penalty in PENALTIES:
        begun = clock()
        rows = patches_of(noisy)
        mean = rows.mean(axis=1, keepdims=True)
        data = np.asfortranarray((rows - mean).T)
        atoms = spams.trainDL(data, K=ATOMS, lambda1=penalty * sigma, iter=250, batchsize=512, numThreads=1, verbose=False)
        learning = clock() - begun
        for gain in GAINS:
            begun = clock()
            codes = spams.omp(data, np.asfortranarray(atoms), L=32, eps=SIDE**2 * (gain * sigma) ** 2, numThreads=1)
            image = averaged(codes.T @ atoms.T + mean, noisy.shape)
            yield image, learning + clock() - begun, f"penalty {penalty:g} sigma, to {gain:g} sigma"


def sklearn_denoised(noisy: np.ndarray, sigma: float, truth: np.ndarray) -> Iterator[Found]:
    """MiniBatchDictionaryLearning, as many patches as SPAMS sees; matching pursuit to 1.1 sigma, which was SPAMS's best most often."""
    from sklearn.decomposition import MiniBatchDictionaryLearning
    from sklearn.linear_model import orthogonal_mp_gram
    from threadpoolctl import threadpool_limits

    for penalty in SKLEARN_PENALTIES[int(sigma)]:
        begun = clock()
        with threadpool_limits(1):  # which is faster for it than two threads, by a quarter
            rows = patches_of(noisy)
            mean = rows.mean(axis=1, keepdims=True)
            learner = MiniBatchDictionaryLearning(ATOMS, alpha=penalty * sigma, batch_size=512, max_iter=2, random_state=0)
            atoms = learner.fit(rows - mean).components_
            atoms = atoms / np.maximum(np.linalg.norm(atoms, axis=1, keepdims=True), 1e-9)
            data = rows - mean
            tolerance, norms = SIDE**2 * (1.1 * sigma) ** 2, np.sum(data**2, axis=1)
            codes = orthogonal_mp_gram(atoms @ atoms.T, atoms @ data.T, tol=tolerance, norms_squared=norms, copy_Gram=False)
        yield averaged(codes.T @ atoms + mean, noisy.shape), clock() - begun, f"penalty {penalty:g} sigma, to 1.1 sigma"


def spinodal_filled(damaged: np.ndarray, seen: np.ndarray, truth: np.ndarray) -> Iterator[Found]:
    begun = clock()
    image = images.inpaint(np.where(seen, damaged, np.nan)).image
    yield image, clock() - begun, ""


def linear_filled(damaged: np.ndarray, seen: np.ndarray, truth: np.ndarray) -> Iterator[Found]:
    from scipy.interpolate import griddata

    begun = clock()
    known, everywhere = np.nonzero(seen), tuple(np.indices(seen.shape))
    linear, nearest = (griddata(known, damaged[known], everywhere, method=method) for method in ("linear", "nearest"))
    yield np.where(np.isnan(linear), nearest, linear), clock() - begun, ""


def biharmonic_filled(damaged: np.ndarray, seen: np.ndarray, truth: np.ndarray) -> Iterator[Found]:
    from skimage.restoration import inpaint_biharmonic

    begun = clock()
    yield inpaint_biharmonic(damaged / 255, ~seen) * 255, clock() - begun, ""


def spams_filled(damaged: np.ndarray, seen: np.ndarray, truth: np.ndarray) -> Iterator[Found]:
    """Atoms from the linearly interpolated picture, matching pursuit on the observed pixels."""
    import spams

    begun = clock()
    filled, _, _ = next(linear_filled(damaged, seen, truth))
    rows = patches_of(filled)
    data = np.asfortranarray((rows - rows.mean(axis=1, keepdims=True)).T)
    atoms = spams.trainDL(data, K=ATOMS, lambda1=20.0, iter=250, batchsize=512, numThreads=1, verbose=False)
    learning = clock() - begun
    mask = patches_of(seen)
    rows = np.where(mask, patches_of(damaged), 0)
    mean = rows.sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    holed, where = np.asfortranarray(np.where(mask, rows - mean, 0).T), np.asfortranarray(mask.T)
    for count in NONZEROS:
        begun = clock()
        codes = spams.ompMask(holed, np.asfortranarray(atoms), where, L=count, eps=0.0, numThreads=1)
        image = np.where(seen, damaged, averaged(codes.T @ atoms.T + mean, seen.shape))
        yield image, learning + clock() - begun, f"{count} atoms"


# Task, method: the package it needs, and its results with one setting after another.
METHODS: dict[str, dict[str, tuple[str, Callable[..., Iterator[Found]]]]] = {
    "denoise": {
        "Spinodal": ("spinodal", spinodal_denoised),
        "Spinodal, sigma found": ("spinodal", spinodal_auto),
        "SPAMS + OMP": ("spams", spams_denoised),
        "scikit-learn + OMP": ("sklearn", sklearn_denoised),
        "BM3D": ("bm3d", bm3d_denoised),
    },
    "inpaint": {
        "Spinodal": ("spinodal", spinodal_filled),
        "linear": ("scipy", linear_filled),
        "biharmonic": ("skimage", biharmonic_filled),
        "SPAMS + OMP": ("spams", spams_filled),
    },
}
LEVELS = {"denoise": (15, 25, 50), "inpaint": (50, 80)}


def case(task: str, name: str, level: int, truth: np.ndarray) -> tuple[np.ndarray, float | np.ndarray]:
    """The damaged picture, and the noise or where it was seen."""
    random = np.random.default_rng(zlib.crc32(f"{name}{level}".encode()))
    if task == "denoise":
        return truth + level * random.normal(size=truth.shape), float(level)
    seen = random.random(truth.shape) >= level / 100
    return np.where(seen, truth, 0), seen


def rows_there() -> dict[tuple[str, str, int, str], Row]:
    """What was measured so far."""
    if not TABLE.exists():
        return {}
    with TABLE.open() as file:
        rows = [
            Row(
                *(r["task"], r["picture"], int(r["level"]), r["method"], float(r["psnr"]), float(r["cpu"]), r["setting"]),
                float(r.get("wall") or "nan"),
            )
            for r in csv.DictReader(file)
        ]
    return {row[:4]: row for row in rows}


def keep(row: Row) -> None:
    rows = rows_there()
    rows[row[:4]] = row
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        for _, each in sorted(rows.items()):
            wall = f"{each.wall:.1f}" if np.isfinite(each.wall) else ""
            writer.writerow((*each[:4], f"{each.psnr:.3f}", f"{each.cpu:.1f}", each.setting, wall))


def kind(name: str, rows: dict[tuple[str, str, int, str], Row]) -> str:
    """Smooth or texture, by the others alone: texture is what the picture's own patches fill in better than a smooth surface does.

    Matching pursuit against biharmonic interpolation, where half of the pixels miss; nothing if they were not measured.
    """
    patches, surface = (rows.get(("inpaint", name, LEVELS["inpaint"][0], method)) for method in ("SPAMS + OMP", "biharmonic"))
    return "" if patches is None or surface is None else "texture" if patches.psnr > surface.psnr else "smooth"


def tables() -> str:
    """Means over the pictures, in Markdown, tuned and others apart; and every picture for all methods that saw it."""
    rows, text = rows_there(), []
    for task, methods in METHODS.items():
        for level in LEVELS[task]:
            here = [row for row in rows.values() if (row.task, row.level) == (task, level)]
            names = [name for name in PICTURES if any(row.picture == name for row in here)]
            if not names:
                continue
            shown = [method for method in methods if any(row.method == method for row in here)]
            text += [
                "",
                f"| {task}, {'sigma' if task == 'denoise' else 'missing %'} {level} | " + " | ".join(shown) + " |",
                "|---" * (len(shown) + 1) + "|",
            ]
            for name in names:
                found = {row.method: f"{row.psnr:.2f}" for row in here if row.picture == name}
                label = f"{name} (tuned on)" if name in TUNED else name
                text.append(f"| {label} | " + " | ".join(found.get(method, "") for method in shown) + " |")
            others = [row for row in here if row.picture not in TUNED]
            parts = [("mean, not tuned on", "psnr", others)]
            if task == "inpaint":
                for each in ("smooth", "texture"):
                    parts.append((f"{each}, not tuned on", "psnr", [row for row in others if kind(row.picture, rows) == each]))
            parts.append(("CPU seconds", "cpu", others))
            if any(np.isfinite(row.wall) for row in others):
                parts.append(("seconds", "wall", others))
            for label, field, among in parts:
                cells = []
                for method in shown:
                    values = [getattr(row, field) for row in among if row.method == method]
                    whole = len(values) == len({row.picture for row in among}) and bool(np.all(np.isfinite(values)))
                    cells.append(f"{np.mean(values):.2f}" if values and whole else "")
                if any(cells):
                    text.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(text).strip()


def draw(name: str) -> None:
    """A picture with noise and with holes, and what Spinodal makes of it."""
    import matplotlib.pyplot as plt

    truth = picture(name)
    assert truth is not None, f"{PICTURES[name][0]} is not installed"
    noisy, _ = case("denoise", name, 25, truth)
    holed, seen = case("inpaint", name, 50, truth)
    shown = {
        "noisy": noisy,
        "denoised": images.denoise(noisy).image,
        "half missing": holed,
        "filled in": images.inpaint(truth, ~np.asarray(seen)).image,
    }
    figure, panels = plt.subplots(1, len(shown), figsize=(11, 3), layout="constrained")
    for panel, (label, image) in zip(panels, shown.items(), strict=True):
        panel.imshow(image, cmap="gray", vmin=0, vmax=255)
        panel.set_title(f"{label}, {psnr(image, truth):.1f} dB", fontsize=9)
        panel.axis("off")
    figure.savefig(FIGURE, dpi=110)
    print(f"{FIGURE.name} written")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser("benchmarks pictures")
    parser.add_argument("--pictures", default=",".join(PICTURES))
    parser.add_argument("--tasks", default=",".join(METHODS))
    parser.add_argument("--levels", default="", help="noise or missing percent; all if left out")
    parser.add_argument("--methods", default="", help="separated by semicolons; all if left out")
    parser.add_argument("--figure", metavar="PICTURE", help="draw docs/images/pictures.png of this picture, and nothing else")
    options = parser.parse_args(arguments)
    if options.figure:
        draw(options.figure)
        return
    for name in options.pictures.split(","):
        truth = picture(name)
        if truth is None:
            print(f"{name} is left out: {PICTURES[name][0]} is not installed")
            continue
        for task in options.tasks.split(","):
            for level in [int(word) for word in options.levels.split(",") if word] or LEVELS[task]:
                damaged, what = case(task, name, level, truth)
                for method, (package, restore) in METHODS[task].items():
                    if (options.methods and method not in options.methods.split(";")) or find_spec(package) is None:
                        continue
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = [
                            Row(task, name, level, method, psnr(image, truth), float(seconds[0]), setting, float(seconds[1]))
                            for image, seconds, setting in restore(damaged, what, truth)
                        ]
                    best = max(found, key=lambda row: row.psnr)
                    keep(best)
                    print(
                        f"{task} {name} {level} {method}: {best.psnr:.2f} dB, cpu {best.cpu:.1f} s, wall {best.wall:.1f} s {best.setting}",
                        flush=True,
                    )
    print(tables())
