"""What every kind of knowledge of F must satisfy: nothing, a hint, F itself, and one that a user writes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spinodal as sp
from spinodal.model.knowledge import Classes
from spinodal.theory import outcomes

SIGMAS = 5.0


class ColumnHint(sp.Knowledge):
    """A hint F' = F + sqrt(eta) W with an eta for each column: a datasheet that gives a tolerance for each part."""

    def __init__(self, eta: Any):
        self.eta = np.asarray(eta, dtype=float)

    def message(self, given: Any) -> tuple[Any, Any]:
        return jnp.broadcast_to(1 / self.eta, given.shape), given / self.eta

    def observe(self, key: Any, F: Any) -> Any:
        return F + jnp.sqrt(self.eta) * jax.random.normal(key, F.shape)

    def classes(self) -> Classes:
        values, counts = np.unique(self.eta, return_counts=True)
        return Classes(1 / values, counts / counts.sum())


N = 40
KNOWLEDGE: dict[str, sp.Knowledge] = {
    "nothing": sp.Nothing(),
    "hint": sp.Hint(0.3),
    "weak hint": sp.Hint(20.0),
    "known": sp.Known(),
    "user's columns": ColumnHint(np.where(np.arange(N) % 2 == 0, 0.1, 2.0)),
}


@pytest.fixture(params=list(KNOWLEDGE), scope="module")
def knowledge(request: pytest.FixtureRequest) -> sp.Knowledge:
    return KNOWLEDGE[request.param]


@pytest.fixture(scope="module")
def drawn(knowledge: sp.Knowledge) -> tuple[np.ndarray, Any]:
    """A true F and what is observed of it."""
    F = np.random.default_rng(0).standard_normal((1000, N))
    with jax.enable_x64(True):
        given = knowledge.observe(jax.random.key(1), F)
    return F, None if given is None else np.asarray(given)


def test_shares_of_the_classes_sum_to_one(knowledge: sp.Knowledge) -> None:
    snr, share = knowledge.classes()
    assert np.shape(snr) == np.shape(share)
    assert np.sum(share) == pytest.approx(1.0)
    assert np.all(np.asarray(snr) >= 0)


def test_the_message_is_what_bayes_says(knowledge: sp.Knowledge, drawn: tuple[np.ndarray, Any]) -> None:
    """For a standard Gaussian F the posterior mean is the regression of F on F': no residual correlation, and the stated variance."""
    F, given = drawn
    with jax.enable_x64(True):
        mean, variance = (np.broadcast_to(np.asarray(value), F.shape) for value in knowledge.posterior(sp.Gaussian(), given, 0.0, 0.0))
    residual = F - mean
    np.testing.assert_allclose(np.var(residual, axis=0), variance[0], rtol=SIGMAS * np.sqrt(2 / len(F)), atol=1e-12)
    if given is not None:
        product = np.mean(residual * given, axis=0)
        assert np.all(np.abs(product) <= SIGMAS * np.std(residual * given, axis=0) / np.sqrt(len(F)) + 1e-12)


def test_classes_are_the_precisions_of_the_messages(knowledge: sp.Knowledge, drawn: tuple[np.ndarray, Any]) -> None:
    F, given = drawn
    with jax.enable_x64(True):
        a = np.broadcast_to(np.asarray(knowledge.message(given)[0], dtype=float), F.shape)
    snr, share = knowledge.classes()
    for value, expected in zip(snr, share, strict=True):
        assert np.mean(np.isclose(a, value) | (a == value)) == pytest.approx(expected)


