"""What independent runs agree on: where others may begin, which run is the best, and how far the others confirm it.

A wrong atom is wrong in its own way in each run; a right one is the same in all, up to its sign and its place. So atoms that several runs
have are right more often than any single run is, and the next runs may begin from them. An atom is confirmed by runs that were not told of
it and found it again; the free entropy says which run is the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...model.model import Model
from ...pair import Pair
from ..solution import Solution, Status
from .learning import IN_WORDS, NEGLIGIBLE, OF_NOISE, parameters, with_parameters
from .noise import Chosen, Held

# Two runs have the same atom if the cosine of theirs is above this: half of its power is the same.
SAME = 0.7
# The variance of an atom that a run starts from at random, as a share of the prior's.
VARIANCE = 0.5
# So many atoms are compared with all others at once: one by one is slow, and all together takes much memory.
_AT_ONCE = 256
# Two estimates of an atom are the same if their squared sine is below this many times the sum of their relative variances.
_CLOSE = 1.0
# An atom is confirmed if at least this share of the runs from starts of their own found it, and one did; or this share of the runs that
# were told of the other atoms, and so many did.
SHARE, _PASSED = 0.5, 2
# Two runs can share an atom that both know badly, and be wrong: within large errors much agrees. An atom of which more than `_ROUGH` is not
# known, and so many times the typical share, must have been found by so many runs from starts of their own, and by this share of them.
_UNSURE, _TWICE, _MOST = 3.0, 2, 0.75
# An atom that may be a part of another must have been found by so many runs from starts of their own, and by the share `_MOST` of them all:
# two of them can split the same one.
_THRICE = 3
# Of many atoms this share at most may be ones that few runs find, if `_PASSED` did and all runs without them are less likely by `GAIN`.
_FEW = 0.02
# Two atoms may be parts of one if they are nearer to each other than any two of as many random ones are but with this chance, and if their
# squared sine is below so many times the sum of their relative variances.
_BY_CHANCE, _WITHIN = 0.05, 10.0
# An atom is spare if it carries less than this share of the typical atom's power: the data have nothing for it to do.
_SPARE = 0.05
# A free entropy counts as higher than another if it is by this much, as a share of 1/N.
GAIN = 0.02
# A run ended where another did if so many of their atoms have a squared sine below this.
_NEARLY_ALL, _NEAR = 0.9, 0.1
# Atoms of which more than this share of the power is not known agree within their errors without being right.
_ROUGH = 0.1
# A learned parameter is not determined if it differs by more than this factor between runs that look sound.
_APART = 2.0
# Atoms named in a reason, at most.
_NAMED = 5
# An atom that turns by more than this squared sine after the runs were compared is another atom.
_MOVED = 0.1
# Runs need not agree on noise of less than this share of what a measurement is worth: a quantiser hides it.
_HIDDEN = 0.1


class Trust(NamedTuple):
    """How far a run relies on atoms that it is told of: which share of their power is taken over, the rest being random, and with which
    variance, as a share of the prior's."""

    power: float
    variance: float


# Atoms that runs agree on may still be half wrong, and must be able to turn; those around an atom that is tested should stay.
VOTED, GIVEN = Trust(0.5, 0.5), Trust(1.0, 0.1)


class Ballot(NamedTuple):
    """Atoms proposed by several runs, as unit columns: the means of the clusters, how many runs have each, and how tight it is (the mean
    cosine with its members)."""

    atoms: np.ndarray
    votes: np.ndarray
    tightness: np.ndarray


def unit_atoms(F: np.ndarray) -> np.ndarray:
    """The columns at length 1; those that are zero or not finite become zero."""
    F = np.where(np.isfinite(F), F, 0.0)
    size = np.linalg.norm(F, axis=0)
    return F / np.where(size > 0, size, 1.0)


