"""Transitions, phases and phase diagrams: each told by two routes."""

from __future__ import annotations

import numpy as np
import pytest

import spinodal as sp
from spinodal.theory import LEAST_GAIN, PHASES, outcomes, phase_regions, pi_gain


@pytest.mark.parametrize(
    ("eta", "noise"),
    [pytest.param(0.1, 1e-6, marks=pytest.mark.claims), (1.0, 1e-5), pytest.param(np.inf, 1e-7, marks=pytest.mark.claims)],
)
def test_potentials_are_equal_at_the_bayes_transition(eta: float, noise: float) -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, eta=eta, noise_variance=noise)
    transition = sp.bayes_transition(problem)
    here = problem.replace(pi=transition)
    stable = [point for point in sp.fixed_points(here) if point.stable]
    assert len(stable) == 2
    assert stable[0].free_entropy == pytest.approx(stable[1].free_entropy, abs=1e-9)
    below, above = (sp.bayes_mmse(problem.replace(pi=transition * factor)) for factor in (1 - 1e-4, 1 + 1e-4))
    assert below.mse.X > 10 * above.mse.X
    assert sp.phase(problem.replace(pi=transition * (1 - 1e-4))) == "impossible"
    assert sp.phase(problem.replace(pi=transition * (1 + 1e-4))) == "hard"
    assert transition < sp.spinodal(problem)


def test_three_branches() -> None:
    """Without F' and with little noise, "nothing learned", a middling and a good branch can coexist: the last jump is the transition."""
    problem = sp.Problem.sparse(alpha=0.6, pi=1.0, rho=0.10283860736337531, noise_variance=1e-6)
    transition = sp.bayes_transition(problem)
    *others, good = (point for point in sp.fixed_points(problem.replace(pi=transition)) if point.stable)
    assert len(others) == 1  # and A = 0, which is not listed
    assert good.free_entropy == pytest.approx(others[0].free_entropy, abs=1e-9)
    before = problem.replace(pi=transition * (1 - 1e-3))
    assert sp.amp_mse(before).snr_X == 0.0
    assert sp.bayes_mmse(before).snr_X == pytest.approx(others[0].snr_X, rel=0.05)
    assert sp.phase(before) == "hard"
    assert sp.bayes_mmse(problem.replace(pi=transition * (1 + 1e-3))).mse.X < good.mse.X * 1.01


def test_phases_in_order_without_noise() -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, eta=1.0)
    star, spinodal = sp.pi_star(problem), sp.spinodal(problem)
    assert sp.bayes_transition(problem) == star
    for pi, expected in ((0.99 * star, "impossible"), (1.01 * star, "hard"), (0.99 * spinodal, "hard"), (1.01 * spinodal, "easy")):
        assert sp.phase(problem.replace(pi=pi)) == expected


def test_bayes_is_never_worse_and_amp_is_the_first_branch() -> None:
    problems = [sp.Problem.sparse(alpha=0.5, pi=pi, rho=0.2, eta=1.0, noise_variance=1e-5) for pi in np.linspace(0.5, 5, 24)]
    for outcome in outcomes(problems):
        assert outcome.bayes.free_entropy >= outcome.amp.free_entropy
        assert outcome.bayes.mse.X <= outcome.amp.mse.X
        assert outcome.amp == next(point for point in outcome.fixed_points if point.stable)
        assert (outcome.phase == "hard") == (outcome.bayes.mse.X < outcome.amp.mse.X)


@pytest.mark.parametrize(("noise", "phase"), [(0.05, "easy"), (5.0, "nothing to gain")])
def test_large_noise_ends_the_transitions_and_then_the_gain(noise: float, phase: str) -> None:
    problem = sp.Problem.sparse(alpha=0.5, pi=2.0, rho=0.2, eta=1.0, noise_variance=noise)
    assert sp.spinodal(problem) is None
    assert sp.bayes_transition(problem) is None
    assert sp.phase(problem) == phase
    assert (max(sp.amp_mse(problem).recovered) < LEAST_GAIN) == (phase == "nothing to gain")


def test_below_the_instability_nothing_is_gained_from_scratch() -> None:
    """The point of no learning is unstable above alpha pi rho^2/(Delta + rho)^2 = 1."""
    alpha, rho, noise = 0.5, 0.3, 0.3
    problem = sp.Problem.sparse(alpha=alpha, pi=(noise + rho) ** 2 / (alpha * rho**2), rho=rho, noise_variance=noise)
    below, above = outcomes([problem.replace(pi=factor * problem.pi) for factor in (1 - 1e-3, 1 + 1e-3)])
    assert below.amp == below.bayes
    assert below.amp.recovered == sp.Pair(F=0.0, X=0.0)
    assert 0 < max(above.amp.recovered) < LEAST_GAIN
    assert below.phase == above.phase == "nothing to gain"
    assert sp.phase(problem.replace(pi=2 * problem.pi)) == "easy"


