"""Data that do not follow the model are warned of, each with a sentence of its own; data drawn from the model are not."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html import unescape
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spinodal as sp
from spinodal.inference.solution import Names, Status, Trace
from spinodal.inference.suspicions import suspicions
from spinodal.inference.suspicious_data import of_data, orientation, outliers
from spinodal.inference.suspicious_table import Table, median
from spinodal.report.page import report_html
from unsolved import unsolved

N, M, P, RHO, DELTA = 20, 20, 300, 0.15, 1.5e-3  # 20 dB
MODEL = sp.Model.sparse(rho=RHO, noise_variance=DELTA)


def drawn(seed: int = 0, *, atoms: int = N, rows: int = M, signals: int = P, rho: float = RHO, delta: float = DELTA) -> np.ndarray:
    """Y of the model."""
    rng = np.random.default_rng(seed)
    F, X = rng.standard_normal((rows, atoms)), rng.standard_normal((atoms, signals)) * (rng.random((atoms, signals)) < rho)
    return F @ X / np.sqrt(atoms) + np.sqrt(delta) * rng.standard_normal((rows, signals))


def of_array(Y: Any, *, model: sp.Model = MODEL, **more: Any) -> Any:
    """A solution that has found nothing of Y."""
    return unsolved(Y, model, N, **more)


def said(Y: Any, **more: Any) -> str:
    return "\n".join(of_array(Y, **more).warnings)


def with_entries(value: float, count: int) -> np.ndarray:
    Y = drawn()
    Y.flat[:: Y.size // count] = value
    return Y


def with_copies() -> np.ndarray:
    Y = drawn()
    Y[:, 7] = Y[:, 3]
    return Y


def in_units(rng: np.random.Generator) -> np.ndarray:
    """A table as it is often kept: a sample in each row, a quantity in each column, of another unit and size."""
    return 10 ** rng.uniform(-1, 3, 3 * N) * rng.normal(1, 0.3, (300, 3 * N))


COUNTS = np.random.default_rng(0).poisson(4, (M, P))
OF_DATA: dict[str, tuple[np.ndarray, tuple[str, ...]]] = {
    "mean 50": (drawn() + 50, ("mean of Y is far from zero", "subtract the mean of each row")),
    "mean of one row": (drawn() + 3 * (np.arange(M)[:, None] == 4), ("mean of Y is far from zero",)),
    "wrong orientation": (drawn().T, ("300 rows and only 20 columns", "Y.T", "--transpose")),
    "samples in rows": (in_units(np.random.default_rng(3)), ("300 rows and only 60 columns", "Y.T", "--transpose")),
    "outliers": (np.where(np.random.default_rng(1).random((M, P)) < 0.01, 100 * drawn(), drawn()), ("entries are outliers", "NaN")),
    "clipped": (np.clip(drawn(), -0.5, 0.6), ("(0.6 and -0.5)", "clipped", "NaN")),
    "clipped in each row": (np.minimum(drawn(), drawn().max(axis=1, keepdims=True) / 2), ("level of its own in each row", "clipped")),
    "rounded": (np.round(4 * drawn()) / 4, ("multiples of 0.25", "noise_variance")),
    "counts": (COUNTS, ("counts", "square roots")),
    "copies": (with_copies(), ("1 of the 300 signals", "8 of 4", "leave copies out")),
    "first row": (np.vstack([np.arange(P), drawn()]), ("first row of Y is 0, 1, 2", "leave that row out")),
    "first column": (np.hstack([np.arange(1, M + 1)[:, None], drawn()]), ("first column of Y is 1, 2, 3", "leave that column out")),
    "-999": (with_entries(-999, 20), ("entries are -999", "NaN")),
    "9999": (with_entries(9999, 20), ("entries are 9999", "NaN")),
    "dead row": (drawn() * (np.arange(M)[:, None] != 2), ("row 3 of Y never changes",)),
    "zero": (np.zeros((M, P)), ("every entry of Y is zero",)),
}


@pytest.mark.parametrize("name", OF_DATA)
def test_the_data_are_suspected_before_any_fit(name: str) -> None:
    Y, expected = OF_DATA[name]
    for words in expected:
        assert words in said(Y)


def test_what_one_sentence_explains_is_not_said_again() -> None:
    for name in ("mean 50", "wrong orientation", "clipped", "-999", "9999", "copies", "dead row", "rounded"):
        assert len(of_array(OF_DATA[name][0]).warnings) == 1, name


def test_rounding_below_the_noise_is_harmless() -> None:
    assert said(np.round(drawn(), 2)) == ""  # the noise has a standard deviation of .04


def test_codes_of_a_converter_are_no_counts() -> None:
    """Ten bits around 512, with less noise than counts of that size would have; a noise that was only said proves nothing."""
    codes = np.round(512 + 200 * drawn())
    model = MODEL.replace(channel=sp.GaussianNoise(200**2 * DELTA))
    loud = MODEL.replace(channel=sp.GaussianNoise(COUNTS.mean()))
    for Y, assumed, learned, counts in ((codes, model, True, False), (codes, model, False, True), (COUNTS, loud, True, True)):
        solution = replace(of_array(Y, model=assumed), learned=("noise_variance",) if learned else ())
        assert ("holds counts" in "\n".join(solution.warnings)) == counts


def test_a_model_with_a_mean_may_have_data_with_one() -> None:
    prior = sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(RHO, 1.0, 1.0))
    assert "mean" not in said(drawn() + 50, model=MODEL.replace(prior=prior))


def noisier_rows(seed: int) -> np.ndarray:
    Y = drawn(seed)
    Y[[3, 11]] += np.random.default_rng(seed).standard_normal((2, P))
    return Y


def noisy(seed: int) -> np.ndarray:
    return np.sqrt(RHO) * np.random.default_rng(seed).standard_normal((M, P))


# Those of the fit: data, and words of the warning. "half the atoms" and "noise" may also end untrusted, and are then warned of otherwise.
OF_FIT: dict[str, tuple[Callable[[int], np.ndarray], str]] = {
    "noisier rows": (noisier_rows, "rows 4, 12 of Y have far more noise"),
    "dictionary replaced halfway": (lambda seed: np.hstack([drawn(seed + k, signals=P // 2) for k in (0, 100)]), "first half"),
    "half the atoms": (lambda seed: drawn(seed, atoms=2 * N), ""),
    "noise": (noisy, "no better than noise"),
}
MAY_END_UNTRUSTED = ("half the atoms", "noise")


@cache
def solved(name: str) -> list[Any]:
    """Two data sets of a kind, or of the model, solved with all defaults but the limit."""
    drawers: dict[str, Any] = {"model": drawn, "more of the model": lambda seed: drawn(seed + 10)}
    draw = OF_FIT[name][0] if name in OF_FIT else drawers[name]
    solution = sp.solve(np.stack([draw(seed) for seed in (1, 2)]), n_atoms=N, max_iterations=1500)
    return [solution[0], solution[1]]


@pytest.mark.parametrize("name", OF_FIT)
@pytest.mark.claims
def test_a_wrong_model_is_never_trusted_without_a_warning(name: str) -> None:
    for solution in solved(name):
        warned = "\n".join(solution.warnings)
        assert not solution.status.trusted or warned, name
        if solution.status.trusted or name not in MAY_END_UNTRUSTED:
            assert OF_FIT[name][1] in warned


@pytest.mark.parametrize("name", ["model", pytest.param("more of the model", marks=pytest.mark.claims)])
def test_what_comes_from_the_model_is_not_suspected(name: str) -> None:
    for solution in solved(name):
        assert solution.status.trusted
        assert solution.warnings == ()


def test_parameters_at_the_ends_of_their_ranges() -> None:
    good = replace(solved("model")[0], learned=("density", "noise_variance"))

    def with_parameters(rho: float, noise: float, **more: Any) -> str:
        model = good.model.replace(prior=sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(rho)), channel=sp.GaussianNoise(noise))
        return "\n".join(replace(good, model=model, **more).warnings)

    assert "at an end of its range" in with_parameters(1e-4, DELTA)
    assert "hardly sparse" in with_parameters(0.8, DELTA)
    assert "as large as the data" in with_parameters(RHO, 0.2)
    assert "practically zero" in with_parameters(RHO, 1e-20, status=Status.MAX_ITERATIONS)
    assert "too large; leave it out" in with_parameters(RHO, 100 * DELTA, learned=())
    assert "too small" in with_parameters(RHO, DELTA / 100, learned=())


@pytest.mark.parametrize(("density", "left"), [(RHO, 0.6), (RHO, 0.3), (0.6, 0.3)])
def test_residuals_far_below_the_noise_show_that_noise_is_fitted(density: float, left: float) -> None:
    """Codes of density 0.15 for 20 atoms leave 0.8 of the noise in 20 rows and 300 signals, and those of density 0.6 a third of it."""
    good = replace(solved("model")[0], learned=("density", "noise_variance"))
    residuals = good.observed.Y - good.mean.F @ good.mean.X / np.sqrt(N)
    noise = float(np.mean(residuals**2)) / left
    model = good.model.replace(prior=sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(density)), channel=sp.GaussianNoise(noise))
    words = f"only {left:.2g} of the learned noise"
    for learned, said in ((good.learned, (density, left) == (RHO, 0.3)), ((), False)):
        assert any(words in warning for warning in replace(good, model=model, learned=learned).warnings) == said


def with_noisier_rows() -> Any:
    """The fit to data of the model, beside data of which two rows are noisier: a fit to those is left for the claims above."""
    good = solved("model")[0]
    return replace(good, observed=good.observed._replace(Y=noisier_rows(1)))


def test_rows_are_called_by_their_names() -> None:
    names = Names(tuple(f"sensor {m}" for m in range(M)), None)
    assert "rows sensor 3, sensor 11 of Y have far more noise" in replace(with_noisier_rows(), names=names).warnings[0]


@pytest.mark.usefixtures("without_figures")
def test_warnings_are_shown_everywhere() -> None:
    # The theory is not asked about runs that can't be trusted, which saves its time here.
    good, bad = (replace(each, status=Status.MAX_ITERATIONS) for each in (solved("model")[0], with_noisier_rows()))
    (first, *_), count = bad.warnings, len(bad.warnings)
    assert repr(bad).endswith(f"; {count} warning{'s' if count > 1 else ''}")
    assert "warning" not in repr(good) + good.summary() + good._repr_html_() + report_html(good).replace(".warnings {", "")
    assert f"warning     {first}" in bad.summary()
    assert first in unescape(bad._repr_html_())
    page = unescape(report_html(bad))
    assert page.index("Next step") < page.index(first[1:]) < page.index("<section>")
    assert bad.to_xarray().attrs["warnings"].split("\n")[0] == first


def test_a_batch_has_the_warnings_of_each() -> None:
    two = sp.Solution(
        **{name: getattr(solved("model")[0], name) for name in ("model", "learned")},
        **{name: sp.Pair(*(np.stack([value, value]) for value in getattr(solved("model")[0], name))) for name in ("mean", "variance")},
        status=np.array([Status.CONVERGED] * 2, dtype=object),
        reason=np.array(["", ""], dtype=object),
        iterations=np.zeros(2, int),
        residual=np.zeros(2),
        free_entropy=np.full(2, np.nan),
        trace=Trace(*(np.zeros((2, 0)) for _ in Trace._fields)),
        observed=sp.Observed(np.stack([drawn(1), drawn(1) + 50]), None, None),
    )
    assert two.warnings[0] == ()
    assert "mean of Y" in two.warnings[1][0]


@given(
    st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from(("zeros", "normal", "nan", "whole", "huge", "tiny"))
)
@settings(max_examples=60, deadline=None)
def test_odd_arrays_are_looked_at_without_an_error(rows: int, signals: int, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((rows, signals))
    Y = {"zeros": 0 * Y, "whole": np.round(Y), "huge": 1e15 * Y, "tiny": 1e-200 * Y}.get(kind, Y)
    if kind == "nan":
        Y[rng.random(Y.shape) < 0.5] = np.nan
    mask = rng.random(Y.shape) < rng.choice((0.0, 0.5, 1.0))
    for status in Status:
        for hidden in (None, mask):
            assert all(isinstance(words, str) for words in of_array(Y, mask=hidden, status=status).warnings)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(1, 30), (30, 1)])
def test_a_single_row_or_column_is_compared_with_no_others(shape: tuple[int, int]) -> None:
    assert all(isinstance(words, str) for words in of_array(np.random.default_rng(0).normal(size=shape)).warnings)


def test_a_solution_without_data_or_with_nan_is_looked_at_without_an_error() -> None:
    assert replace(of_array(drawn()), observed=None).warnings == ()
    lost = of_array(drawn())
    assert suspicions(replace(lost, mean=sp.Pair(lost.mean.F * np.nan, lost.mean.X))) == ()


def test_data_of_nothing_but_constant_rows_are_looked_at_without_an_error() -> None:
    found = of_array(np.repeat(np.arange(1.0, M + 1)[:, None], P, axis=1))
    assert any("of Y never change; leave out what is constant" in words for words in found.warnings)


def test_medians_are_those_of_numpy() -> None:
    values = np.where(np.random.default_rng(0).random((7, 9)) < 0.3, np.nan, drawn(rows=7, signals=9))
    for axis in (0, 1):
        assert np.allclose(median(values, axis), np.nanmedian(values, axis=axis))


def of_data_alone(rng: np.random.Generator) -> list[str]:
    """What is said of the data of one random case: sizes, density, 0 to 60 dB, missing entries."""
    atoms, alpha, pi, rho = (
        rng.choice((10, 20, 40)),
        rng.choice((0.5, 1.0, 2.0, 5.0)),
        rng.choice((1.5, 3.0, 8.0)),
        rng.choice((0.03, 0.1, 0.4)),
    )
    rows, signals, delta = int(alpha * atoms), int(pi * atoms), rho * 10 ** (-rng.uniform(0, 6))
    Y = drawn(int(rng.integers(2**31)), atoms=atoms, rows=rows, signals=signals, rho=rho, delta=delta)
    seen = rng.random(Y.shape) < rng.choice((0.7, 1.0))
    found, table = of_data(Table(np.where(seen, Y, 0.0), seen), sp.Model.sparse(rho=rho, noise_variance=delta), atoms)
    out = outliers(table)
    turned = orientation(table.without(out), atoms)
    return found + ["outliers"] * bool(out.any()) + ([turned] if turned else [])


def test_data_from_the_model_raise_no_suspicion() -> None:
    """At most one in a thousand by each check: none in 150, whatever the sizes and the noise."""
    rng = np.random.default_rng(5)
    assert [words for _ in range(150) for words in of_data_alone(rng)] == []


@pytest.mark.claims
def test_the_example_of_the_docstring_is_true() -> None:
    test = doctest.DocTestParser().get_doctest(vars(sp.Solution)["warnings"].__doc__, {}, "warnings", None, None)
    assert test.examples
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


@pytest.mark.claims
def test_data_from_the_model_hardly_ever_raise_a_suspicion() -> None:
    """False alarms of all checks of the data together: at most 4 in 2000, for rates of 1e-4 by each of six; 4 has a probability of 1%."""
    rng = np.random.default_rng(6)
    assert sum(bool(of_data_alone(rng)) for _ in range(2000)) <= 4


@pytest.mark.parametrize(
    ("hint", "decibels"),
    [
        *(pytest.param(hint, decibels, marks=pytest.mark.claims) for hint in (True, False) for decibels in (20, 40)),
        pytest.param(True, 5, marks=pytest.mark.claims),
        pytest.param(False, 5, marks=pytest.mark.slow),  # minutes: all runs that there may be, of which few are confirmed
    ],
)
def test_trusted_fits_to_data_from_the_model_raise_no_suspicion(hint: bool, decibels: int) -> None:
    """64 instances of each: with a hint and all parameters given, and from scratch with all learned."""
    delta = RHO * 10 ** (-decibels / 10)
    problem = sp.Problem.sparse(alpha=M / N, pi=P / N, rho=RHO, eta=0.1 if hint else np.inf, noise_variance=delta)
    observed = sp.sample(problem, N, seed=decibels, batch=64).observed
    solution = sp.solve(observed, problem) if hint else sp.solve(observed.Y, n_atoms=N, max_iterations=3000)
    assert [solution[k].warnings for k in range(64) if solution[k].status.trusted and solution[k].warnings] == []