def best_match(atoms: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each atom the nearest of the others, and their cosine with its sign. Unit columns."""
    cosines = atoms.T @ others
    place = np.argmax(np.abs(cosines), axis=1)
    return place, cosines[np.arange(len(place)), place]


def counted(runs: Sequence[np.ndarray]) -> Ballot:
    """The clusters of the atoms of all runs, those that most runs have first, and the tightest first among these.

    Each cluster holds at most one atom of a run: the nearest to the atom that the cluster grew around. An atom belongs to one cluster.
    """
    units = [unit_atoms(F) for F in runs]
    N = units[0].shape[1]
    votes, tightness = np.ones((len(units), N)), np.ones((len(units), N))
    means = np.stack(units)
    for r, own in enumerate(units):
        for s, other in enumerate(units):
            if s == r:
                continue
            place, cosine = best_match(own, other)
            same = np.abs(cosine) > SAME
            votes[r] += same
            tightness[r] += np.where(same, np.abs(cosine), 0.0)
            means[r] += np.where(same, np.sign(cosine) * other[:, place], 0.0)
    tightness /= votes
    pool, order = np.concatenate(units, axis=1), np.lexsort((-tightness.ravel(), -votes.ravel()))
    chosen = _apart(pool, order)
    clusters = np.concatenate(list(means), axis=1)[:, chosen]
    return Ballot(unit_atoms(clusters), votes.ravel()[chosen], tightness.ravel()[chosen])


def _apart(pool: np.ndarray, order: np.ndarray) -> list[int]:
    """Those of some unit atoms, taken in this order, that are not the same as one taken before."""
    free, chosen = np.linalg.norm(pool, axis=0) > 0, []
    for part in np.array_split(order, -(-len(order) // _AT_ONCE)):
        ahead = part[free[part]]
        for k, alike in zip(ahead, np.abs(pool[:, ahead].T @ pool) > SAME, strict=True):
            if free[k]:
                free &= ~alike
                chosen.append(int(k))
    return chosen


def start_from(atoms: np.ndarray, N: int, trust: Trust, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the entries of F to start from, of unit power: these unit atoms, and random ones for the rest of N."""
    M, told = atoms.shape
    mean, variance = random.standard_normal((M, N)), np.full((M, N), VARIANCE)
    mean[:, :told] = np.sqrt(trust.power * M) * atoms + np.sqrt(1 - trust.power) * mean[:, :told]
    variance[:, :told] = trust.variance
    return mean, variance


class Member(NamedTuple):
    """A run that has ended: its unit atoms with their relative variances and which are spare, what it was told, whether it looks sound by
    itself, its free entropy, all that it found, and how well it predicts entries that were held out (`noise.Held`; None: nobody asked)."""

    atoms: np.ndarray
    variance: np.ndarray
    spare: np.ndarray
    told: np.ndarray | None
    sound: bool
    free_entropy: float
    found: Any
    held: Held | None = None

    @classmethod
    def of(cls, found: Any, sound: bool, spare: np.ndarray, told: np.ndarray | None, held: Held | None = None) -> Member:
        """From the Solution that a run ended with."""
        mean, variance = np.asarray(found.mean.F, dtype=float), np.asarray(found.variance.F, dtype=float)
        power = np.maximum(np.sum(mean**2, axis=0), np.finfo(float).tiny)
        entropy = float(found.free_entropy)
        with np.errstate(over="ignore"):
            relative = np.sum(variance, axis=0) / power
        return cls(unit_atoms(mean), relative, spare, told, sound, entropy if np.isfinite(entropy) else -np.inf, found, held)

    @property
    def rank(self) -> tuple[bool, float]:
        """Sound runs first, then by free entropy."""
        return self.sound, self.free_entropy


def spare_atoms(mean: Pair[np.ndarray]) -> np.ndarray:
    """Which atoms have next to nothing to do, of a run or of a batch of them."""
    F, X = (np.asarray(factor, dtype=float) for factor in mean)
    with np.errstate(over="ignore", invalid="ignore"):
        carried = np.einsum("...mn,...mn->...n", F, F) * np.einsum("...np,...np->...n", X, X) / X.shape[-1]
        return carried < _SPARE * np.median(carried, axis=-1, keepdims=True)


class Agreement(NamedTuple):
    """For each atom of the best run: how many other runs had to find it by themselves, and how many did. `tested` and `passed` count those
    among them that were told of most other atoms; `needed` is how many of those told nothing must have found it, and `share` which share
    of either. `outdone` says that those who found it are all the likelier for it, and `part` that it may be one of two parts of an atom:
    runs that are told of the others split the same atom again, so that only those told nothing count."""

    chances: np.ndarray
    times: np.ndarray
    tested: np.ndarray
    passed: np.ndarray
    needed: np.ndarray
    share: np.ndarray
    outdone: np.ndarray
    part: np.ndarray

    @property
    def reproducibility(self) -> np.ndarray:
        """The share of the runs not told of an atom that found it; NaN where there were none."""
        return np.where(self.chances > 0, self.times / np.maximum(self.chances, 1), np.nan)

    @property
    def doubtful(self) -> np.ndarray:
        """The atoms that too few runs found: neither of those that were told nothing, nor of those that were told of the rest.

        Where these are few, what the runs without them lack counts too: at a size where no run finds everything, one atom of hundreds can
        be missed by most, and they show it.
        """
        alone, found_alone = self.chances - self.tested, self.times - self.passed
        found = (found_alone >= self.needed) & (found_alone >= self.share * alone)
        again = (self.passed >= _PASSED) & (self.passed >= self.share * self.tested) & ~self.part
        left = np.flatnonzero(~(found | again))
        return left[~self.outdone[left]] if left.size <= _FEW * len(self.times) else left


class Elected(NamedTuple):
    """The best run, how far others agree with it, these, whether another run from a start of its own ended where the best did, and the
    noise variance that entries held out chose, if they did."""

    best: Member
    agreement: Agreement
    others: tuple[Member, ...] = ()
    repeated: bool = False
    noise: Chosen | None = None

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return 1 + len(self.others)

    @property
    def models(self) -> list[Any]:
        """The models of the runs that look sound."""
        return [member.found.model for member in (self.best, *self.others) if member.sound]


def elect(members: Sequence[Member], best: Member | None = None) -> Elected:
    """The best of some runs, where nobody says which it is, and which of its atoms the others found without having been told of them."""
    best = highest(members) if best is None else best
    N, part = best.atoms.shape[1], parts_of_one(best.atoms, best.variance)
    chances, times, tested, passed = np.zeros((4, N), int)
    having, lacking = np.full((2, N), -np.inf)  # the highest free entropy of those who were not told of an atom, and have it or not
    repeated = False
    others = tuple(member for member in members if member is not best)
    for other in others:
        untold = np.ones(N, bool) if other.told is None else np.abs(best_match(best.atoms, other.told)[1]) < SAME
        again = has(other, best)
        # A run that went wrong as a whole says nothing against an atom, unless that may be a part of another.
        counts = untold & (again | other.sound | part)
        chances += counts
        times += untold & again
        having = np.where(untold & again, np.maximum(having, other.free_entropy), having)
        lacking = np.where(untold & ~again, np.maximum(lacking, other.free_entropy), lacking)
        near = best_match(best.atoms, other.atoms)[1] ** 2 > 1 - _NEAR
        as_good = abs(other.free_entropy - best.free_entropy) < GAIN / N
        repeated |= other.told is None and as_good and bool(np.mean(near) > _NEARLY_ALL)
        if other.told is not None:
            tested += counts
            passed += untold & again
    unsure = best.variance > max(_ROUGH, _UNSURE * np.median(best.variance))
    needed, share = np.where(part, _THRICE, np.where(unsure, _TWICE, 1)), np.where(unsure | part, _MOST, SHARE)
    outdone = ~unsure & ~part & (times >= _PASSED) & (having - GAIN / N > lacking)
    return Elected(best, Agreement(chances, times, tested, passed, needed, share, outdone, part), others, repeated)


def parts_of_one(atoms: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Which of these unit atoms, with these relative variances, are nearer to another than chance takes random directions, of as many
    dimensions as all of them show, and not known well enough to be told from it.

    A run that lacks an atom often has another in two parts, and the free entropy holds it there. Two random directions in d dimensions have
    a squared cosine above s with a probability of at most (1 - s)^((d - 1)/2), and 1/d on average. Atoms that have much in common, as
    nonnegative ones do, show few dimensions.
    """
    N = atoms.shape[1]
    squares = (atoms.T @ atoms) ** 2
    np.fill_diagonal(squares, 0.0)
    pairs = max(N * (N - 1) / 2, 1.0)
    dimensions = pairs / max(np.sum(squares) / 2, pairs / len(atoms))
    near = squares > 1 - (_BY_CHANCE / pairs) ** (2 / max(dimensions - 1, np.finfo(float).tiny))
    return np.any(near & (1 - squares < _WITHIN * (variance[:, None] + variance)), axis=1)


def highest(members: Sequence[Member]) -> Member:
    """The run of the highest rank."""
    return max(members, key=lambda member: member.rank)


def has(run: Member, other: Member) -> np.ndarray:
    """Which atoms of the other run this one has too, within their errors. One atom of a run stands for one of the other: where that has
    two of them close together, for the nearest."""
    place, cosine = best_match(other.atoms, run.atoms)
    nearest = np.zeros(run.atoms.shape[1])
    np.maximum.at(nearest, place, np.abs(cosine))
    close = (np.abs(cosine) > SAME) & (1 - cosine**2 < _CLOSE * (other.variance + run.variance[place]))
    return close & (np.abs(cosine) == nearest[place])


def verdict(status: Status, reason: str, elected: Elected, ranges: dict[str, tuple[float, float]]) -> tuple[Status, str]:
    """The status of the best run in the light of the others, and why. `ranges` are those of learned parameters in runs that look sound."""
    if status is not Status.CONVERGED:
        return status, reason
    if elected.runs == 1:
        return Status.UNCONFIRMED, "the run settled and no atom looks wrong, but there is no other run to confirm it"
    agreed = elected.agreement
    doubtful = agreed.doubtful
    apart = [f"the {IN_WORDS.get(name, name)} ({low:.3g} to {high:.3g})" for name, (low, high) in ranges.items() if 0 < _APART * low < high]
    if apart:
        return Status.UNCONFIRMED, f"the data do not determine {' and '.join(apart)}: runs that look sound disagree"
    unknown = float(np.mean(elected.best.variance[~elected.best.spare])) if not elected.best.spare.all() else 0.0
    if not doubtful.size and unknown > _ROUGH:
        return (
            Status.UNCONFIRMED,
            f"the runs agree, but {unknown:.0%} of the atoms' power is still unknown, and wrong atoms can agree that closely too; "
            "more signals help",
        )
    if not doubtful.size:
        return Status.CONVERGED, f"{elected.runs} runs agree: every atom was found again by runs that did not start from it"
    if elected.best.spare[doubtful].all():
        used = elected.best.spare.size - doubtful.size
        atoms = "1 atom has" if doubtful.size == 1 else f"{doubtful.size} atoms have"
        return Status.UNCONFIRMED, f"{atoms} almost no power, and all others were found again: {used} atoms may be enough"
    named = ", ".join(f"{i + 1} (by {agreed.times[i]} of {agreed.chances[i]} runs)" for i in doubtful[:_NAMED])
    more = ", ..." if doubtful.size > _NAMED else ""
    atoms = "1 atom was" if doubtful.size == 1 else f"{doubtful.size} atoms were"
    parts = ", ".join(str(i + 1) for i in doubtful[agreed.part[doubtful]][:_NAMED])
    close = f"; unusually close to another atom, and perhaps part of the same one: {parts}" if parts else ""
    return Status.UNCONFIRMED, f"{atoms} not found again often enough: {named}{more}{close}"


def judged(found: Solution, elected: Elected, learn: tuple[str, ...]) -> Solution:
    """The best run with its verdict: what the others say of its atoms and of its parameters."""
    share = elected.agreement.reproducibility if elected.runs > 1 else None
    models = (found.model, *elected.models)
    ranges = {}
    for name in learn if elected.runs > 1 else ():
        values = [float(np.median(parameters(model)[name])) for model in models]
        ranges[name] = min(values), max(values)
        if name == "noise_variance" and elected.noise is not None:
            ranges[name] = elected.noise.low, elected.noise.high
    matter = {name: ends for name, ends in ranges.items() if name not in OF_NOISE or ends[1] > _least_noise(found.model)}
    status, reason = verdict(Status(found.status), str(found.reason), elected, matter)
    changed = changed_atoms(found, elected)
    if status is Status.CONVERGED and changed.size:
        named = ", ".join(str(i + 1) for i in changed[:_NAMED])
        status, reason = Status.UNCONFIRMED, f"atoms changed after the runs were compared, so that nothing confirms them: {named}"
    return replace(found, status=status, reason=reason, reproducibility=share, runs=elected.runs, ranges=ranges)


def _least_noise(model: Model) -> float:
    """Less noise than this makes no difference: beside the power of z or, where a channel hides z anyway, beside what it hides."""
    power = float(np.prod([prior.second_moment() for prior in model.prior]))
    quiet = with_parameters(model, {"noise_variance": NEGLIGIBLE * power})
    return max(NEGLIGIBLE * power, _HIDDEN * float(quiet.channel.noise_scale(power)))


def changed_atoms(found: Solution, elected: Elected) -> np.ndarray:
    """The atoms that are others than those of the best run when it was compared with others."""
    end = Member.of(found, True, elected.best.spare, None)
    return np.flatnonzero(~has(elected.best, end) & (best_match(end.atoms, elected.best.atoms)[1] ** 2 < 1 - _MOVED))
