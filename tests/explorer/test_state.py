"""The page's address: what comes out goes in again, and what can't be used is named and left alone."""

from __future__ import annotations

import numpy as np
import pytest

from spinodal.errors import InputError
from spinodal.explorer import snippets
from spinodal.explorer.state import PRIORS_F, PRIORS_X, VALUES, State, from_client, from_query, nearest, written

STATES = [
    State(),
    State(alpha=0.61, rho=0.33, eta=np.inf, delta=0.0, pi=12.0, x="laplace", f="rademacher", n=40, seed=7),
    *(State(x=x) for x in PRIORS_X),
    *(State(f=f) for f in PRIORS_F),
]


@pytest.mark.parametrize("state", STATES)
def test_an_address_holds_the_whole_state(state: State) -> None:
    assert from_query("?" + state.query()) == (state, [])
    assert from_client({name: written(value) for name, value in state._asdict().items()}) == state


def test_sliders_hold_every_value_once_and_in_order() -> None:
    for name, values in VALUES.items():
        assert list(values) == sorted(set(values))
        assert [nearest(name, value) for value in values] == list(range(len(values)))
        assert all(float(f"{value:g}") == value for value in values)  # the page and the address write them so
    assert VALUES["eta"][-1] == np.inf
    assert VALUES["delta"][0] == 0


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("alpha=7", "alpha"),
        ("alpha=nan", "alpha"),
        ("alpha=", "alpha"),
        ("rho=0", "rho"),
        ("rho=1e999", "rho"),
        ("eta=-1", "eta"),
        ("eta=1000", "eta"),
        ("delta=-1e-6", "delta"),
        ("pi=__import__('os')", "pi"),
        ("n=100000", "n"),
        ("n=9", "n"),
        ("n=1e2", "n"),
        ("n=²", "n"),
        ("seed=-1", "seed"),
        ("x=../../etc/passwd", "x"),
        ("f=<script>", "f"),
        ("gamma=1", "gamma"),
    ],
)
def test_what_can_not_be_used_is_ignored_with_a_sentence(query: str, word: str) -> None:
    state, complaints = from_query("?pi=6&" + query)
    assert state == State(pi=6.0)
    assert len(complaints) == 1
    assert word in complaints[0]
    assert "ignored" in complaints[0]


def test_a_value_between_two_steps_is_shown_at_the_nearest_and_said_so() -> None:
    assert from_query("?eta=0.31")[0].eta == 0.3
    assert from_query("?delta=1.04e-6")[0].delta == 1e-6
    assert from_query("?rho=0.333")[0].rho == 0.33
    assert "0.3 is shown" in from_query("?eta=0.31")[1][0]


def test_long_addresses_are_not_read_at_all() -> None:
    state, complaints = from_query("?alpha=0.7&" + "x" * 1000)
    assert state == State()
    assert "longer" in complaints[0]


@pytest.mark.parametrize("data", [None, 3, [], {"alpha": "0.123456"}, {"path": "/etc"}, {"n": "1000000"}, {"x": {"a": 1}}])
def test_what_the_page_could_not_have_sent_is_refused(data: object) -> None:
    with pytest.raises(InputError):
        from_client(data)


def test_other_priors_are_python_only() -> None:
    assert snippets.command(State(x="laplace")).startswith("#")
    assert "sp.Laplace(0.7071)" in snippets.code(State(x="laplace"))
