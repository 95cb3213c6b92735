"""Y read in blocks and X kept in files: the numbers of `solve`, and what can't fit refused before anything is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import spinodal as sp
from spinodal.inference import api
from spinodal.inference.execution import on_disk

N = 16
ALONE = sp.Search(repair=False)
STRONG = sp.Problem.sparse(alpha=0.6, pi=8.0, rho=0.1, eta=0.05, noise_variance=1e-4)


@pytest.mark.parametrize("observed_fraction", [pytest.param(0.8, marks=pytest.mark.claims), 1.0])
def test_blocks_from_a_file_give_the_numbers_of_solve(tmp_path: Path, observed_fraction: float) -> None:
    problem = STRONG.replace(channel=sp.GaussianNoise(1e-4), observed_fraction=observed_fraction)
    observed = sp.sample(problem, N, seed=1).observed
    np.save(tmp_path / "Y.npy", observed.Y)
    whole = sp.solve(observed, problem, search=ALONE, max_iterations=300)
    calls: list[int] = []
    Y = np.load(tmp_path / "Y.npy", mmap_mode="r")
    parts = sp.solve_on_disk(
        Y, problem, tmp_path, F_prime=observed.F_prime, block=50, max_iterations=300, progress=lambda _, k, __: calls.append(k)
    )
    assert parts.status == whole.status
    assert parts.iterations == whole.iterations == len(calls)
    for one, other in zip((*parts.mean, *parts.variance), (*whole.mean, *whole.variance), strict=True):
        assert np.max(np.abs(one - other)) < 1e-10 * np.max(np.abs(other))
    assert parts.residual == pytest.approx(whole.residual, rel=1e-9)
    assert isinstance(parts.mean.X, np.memmap)
    assert np.array_equal(np.load(tmp_path / "X_mean.npy"), parts.mean.X)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X_mean.npy", "X_variance.npy", "Y.npy"]


def test_what_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observed = sp.sample(STRONG, N, seed=1).observed

    def refused(words: str, **options: object) -> None:
        with pytest.raises(sp.InputError, match=words):
            sp.solve_on_disk(observed.Y, STRONG, tmp_path, **{"F_prime": observed.F_prime, **options})  # type: ignore[arg-type]
        assert not list(tmp_path.iterdir())

    with monkeypatch.context() as small:
        small.setattr(on_disk, "memory", lambda: 1e5)
        refused("block must leave room in memory", block=10_000)
        small.setattr(on_disk, "memory", lambda: 1e3)
        refused("must leave room for F in memory")
    with monkeypatch.context() as full:
        full.setattr(on_disk.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
        refused("directory must have room for X and g")
    for other in (sp.AMP(damping="adaptive"), sp.AMP.as_printed(), sp.BiGAMP()):
        refused("solver must be an AMP with constant damping", solver=other)
    refused("F_prime must be given", F_prime=None)
    with pytest.raises(sp.InputError, match="does not exist"):
        sp.solve_on_disk(observed.Y, STRONG, tmp_path / "nowhere", F_prime=observed.F_prime)


WITH_MEANS = {
    "X nonnegative": sp.Pair(sp.Gaussian(), sp.NonnegativeGaussBernoulli(0.1)),
    "X with a mean": sp.Pair(sp.Gaussian(), sp.GaussBernoulli(0.1, mean=0.7)),
    "both nonnegative": sp.Pair(sp.NonnegativeGaussBernoulli(0.5, 2.0), sp.NonnegativeGaussBernoulli(0.1)),
}


@pytest.mark.parametrize(
    "name",
    ["X with a mean", pytest.param("both nonnegative", marks=pytest.mark.claims), pytest.param("X nonnegative", marks=pytest.mark.slow)],
)
def test_prior_means_are_taken_off_on_disk_too(tmp_path: Path, name: str) -> None:
    """Signals that are never negative have a mean: with it left in, the error is hundreds of times that of `solve`."""
    problem = STRONG.replace(prior=WITH_MEANS[name], alpha=1.0)
    instance = sp.sample(problem, N, seed=1)
    Y, F_prime, _ = instance.observed
    whole = sp.solve(Y, problem, F_prime=F_prime, search=ALONE, max_iterations=300)
    parts = sp.solve_on_disk(Y, problem, tmp_path, F_prime=F_prime, block=64, max_iterations=300)  # P = 128: one shape to compile
    assert parts.status == whole.status == "converged"
    assert parts.iterations == whole.iterations
    assert np.mean((whole.mean.X - instance.truth.X) ** 2) < 0.05 * np.mean(instance.truth.X**2)
    for one, other in zip((*parts.mean, *parts.variance), (*whole.mean, *whole.variance), strict=True):
        assert np.max(np.abs(one - other)) < 1e-10 * np.max(np.abs(other))
    assert parts.residual == pytest.approx(whole.residual, rel=1e-9)


@pytest.mark.claims
def test_a_dictionary_is_learned_from_what_fits_and_refined_on_all(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    problem = sp.Problem.sparse(alpha=0.5, pi=40.0, rho=0.1, noise_variance=1e-4)
    instance = sp.sample(problem, 40, seed=1)
    Y = zarr.create_array(store=str(tmp_path / "Y.zarr"), shape=instance.observed.Y.shape, chunks=(20, 400), dtype="float64")
    Y[:] = instance.observed.Y
    some = sp.solve(sp.Observed(instance.observed.Y[:, ::4], None, None), problem, n_atoms=40)
    solution = sp.solve_on_disk(Y, problem, tmp_path, n_atoms=40, block=400)
    assert solution.status == "converged"
    ours, less = sp.score(solution.mean, instance.truth), sp.score(some.mean, sp.Pair(instance.truth.F, instance.truth.X[:, ::4]))
    assert ours.atoms_recovered == 1
    assert ours.mse_aligned.F < 0.5 * less.mse_aligned.F  # four times the signals


@pytest.mark.claims
def test_a_matrix_that_can_not_be_trusted_makes_no_trusted_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F is learned from the signals that fit; what goes on from it is no better confirmed."""
    problem = sp.Problem.sparse(alpha=1.0, pi=20.0, rho=0.2, noise_variance=1e-3)
    Y = sp.sample(problem, 8, seed=1).observed.Y
    learned = sp.solve(Y, problem, n_atoms=8)
    assert sp.solve_on_disk(Y, problem, tmp_path, n_atoms=8, block=100).status == learned.status == "converged"
    doubted = replace(learned, status=sp.Status.DEGENERATE, reason="2 atoms are copies: 1 and 2")
    monkeypatch.setattr(api, "solve", lambda *_, **__: doubted)
    solution = sp.solve_on_disk(Y, problem, tmp_path, n_atoms=8, block=100)
    assert (solution.status, solution.reason) == ("unconfirmed", "it settled, but went on from a solution that was degenerate")
