"""Golden values: every fixed point, spinodal and free entropy of tests/golden/theory.json (its note tells the source)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import spinodal as sp

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "theory.json").read_text())
CASES = GOLDEN["cases"]


def problem_of(case: dict[str, Any]) -> sp.Problem:
    return sp.Problem.sparse(alpha=case["alpha"], pi=case["pi"], rho=case["rho"], eta=float(case["eta"]), noise_variance=case["delta"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"eta={case['eta']} delta={case['delta']} pi={case['pi']}")
def test_golden_values(case: dict[str, Any]) -> None:
    problem = problem_of(case)
    assert sp.pi_star(problem) == pytest.approx(case["pi_star"], rel=1e-12)
    if case["pi_spinodal"] is None:
        assert sp.spinodal(problem) is None
    else:
        assert sp.spinodal(problem) == pytest.approx(case["pi_spinodal"], rel=1e-6)
    found = sp.fixed_points(problem)
    assert len(found) == len(case["fixed_points"])
    for ours, golden in zip(found, case["fixed_points"], strict=True):
        assert ours.snr_X == pytest.approx(golden["snr_x"], rel=1e-6)
        assert ours.mse.X == pytest.approx(golden["mse_x"], rel=1e-6)
        assert ours.mse.F == pytest.approx(golden["mse_f"], rel=1e-6)
        assert ours.stable == golden["stable"]
        assert ours.free_entropy == pytest.approx(golden["free_entropy"], abs=1e-6)


@pytest.mark.parametrize("replaced", GOLDEN["replaced"], ids=lambda old: f"case {old['case']}")
def test_the_replaced_points_were_off_and_ours_are_not(replaced: dict[str, Any]) -> None:
    """pi(A) - pi at 30 digits: the judge is neither our quadrature nor the one that made the reference."""
    case = CASES[replaced["case"]]
    ours = sp.fixed_points(problem_of(case))[replaced["fixed_point"]]
    # repr of the floats, so that 0.2 means one fifth in mpmath too.
    words = [repr(case[key]) for key in ("alpha", "rho", "delta", "eta")]

    def excess(A: float) -> tuple[float, float, float]:
        pi, E, D = oracle.curve(*words, A, digits=30)
        return abs(float(pi - case["pi"])), float(E), float(D)

    off, E, D = excess(ours.snr_X)
    assert off < 1e-11
    assert ours.mse.X == pytest.approx(E, rel=1e-9)
    assert ours.mse.F == pytest.approx(D, rel=1e-9)
    assert excess(replaced["snr_x"])[0] > 1e-8


@pytest.mark.parametrize("eta", ["0.3", *(pytest.param(eta, marks=pytest.mark.claims) for eta in ("0.003", "30"))])
@pytest.mark.parametrize("delta", ["0", "1e-5"])
def test_other_fixed_points_solve_the_equation_at_many_digits(eta: str, delta: str) -> None:
    """The golden cases are not special: same check at parameters chosen here."""
    problem = sp.Problem.sparse(alpha=0.6, pi=1.75, rho=0.25, eta=float(eta), noise_variance=float(delta))
    found = sp.fixed_points(problem)
    assert found
    for point in found:
        pi, E, D = oracle.curve("0.6", "0.25", delta, eta, point.snr_X)
        # A relative error of 1e-12 in A moves pi by d log pi/d log A times that.
        nudged, *_ = oracle.curve("0.6", "0.25", delta, eta, point.snr_X * (1 + 1e-6))
        response = abs(float(nudged / pi - 1)) / 1e-6
        assert abs(float(pi) / 1.75 - 1) < 1e-9 * max(response, 1e-2)
        np.testing.assert_allclose([point.mse.X, point.mse.F], [float(E), float(D)], rtol=1e-8)
