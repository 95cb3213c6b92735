"""How objects show themselves: a line when printed, a small table in a notebook, a figure when drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import spinodal as sp

PROBLEM = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
# The longest line that an object may print.
LONGEST = 300


def a_score() -> sp.Score:
    truth = sp.sample(PROBLEM, 40, seed=1).truth
    return sp.score(truth._replace(F=truth.F + 0.1), truth)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PROBLEM,
        lambda: sp.Model(),
        lambda: sp.sample(PROBLEM, 100, seed=1),
        lambda: sp.sample(PROBLEM, 100, seed=1).observed,
        lambda: sp.sample(PROBLEM, 100, seed=1).truth,
        a_score,
        lambda: sp.fixed_point_curve(PROBLEM),
        lambda: sp.state_evolution(PROBLEM),
        lambda: sp.amp_mse(PROBLEM),
    ],
)
def test_objects_print_in_a_line(make: Callable[[], Any]) -> None:
    text = repr(make())
    assert len(text) < LONGEST
    assert "\n" not in text


def test_numbers_and_short_arrays_are_printed_whole() -> None:
    assert repr(sp.Pair(F=0.5, X=None)) == "Pair(F=0.5, X=None)"
    assert repr(sp.Pair(F=np.arange(3), X=np.zeros((2, 20)))) == "Pair(F=array([0, 1, 2]), X=array(2 x 20))"


def test_a_problem_in_a_notebook_says_what_is_assumed() -> None:
    html = PROBLEM.replace(observed_fraction=0.7)._repr_html_()
    for words in ("GaussBernoulli(rho=0.2", "Hint(eta=1.0)", "0.5 measurements per atom", "3 signals per atom", "0.7 of the entries"):
        assert words in html
    assert "measurements per atom" not in sp.Model()._repr_html_()
    assert "Nothing() (nothing)" in sp.Model()._repr_html_()


def test_names_that_look_like_html_are_escaped() -> None:
    class Odd(sp.Gaussian):
        def __repr__(self) -> str:
            return "<script>"

    assert "<script>" not in sp.Model(prior=sp.Pair(F=Odd(), X=sp.Gaussian()))._repr_html_()


def test_a_score_in_a_notebook_has_every_kind_of_error() -> None:
    html = a_score()._repr_html_()
    for words in ("raw", "scales fitted", "order, signs and scales fitted", "atoms recovered", "median signal"):
        assert words in html
    truth = sp.sample(PROBLEM, 20, seed=1, batch=3).truth
    assert "3 instances, median 0" in sp.score(truth, truth)._repr_html_()


def test_a_phase_diagram_is_a_dataset_with_a_picture() -> None:
    diagram = sp.phase_diagram(PROBLEM, rho=[0.1, 0.2], eta=[0.1, 1.0])
    assert diagram._repr_html_().startswith('<img alt="the phase diagram"')
    assert isinstance(diagram.plot(), Figure)
    part = diagram.sel(rho=0.2)  # no diagram any more
    assert "<img" not in part._repr_html_()
    assert float(part.pi_spinodal.sel(eta=1.0)) == pytest.approx(3.58361, abs=1e-4)


def test_figures_come_from_results() -> None:
    for made in (sp.fixed_point_curve(PROBLEM), sp.state_evolution(PROBLEM), a_score(), sp.error_curves(PROBLEM, pi=[2.0, 4.0], eta=[1.0])):
        assert isinstance(made.plot(), Figure)


def test_the_score_of_a_batch_is_not_drawn() -> None:
    truth = sp.sample(PROBLEM, 20, seed=1, batch=3).truth
    with pytest.raises(sp.InputError, match="must be of one instance, but it is of a batch of 3"):
        sp.score(truth, truth).plot()


@pytest.mark.claims
def test_a_diagram_of_a_channel_without_a_noise_variance_is_drawn() -> None:
    diagram = sp.phase_diagram(PROBLEM.replace(channel=sp.Outliers(0.05, 1e-3)), rho=[0.1, 0.2], eta=[0.1])
    assert "Outliers" in diagram.plot().axes[0].get_title()
