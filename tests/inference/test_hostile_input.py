"""Input that is wrong, useless or extreme: one sentence of complaint, or a finite answer with an honest status."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import spinodal as sp
from draws import draw
from spinodal.inference.checks import as_observed, check_knowledge, count_atoms

PROBLEM = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.1, eta=0.3, noise_variance=1e-3)
INSTANCE = draw(PROBLEM, 10, seed=0)
Y, F_PRIME = INSTANCE.observed.Y, INSTANCE.observed.F_prime
LIMIT = 60


def spoiled(array: np.ndarray, value: float) -> np.ndarray:
    copy = array.copy()
    copy[1, 2] = value
    return copy


def column(value: float) -> np.ndarray:
    copy = Y.copy()
    copy[:, 3] = value
    return copy


REFUSED: dict[str, tuple[Any, Any, Any]] = {
    "inf in Y": (spoiled(Y, np.inf), F_PRIME, None),
    "huge Y": (spoiled(Y, 1e200), F_PRIME, None),
    "NaN in F'": (Y, spoiled(F_PRIME, np.nan), None),
    "inf in F'": (Y, spoiled(F_PRIME, -np.inf), None),
    "huge F'": (Y, spoiled(F_PRIME, 1e40), None),
    "rows that don't fit": (Y, F_PRIME[:-1], None),
    "F' of one axis": (Y, F_PRIME[0], None),
    "F' without columns": (Y, F_PRIME[:, :0], None),
    "a batch for one matrix": (Y[None], F_PRIME, None),
    "Y of one axis": (Y[0], F_PRIME, None),
    "empty Y": (Y[:0], F_PRIME[:0], None),
    "no F'": (Y, None, None),
    "complex Y": (Y + 1j, F_PRIME, None),
    "text": (Y.astype(str), F_PRIME, None),
    "objects": (Y.astype(object), F_PRIME, None),
    "ragged": ([[1.0], [1.0, 2.0]], F_PRIME, None),
    "mask that doesn't fit": (Y, F_PRIME, np.ones((2, 2), bool)),
    "ragged mask": (Y, F_PRIME, [[True], [True, False]]),
    "mask of twos": (Y, F_PRIME, np.full(Y.shape, 2)),
    "nothing observed": (Y, F_PRIME, np.zeros(Y.shape, bool)),
    "a row of NaN": (np.where(np.arange(len(Y))[:, None] == 1, np.nan, Y), F_PRIME, None),
    "NaN where observed": (spoiled(Y, np.nan), F_PRIME, np.ones(Y.shape, bool)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_in_one_sentence(what: str) -> None:
    with pytest.raises(sp.InputError) as complaint:
        sp.solve(sp.Observed(*REFUSED[what]), PROBLEM)
    sentence = str(complaint.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert any(name in sentence for name in ("Y", "F_prime", "mask"))


def test_what_is_not_an_instance_is_refused() -> None:
    with pytest.raises(sp.InputError, match="Y must be an array"):
        sp.solve("data.csv", PROBLEM)
    with pytest.raises(sp.InputError, match="F_prime must be given"):
        sp.solve(Y, PROBLEM)
    with pytest.raises(sp.InputError, match="F_prime must be left out"):
        sp.solve(INSTANCE.observed, PROBLEM, F_prime=F_PRIME)
    with pytest.raises(sp.InputError, match="noise_variance must be left out"):
        sp.solve(INSTANCE.observed, PROBLEM, noise_variance=0.1)
    with pytest.raises(sp.InputError, match='density must be a number or "auto"'):
        sp.solve(Y, F_prime=F_PRIME, density="some")
    with pytest.raises(sp.InputError, match="model must be"):
        sp.solve(INSTANCE.observed, 0.1)  # type: ignore[arg-type]
    for wrong in ("amp", sp.AMP):
        with pytest.raises(sp.InputError, match="solver"):
            sp.solve(INSTANCE.observed, PROBLEM, wrong)
    with pytest.raises(sp.InputError, match="n_atoms"):
        sp.solve(sp.Observed(Y, None, None), PROBLEM.replace(eta=np.inf))


@given(
    arrays.arrays(np.float64, arrays.array_shapes(min_dims=0, max_dims=4, max_side=4), elements=st.floats(width=64)),
    arrays.arrays(np.float64, arrays.array_shapes(min_dims=0, max_dims=4, max_side=4), elements=st.floats(-5, 5)),
)
def test_any_shapes_and_values_are_accepted_or_refused(Y: np.ndarray, F_prime: np.ndarray) -> None:
    """The door lets through what fits and is finite or missing, complains about the rest, and never fails otherwise."""
    fits = Y.ndim in (2, 3) and F_prime.ndim == Y.ndim and F_prime.shape[:-1] == Y.shape[:-1]
    there = ~np.isnan(Y)
    fits = fits and bool(np.all(np.abs(Y[there]) <= 1e15)) and bool(there.any(axis=-1).all() and there.any(axis=-2).all())
    try:
        observed, knowledge = check_knowledge(as_observed(sp.Observed(Y, F_prime, None))[0], PROBLEM.knowledge)
        n = count_atoms(observed.F_prime, None)
    except sp.InputError:
        assert not fits
    else:
        assert fits
        assert (n, knowledge) == (F_prime.shape[-1], PROBLEM.knowledge)
        assert np.array_equal(observed.Y, np.nan_to_num(Y))
        assert (observed.mask is None and there.all()) or np.array_equal(observed.mask, there)


def assert_honest(solution: sp.Solution, data: np.ndarray) -> None:
    for values in (*solution.mean, *solution.variance):
        assert np.all(np.isfinite(values))
    assert all(np.all(values >= 0) for values in solution.variance)
    assert np.isfinite(solution.residual)
    assert not np.isnan(solution.free_entropy)
    assert isinstance(solution.status, sp.Status)
    # A result that explains Y much worse than nothing would is not called converged.
    if solution.status == "converged":
        assert solution.residual <= 2 * np.mean(data**2) + 1e-3


EXTREME: dict[str, tuple[np.ndarray, np.ndarray, dict[str, Any]]] = {
    "zero Y": (0 * Y, F_PRIME, {}),
    "zero Y, no noise": (0 * Y, F_PRIME, {"noise_variance": 0.0}),
    "constant Y": (0 * Y + 3, F_PRIME, {}),
    "constant column": (column(7.0), F_PRIME, {}),
    "zero column": (column(0.0), F_PRIME, {}),
    "zero F'": (Y, 0 * F_PRIME, {}),
    "no noise": (Y, F_PRIME, {"noise_variance": 0.0}),
    "tiny noise": (Y, F_PRIME, {"noise_variance": 1e-300}),
    "far too much noise": (Y, F_PRIME, {"noise_variance": 1e10}),
    "far too sparse": (Y, F_PRIME, {"rho": 1e-9}),
    "far too dense": (Y, F_PRIME, {"rho": 0.999}),
    "tiny eta": (Y, F_PRIME, {"eta": 1e-300}),
    "huge eta": (Y, F_PRIME, {"eta": 1e300}),
    "tiny Y": (1e-200 * Y, F_PRIME, {}),
    "large Y": (1e14 * Y, F_PRIME, {}),
    "large F'": (Y, 1e14 * F_PRIME, {}),
}


def changed(rho: float = 0.1, eta: float = 0.3, noise_variance: float = 1e-3) -> sp.Problem:
    return sp.Problem.sparse(alpha=0.6, pi=3.0, rho=rho, eta=eta, noise_variance=noise_variance)


@pytest.mark.parametrize("what", EXTREME)
@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(sp.AMP(), id="AMP"),
        pytest.param(sp.AMP.as_printed(), id="as printed", marks=pytest.mark.claims),
        pytest.param(sp.RelaxedBP(), id="RelaxedBP"),
    ],
)
def test_extreme_but_valid_data_give_a_finite_answer(solver: Any, what: str) -> None:
    data, F_prime, options = EXTREME[what]
    assert_honest(sp.solve(sp.Observed(data, F_prime, None), changed(**options), solver, max_iterations=LIMIT), data)


@pytest.mark.parametrize("what", ["zero Y", "no noise", "large Y", "tiny Y", "far too sparse"])
def test_single_precision_too(what: str) -> None:
    data, F_prime, options = EXTREME[what]
    solution = sp.solve(sp.Observed(data, F_prime, None), changed(**options), max_iterations=LIMIT, dtype=np.float32)
    assert_honest(solution, data)


@settings(max_examples=40, deadline=None)
@given(
    arrays.arrays(np.float64, Y.shape, elements=st.floats(-1e15, 1e15) | st.floats(-1, 1)),
    st.floats(1e-6, 0.999),
    st.floats(0, 1e6),
    st.floats(1e-12, 1e12),
)
def test_any_finite_data_and_any_parameters_give_a_finite_answer(data: np.ndarray, rho: float, noise: float, eta: float) -> None:
    problem = changed(rho, eta, noise)
    assert_honest(sp.solve(sp.Observed(data, F_PRIME, None), problem, max_iterations=LIMIT), data)


@pytest.mark.parametrize("eta", [0.0, np.inf])
def test_the_ends_of_eta(eta: float) -> None:
    solution = sp.solve(INSTANCE.observed, changed(eta=eta), max_iterations=LIMIT)
    assert_honest(solution, Y)
    if eta == 0:
        assert np.array_equal(solution.mean.F, F_PRIME)
    elif sp.score(solution.mean, INSTANCE.truth).atoms_recovered < 1:
        assert solution.status != "converged"  # so few signals do not make a dictionary


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(np.s_[:1, :, :], id="M=1", marks=pytest.mark.claims),
        pytest.param(np.s_[:, :1, :], id="N=1", marks=pytest.mark.claims),
        pytest.param(np.s_[:, :, :1], id="P=1", marks=pytest.mark.claims),
        pytest.param(np.s_[:1, :1, :1], id="all 1"),
    ],
)
def test_the_smallest_sizes(cut: tuple[slice, slice, slice]) -> None:
    rows, atoms, signals = cut
    data = Y[rows, signals]
    assert_honest(sp.solve(sp.Observed(data, F_PRIME[rows, atoms], None), PROBLEM, max_iterations=LIMIT), data)
    from_scratch = sp.solve(sp.Observed(data, None, None), changed(eta=np.inf), n_atoms=F_PRIME[rows, atoms].shape[1], max_iterations=LIMIT)
    assert_honest(from_scratch, data)


def test_what_can_not_fit_in_memory_is_refused() -> None:
    with pytest.raises(sp.InputError, match="room in memory"):
        sp.solve(sp.Observed(Y, None, None), changed(eta=np.inf), n_atoms=10**15)


def test_zero_Y_means_zero_X() -> None:
    solution = sp.solve(sp.Observed(0 * Y, F_PRIME, None), PROBLEM, max_iterations=LIMIT)
    assert np.all(solution.mean.X == 0)
    assert solution.residual == 0


def test_a_wrong_model_is_not_called_converged_and_right() -> None:
    """Told a density of 1e-9, the solver explains nothing, and its residual says so."""
    solution = sp.solve(INSTANCE.observed, changed(rho=1e-9), max_iterations=400)
    assert solution.residual > 0.5 * np.mean(Y**2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dtype": "x"}, "dtype must be one of float64, float32, but 'x' was given"),
        ({"density": [0.1, 0.2]}, "density must be a number or .auto., but"),
        ({"density": 1j}, "density must be a number or .auto., but 1j was given"),
        ({"noise_variance": True}, "noise_variance must be a number, .rows. or .auto., but True was given"),
        ({"learn": 3}, "learn must be a list of names of parameters, but 3 was given"),
        ({"learn": "density"}, "learn must be a list of names of parameters, but 'density' was given"),
        ({"search": "x"}, "search must be a spinodal.Search, but 'x' was given"),
        ({"progress": "x"}, "progress must be True, False or a function, but 'x' was given"),
        ({"watch": 3}, "watch must be a function, but 3 was given"),
    ],
)
def test_options_of_a_wrong_kind_are_refused_in_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(sp.InputError, match=sentence):
        sp.solve(Y, n_atoms=3, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"noise_variance": "x"}, "noise_variance must be a number"),
        ({"gains": "yes"}, "gains must be True or False, but 'yes' was given"),
        ({"faults": 2}, "faults must be True or False, but 2 was given"),
        ({"learn": ("density",)}, "learn must be left out of calibrate"),
    ],
)
def test_options_of_calibrate_are_refused_in_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(sp.InputError, match=sentence):
        sp.calibrate(Y, F_PRIME, **options)
