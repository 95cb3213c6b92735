"""What independent runs agree on.

A wrong atom is wrong in its own way in each run; a right one is the same in all, up to its sign and its place. So atoms that several runs
have are right more often than any single run is, and the next runs may begin from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Two runs have the same atom if the cosine of theirs is above this: half of its power is the same.
SAME = 0.7
# The variance of an atom that a run starts from at random, as a share of the prior's.
VARIANCE = 0.5
# So many atoms are compared with all others at once: one by one is slow, and all together takes much memory.
_AT_ONCE = 256


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
