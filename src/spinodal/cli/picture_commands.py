"""spinodal denoise and inpaint: a picture from a file, restored, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, check_path, printable
from ..io.write import named_file, whole_file
from . import output
from .parsing import number

# What is added to the name of the input for the default name of the output.
_OURS = "-spinodal.png"
# Values of 8-bit pictures.
_BRIGHTEST = 255.0


def denoise(*, file: str, out: str | None, sigma: str, seed: int, as_json: bool) -> None:
    """`sigma` is a number, in the units of 8-bit pictures, or auto."""
    from ..images import denoise as restore

    picture, target = read_picture(file), _target(out, file)
    level: float | str = "auto" if sigma == "auto" else number("sigma", sigma)
    with output.progress_bar("denoising") as bar:
        found = restore(picture, level, seed=seed, progress=lambda stage, share: bar(round(100 * share), 100))
    _finish(target, found.image, {"sigma": found.sigma}, as_json)


def inpaint(*, file: str, out: str | None, mask: str, sigma: str, seed: int, as_json: bool) -> None:
    """`mask` names a picture that is not black where pixels are missing."""
    from ..images import inpaint as restore

    picture, holes, target = read_picture(file), read_picture(mask), _target(out, file)
    missing = np.asarray(holes > 0 if holes.ndim == 2 else (holes > 0).any(axis=2))
    if missing.shape != picture.shape[:2]:
        raise InputError(f"mask must be as large as the picture, {_size(picture)} pixels, but it has {_size(missing)}.")
    with output.progress_bar("filling in") as bar:
        found = restore(picture, missing, number("sigma", sigma), seed=seed, progress=lambda stage, share: bar(round(100 * share), 100))
    _finish(target, found.image, {"sigma": found.sigma, "missing": float(np.mean(missing))}, as_json)


def read_picture(file: str) -> np.ndarray:
    """A grey picture or one in colours, 0 to 255; how opaque pixels are is left out."""
    from PIL import Image, UnidentifiedImageError

    check_path("FILE", file)
    try:
        with Image.open(file) as image:
            if image.mode.startswith(("I", "F")):  # more than 8 bits
                values = np.asarray(image, dtype=np.float64)
                return values * (_BRIGHTEST / 65535.0) if image.mode.startswith("I") else values
            return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"), dtype=np.float64)
    except UnidentifiedImageError:
        raise InputError(
            f"FILE must be a picture (.png, .tif, .jpg or another that Pillow reads), but {printable(file)} is none."
        ) from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"FILE must be a picture that can be read, but {printable(file)} can not: {error}.") from None


def _target(out: str | None, file: str) -> Path:
    if out is None:
        return Path(file).with_name(Path(file).stem + _OURS)
    target = named_file("out", out, ".png")
    if target.resolve() == Path(file).resolve():
        raise InputError(f"out must be another file than the picture, but {printable(out)} was given for both.")
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
