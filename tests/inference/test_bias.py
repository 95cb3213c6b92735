"""Learned parameters, corrected by what is learned of data drawn with them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.search import bias
from spinodal.inference.search.learning import parameters
from spinodal.inference.solution import Trace

NAMES = ["noise_variance", "density", "slab_variance"]


@cache
def found() -> sp.Solution:
    """Something that a solve might have found."""
    rng = np.random.default_rng(0)
    mean = sp.Pair(rng.standard_normal((30, 20)), rng.standard_normal((20, 2000)))
    variance = sp.Pair(np.full((30, 20), 0.01), np.full((20, 2000), 0.01))
    model = sp.Model(sp.Pair(sp.Gaussian(), sp.GaussBernoulli(0.2, 0.0, 1.0)), sp.GaussianNoise(0.05), sp.Nothing())
    nothing = Trace(*(np.zeros(0),) * 4)
    return sp.Solution(mean, variance, sp.Status.CONVERGED, "", 1, 0.0, 0.0, nothing, model=model, ranges={"density": (0.1, 0.3)})


def drawn(**values: float) -> bias.Drawn:
    return bias.Drawn(np.zeros((1, 1)), found().model, None, values)  # type: ignore[arg-type]


def learned(**values: float) -> Any:
    slab = sp.GaussBernoulli(values.get("density", 0.2), 0.0, values.get("slab_variance", 1.0))
    return found().model.replace(prior=found().model.prior._replace(X=slab), channel=sp.GaussianNoise(values.get("noise_variance", 0.05)))


def test_data_drawn_again_are_what_the_model_says() -> None:
    again, other, same = (bias.drawn_again(found(), None, (1, k), np.float64) for k in (2, 3, 2))
    assert again.Y.shape == (30, 2000)
    np.testing.assert_array_equal(again.Y, same.Y)
    assert not np.allclose(again.Y, other.Y)
    # 8000 nonzeros, 60,000 entries.
    assert again.parameters["density"] == pytest.approx(0.2, rel=0.05)
    assert again.parameters["slab_variance"] == pytest.approx(1.0, rel=0.08)
    assert again.parameters["noise_variance"] == pytest.approx(0.05, rel=0.03)
    # The atoms to start from are those of the data, near the ones found; nothing is said of the signals.
    assert np.mean((np.abs(again.start.F.mean) - np.abs(found().mean.F)) ** 2) == pytest.approx(0.01, rel=0.2)
    assert np.all(again.start.X.mean == 0)
    assert again.start.X.variance == pytest.approx(0.2)
    assert np.mean(again.Y**2) == pytest.approx(0.2 * np.mean(again.start.F.mean**2) + 0.05, rel=0.1)


def test_neither_signs_nor_units_change_what_is_drawn() -> None:
    signs = np.where(np.arange(20) % 3 == 0, -1.0, 1.0)
    other = replace(found(), mean=sp.Pair(1e-9 * signs * found().mean.F, found().mean.X))
    other = replace(other, variance=sp.Pair(1e-18 * found().variance.F, found().variance.X))
    other = replace(other, model=other.model.replace(channel=sp.GaussianNoise(0.05e-18)))
    first, second = (bias.drawn_again(each, None, (1, 2), np.float64) for each in (found(), other))
    np.testing.assert_allclose(1e9 * second.Y, first.Y, rtol=1e-9)
    assert second.parameters["noise_variance"] == pytest.approx(1e-18 * first.parameters["noise_variance"])


def test_single_precision_has_the_same_data() -> None:
    single, double = (bias.drawn_again(found(), None, (7, 0), dtype) for dtype in (np.float32, np.float64))
    assert single.Y.dtype == single.start.F.mean.dtype == single.start.X.variance.dtype == np.float32
    np.testing.assert_allclose(single.Y, double.Y, atol=1e-5)


def test_noise_counts_where_it_is_seen() -> None:
    mask = np.zeros((30, 2000), bool)
    mask[:, :10] = True
    few, all_of_it = (bias.drawn_again(found(), where, (1, 2), np.float64).parameters["noise_variance"] for where in (mask, None))
    assert few != all_of_it
    assert few == pytest.approx(0.05, rel=0.4)  # of 300 entries


def test_factors_are_means_over_the_draws() -> None:
    ends = [learned(density=0.22, noise_variance=0.06), learned(density=0.3, noise_variance=0.05)]
    data = [drawn(density=0.2, noise_variance=0.05, slab_variance=1.0), drawn(density=0.25, noise_variance=0.05, slab_variance=1.0)]
    by = bias.factors(data, ends, NAMES)
    assert by["density"] == pytest.approx((1.1 * 1.2) ** 0.5, abs=0.005)
    assert by["noise_variance"] == pytest.approx(1.2**0.5, abs=0.005)
    assert by["slab_variance"] == pytest.approx(1.0)


@pytest.mark.parametrize("density", [0.02, 0.9])
def test_what_can_not_be_learned_is_left_as_it_is(density: float) -> None:
    """A run that ends far from what its data have does not err by a factor."""
    by = bias.factors([drawn(density=0.2, noise_variance=0.05, slab_variance=1.0)], [learned(density=density)], NAMES)
    assert "density" not in by


def test_parameters_and_their_ranges_are_divided_by_the_factors() -> None:
    better = bias.corrected(found(), {"density": 1.25, "noise_variance": 0.8})
    values = parameters(better.model)
    assert values["density"] == pytest.approx(0.16)
    assert values["noise_variance"] == pytest.approx(0.0625)
    assert values["slab_variance"] == 1.0
    assert better.ranges["density"] == pytest.approx((0.08, 0.24))
    assert bias.corrected(found(), {}) is found()
    dense = replace(found(), model=learned(density=0.95))
    assert parameters(bias.corrected(dense, {"density": 0.8}).model)["density"] < 1


def test_factors_near_one_are_believed() -> None:
    assert bias.are_right({"density": 1.02, "noise_variance": 0.98}, ["density", "noise_variance"])
    assert not bias.are_right({"density": 1.05, "noise_variance": 1.0}, ["density", "noise_variance"])
    assert not bias.are_right({"density": 1.0}, ["density", "noise_variance"])  # the other could not be learned


def test_data_without_a_nonzero_do_no_harm() -> None:
    """Of a table of noise, say, whose density is learned to be as good as zero."""
    assert bias.factors([drawn(density=0.0, noise_variance=0.05, slab_variance=0.0)], [learned()], NAMES) == {"noise_variance": 1.0}


def test_runs_that_go_wrong_do_not_count() -> None:
    data = [drawn(density=0.2)] * 4
    assert bias.factors(data, [None, *[learned(density=0.22)] * 3], ["density"]) == {"density": 1.1}
    assert bias.factors(data, [learned(density=0.6), *[learned(density=0.22)] * 3], ["density"]) == {"density": 1.1}
    assert bias.factors(data, [None, None, *[learned(density=0.22)] * 2], ["density"]) == {}


def test_other_priors_and_channels_are_left_alone() -> None:
    model = found().model
    assert bias.can_draw(model)
    assert not bias.can_draw(model.replace(channel=sp.Clipped(-1.0, 1.0)))
    assert not bias.can_draw(model.replace(channel=sp.GaussianNoise(np.full((30, 1), 0.1))))
    assert not bias.can_draw(model.replace(prior=model.prior._replace(X=sp.Laplace())))
    assert not bias.can_draw(model.replace(prior=model.prior._replace(F=sp.Laplace())))


def gone_through(errs: float, solution: sp.Solution | None = None) -> tuple[sp.Solution, list[int]]:
    """A correction where runs find densities too large by a factor, which grows with the density; and how many sets of data were drawn
    each time."""
    course, numbers = bias.course(found() if solution is None else solution, ["density"], None, (1, 2), np.float64), []
    try:
        drawn = next(course)
        while True:
            numbers.append(len(drawn))
            ends = [learned(density=(1 + (errs - 1) * each.model.prior.X.rho / 0.2) * each.parameters["density"]) for each in drawn]
            drawn = course.send(ends)
    except StopIteration as end:
        return end.value, numbers


def test_a_run_that_errs_is_corrected_by_data_drawn_twice() -> None:
    """Learned .2, with an error of 1 + density: right is .1708. At .2 the error is 1.2, which alone would give .1667."""
    better, numbers = gone_through(1.2)
    assert numbers == [1, bias.times(found()), bias.times(found())]
    assert parameters(better.model)["density"] == pytest.approx(0.2 / 1.17)


def test_a_run_that_is_right_is_left_alone_after_one_set() -> None:
    better, numbers = gone_through(1.02)
    assert numbers == [1]
    assert better is found()


def test_what_went_wrong_is_not_corrected() -> None:
    for status in (sp.Status.DEGENERATE, sp.Status.DIVERGED):
        wrong = replace(found(), status=status)
        assert gone_through(1.1, wrong) == (wrong, [])


def test_few_nonzeros_are_drawn_more_often() -> None:
    small = replace(found(), mean=sp.Pair(np.ones((30, 20)), np.ones((20, 50))))
    large = replace(found(), mean=sp.Pair(np.ones((30, 20)), np.ones((20, 10_000))))
    assert bias.times(large) == 1 < bias.times(found()) < bias.times(small) == 4


@pytest.mark.claims
def test_noise_and_density_are_right_where_some_signals_can_not_be_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 measurements of 6 nonzeros in 40: signals beyond reach make the noise look larger by some percent, and codes sparser."""
    problem = sp.Problem.sparse(alpha=0.5, pi=15.0, rho=0.15, noise_variance=1.5e-3)
    instances = [sp.sample(problem, 40, seed=seed) for seed in range(40_000, 40_008)]

    def ratios(model: sp.Model) -> tuple[float, float]:
        return model.noise_variance / 1.5e-3, model.prior.X.rho / 0.15

    before: list[sp.Model] = []
    corrected = bias.course

    def noted(found: sp.Solution, *rest: Any) -> Any:
        before.append(found.model)
        return corrected(found, *rest)

    monkeypatch.setattr(bias, "course", noted)
    right = np.array([ratios(sp.solve(instance.observed.Y, n_atoms=40).model) for instance in instances])
    plain = np.array([ratios(model) for model in before])
    error = np.std(right, axis=0, ddof=1) / np.sqrt(len(right))
    assert np.all(np.abs(right.mean(axis=0) - 1) < 3 * error + 0.01)
    assert np.all(np.abs(right - 1) < 0.15)
    # What the correction does is surer than the parameters are: the instances are the same.
    assert np.all(plain[:, 0] >= right[:, 0])
    assert np.all(plain[:, 1] <= right[:, 1])
    assert np.mean(plain[:, 0] - right[:, 0]) > 0.03


@pytest.mark.claims
def test_an_instance_of_a_batch_is_corrected_like_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With holes, and noise that held-out entries chose in the second of them. Starts are guessed from all of Y, so digits differ."""
    problems = [sp.Problem.sparse(alpha=1.0, pi=15.0, rho=0.15, noise_variance=variance) for variance in (1.5e-3, 0.03)]
    Y = np.stack([sp.sample(problem, 16, seed=5).observed.Y for problem in problems])
    Y[np.random.default_rng(0).random(Y.shape) < 0.05] = np.nan
    corrections: list[dict[str, float]] = []
    corrected = bias.corrected

    def kept(solution: sp.Solution, by: dict[str, float]) -> sp.Solution:
        corrections.append(by)
        return corrected(solution, by)

    monkeypatch.setattr(bias, "corrected", kept)
    together = sp.solve(Y, n_atoms=16, seed=[3, 4])
    assert corrections
    for k, seed in enumerate((3, 4)):
        alone = sp.solve(Y[k], n_atoms=16, seed=seed)
        for name, value in parameters(alone.model).items():
            assert parameters(together[k].model)[name] == pytest.approx(value, rel=0.02), (k, name)