def test_a_better_fixed_point_keeps_its_own_word() -> None:
    """AMP learns next to nothing, but not for want of anything to learn."""
    problem = sp.Problem.sparse(alpha=0.6, pi=1.0, rho=0.10283860736337531, noise_variance=1e-6)
    held = 0.99 * sp.spinodal(problem)  # type: ignore[operator]
    outcome = outcomes([problem.replace(pi=held)])[0]
    assert max(outcome.amp.recovered) < LEAST_GAIN
    assert outcome.bayes.recovered.X > 0.99
    assert outcome.phase == "hard"


def test_the_share_recovered_is_of_what_was_unknown() -> None:
    eta, rho = 0.25, 0.2
    hint, known, exact = outcomes([sp.Problem.sparse(alpha=0.5, pi=6.0, rho=rho, eta=eta, noise_variance=0.01)]) + outcomes(
        [sp.Problem.sparse(alpha=0.5, pi=6.0, rho=rho, eta=0.0, noise_variance=noise) for noise in (0.01, 0.0)]
    )
    # A standard Gaussian F given F' has variance eta/(1 + eta).
    assert hint.amp.recovered.F == pytest.approx(1 - hint.amp.mse.F * (1 + eta) / eta, rel=1e-12)
    assert hint.amp.recovered.X == pytest.approx(1 - hint.amp.mse.X / rho, rel=1e-12)
    assert known.amp.recovered.X > hint.amp.recovered.X
    assert np.isnan(known.amp.recovered.F)
    assert exact.amp.recovered.X == 1.0


GAINS = {
    "hint": sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, eta=1.0, noise_variance=1.0),
    "from scratch": sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, noise_variance=0.3),
    "missing entries": sp.Problem.sparse(alpha=0.8, pi=1.0, rho=0.4, eta=10.0, noise_variance=0.5, observed_fraction=0.5),
    "two values": sp.Problem(
        alpha=0.7, pi=1.0, prior=sp.Pair(F=sp.Rademacher(), X=sp.Laplace()), channel=sp.GaussianNoise(30.0), knowledge=sp.Hint(5.0)
    ),
}


@pytest.mark.parametrize(
    "problem", [pytest.param(each, id=name, marks=[pytest.mark.claims] * (name == "two values")) for name, each in GAINS.items()]
)
def test_amp_begins_to_gain_where_the_curve_says(problem: sp.Problem) -> None:
    """The curve knows no iteration and no pi; the outcome is that of one pi."""
    enough = pi_gain(problem)
    below, there, above = outcomes([problem.replace(pi=enough * factor) for factor in (0.999, 1.0, 1.001)])
    assert max(there.amp.recovered) == pytest.approx(LEAST_GAIN, abs=1e-9)
    assert (below.phase, above.phase) == ("nothing to gain", "easy")


def test_the_gain_may_wait_for_a_jump() -> None:
    """From scratch with little noise AMP stays at next to nothing, and leaves it for everything."""
    problem = sp.Problem.sparse(alpha=0.6, pi=1.0, rho=0.1, noise_variance=1e-6)
    assert pi_gain(problem) == pytest.approx(sp.spinodal(problem), rel=1e-9)
    below, above = outcomes([problem.replace(pi=pi_gain(problem) * factor) for factor in (0.999, 1.001)])
    assert max(below.amp.recovered) < 0.5 * LEAST_GAIN
    assert min(above.amp.recovered) > 0.99


def test_the_gain_of_a_known_matrix_does_not_depend_on_pi() -> None:
    for noise, enough in ((0.01, 0.0), (10.0, np.inf)):
        problem = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2, eta=0.0, noise_variance=noise)
        assert pi_gain(problem) == enough
        assert sp.phase(problem) == ("easy" if enough == 0 else "nothing to gain")


def test_regions_between_transitions_are_the_phases() -> None:
    """At a noise where there are all of them, and a density without a jump."""
    base = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.5, noise_variance=1e-4)
    diagram = sp.phase_diagram(base, rho=[0.1, 0.3, 0.6], eta=[np.inf], pi=np.geomspace(0.3, 50.0, 14))
    told = np.full(diagram.phase.shape, -1)
    for k in range(diagram.eta.size):
        transitions = (diagram[f"pi_{name}"].values[k] for name in ("appears", "bayes", "spinodal", "gain"))
        for phase, bottom, top in phase_regions(*transitions, noiseless=False, low=0.0, high=100.0):
            told[k][(diagram.pi.values >= bottom[:, None]) & (diagram.pi.values < top[:, None])] = PHASES.index(phase)
    np.testing.assert_array_equal(told, diagram.phase)
    assert set(np.unique(told)) == set(range(len(PHASES)))


