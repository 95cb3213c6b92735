"""The examples, on small data: what they say about each other holds, and comes out the same again."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
pytestmark = pytest.mark.filterwarnings("ignore")


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def photograph() -> Any:
    """The example without SPAMS, which need not be installed."""
    module = example("photograph")
    module.others = lambda learners: {"scikit-learn": learners["scikit-learn"]}
    return module


@pytest.mark.slow
def test_missing_pixels_are_filled_in_better_than_by_matching_pursuit(photograph: Any) -> None:
    truth = photograph.photograph(40)
    results = photograph.compare_inpainting(truth, 0)
    ours, theirs = (photograph.psnr(results[name].image, truth) for name in ("Spinodal", "scikit-learn"))
    assert ours > theirs + 1
    assert theirs > photograph.psnr(results["interpolation"].image, truth) + 0.5  # the other one works, too
    figure = photograph.figure(truth, {"half missing": results, "again": results})
    assert len(figure.axes) == 8


@pytest.mark.claims
def test_a_photograph_is_denoised_and_the_same_again(photograph: Any) -> None:
    truth = photograph.photograph(40)
    noisy = truth + photograph.SIGMA * np.random.default_rng(0).normal(size=truth.shape)
    patches = photograph.Patches(truth.shape)
    once, again = (photograph.denoise(noisy, patches, 0) for _ in range(2))
    assert photograph.psnr(once, truth) > photograph.psnr(noisy, truth) + 2
    np.testing.assert_array_equal(once, again)


@pytest.mark.claims
def test_calibration_takes_off_most_of_what_the_nominal_matrix_costs() -> None:
    # Of the median signal: a few have more nonzeros than can be found from so few measurements, with any matrix.
    errors = {name: np.median(values) for name, values in example("calibration").compare(60, 480, 0).items()}
    assert errors["true"] < errors["calibrated"] < errors["nominal"] / 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "photograph"])
def test_examples_that_the_gallery_does_not_run(name: str, tmp_path: Path) -> None:
    """As their pages say to call them."""
    out = tmp_path / "digits.png" if name == "digits" else tmp_path
    done = subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py"), "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{name}.png").is_file()
