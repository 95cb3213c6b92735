"""What is drawn against what is computed: tables against quadrature, the previewed diagram against the refined one, snippets too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import spinodal as sp
from conftest import Done
from spinodal.explorer import preview, snippets
from spinodal.explorer.app import exact_numbers
from spinodal.explorer.draw import diagram_figure
from spinodal.explorer.state import CHANNELS, VALUES, State
from spinodal.model.channels import named_channel
from spinodal.model.channels.named import NAMES
from spinodal.model.quadrature import averages

# Interpolation between tabulated averages, relative.
TABLES = 5e-5
# Transitions read off the grid, relative: two pixels of a diagram of 300 that spans two decades are 3%.
PREVIEWED = 5e-3
# Channels whose point has a test of its own, or takes a minute.
_TOLD = ("gaussian", "poisson", "student")


@pytest.mark.parametrize("rho", [0.01, 0.2, 0.37, 0.96])
def test_tables_agree_with_quadrature(rho: float) -> None:
    snr = np.geomspace(1e-6, 1e19, 300)
    looked_up, integrated = (averages(prior, snr) for prior in (preview.preview_prior("x", "gauss-bernoulli", rho), sp.GaussBernoulli(rho)))
    for previewed, exact in zip(looked_up, integrated, strict=True):
        np.testing.assert_allclose(previewed, exact, rtol=TABLES)


@pytest.mark.parametrize(
    "state",
    [
        State(delta=0.0),
        State(delta=0.3),
        *(pytest.param(state, marks=pytest.mark.claims) for state in (State(eta=np.inf), State(eta=0.01, delta=1e-8))),
    ],
)
def test_the_previewed_diagram_is_the_diagram(state: State) -> None:
    drawn = preview.diagram(state)
    some = slice(1, None, 12)  # a low, a middling and a high density
    exact = sp.phase_diagram(state.problem(), rho=drawn.across[some], eta=[state.eta]).isel(eta=0)
    for name, column in {"pi_star": drawn.pi_star, **{f"pi_{key}": value for key, value in drawn.transitions._asdict().items()}}.items():
        shown, true = column[some], exact[name].values
        far = true > 1e3  # beyond the picture
        np.testing.assert_array_equal(shown > 1e3, far, err_msg=name)
        np.testing.assert_allclose(shown[~far], true[~far], rtol=PREVIEWED, err_msg=name)


@pytest.mark.parametrize("state", [State(delta=0.0), State(delta=0.3, eta=np.inf)])
def test_grey_is_where_there_is_nothing_to_gain(state: State) -> None:
    figure = diagram_figure(preview.diagram(state), state)
    named = {each["text"] for each in figure["layout"]["annotations"]}
    assert ("nothing to gain" in named) == (state.delta > 0)
    assert ("@nothing-to-gain" in {trace.get("fillcolor") for trace in figure["data"]}) == (state.delta > 0)


def test_the_point_is_the_point() -> None:
    state = State(alpha=0.5, rho=0.2, pi=3.0)
    point, problem = preview.point(state), state.problem()
    outcome = sp.theory.outcomes([problem])[0]
    assert point.outcome.phase == outcome.phase == "hard"
    assert point.outcome.bayes.mse.X == pytest.approx(outcome.bayes.mse.X, rel=1e-3)
    assert point.outcome.amp.mse.X == pytest.approx(outcome.amp.mse.X, rel=1e-4)
    exact, _ = sp.effective_potential(problem, point.E)
    np.testing.assert_allclose(point.potential, exact, atol=1e-4)
    assert point.trajectory.mse.X[-1] == pytest.approx(outcome.amp.mse.X, rel=1e-4)


@pytest.mark.claims
@pytest.mark.parametrize("channel", [name for name in CHANNELS if name not in _TOLD])
def test_the_point_of_another_channel_is_the_point(channel: str) -> None:
    """A table between two others, against the channel's own."""
    state = State(channel=channel, rho=0.17, delta=1e-3)
    point, [exact] = preview.point(state), sp.theory.outcomes([state.problem()])
    assert point.outcome.phase == exact.phase
    for name in ("X", "F"):
        assert getattr(point.outcome.amp.mse, name) == pytest.approx(getattr(exact.amp.mse, name), rel=1e-3)
        assert getattr(point.outcome.bayes.mse, name) == pytest.approx(getattr(exact.bayes.mse, name), rel=1e-3)


@pytest.mark.claims
@pytest.mark.parametrize("channel", ["clipped", "gains"])
def test_the_previewed_diagram_of_another_channel_is_its_spinodal(channel: str) -> None:
    state = State(channel=channel, delta=1e-4)
    drawn = preview.diagram(state)
    for k in (5, 8):  # densities at which there is one
        exact = sp.spinodal(state._replace(rho=float(drawn.across[k])).problem())
        assert exact is not None
        assert drawn.transitions.spinodal[k] == pytest.approx(exact, rel=PREVIEWED)


def test_channels_of_the_page_are_those_of_the_command_line() -> None:
    """Every name of the command line is offered, and every offer is understood whatever the slider says."""
    assert {each.words.partition(":")[0] for each in CHANNELS.values()} == set(NAMES)
    for name in CHANNELS:
        for delta in (VALUES["delta"][0], VALUES["delta"][-1]):
            state = State(channel=name, delta=delta)
            assert repr(state.channel_object()) == repr(named_channel(state.channel_words())) or name == "gaussian"
            assert state.channel_words() in snippets.code(state) or name == "gaussian"


def test_a_prior_without_a_density_has_a_diagram_over_alpha() -> None:
    drawn = preview.diagram(State(x="rademacher", alpha=0.7))
    assert drawn.axis == "alpha"
    assert drawn.across[0] < 0.1
    assert drawn.pi_star == pytest.approx(1.0)  # alpha d_F/(alpha - 0): nothing but the matrix has to be found


def test_the_command_line_prints_the_numbers_on_screen(spinodal_command: Callable[..., Done]) -> None:
    state = State(alpha=0.5, rho=0.2, pi=3.0)
    outcome, transitions = exact_numbers(state)
    code, out, err = spinodal_command(*snippets.command(state).splitlines()[0].split()[1:], "--json")
    assert code == 0, err
    printed = json.loads(out)
    assert printed["phase"] == outcome.phase
    assert printed["pi_star"] == pytest.approx(transitions["π*"])
    assert printed["pi_spinodal"] == pytest.approx(transitions["πˢ"])
    assert printed["amp"]["mse_X"] == pytest.approx(outcome.amp.mse.X)
    assert printed["amp"]["recovered_X"] == pytest.approx(outcome.amp.recovered.X)
    assert transitions["π_B"] == pytest.approx(sp.bayes_transition(state.problem()), rel=1e-4)


LATE = """
import sys
from spinodal.explorer import preview
preview.diagram = preview.point = lambda state: None
before = "xarray" in sys.modules
preview.warm_up()
print(before, "xarray" in sys.modules, "pandas" in sys.modules)
"""


def test_what_files_are_written_with_is_loaded_before_somebody_waits_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]
