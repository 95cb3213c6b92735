"""Several runs in place of one, where nothing is known of F.

Two runs from different starts come first: if they find the same atoms, that is the answer. Otherwise more runs join, the atoms that most
of them agree on (`vote.py`) become the start of the next runs, and the free entropy selects. In noise no look at a single run tells a
wrong atom from a right one; that a run which was not told of it finds it again does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..solution import without_signals
from ..solvers.base import Cooling
from .annealing import FIRST
from .noise import Chosen, Held, Trial, is_noisy, joint
from .vote import GAIN, GIVEN, SHARE, VOTED, Elected, Member, Trust, counted, elect, highest

# Runs from starts of their own: so many at a time. Rounds of runs that start from the vote, and runs in each.
_AT_A_TIME, _ROUNDS, _VOTED = 2, 30, 8
# How the runs of a round are cooled, and how many iterations they may take. Many rounds of short runs get further than few of long ones,
# if half of the runs from starts of their own share at least so many of their atoms. Otherwise long ones come first.
_SHORT_WAYS = ((Cooling(0.3, 40), 300), (Cooling(0.6, 40), 300), (Cooling(0.6, 160), 700), (Cooling(0.6, 320), 900))
_LONG_WAYS, _AGREED = ((FIRST, 4000), (FIRST, 4000)), 0.25
# Rounds end alike where so many of the atoms are shared by this share of the runs. Then each of the next is told of this share of them.
_ALIKE, _MOST_OF_THEM, _PART = 0.8, 0.75, 0.6
# The first runs may take so many iterations, and later ones, which matter less one by one, so many.
_LONG, _SHORT = 4000, 1500
# Atoms in doubt are left out of a start to see whether they are found again: this share of all at a time, so many times each, in so many
# runs at most.
_LEFT_OUT, _REPEATS, _TESTS = 0.2, 3, 12
# All runs that are compared take together at most this many times the iterations that one may take.
_BUDGET = 60


class Request(NamedTuple):
    """A run to be made: unit atoms to start from (None: from a start of its own), the model to start with (None: the given one), the most
    iterations, how far the atoms are to be trusted, how it is cooled, the noise variance that it keeps (None: it learns it), which set of
    entries is held out, where that is done at all (None: none is), and whether it may become the best."""

    told: np.ndarray | None
    model: Any
    limit: int
    trust: Trust = VOTED
    cooling: Cooling = FIRST
    noise_variance: float | None = None
    fold: int | None = 0
    electable: bool = True


Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Result = TypeVar("Result")
# Yields the runs to be made next, is sent what they found, and returns a result.
Asking = Generator[list[Request], list[Member], Result]


def course(runs: int, votes: bool, max_iterations: int, random: np.random.Generator, holds: bool = False) -> Asking[Elected]:
    """The runs of one instance: yields those to be made next, is sent what they found, and returns the best.

    At most `runs` start by themselves, and as many as there are if nobody `votes`. No run that can be elected is asked for whose
    iterations the budget might not have. Where the first runs, which learn the noise from entries that somebody `holds`, find much of it,
    these entries choose it, by short runs beside the budget.
    """
    made = _Course(max_iterations, random)
    if not votes:
        yield from made.ask([Request(None, None, max_iterations)] * runs)
        return made.elected
    yield from made.vote(runs, holds)
    if made.noise is not None:
        yield from made.choose_noise_again()
    return made.elected


def confirmed(elected: Elected, end: Member, max_iterations: int, random: np.random.Generator) -> Asking[Elected]:
    """The election once more, for what the best run ended at after others were compared with it: they are compared with that, and atoms
    that they did not find are tested."""
    made = _Course(max_iterations, random, end, elected.noise)
    made.add([end, *elected.others])
    if made.doubtful.size:
        yield from made.tests(made.doubtful)
    return made.elected


class _Course:
    """The runs of one instance so far, and ways to ask for more. The best of them is the one `settled` on, or else that of the highest
    rank."""

    elected: Elected
    chooser: Held  # how the run predicted entries whose atoms the noise was chosen with

    def __init__(self, max_iterations: int, random: np.random.Generator, settled: Member | None = None, noise: Chosen | None = None):
        self.members: list[Member] = []
        self.max_iterations, self.random = max_iterations, random
        self.settled, self.noise = settled, noise

    def request(self, told: np.ndarray | None, model: Any, limit: int, trust: Trust = VOTED, cooling: Cooling = FIRST) -> Request:
        """A run with the noise variance that was chosen, if one was."""
        noise, fold = (None, 0) if self.noise is None else (self.noise.variance, None)
        return Request(told, model, limit, trust, cooling, noise, fold, electable=self.settled is None)

    def vote(self, runs: int, holds: bool) -> Asking[None]:
        """Runs from starts of their own until they agree, and then those from what most of them have."""
        while self.own < runs:
            limit = min(_SHORT if self.own else _LONG, self.max_iterations)
            more = min(_AT_A_TIME, runs - self.own, self.affordable(limit))
            if not more:
                break
            yield from self.ask([self.request(None, None, limit)] * more)
            if holds and self.noise is None and is_noisy(self.foremost.held):
                yield from self.choose_noise()
                continue
            if self.decided:
                return
            if runs > 1 and self.only_spare:
                yield from self.tests(np.flatnonzero(self.elected.best.spare))
                if self.decided or self.only_spare:
                    return
        if runs > 1:
            yield from self.rounds()

    def choose_noise(self) -> Asking[None]:
        """Runs from the atoms of the foremost that keep one noise variance each: that by which entries held out are predicted best is kept
        from then on, and the runs that learned it are forgotten."""
        best = self.foremost
        assert best.held is not None
        self.chooser = best.held
        self.noise = yield from self._tried(Trial(self.chooser), best.atoms, range(1))
        self.members = []

    def choose_noise_again(self) -> Asking[None]:
        """The same from the atoms that were found since, and by other entries: what wrong atoms explain badly had counted as noise, in
        some runs more than in others."""
        before = self.noise
        assert before is not None
        trial = Trial(self.chooser._replace(noise_variance=before.variance), fine=True)
        folds = range(1, 1 + trial.folds)
        now = yield from self._tried(trial, self.elected.best.atoms, folds)
        if np.isfinite(max(trial.tried.values())):
            self.noise = now._replace(first=before.first)
            self.elected = self.elected._replace(noise=self.noise)

    def _tried(self, trial: Trial, atoms: np.ndarray, folds: range) -> Asking[Chosen]:
        limit = min(_SHORT, self.max_iterations)
        while wanted := trial.next():
            requests = [Request(atoms, None, limit, GIVEN, FIRST, each, fold, electable=False) for each in wanted for fold in folds]
            held = [member.held for member in (yield requests)]
            trial.add(wanted, [joint(held[k : k + len(folds)]) for k in range(0, len(held), len(folds))])
        return trial.chosen

    @property
    def foremost(self) -> Member:
        """The run that predicts entries held out best: in much noise the free entropy prefers the one that takes most of it for signal."""
        return max(self.members, key=lambda member: -np.inf if member.held is None else member.held.log_density)

    @property
    def own(self) -> int:
        """How many runs were told nothing."""
        return sum(member.told is None for member in self.members)

    @property
    def N(self) -> int:
        return int(self.elected.best.atoms.shape[1])

    @property
    def entropy(self) -> float:
        return self.elected.best.free_entropy

    @property
    def doubtful(self) -> np.ndarray:
        return self.elected.agreement.doubtful

    @property
    def decided(self) -> bool:
        """Whether more runs would change nothing: all atoms are confirmed, or another run found the same faults."""
        return not self.doubtful.size if self.elected.best.sound else bool(self.elected.repeated)

    @property
    def only_spare(self) -> bool:
        """Whether all atoms that are in doubt, or wrong, have next to nothing to do."""
        spare = self.elected.best.spare
        return bool(spare.any() and np.all(spare[self.doubtful]))

    def gained(self, before: float) -> bool:
        """Whether the best free entropy is above what it was before."""
        return self.entropy - before > GAIN / self.N

    def affordable(self, limit: int) -> int:
        """How many runs of so many iterations the budget has."""
        return max(0, _BUDGET * self.max_iterations - sum(int(member.found.iterations) for member in self.members)) // limit

    def ask(self, requests: list[Request]) -> Asking[None]:
        """Have these runs made, and elect anew."""
        self.add((yield requests))

    def add(self, members: Sequence[Member]) -> None:
        """Elect anew with these. Of all but the best, only what the next election needs is kept."""
        self.members += members
        best = highest(self.members) if self.settled is None else self.settled
        self.members = [member if member is best else member._replace(found=without_signals(member.found)) for member in self.members]
        self.elected = elect(self.members, best)._replace(noise=self.noise)

    def tests(self, doubtful: np.ndarray) -> Asking[None]:
        """Runs that are told of all atoms of the best but some of those in doubt, to see whether they find these again."""
        limit = min(_SHORT, self.max_iterations)
        parts = _parts(doubtful, self.N, self.random)[: self.affordable(limit)]
        if parts:
            atoms, model = self.elected.best.atoms, self.elected.best.found.model
            yield from self.ask([self.request(np.delete(atoms, part, axis=1), model, limit, GIVEN) for part in parts])

    def rounds(self) -> Asking[None]:
        """Runs that start from what others agree on, again and again, as long as it helps.

        If the runs from starts of their own have little in common, those of a vote end alike after some rounds, wrong atoms included. Then
        each of the next is told of a part of the atoms only, at random, and the vote is theirs alone: right atoms are found again by those
        that were not told of them, wrong ones seldom.
        """
        apart = _share_agreed([member.atoms for member in self.members if member.told is None]) < _AGREED
        ways = _LONG_WAYS + _SHORT_WAYS if apart else _SHORT_WAYS
        way, in_vain, counting, since = 0, 0, 0, -np.inf
        for _ in range(_ROUNDS):
            pool = sorted(self.members[counting:], key=lambda member: member.rank, reverse=True)[:_VOTED]
            ballot = counted([member.atoms for member in pool])
            agreed, atoms = np.sum(ballot.votes[: self.N] >= _MOST_OF_THEM * len(pool)) / self.N, ballot.atoms[:, : self.N]
            parts = apart and agreed > _ALIKE and not self.elected.best.sound
            if parts:
                if not self.gained(since):
                    break
                way, in_vain, counting, since = 0, 0, len(self.members), self.entropy
            cooling, limit = ways[way][0], min(ways[way][1], self.max_iterations)
            asks = min(_VOTED, self.affordable(limit))
            if not asks or not atoms.size:  # no iteration left, or no run found an atom to tell of
                break
            before = self.entropy
            told = (self._part(atoms) if parts else atoms for _ in range(asks))
            yield from self.ask([self.request(each, self.elected.best.found.model, limit, cooling=cooling) for each in told])
            if self.doubtful.size and self.elected.best.sound:
                yield from self.tests(self.doubtful)
            if not parts:
                way, in_vain = (way, 0) if self.gained(before) else ((way + 1) % len(ways), in_vain + 1)
            if self.decided or in_vain == len(ways):
                break

    def _part(self, atoms: np.ndarray) -> np.ndarray:
        return atoms[:, self.random.permutation(self.N)[: round(_PART * self.N)]]


def _share_agreed(runs: Sequence[np.ndarray]) -> float:
    """The share of the atoms that at least half of these runs have."""
    N = runs[0].shape[1]
    return float(np.sum(counted(runs).votes[:N] >= SHARE * len(runs)) / N)


def _parts(doubtful: np.ndarray, N: int, random: np.random.Generator) -> list[np.ndarray]:
    """The atoms in doubt in random parts, each to be left out of a start."""
    at_once = int(np.ceil(doubtful.size / max(1.0, _LEFT_OUT * N)))
    return [part for _ in range(_REPEATS) for part in np.array_split(random.permutation(doubtful), at_once)][:_TESTS]


def together(
    courses: Sequence[Generator[list[Asked], list[Answer], Result]], explore: Callable[[list[tuple[int, Asked]]], list[Answer]]
) -> list[Result]:
    """Go through the courses of all instances side by side: `explore` makes the runs that all of them ask for next."""
    asked: dict[int, list[Asked]] = {}
    ended: dict[int, Result] = {}

    def go_on(k: int, answers: list[Answer] | None) -> None:
        try:
            asked[k] = next(courses[k]) if answers is None else courses[k].send(answers)
        except StopIteration as end:
            ended[k] = end.value
            asked.pop(k, None)

    for k in range(len(courses)):
        go_on(k, None)
    while asked:
        made = iter(explore([(k, request) for k, requests in asked.items() for request in requests]))
        for k, requests in list(asked.items()):
            go_on(k, [next(made) for _ in requests])
    return [ended[k] for k in range(len(courses))]
