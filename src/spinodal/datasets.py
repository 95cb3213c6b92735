"""Small sets of real data, from packages that you may have installed: nothing is downloaded.

Each function returns a `Dataset`: the values, names of features and samples where there are any, where the data come from and under which
licence. A package that is missing is named, with what to install.

The packages themselves state the licences of the photographs and of Indian Pines; that of the fermentation is chemotools' own.
scikit-learn states none for digits and wines: CC BY 4.0 is what the UCI repository gives its data. matplotlib states none for the portrait,
which it took for being in the public domain (its pull request 1599).

Examples:
    >>> import spinodal as sp
    >>> hopper = sp.datasets.portrait()
    >>> hopper.values.shape
    (600, 512, 3)
    >>> hopper.licence
    'public domain'
"""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .errors import InputError, check_choice

__all__ = ["Dataset", "digits", "fermentation", "indian_pines", "photograph", "portrait", "wine"]

# What installs a package, where an extra of ours does.
_EXTRAS = {"sklearn": "spinodal[sklearn]"}
_PHOTOGRAPHS = ("china", "flower")


class Dataset(NamedTuple):
    """Real data with their origin.

    Attributes:
        values: the numbers: samples in rows, or a picture.
        features: names of the columns; None where they have none.
        target: what is known of every sample besides (a class, a concentration); None where there is nothing.
        source: who measured them, and the package that they come with.
        licence: on which terms they may be used.
    """

    values: np.ndarray
    features: tuple[str, ...] | None
    target: np.ndarray | None
    source: str
    licence: str

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.values.shape))
        return f"Dataset({shape}, {self.source}; {self.licence})"


def digits() -> Dataset:
    """1797 handwritten digits of 8 x 8 pixels, 0 to 16: one a row, and what they say (extra: sklearn).

    Examples:
        >>> import spinodal as sp
        >>> sp.datasets.digits().values.shape
        (1797, 64)
    """
    rows = np.loadtxt(_file("sklearn", "datasets/data/digits.csv.gz"), delimiter=",")
    features = tuple(f"pixel {i} {j}" for i in range(8) for j in range(8))
    return Dataset(
        rows[:, :-1], features, rows[:, -1].astype(int), "E. Alpaydin and C. Kaynak (1998), UCI repository; scikit-learn", "CC BY 4.0"
    )


def wine() -> Dataset:
    """13 measurements of 178 Italian wines, and the cultivar of each (extra: sklearn).

    Examples:
        >>> import spinodal as sp
        >>> sp.datasets.wine().features[:3]
        ('alcohol', 'malic_acid', 'ash')
    """
    with _file("sklearn", "datasets/data/wine_data.csv").open(newline="") as file:
        rows = np.array(list(csv.reader(file))[1:], dtype=float)
    features = (
        "alcohol",
        "malic_acid",
        "ash",
        "alcalinity_of_ash",
        "magnesium",
        "total_phenols",
        "flavanoids",
        "nonflavanoid_phenols",
        "proanthocyanins",
        "color_intensity",
        "hue",
        "od280/od315_of_diluted_wines",
        "proline",
    )
    return Dataset(
        rows[:, :-1], features, rows[:, -1].astype(int), "M. Forina and others (1991), UCI repository; scikit-learn", "CC BY 4.0"
    )


def photograph(name: str = "china") -> Dataset:
    """A photograph of 427 x 640 pixels in colours: "china" (a temple) or "flower" (extra: sklearn).

    Examples:
        >>> import spinodal as sp
        >>> sp.datasets.photograph("flower").values.shape
        (427, 640, 3)
    """
    check_choice("name", name, _PHOTOGRAPHS)
    who = "danielbuechele" if name == "china" else "vultilion"
    return Dataset(
        _picture(_file("sklearn", f"datasets/images/{name}.jpg")), None, None, f"{who}, Flickr (2011); scikit-learn", "CC BY 2.0"
    )


def portrait() -> Dataset:
    """A portrait of Grace Hopper, 600 x 512 pixels in colours; it comes with matplotlib, which is always there.

    Examples:
        >>> import spinodal as sp
        >>> sp.datasets.portrait()
        Dataset(600 x 512 x 3, J. S. Davis, U.S. Navy (1984); matplotlib; public domain)
    """
    picture = _picture(_file("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"))
    return Dataset(picture, None, None, "J. S. Davis, U.S. Navy (1984); matplotlib", "public domain")


def indian_pines() -> Dataset:
    """Fields and woods in Indiana from the air, 145 x 145 pixels, each a spectrum of 200 bands (package: tensorly).

    The target is what grows in every pixel, 0 where nobody looked.

    Examples:
        >>> import spinodal as sp
        >>> try:
        ...     shape = sp.datasets.indian_pines().values.shape
        ... except sp.InputError:  # tensorly is not installed
        ...     shape = (145, 145, 200)
        >>> shape
        (145, 145, 200)
    """
    values = np.load(_file("tensorly", "datasets/data/Indian_pines_corrected.npy")).astype(float)
    classes = np.load(_file("tensorly", "datasets/data/Indian_pines_gt.npy"))
    source = "M. F. Baumgardner, L. L. Biehl, D. A. Landgrebe (2015), doi:10.4231/R7RX991C; tensorly"
    return Dataset(values, tuple(f"band {k + 1}" for k in range(values.shape[2])), classes, source, "CC BY 3.0")


def fermentation() -> Dataset:
    """1629 Raman spectra of a fermentation, as it went on, at 1047 wavenumbers (package: chemotools).

    Examples:
        >>> import spinodal as sp
        >>> try:
        ...     count = len(sp.datasets.fermentation().values)
        ... except sp.InputError:  # chemotools is not installed
        ...     count = 1629
        >>> count
        1629
    """
    path = _file("chemotools", "datasets/data/fermentation_spectra.csv")
    with path.open() as file:
        names = file.readline().strip().split(",")
        values = np.loadtxt(file, delimiter=",")
    source = "P. Cabaneros Lopez and others, Transforming data into information (2020); chemotools"
    return Dataset(values, tuple(names), None, source, "MIT")


def _file(package: str, path: str) -> Path:
    """A file of an installed package, which is not imported."""
    spec = find_spec(package)
    found = None if spec is None or spec.origin is None else Path(spec.origin).parent / path
    if found is None or not found.exists():
        raise InputError(f"This data set comes with {package}, which must be installed: pip install '{_EXTRAS.get(package, package)}'.")
    return found


def _picture(path: Path) -> np.ndarray:
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), dtype=np.float64)
