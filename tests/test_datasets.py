"""Real data: shapes, origins, and what is said where a package is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import spinodal as sp
from spinodal import datasets


@pytest.mark.parametrize(
    ("name", "shape"), [("digits", (1797, 64)), ("wine", (178, 13)), ("photograph", (427, 640, 3)), ("portrait", (600, 512, 3))]
)
def test_data_sets_have_their_shape_source_and_licence(name: str, shape: tuple[int, ...]) -> None:
    if name != "portrait":
        pytest.importorskip("sklearn")
    found = getattr(sp.datasets, name)()
    assert found.values.shape == shape
    assert found.values.dtype == float
    assert np.isfinite(found.values).all()
    assert found.licence.startswith(("CC BY", "public domain"))
    assert found.licence in repr(found)
    if found.features is not None:
        assert len(found.features) == shape[1]


def test_they_are_those_of_scikit_learn() -> None:
    original = pytest.importorskip("sklearn.datasets")
    for name in ("digits", "wine"):
        theirs, ours = getattr(original, f"load_{name}")(), getattr(sp.datasets, name)()
        np.testing.assert_array_equal(ours.values, theirs.data)
        np.testing.assert_array_equal(ours.target, theirs.target)
        if name == "wine":
            assert ours.features == tuple(theirs.feature_names)
    np.testing.assert_array_equal(sp.datasets.photograph("flower").values, original.load_sample_image("flower.jpg"))


def test_licences_are_those_that_the_packages_state() -> None:
    sklearn = pytest.importorskip("sklearn")
    pictures = (Path(sklearn.__file__).parent / "datasets" / "images" / "README.txt").read_text().split("Image: ")[1:]
    for text, name in zip(pictures, ("china", "flower"), strict=True):
        found = sp.datasets.photograph(name)
        assert text.startswith(name)
        assert "creativecommons.org/licenses/by/2.0/" in text
        assert found.licence == "CC BY 2.0"
        assert f"flickr.com/photos/{found.source.split(',')[0]}/" in text


def test_the_licence_of_indian_pines_is_what_tensorly_states() -> None:
    loader = pytest.importorskip("tensorly.datasets")
    assert "creativecommons.org/licenses/by/3.0" in loader.load_indian_pines().LICENCE
    assert sp.datasets.indian_pines().licence == "CC BY 3.0"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "find_spec", lambda name: None)
    with pytest.raises(sp.InputError, match=r"comes with sklearn.*pip install 'spinodal\[sklearn\]'"):
        sp.datasets.wine()
    with pytest.raises(sp.InputError, match="pip install 'tensorly'"):
        sp.datasets.indian_pines()


def test_unknown_photographs_are_refused() -> None:
    with pytest.raises(sp.InputError, match="name must be one of china, flower"):
        sp.datasets.photograph("moon")
