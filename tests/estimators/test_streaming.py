"""Samples in parts: partial_fit, tables outside memory, iterators, weights; and sparse codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fits import ATOMS, drawn, learned
from scipy import sparse

import spinodal as sp

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SAMPLES = 6000


def many(count: int = SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    """Samples of 8 atoms with 16 features, in single precision, and the atoms."""
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(ATOMS, 16)) / 4
    codes = rng.normal(size=(count, ATOMS)) * (rng.random((count, ATOMS)) < 0.2)
    return (codes @ atoms + 0.05 * rng.normal(size=(count, 16))).astype(np.float32), atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def found(model: sp.DictionaryLearner, atoms: np.ndarray) -> int:
    """How many atoms are found to within 1 - cos = 1%."""
    return int(np.sum(np.abs(atoms @ model.components_.T).max(axis=1) > 0.99))


@pytest.mark.claims
def test_parts_of_the_data_are_as_good_as_all_of_them(tmp_path: Path) -> None:
    """By partial_fit, from an iterator (the same numbers), and from a memory map."""
    data, atoms = many()
    parts = np.array_split(np.concatenate([data] * 3), 18)
    step = sp.DictionaryLearner(ATOMS, random_state=0)
    for part in parts:
        step.partial_fit(part)
    assert found(step, atoms) >= ATOMS - 2  # from samples, without message passing
    assert step.noise_variance_ == pytest.approx(0.05**2, rel=0.5)
    whole = sp.DictionaryLearner(ATOMS, random_state=0).fit(iter(parts))
    np.testing.assert_array_equal(whole.components_, step.components_)
    table = np.memmap(tmp_path / "data.f32", np.float32, "w+", shape=data.shape)
    table[:] = data
    outside = sp.DictionaryLearner(ATOMS, random_state=0).fit(table)
    assert found(outside, atoms) >= ATOMS - 2
    assert outside.components_.dtype == np.float32


def test_samples_of_weight_zero_do_not_count() -> None:
    data = drawn().data
    weight = np.repeat([1.0, 0.0], [200, len(data) - 200])
    some = sp.DictionaryLearner(ATOMS, max_iter=0, refine_iter=5, random_state=0).fit(data, sample_weight=weight)
    apart = sp.DictionaryLearner(ATOMS, max_iter=0, refine_iter=5, random_state=0).fit(data[:200])
    np.testing.assert_allclose(some.components_, apart.components_, atol=1e-8)


@pytest.mark.parametrize("coder", ["posterior", "omp", "lars"])
def test_sparse_codes_explain_the_samples(coder: str) -> None:
    model, truth = learned(), drawn()
    codes = model.transform_sparse(truth.held_out, coder)
    assert isinstance(codes, sparse.csr_array)
    assert codes.nnz < 0.7 * truth.held_out_codes.size
    assert np.mean((codes @ model.components_ - truth.clean) ** 2) < (6 if coder == "lars" else 2.5) * truth.noise


def test_what_can_not_be_read_or_coded_is_refused() -> None:
    data = drawn().data
    with pytest.raises(sp.InputError, match="iterator is empty"):
        sp.DictionaryLearner(ATOMS).fit(iter(()))
    with pytest.raises(sp.InputError, match="coder must be one of"):
        learned().transform_sparse(data, "magic")
    with pytest.raises(sp.InputError, match="without missing entries"):
        learned().transform_sparse(np.where(data > 0, np.nan, data), "omp")