@pytest.mark.parametrize("noise", [0.0, pytest.param(1e-6, marks=pytest.mark.slow), pytest.param(1e-3, marks=pytest.mark.claims)])
def test_diagram_and_single_points_agree(noise: float) -> None:
    rng = np.random.default_rng(11)
    base = sp.Problem.sparse(alpha=0.6, pi=1.0, rho=0.5, noise_variance=noise)
    eta, rho, pi = np.array([0.0, 0.05, 1.0, np.inf]), np.sort(rng.uniform(0.02, 0.58, 6)), np.sort(rng.uniform(0.3, 8.0, 5))
    diagram = sp.phase_diagram(base, rho=rho, eta=eta, pi=pi)
    assert diagram.phase.dims == ("eta", "rho", "pi")
    assert diagram.phase.attrs["phases"].split(", ") == list(PHASES)
    points = [(e, r, p) for e in eta for r in rho for p in pi]
    singles = outcomes([sp.Problem.sparse(alpha=0.6, pi=p, rho=r, eta=e, noise_variance=noise) for e, r, p in points])
    told = [PHASES[int(diagram.phase.sel(eta=e, rho=r, pi=p))] for e, r, p in points]
    assert told == [single.phase for single in singles]
    assert noise > 0 or set(told) == {"impossible", "hard", "easy"}
    for e, r in ((0.05, rho[1]), (1.0, rho[3]), (np.inf, rho[2])):
        one = base.replace(eta=e, prior=base.prior._replace(X=sp.GaussBernoulli(r)))
        here = diagram.sel(eta=e, rho=r)
        for name, function in (("pi_spinodal", sp.spinodal), ("pi_bayes", sp.bayes_transition), ("pi_star", sp.pi_star)):
            single = function(one)
            assert float(here[name]) == pytest.approx(np.nan if single is None else single, rel=1e-10, nan_ok=True)


@pytest.mark.slow
def test_diagram_reports_progress_and_keeps_its_settings() -> None:
    seen: list[tuple[int, int]] = []
    base = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.5, noise_variance=1e-6)
    diagram = sp.phase_diagram(
        base, rho=np.linspace(0.05, 0.45, 33), eta=[0.1, np.inf], progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (66, 66)
    assert len(seen) > 1
    assert diagram.attrs["alpha"] == 0.5
    assert diagram.attrs["noise_variance"] == 1e-6
    assert dict(diagram.sizes) == {"eta": 2, "rho": 33}
    spinodal = diagram.pi_spinodal.sel(eta=0.1).values
    # Denser signals need more of them.
    assert np.all(np.diff(spinodal[np.isfinite(spinodal)]) > 0)


def test_error_curves_are_the_points_outcomes() -> None:
    base = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2)
    curves = sp.error_curves(base, eta=[0.01, np.inf], pi=[1.5, 1.75, 3.0, 5.0])
    for e in (0.01, np.inf):
        for p in (1.5, 3.0):
            here, point = curves.sel(eta=e, pi=p), base.replace(eta=e, pi=p)
            assert float(here.bayes_mse_X) == sp.bayes_mmse(point).mse.X
            assert float(here.amp_mse_F) == sp.amp_mse(point).mse.F
            assert PHASES[int(here.phase)] == sp.phase(point)


def test_bad_axes_are_named() -> None:
    base = sp.Problem.sparse(alpha=0.5, pi=1.0, rho=0.2)
    with pytest.raises(sp.InputError, match="rho"):
        sp.phase_diagram(base, rho=[0.1, 1.0], eta=[1.0])
    with pytest.raises(sp.InputError, match="eta"):
        sp.phase_diagram(base, rho=[0.1], eta=[-1.0])
    with pytest.raises(sp.InputError, match="pi"):
        sp.phase_diagram(base, rho=[0.1], eta=[1.0], pi=[0.0])
    with pytest.raises(sp.InputError, match="density rho"):
        sp.phase_diagram(base.replace(prior=sp.Pair(F=sp.Gaussian(), X=sp.Laplace())), rho=[0.1], eta=[1.0])
    with pytest.raises(sp.InputError, match="eta"):
        sp.fixed_point_curve(base.replace(eta=0.0))
