"""Specs: what they mean, and how they are refused."""

from __future__ import annotations

import pytest

import spinodal as sp
from spinodal.sweeps import parse_spec
from spinodal.sweeps.plan import make_plan, problem_of

GRID = """
N = 8
instances = 3
batch = 4
[grid]
alpha = 0.5
rho = [0.1, 0.2]
pi = [2.0, 2.0001, 3.0]
eta = [0.05, inf]
"""


def test_a_grid_is_every_combination_and_its_batches_have_one_shape() -> None:
    plan = make_plan(parse_spec(GRID))
    assert len(plan.points) == len({point.id for point in plan.points}) == 2 * 3 * 2 * 3
    for batch in plan.batches:
        problems = [problem_of(point.numbers, batch.prior) for point in batch.points]
        assert len({(problem.sizes(8), problem.eta) for problem in problems}) == 1
        assert len(batch.points) <= batch.width <= 4
    # pi = 2 and 2.0001 have the same shape at N = 8: they share batches, cut evenly.
    assert [batch.width for batch in plan.batches] == [4] * 6 + [3] * 4


def test_a_point_keeps_its_name_and_draw_when_the_spec_grows() -> None:
    small = {point.id: point.seed for point in make_plan(parse_spec(GRID)).points}
    large = {point.id: point.seed for point in make_plan(parse_spec(GRID.replace("[0.1, 0.2]", "[0.1, 0.15, 0.2]"))).points}
    assert small.items() <= large.items()
    assert len(large) > len(small)


def test_solvers_are_given_the_same_data() -> None:
    plan = make_plan(parse_spec(GRID + '[[solver]]\nmethod = "amp"\n[[solver]]\nmethod = "mu-amp"\ndamping = 0.3\n'))
    seeds: dict[int, list[int]] = {0: [], 1: []}
    for point in plan.points:
        seeds[point.solver].append(point.seed)
    assert sorted(seeds[0]) == sorted(seeds[1])


def test_a_random_design_depends_on_the_seed_alone() -> None:
    axes = "alpha = 0.5\nrho = { from = 0.05, to = 0.2 }\npi = [2, 3]\neta = { from = 0.01, to = 1, scale = 'log' }\n"
    text = f"N = 8\n[random]\npoints = 50\n{axes}"
    spec, again, other = parse_spec(text), parse_spec(text), parse_spec("seed = 1\n" + text)
    assert spec.designs == again.designs != other.designs
    assert all(0.05 <= design["rho"] <= 0.2 and design["pi"] in (2, 3) and 0.01 <= design["eta"] <= 1 for design in spec.designs)
    assert len({point.id for point in make_plan(spec).points}) == 50


def test_other_priors() -> None:
    spec = parse_spec("N = 8\n[grid]\nalpha = 0.5\npi = 2\n[prior.X]\nkind = 'Laplace'\nscale = 0.5\n")
    problem = problem_of(spec.designs[0], spec.prior)
    assert problem.prior.X == sp.Laplace(0.5)


def test_other_channels() -> None:
    text = "N = 8\n{}[grid]\nalpha = 0.5\npi = 2\nrho = 0.1\n"
    spec, plain = parse_spec(text.format('channel = "clipped:low=-1,high=1"\n')), parse_spec(text.format(""))
    assert problem_of(spec.designs[0], spec.prior, spec.channel).channel == sp.Clipped(-1.0, 1.0)
    assert problem_of(plain.designs[0], plain.prior, plain.channel).channel == sp.GaussianNoise(0.0)
    assert {point.id for point in make_plan(spec).points}.isdisjoint(point.id for point in make_plan(plain).points)


BAD = {
    "N = 8\nchannel = 'cliped'\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2": "channel must be one of gaussian",
    "N = 8\nchannel = 3\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2": "channel must be words like",
    "N = 8\nchannel = 'poisson'\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2\nnoise_variance = 1": "noise_variance must be left out",
    "N = 8\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2\nnoise = 1": "'noise' was given",
    "N = 8\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2\nnoise_varience = 1": "did you mean noise_variance?",
    "N = 8\nmax_iteration = 5\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2": "did you mean max_iterations?",
    "N = 8\n[grid]\nalpha = 0.5\nrho = 0.1": "pi is missing",
    "N = 8\n[grid]\nalpha = 0.5\nrho = 1.5\npi = 2": "rho must be a number in",
    "N = 8\n[grid]\nalpha = 'half'\nrho = 0.1\npi = 2": "alpha must be a number",
    "N = 8\n[grid]\nalpha = 0.5\nrho = []\npi = 2": "the list is empty",
    "N = 8\n[grid]\nalpha = 0.5\nrho = [0.1, 0.1]\npi = 2": "there twice",
    "N = 8\n[grid]\nalpha = 0.5\nrho = {from = 0.2, to = 0.1, count = 3}\npi = 2": "to a larger",
    "N = 8\n[grid]\nalpha = 0.5\nrho = {from = 0.1, too = 0.2, count = 3}\npi = 2": "did you mean to?",
    "N = 0\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2": "N must be a whole number",
    "N = 8\nruns = 3\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2\neta = 1": "runs must be 1",
    "N = 8\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2\n[solver]\nmethod = 'apm'": "must be one of amp",
    "N = 8\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2\n[solver]\nmethod = 'amp'\ndampnig = 0.5": "did you mean damping?",
    "N = 8\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2\n[solver]\nmethod = 'amp'\ndamping = 1.5": "damping must be a number",
    "N = 8": "one of the tables",
    "N = 8\n[grid]\nalpha = 0.5\nrho = 0.1\npi = 2\n[random]\npoints = 3": "it has both",
    "N = 8\n[grid\n": "valid TOML",
    "N = 8\n[grid]\nalpha = 0.5\npi = 2\n[prior.X]\nkind = 'Laplase'": "kind, one of",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_specs_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(sp.InputError) as refused:
        make_plan(parse_spec(text))
    assert BAD[text] in str(refused.value)
    assert str(refused.value).endswith((".", "?"))
