"""spinodal denoise and inpaint: a picture from a file, restored, into a file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, check_file, check_room, printable
from ..io.write import named_file, whole_file
from . import output
from .parsing import number

# What is added to the name of the input for the default name of the output.
_OURS = "-spinodal.png"
# The largest values of pictures of 8 and 16 bits.
_BRIGHTEST, _BRIGHTEST_16 = 255.0, 65535.0
# Kinds that Pillow hands to other programs.
_DRAWINGS = ("EPS", "WMF")
# Larger pictures take longer than anybody waits: one of so many pixels, in colours, about half an hour. Bytes for each pixel, about.
_MOST_PIXELS, _PER_PIXEL = 64_000_000, 400


def denoise(*, file: str, out: str | None, sigma: str, seed: int, as_json: bool) -> None:
    """`sigma` is a number, in the units of 8-bit pictures, or auto."""
    from ..images import denoise as restore

    target = _target(out, file)
    picture = read_picture("FILE", file)
    level: float | str = "auto" if sigma == "auto" else number("sigma", sigma)
    with output.progress_bar("denoising") as bar:
        found = restore(picture, level, seed=seed, progress=lambda stage, share: bar(round(100 * share), 100))
    _finish(target, found.image, {"sigma": found.sigma}, as_json)


def inpaint(*, file: str, out: str | None, mask: str, sigma: str, seed: int, as_json: bool) -> None:
    """`mask` names a picture that is not black where pixels are missing."""
    from ..images import inpaint as restore

    target = _target(out, file, mask)
    picture, holes = read_picture("FILE", file), read_picture("mask", mask)
    missing = np.asarray(holes > 0 if holes.ndim == 2 else (holes > 0).any(axis=2))
    if missing.shape != picture.shape[:2]:
        raise InputError(f"mask must be as large as the picture, {_size(picture)} pixels, but it has {_size(missing)}.")
    with output.progress_bar("filling in") as bar:
        found = restore(picture, missing, number("sigma", sigma), seed=seed, progress=lambda stage, share: bar(round(100 * share), 100))
    _finish(target, found.image, {"sigma": found.sigma, "missing": float(np.mean(missing))}, as_json)


def read_picture(name: str, file: str) -> np.ndarray:
    """A grey picture or one in colours, 0 to 255, the right way up; how opaque pixels are is left out. `name` is that of the argument."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    check_file(name, file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large pictures, which are refused here, and of odd tags
            with Image.open(file) as image:
                _check_picture(name, file, image)
                ImageOps.exif_transpose(image, in_place=True)
                if image.mode.startswith(("I", "F")):
                    return np.asarray(image, dtype=np.float64) * (_BRIGHTEST / _BRIGHTEST_16 if image.mode.startswith("I") else 1.0)
                return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"), dtype=np.float64)
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(
            f"{name} must be a picture (.png, .tif, .jpg or another that Pillow reads), but {printable(file)} is none."
        ) from None
    except Exception as error:  # the readers of some kinds of picture raise anything, from struct.error to KeyError
        why = str(error).rstrip(".") or type(error).__name__
        raise InputError(f"{name} must be a picture that can be read, but {printable(file)} can not: {why}.") from None


def _check_picture(name: str, file: str, image: Any) -> None:
    """Refuse, before it is unpacked, a picture that is too large, is several, or has no range of values that we know."""
    width, height = image.size
    if width * height > _MOST_PIXELS:
        raise InputError(
            f"{name} must have at most {_MOST_PIXELS // 10**6} million pixels, but {printable(file)} has {width} x {height}; "
            "cut it into parts."
        )
    check_room(name, _PER_PIXEL * width * height, f"a picture of {width} x {height} pixels")
    if image.format in _DRAWINGS:
        raise InputError(f"{name} must be a picture of pixels, but {printable(file)} is a drawing ({image.format}); save it as .png first.")
    if getattr(image, "is_animated", False) and image.format != "MPO":  # which holds one photograph and smaller copies of it
        raise InputError(f"{name} must be one picture, but {printable(file)} holds several; save the one that you want by itself.")
    if image.mode.startswith(("I", "F")):
        low, high = image.getextrema()
        whole = image.mode.startswith("I")
        if not (low >= 0 and (high <= _BRIGHTEST_16 if whole else 1 < high <= _BRIGHTEST)):  # also where they are NaN
            raise InputError(
                f"{name} must have values of 8 or 16 bits, but those of {printable(file)} go from {low:g} to {high:g}; "
                "give an array in any unit to spinodal.images in Python instead."
            )


def _target(out: str | None, *read: str) -> Path:
    """Where to write: not over a picture that is read."""
    check_file("FILE", read[0])
    given = out if out is not None else str(Path(read[0]).with_name(Path(read[0]).stem + _OURS))
    target = named_file("out", given, ".png")
    if any(os.path.realpath(target) == os.path.realpath(file) for file in read):
        raise InputError(f"out must be another file than the picture and its mask, but {printable(given)} was given for both.")
    return target


def _finish(target: Path, values: np.ndarray, told: dict[str, Any], as_json: bool) -> None:
    from PIL import Image

    image = Image.fromarray(np.clip(np.rint(values), 0, _BRIGHTEST).astype(np.uint8))
    with whole_file(target) as temporary:
        image.save(temporary, format="PNG")
    if as_json:
        output.print_json({"files": [str(target)], **told})
    else:
        print(", ".join([str(target), *(f"{name} {output.shown(value)}" for name, value in told.items())]))


def _size(picture: np.ndarray) -> str:
    return f"{picture.shape[0]} x {picture.shape[1]}"