def test_data_add_to_what_is_known(knowledge: sp.Knowledge, drawn: tuple[np.ndarray, Any]) -> None:
    """The posterior under the data's message (a, b) is the direct Gaussian one, and log Z its normalisation."""
    F, given = drawn
    a, b, h = 0.7, 0.4 + 0 * F, 1e-5
    with jax.enable_x64(True):
        before = knowledge.posterior(sp.Gaussian(), given, 0.0, 0.0 * F)
        after = knowledge.posterior(sp.Gaussian(), given, a, b)
        up, down = (np.asarray(knowledge.log_partition(sp.Gaussian(), given, a, b + step)) for step in (h, -h))
    mean, variance = (np.broadcast_to(np.asarray(value), F.shape) for value in before)
    np.testing.assert_allclose(after.mean, (mean + variance * b) / (1 + a * variance), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.broadcast_to(after.variance, F.shape), variance / (1 + a * variance), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose((up - down) / (2 * h), after.mean, rtol=1e-6, atol=1e-8)


def test_the_unknown_share_runs_from_one_to_zero() -> None:
    shares = [knowledge.unknown_share(sp.Gaussian()) for knowledge in (sp.Nothing(), sp.Hint(1.0), sp.Known())]
    assert shares == [1.0, 0.5, 0.0]


@pytest.mark.parametrize("prior_F", [sp.Gaussian(), pytest.param(sp.Rademacher(), marks=pytest.mark.claims)], ids=["closed", "quadrature"])
def test_works_in_the_theory(knowledge: sp.Knowledge, prior_F: sp.Prior) -> None:
    """The errors that the curve promises AMP are those the state evolution reaches, for a closed-form F and for one by quadrature."""
    prior = sp.Pair(F=prior_F, X=sp.GaussBernoulli(0.3))
    problem = sp.Problem(alpha=0.8, pi=2.0, prior=prior, channel=sp.GaussianNoise(0.01), knowledge=knowledge)
    promised = sp.amp_mse(problem)
    end = sp.state_evolution(problem, tolerance=1e-13).mse
    assert end.X[-1] == pytest.approx(promised.mse.X, rel=1e-7)
    assert end.F[-1] == pytest.approx(promised.mse.F, rel=1e-7)
    value, matrix_error = sp.effective_potential(problem, promised.mse.X)
    assert float(value) == pytest.approx(promised.free_entropy, rel=1e-8)
    assert float(matrix_error) == pytest.approx(promised.mse.F, rel=1e-6)


def test_an_eta_for_each_column() -> None:
    """Equal etas are one hint; unequal ones lie between the best and the worst; and instances can be drawn."""
    problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-4)
    same = problem.replace(knowledge=ColumnHint(np.ones(10)))
    split = problem.replace(knowledge=ColumnHint([0.5] * 5 + [2.0] * 5))
    assert sp.amp_mse(same).mse == pytest.approx(sp.amp_mse(problem).mse, rel=1e-12)
    best, worst = (sp.spinodal(problem.replace(eta=eta)) for eta in (0.5, 2.0))
    assert best < sp.spinodal(split) < worst
    start = sp.state_evolution(split).mse.F[0]
    assert start == pytest.approx((0.5 / 1.5 + 2 / 3) / 2)
    curve = sp.fixed_point_curve(split)
    assert curve.pi[~curve.stable].max() == pytest.approx(sp.spinodal(split), rel=1e-2)
    instance = sp.sample(split, 10, seed=0)
    assert instance.observed.F_prime.shape == (5, 10)


@pytest.mark.parametrize("transition", [sp.spinodal, pytest.param(sp.bayes_transition, marks=pytest.mark.claims)])
def test_classes_that_agree_are_one_class(transition: Any) -> None:
    """Two classes of one eta go through the numerical inverse of mmse_F, and must give the closed form's numbers."""
    problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-5)

    class Twice(sp.Hint):
        def classes(self) -> Classes:
            return Classes(np.full(2, 1.0), np.array([0.3, 0.7]))

    twice = problem.replace(knowledge=Twice(1.0))
    assert transition(twice) == pytest.approx(transition(problem), rel=1e-9)
    for one, other in zip(sp.fixed_points(twice), sp.fixed_points(problem), strict=True):
        np.testing.assert_allclose((one.snr_X, *one.mse, one.free_entropy), (other.snr_X, *other.mse, other.free_entropy), rtol=1e-9)


def test_kinds_of_knowledge_are_computed_together() -> None:
    """A batch may mix kinds with different numbers of classes; a partly known F needs fewer signals."""
    problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, noise_variance=1e-4)

    class Partly(sp.Hint):
        """Half of the entries are known exactly."""

        def classes(self) -> Classes:
            return Classes(np.array([np.inf, 1 / float(self.eta)]), np.array([0.5, 0.5]))

    problems = [problem.replace(knowledge=knowledge) for knowledge in (*KNOWLEDGE.values(), Partly(1.0))]
    for alone, together in zip(problems, outcomes(problems), strict=True):
        assert together.amp.mse.X == pytest.approx(sp.amp_mse(alone).mse.X, rel=1e-9)
        assert together.phase == sp.phase(alone)
    assert sp.pi_star(problems[-1]) == pytest.approx(sp.pi_star(problem) / 2)
    assert sp.spinodal(problems[-1]) < sp.spinodal(problem.replace(eta=1.0))
