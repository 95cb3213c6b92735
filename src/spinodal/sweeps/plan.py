"""The points of a sweep and the batches they are computed in: a fixed function of the spec, whoever computes them and in whatever order.

A point's name is the hash of all that determines its numbers, so it stays the same when the spec grows. Its instance is drawn from a seed
that knows the problem but not the solver: every solver is given the same data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import InputError, check_room
from ..inference.search.search import is_strong
from ..model.channels import GaussianNoise, named_channel
from ..model.knowledge import knowledge_of
from ..model.model import Problem
from ..model.sampling import bytes_to_draw
from ..pair import Pair
from .spec import Spec, make_prior

# Digits of a point's name.
_DIGITS = 16


class Point(NamedTuple):
    """One solve: which design of the spec, the numbers of its problem, its size, which draw of it, which solver, the seed of the draw."""

    id: str
    design: int
    numbers: dict[str, float]
    N: int
    instance: int
    solver: int
    seed: int


class Batch(NamedTuple):
    """Points of one shape, solver and kind, solved together. `width` is how many there are with padding: one width, one compilation."""

    number: int
    points: tuple[Point, ...]
    width: int
    prior: dict[str, dict[str, Any]]
    solver: dict[str, Any]
    options: dict[str, Any]
    dtype: str
    channel: str | None = None


class Plan(NamedTuple):
    """All batches of a sweep, and the hash that tells two plans apart."""

    batches: tuple[Batch, ...]
    digest: str

    @property
    def points(self) -> list[Point]:
        return [point for batch in self.batches for point in batch.points]


def problem_of(numbers: dict[str, float], prior: dict[str, dict[str, Any]], channel: str | None = None) -> Problem:
    """The problem of a point; values that no problem can have are refused."""
    pair = Pair(F=make_prior(prior["F"], None), X=make_prior(prior["X"], numbers.get("rho")))
    return Problem(
        alpha=numbers["alpha"],
        pi=numbers["pi"],
        prior=pair,
        channel=GaussianNoise(numbers["noise_variance"]) if channel is None else named_channel(channel),
        knowledge=knowledge_of(numbers["eta"]),
        observed_fraction=numbers["observed_fraction"],
    )


def make_plan(spec: Spec) -> Plan:
    """Points grouped by shape, solver and kind of problem, each group cut into batches of equal width."""
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for design, numbers in enumerate(spec.designs):
        problem = problem_of(numbers, spec.prior, spec.channel)
        kind = (problem.eta == 0, problem.eta == float("inf"), is_strong(problem.knowledge, problem.prior.F), problem.observed_fraction < 1)
        if (spec.options["runs"] or 1) > 1 and not kind[1]:
            raise InputError(f"runs must be 1 where eta is finite, but {spec.options['runs']} was given.")
        for N in spec.sizes:
            for solver in range(len(spec.solvers)):
                group = groups.setdefault((*problem.sizes(N), solver, *kind), [])
                group += [_point(spec, numbers, design, N, solver, instance) for instance in range(spec.instances)]
    batches: list[Batch] = []
    for points in groups.values():
        width = -(-len(points) // -(-len(points) // spec.batch))
        for start in range(0, len(points), width):
            some = tuple(points[start : start + width])
            own = spec.solvers[some[0].solver]
            batches.append(Batch(len(batches), some, width, spec.prior, own, spec.options, spec.dtype, spec.channel))
    digest = _hash([[batch.width, *(point.id for point in batch.points)] for batch in batches])
    return Plan(tuple(batches), digest)


def check_sizes(plan: Plan) -> None:
    """Refuse a plan with batches that can't be drawn in this machine's memory."""
    for batch in plan.batches:
        point = batch.points[0]
        M, N, P = problem_of(point.numbers, batch.prior, batch.channel).sizes(point.N)
        given = f"a batch of {batch.width} with M = {M}, N = {N}, P = {P}"
        check_room("N, alpha, pi and batch", bytes_to_draw(M, N, P, batch.width), given)


def _point(spec: Spec, numbers: dict[str, float], design: int, N: int, solver: int, instance: int) -> Point:
    drawn: dict[str, Any] = {"numbers": numbers, "prior": spec.prior, "N": N, "instance": instance, "seed": spec.seed}
    if spec.channel is not None:
        drawn["channel"] = spec.channel
    if spec.axes is None:
        drawn["design"] = design  # two draws of a random design may coincide, and are two points still
    whole = {**drawn, "solver": spec.solvers[solver], "options": spec.options, "dtype": spec.dtype}
    return Point(_hash(whole)[:_DIGITS], design, numbers, N, instance, solver, int(_hash(drawn)[:8], 16) >> 1)


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def pending(plan: Plan, finished: set[int]) -> Iterator[Batch]:
    """The batches that are not finished yet."""
    return (batch for batch in plan.batches if batch.number not in finished)
