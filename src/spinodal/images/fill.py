"""`inpaint`: missing pixels of a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.interpolate import griddata
from scipy.ndimage import distance_transform_edt, gaussian_filter
from scipy.sparse.linalg import spsolve

from ..errors import InputError, check_nonnegative, check_seed
from ..inference.coding.classes import BATCH, BLOCK, Classes, Sums, best_classes, complete, fetched, learn_classes
from ..inference.execution.machine import one_thread_each
from .patches import SIDE, Patches
from .restore import Progress, Restored, back, checked_picture, class_count, opponent

# How wrong the filled-in pixels are taken to be from round to round, and the least noise, in units of the picture's spread.
_LEVELS, _LEAST_NOISE = np.geomspace(0.3, 0.1, 8), 0.08
# Most missing pixels for which the smoothest surface is computed to start from; for more it takes minutes, and interpolation is linear.
_MOST_SMOOTH = 100_000
# Patches start in every second row and column.
_STEP = 2
# Numbers of seen pixels of patches are rounded up to a multiple of this, so that little is compiled.
_SEEN_STEP = 16
# Share of the seen pixels that are hidden at first, the fewest that tell anything, rounds in which they are seen again, and how near (in
# pixels, a standard deviation) they count.
_HIDDEN, _FEWEST_HIDDEN, _LAST_ROUNDS, _NEAR = 0.1, 30, 3, 32.0
# Share of a round in the running sums of the next.
_SHARE = 0.7


def inpaint(image: Any, mask: Any = None, sigma: float = 0.0, *, seed: int = 0, progress: Progress | None = None) -> Restored:
    """A picture with its missing pixels filled in.

    The model is that of `denoise`, learned from the pixels that are there: round after round every patch is completed given the pixels
    of it that were seen, and the classes are learned again from the completed patches and what is still open in them.

    Args:
        image: height x width, or height x width x 3, in any unit; NaN is a missing pixel.
        mask: True where a pixel is missing, beside those that are NaN; of the shape of the image, or of its first two dimensions.
        sigma: standard deviation of white noise in the other pixels. Without noise they are kept as they are.
        seed: of the patches that are drawn; the same seed gives the same result.
        progress: called as progress(stage, share) now and then, with the share of the stage that is done.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> truth = 128 + 60 * np.sin(np.arange(40) / 5)[:, None] * np.ones(40)
        >>> missing = np.random.default_rng(0).random(truth.shape) < 0.5
        >>> image, _ = sp.images.inpaint(np.where(missing, 0, truth), missing)
        >>> bool(np.abs(image - truth).max() < 6)
        True
    """
    picture = checked_picture(image)
    check_nonnegative("sigma", sigma)
    check_seed("seed", seed)
    missing = np.isnan(picture) | _checked_mask(mask, picture.shape)
    if np.isinf(picture[~missing]).any():
        raise InputError("image must be finite where it is not missing, but it holds infinities.")
    if missing.all():
        raise InputError("image must have a pixel that is not missing, but all are.")
    if not missing.any() and sigma == 0:
        return Restored(picture, 0.0)
    say = progress or (lambda stage, share: None)
    picture = np.where(missing, 0.0, picture)
    alike = picture.ndim == 3 and bool((missing == missing[:, :, :1]).all())
    planes = opponent(picture) if alike or picture.ndim == 2 else list(np.moveaxis(picture, 2, 0))
    holes = [missing] if picture.ndim == 2 else list(np.moveaxis(missing, 2, 0))
    with one_thread_each():
        filled = [_filled(plane, hole, sigma, seed, say) for plane, hole in zip(planes, holes, strict=True)]
    whole = back(filled, picture.shape) if alike or picture.ndim == 2 else np.stack(filled, axis=2)
    return Restored(whole if sigma > 0 else np.where(missing, whole, picture), float(sigma))


def _checked_mask(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    if mask is None:
        return np.zeros(shape, bool)
    where = np.asarray(mask)
    if where.dtype != bool or where.shape not in (shape, shape[:2]):
        raise InputError(
            f"mask must be an array of True and False of the shape {shape} or {shape[:2]}, "
            f"but its dtype is {where.dtype} and its shape {where.shape}."
        )
    return np.broadcast_to(where if where.ndim == len(shape) else where[:, :, None], shape)


def _filled(plane: np.ndarray, missing: np.ndarray, sigma: float, seed: int, say: Progress) -> np.ndarray:
    """Completed patches averaged, weighted by precision, at falling levels of error; then mixed with the smoothest surface.

    A tenth of the seen pixels is hidden until the last rounds, and tells how much of each is best.
    """
    if missing.all():
        return np.zeros_like(plane)
    middle, spread = float(np.mean(plane[~missing])), float(np.std(plane[~missing]))
    if spread == 0:
        return np.full(plane.shape, middle)
    data = np.where(missing, 0.0, (plane - middle) / spread).astype(np.float32)
    hidden = _hidden(missing, seed)
    open_now = missing | hidden
    smooth = _interpolated(data, open_now).astype(np.float32)
    guess, noise = smooth, max(sigma / spread, _LEAST_NOISE) ** 2
    patches = Patches(guess)
    classes = learn_classes(lambda random: patches.some(BATCH, random), class_count(patches), float(_LEVELS[0] ** 2), seed)
    sums, share = None, np.ones(data.shape)
    last = len(_LEVELS) - _LAST_ROUNDS
    for k, level in enumerate(_LEVELS):
        if k == last and hidden.any():  # the hidden pixels have told what they know, and are seen from now on
            share, open_now = _shares(smooth, guess, data, missing, hidden), missing
            smooth, guess = _interpolated(data, missing).astype(np.float32), np.where(hidden, data, guess)
        guess, new = _round(classes, guess, data, ~open_now, float(level), noise)
        sums = new if sums is None else Sums(*((1 - _SHARE) * old + _SHARE * now for old, now in zip(sums, new, strict=True)))
        classes = fetched(best_classes(sums, np.float32(noise)))
        if sigma == 0:
            guess = np.where(open_now, guess, data)
        say("filling", (k + 1) / len(_LEVELS))
    guess = np.where(missing, smooth + share * (guess - smooth), guess)
    return middle + spread * guess.astype(np.float64)


def _hidden(missing: np.ndarray, seed: int) -> np.ndarray:
    """Some of the pixels that were seen, at random; none if they are few."""
    hidden = ~missing & (np.random.default_rng(seed).random(missing.shape) < _HIDDEN)
    return hidden if hidden.sum() >= _FEWEST_HIDDEN else np.zeros_like(hidden)


def _shares(smooth: np.ndarray, guess: np.ndarray, data: np.ndarray, missing: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """How much of the way from the smooth surface to the patches' guess is best: by least squares, from hidden pixels not far away.

    Missing pixels that are further from all seen ones than the hidden pixels were are left to the patches: nothing is known of such.
    """
    step = np.where(hidden, guess - smooth, 0.0).astype(np.float64)
    along, square = step * np.where(hidden, data - smooth, 0.0), step**2
    whole = np.sum(along) / max(np.sum(square), np.finfo(float).tiny)
    near, size = (gaussian_filter(each, _NEAR, mode="constant") for each in (along, square))
    prior = max(float(np.mean(size)), np.finfo(float).tiny)
    far = distance_transform_edt(missing | hidden)
    return np.where(far > far[hidden].max(), 1.0, np.clip((near + prior * whole) / (size + prior), 0.0, 1.0))


def _round(classes: Classes, guess: np.ndarray, data: np.ndarray, seen: np.ndarray, level: float, noise: float) -> tuple[np.ndarray, Sums]:
    """The picture after every patch was completed, and what the patches say of the classes."""
    corners = [np.unique([*range(0, side - SIDE + 1, _STEP), side - SIDE]) for side in data.shape]
    i, j = (each.ravel() for each in np.meshgrid(*corners, indexing="ij"))
    within = np.add.outer(np.arange(SIDE) * data.shape[1], np.arange(SIDE)).ravel()
    pixels = (i * data.shape[1] + j)[:, None] + within
    count = np.sum(seen.ravel()[pixels], axis=1)
    order = np.argsort(count, kind="stable")  # patches of which much was seen have larger equations to solve
    pixels, count = pixels[order], count[order]
    total, weight = np.zeros(data.size), np.zeros(data.size)
    sums: Sums | None = None
    for first in range(0, len(pixels), BLOCK):
        there = pixels[first : first + BLOCK]
        place = np.resize(there, (BLOCK, SIDE**2))  # the last block again and again, so that all have one shape
        most = min(-(-max(int(count[first : first + BLOCK][-1]), 1) // _SEEN_STEP) * _SEEN_STEP, SIDE**2)
        parts = (each.ravel()[place] for each in (guess, data, seen))
        found = fetched(complete(classes, *parts, np.float32(level**2), np.float32(noise), most=most))
        precision = 1 / (np.asarray(found.variance)[: len(there)] + noise)
        total += np.bincount(there.ravel(), (precision * np.asarray(found.mean)[: len(there)]).ravel(), data.size)
        weight += np.bincount(there.ravel(), precision.ravel(), data.size)
        sums = found.sums if sums is None else Sums(*(old + now for old, now in zip(sums, found.sums, strict=True)))
    assert sums is not None
    return (total / weight).reshape(data.shape).astype(np.float32), sums


def _interpolated(data: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Missing pixels by the smoothest surface; where they are very many, by linear interpolation, by the nearest one outside of all."""
    if not missing.any():
        return data
    known, holes = np.nonzero(~missing), np.nonzero(missing)
    nearest = griddata(known, data[known], holes, method="nearest")
    flat = min(len(np.unique(each)) for each in known) < 2  # all on a line: no triangles
    linear = np.full_like(nearest, np.nan) if flat else griddata(known, data[known], holes, method="linear")
    filled = data.copy()
    filled[holes] = np.where(np.isnan(linear), nearest, linear)
    return filled if len(holes[0]) > _MOST_SMOOTH or flat else _smoothest(filled, missing)


def _smoothest(data: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Missing pixels such that the square of the Laplacian is least: biharmonic interpolation."""

    def second_differences(side: int) -> sparse.csr_array:
        ends = np.r_[-1.0, np.full(side - 2, -2.0), -1.0]  # nothing flows over the edges
        return sparse.diags_array([np.ones(side - 1), ends, np.ones(side - 1)], offsets=[-1, 0, 1]).tocsr()

    height, width = data.shape
    laplacian = sparse.kron(second_differences(height), sparse.eye_array(width)) + sparse.kron(
        sparse.eye_array(height), second_differences(width)
    )
    square = (laplacian.T @ laplacian).tocsr()
    hole, values = missing.ravel(), data.ravel().astype(np.float64)
    rows = square[hole]
    values[hole] = spsolve(rows[:, hole].tocsc(), -(rows[:, ~hole] @ values[~hole]))
    return values.reshape(data.shape)
