"""spinodal denoise and inpaint: files in, files out, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

SIZE = 24


def saved(path: Path, values: np.ndarray) -> str:
    Image.fromarray(values.astype(np.uint8)).save(path)
    return str(path)


@pytest.fixture
def noisy(tmp_path: Path) -> str:
    return saved(tmp_path / "in.png", 100 + 15 * np.random.default_rng(0).normal(size=(SIZE, SIZE)))


def test_a_picture_is_denoised_into_a_file_beside_it(run_cli: Callable[..., Any], noisy: str, tmp_path: Path) -> None:
    done = run_cli("denoise", noisy, "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert 12 < told["sigma"] < 18
    assert told["files"] == [str(tmp_path / "in-spinodal.png")]
    restored = np.asarray(Image.open(tmp_path / "in-spinodal.png"))
    assert restored.shape == (SIZE, SIZE)
    assert np.std(restored) < 8


@pytest.mark.claims
def test_missing_pixels_are_those_that_the_mask_shows(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    values = np.repeat(np.linspace(20, 200, SIZE)[:, None], SIZE, axis=1)
    missing = np.random.default_rng(0).random((SIZE, SIZE)) < 0.3
    colours = np.stack([np.where(missing, 0, values)] * 3, axis=2)
    done = run_cli("inpaint", saved(tmp_path / "in.png", colours), "--mask", saved(tmp_path / "m.png", 255 * missing), "--out", "out.png")
    assert (done.code, done.err) == (0, "")
    assert f"missing {np.mean(missing):.6g}" in done.out
    restored = np.asarray(Image.open(tmp_path / "out.png"), dtype=float)
    assert restored.shape == (SIZE, SIZE, 3)
    assert np.abs(restored - values[:, :, None]).max() < 12


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["denoise", "no.png"], "FILE must be a file, but there is no file 'no.png'"),
        (["denoise", "words.png"], "FILE must be a picture"),
        (["denoise", "in.png", "--out", "out.jpg"], "out must be a file name ending in .png"),
        (["denoise", "in.png", "--out", "in.png"], "out must be another file than the picture"),
        (["denoise", "in.png", "--sigma", "much"], "sigma must be a number"),
        (["denoise", "in.png", "--sigma", "-1"], "sigma must be a number"),
        (["inpaint", "in.png", "--mask", "small.png"], "mask must be as large as the picture, 24 x 24 pixels, but it has 9 x 9"),
        (["inpaint", "in.png"], "mask"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    run_cli: Callable[..., Any], noisy: str, tmp_path: Path, words: list[str], sentence: str
) -> None:
    (tmp_path / "words.png").write_text("not a picture")
    saved(tmp_path / "small.png", np.zeros((9, 9)))
    done = run_cli(*words)
    assert done.code == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1
