"""Several runs in place of one, where nothing is known of F.

Two runs from different starts come first: if they find the same atoms, that is the answer. Otherwise more runs join, the atoms that most
of them agree on (`vote.py`) become the start of the next runs, and the free entropy selects. In noise no look at a single run tells a
wrong atom from a right one; that a run which was not told of it finds it again does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..solution import Status, without_signals
from ..solvers.base import Cooling
from .annealing import FIRST
from .vote import GIVEN, SAME, VOTED, Trust, best_match, counted, unit_atoms

# Runs from starts of their own: so many at a time. Rounds of runs that start from the vote, and runs in each.
_AT_A_TIME, _ROUNDS, _VOTED = 2, 30, 8
# How the runs of a round are cooled, and how many iterations they may take. Many rounds of short runs get further than few of long ones,
# if half of the runs from starts of their own share at least so many of their atoms. Otherwise long ones come first.
_SHORT_WAYS = ((Cooling(0.3, 40), 300), (Cooling(0.6, 40), 300), (Cooling(0.6, 160), 700), (Cooling(0.6, 320), 900))
_LONG_WAYS, _AGREED = ((FIRST, 4000), (FIRST, 4000)), 0.25
# The first runs may take so many iterations, and later ones, which matter less one by one, so many.
_LONG, _SHORT = 4000, 1500
# Two estimates of an atom are the same if their squared sine is below this many times the sum of their relative variances.
_CLOSE = 1.0
# An atom is confirmed if at least this share of the runs from starts of their own found it, and one did; or this share of the runs that
# were told of the other atoms, and so many did.
_SHARE, _PASSED = 0.5, 2
# Atoms in doubt are left out of a start to see whether they are found again: this share of all at a time, so many times each, in so many
# runs at most.
_LEFT_OUT, _REPEATS, _TESTS = 0.2, 3, 12
# All runs that are compared take together at most this many times the iterations that one may take.
_BUDGET = 20
# Another round must bring this much free entropy, as a share of 1/N.
_GAIN = 0.02
# A run ended where another did if so many of their atoms have a squared sine below this.
_NEARLY_ALL, _NEAR = 0.9, 0.1
# A learned parameter is not determined if it differs by more than this factor between runs that look sound.
_APART = 2.0
# Atoms named in a reason, at most.
_NAMED = 5


class Request(NamedTuple):
    """A run to be made: unit atoms to start from (None: from a start of its own), the model to start with (None: the given one), the most
    iterations, how far the atoms are to be trusted, and how it is cooled."""

    told: np.ndarray | None
    model: Any
    limit: int
    trust: Trust = VOTED
    cooling: Cooling = FIRST


class Member(NamedTuple):
    """A run that has ended: its unit atoms with their relative variances, what it was told, whether it looks sound by itself, its free
    entropy, and all that it found."""

    atoms: np.ndarray
    variance: np.ndarray
    told: np.ndarray | None
    sound: bool
    free_entropy: float
    found: Any

    @classmethod
    def of(cls, found: Any, told: np.ndarray | None, sound: bool) -> Member:
        """From the Solution that a run ended with."""
        mean, variance = np.asarray(found.mean.F, dtype=float), np.asarray(found.variance.F, dtype=float)
        power = np.maximum(np.sum(mean**2, axis=0), np.finfo(float).tiny)
        entropy = float(found.free_entropy)
        return cls(unit_atoms(mean), np.sum(variance, axis=0) / power, told, sound, entropy if np.isfinite(entropy) else -np.inf, found)

    @property
    def rank(self) -> tuple[bool, float]:
        """Sound runs first, then by free entropy."""
        return self.sound, self.free_entropy


class Agreement(NamedTuple):
    """For each atom of the best run: how many other runs had to find it by themselves, and how many did. `tested` and `passed` count those
    among them that were told of most other atoms."""

    chances: np.ndarray
    times: np.ndarray
    tested: np.ndarray
    passed: np.ndarray

    @property
    def reproducibility(self) -> np.ndarray:
        """The share of the runs not told of an atom that found it; NaN where there were none."""
        return np.where(self.chances > 0, self.times / np.maximum(self.chances, 1), np.nan)

    @property
    def doubtful(self) -> np.ndarray:
        """The atoms that too few runs found: neither of those that were told nothing, nor of those that were told of the rest."""
        alone, found_alone = self.chances - self.tested, self.times - self.passed
        found = (found_alone >= 1) & (found_alone >= _SHARE * alone)
        again = (self.passed >= _PASSED) & (self.passed >= _SHARE * self.tested)
        return np.flatnonzero(~(found | again))


class Elected(NamedTuple):
    """The best run, how far others agree with it, how many runs there were, the models of those that look sound, and whether another run
    from a start of its own ended where the best did."""

    best: Member
    agreement: Agreement
    runs: int
    models: tuple[Any, ...] = ()
    repeated: bool = False


def elect(members: Sequence[Member]) -> Elected:
    """The best of some runs, and which of its atoms the others found without having been told of them."""
    best = max(members, key=lambda member: member.rank)
    N = best.atoms.shape[1]
    chances, times, tested, passed = np.zeros((4, N), int)
    repeated = False
    for other in members:
        if other is best:
            continue
        untold = np.ones(N, bool) if other.told is None else np.abs(best_match(best.atoms, other.told)[1]) < SAME
        again = has(other, best)
        counts = untold & (again | other.sound)  # a run that went wrong as a whole says nothing against an atom
        chances += counts
        times += untold & again
        near = best_match(best.atoms, other.atoms)[1] ** 2 > 1 - _NEAR
        as_good = abs(other.free_entropy - best.free_entropy) < _GAIN / N
        repeated |= other.told is None and as_good and bool(np.mean(near) > _NEARLY_ALL)
        if other.told is not None:
            tested += counts
            passed += untold & again
    sound = tuple(member.found.model for member in members if member.sound)
    return Elected(best, Agreement(chances, times, tested, passed), len(members), sound, repeated)


def has(run: Member, other: Member) -> np.ndarray:
    """Which atoms of the other run this one has too, within their errors."""
    place, cosine = best_match(other.atoms, run.atoms)
    return (np.abs(cosine) > SAME) & (1 - cosine**2 < _CLOSE * (other.variance + run.variance[place]))


def course(runs: int, votes: bool, max_iterations: int, random: np.random.Generator) -> Generator[list[Request], list[Member], Elected]:
    """The runs of one instance: yields those to be made next, is sent what they found, and returns the best.

    At most `runs` start by themselves, and as many as there are if nobody `votes`. No run is asked for whose iterations the budget might
    not have.
    """
    members: list[Member] = []

    def affordable(limit: int) -> int:
        return max(0, _BUDGET * max_iterations - sum(int(member.found.iterations) for member in members)) // limit

    elected = None
    while len(members) < runs:
        limit = min(_LONG if not members else _SHORT, max_iterations) if votes else max_iterations
        more = min(_AT_A_TIME, runs - len(members), affordable(limit)) if votes else runs
        if not more:
            break
        members += yield [Request(None, None, limit)] * more
        elected, members = _with_the_rest(members)
        if votes and _decided(elected):
            return elected
    assert elected is not None
    if not votes or runs == 1:
        return elected
    N, ways = elected.best.atoms.shape[1], _ways(members)
    way, in_vain, short = 0, 0, min(_SHORT, max_iterations)
    for _ in range(_ROUNDS):
        cooling, limit = ways[way % len(ways)]
        limit = min(limit, max_iterations)
        if not affordable(limit):
            break
        before = elected.best.free_entropy
        pool = sorted(members, key=lambda member: member.rank, reverse=True)[:_VOTED]
        ask = Request(counted([member.atoms for member in pool]).atoms[:, :N], elected.best.found.model, limit, cooling=cooling)
        members += yield [ask] * min(_VOTED, affordable(limit))
        elected, members = _with_the_rest(members)
        doubtful = elected.agreement.doubtful
        if doubtful.size and elected.best.sound and affordable(short):
            parts = _parts(doubtful, N, random)[: affordable(short)]
            test = ask._replace(limit=short, trust=GIVEN, cooling=FIRST)
            members += yield [test._replace(told=np.delete(elected.best.atoms, part, axis=1)) for part in parts]
            elected, members = _with_the_rest(members)
        gained = elected.best.free_entropy - before > _GAIN / N
        way, in_vain = (way, 0) if gained else (way + 1, in_vain + 1)
        if _decided(elected) or in_vain == len(ways):
            break
    return elected


def _ways(members: Sequence[Member]) -> tuple[tuple[Cooling, int], ...]:
    """How rounds are cooled, and how long their runs are: by how much the runs from starts of their own agree."""
    N = members[0].atoms.shape[1]
    agreed = np.mean(counted([member.atoms for member in members]).votes[:N] >= _SHARE * len(members))
    return _SHORT_WAYS if agreed >= _AGREED else _LONG_WAYS + _SHORT_WAYS


def _parts(doubtful: np.ndarray, N: int, random: np.random.Generator) -> list[np.ndarray]:
    """The atoms in doubt in random parts, each to be left out of a start."""
    at_once = int(np.ceil(doubtful.size / max(1.0, _LEFT_OUT * N)))
    return [part for _ in range(_REPEATS) for part in np.array_split(random.permutation(doubtful), at_once)][:_TESTS]


def _with_the_rest(members: list[Member]) -> tuple[Elected, list[Member]]:
    """The best run and, of all the others, what the next election needs."""
    elected = elect(members)
    return elected, [member if member is elected.best else member._replace(found=without_signals(member.found)) for member in members]


def _decided(elected: Elected) -> bool:
    """Whether more runs would change nothing: all atoms are confirmed, or another run found the same faults (unused atoms, say)."""
    return not elected.agreement.doubtful.size if elected.best.sound else bool(elected.repeated)


def together(
    courses: Sequence[Generator[list[Request], list[Member], Elected]], explore: Callable[[list[tuple[int, Request]]], list[Member]]
) -> list[Elected]:
    """Go through the courses of all instances side by side: `explore` makes the runs that all of them ask for next."""
    asked = {k: next(each) for k, each in enumerate(courses)}
    ended: dict[int, Elected] = {}
    while asked:
        members = iter(explore([(k, request) for k, requests in asked.items() for request in requests]))
        for k, requests in list(asked.items()):
            try:
                asked[k] = courses[k].send([next(members) for _ in requests])
            except StopIteration as end:
                ended[k] = end.value
                del asked[k]
    return [ended[k] for k in range(len(courses))]


def verdict(status: Status, reason: str, elected: Elected, ranges: dict[str, tuple[float, float]]) -> tuple[Status, str]:
    """The status of the best run in the light of the others, and why. `ranges` are those of learned parameters in runs that look sound."""
    if status is not Status.CONVERGED:
        return status, reason
    if elected.runs == 1:
        return Status.UNCONFIRMED, "the run settled and no atom looks wrong, but it was the only one: nothing confirms it"
    agreed = elected.agreement
    doubtful = agreed.doubtful
    apart = [f"{name} ({low:.3g} to {high:.3g})" for name, (low, high) in ranges.items() if 0 < _APART * low < high]
    if apart:
        return Status.UNCONFIRMED, f"the data do not determine {' and '.join(apart)}: runs that look sound disagree"
    if not doubtful.size:
        return Status.CONVERGED, f"{elected.runs} runs agree: every atom was found again by runs that were not told of it"
    named = ", ".join(f"{i + 1} (by {agreed.times[i]} of {agreed.chances[i]} runs)" for i in doubtful[:_NAMED])
    more = ", ..." if doubtful.size > _NAMED else ""
    atoms = "1 atom was" if doubtful.size == 1 else f"{doubtful.size} atoms were"
    return Status.UNCONFIRMED, f"{atoms} not found again often enough: {named}{more}"
