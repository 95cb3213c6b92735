"""What goes wrong without the truth to look at.

A wrong fixed point shows itself: two atoms are copies of each other, an atom is used by (almost) no signal or far more than the prior
allows, the signals that lack an atom keep residuals along one direction, two atoms span the right plane with the wrong axes, so that
signals use both where one would do, or residuals stay far above the noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...model.channels import GaussianNoise
from ..execution.machine import ranked
from ..loop import median, quantile
from ..messages.means import with_offsets, without_offsets
from ..solution import Status
from ..solvers.base import Estimate
from ..task import Task, centred

# Two atoms with a cosine above this are copies.
_COPY = 0.9
# An atom used by less than this share of the signals it should serve is unused.
_UNUSED = 0.1
# A signal whose squared residual is above this many lower quartiles has not settled.
_UNSETTLED = 4.0
# Fewer unsettled signals than this say nothing about a missing atom.
_FEWEST = 5
# Residuals point somewhere if an eigenvalue of their correlations is above this many edges of the spectrum of random directions.
_EDGES = 1.5
# How many directions are looked for at a time, and products with the correlations until they are found: what is 1.5 times above the rest is
# then there to a thousandth.
_DIRECTIONS, _POWERS = 20, 10
# Deviations of usage from the prior are called trouble beyond this many standard deviations.
_SIGMAS = 5.0
# Two atoms used together this many standard deviations (and this many times) more often than by chance are axes of one plane.
_TOGETHER = 6.0
# Where more than this share of the atoms are such, the state is frozen as a whole, and pairs are not what is wrong.
_FROZEN = 0.1
# What less than this share of the signals lacks is mended in place.
_MINORITY = 0.25
# Two codes have a given ratio if they are within so many standard deviations of it. Atoms are mixed if more than this share of the signals
# that use both have one ratio, and the probability of that by chance is below exp(-_EVIDENCE)/N.
_WITHIN, _MOST, _EVIDENCE = 3.0, 0.5, 8.0
# Data are explained if half of the signals have squared residuals below this many noise levels, or this share of the data's power.
_NOISES, _SHARE = 20.0, 1e-3
# Atoms named in a reason, at most.
_NAMED = 5


class Findings(NamedTuple):
    """What a look at a settled state finds, for each atom and for all.

    `copy_of` is the atom that each is a copy of (-1: none), `mixed_with` likewise; `ratio` times that atom added to a mixed one is better;
    `unsettled` counts the signals that have not settled, and `correlations` are those of their residuals; `missing` counts directions
    that they share, and `directions` are those, the most frequent first. `dense` says that too many codes are nonzero altogether, and
    `local` that only a few atoms are wrong, if any: mixed ones, or those that a minority of the signals lacks.
    """

    finite: Any
    explained: Any
    copy_of: Any
    unused: Any
    misused: Any
    uneven: Any
    dense: Any
    mixed_with: Any
    ratio: Any
    local: Any
    unsettled: Any
    correlations: Any
    missing: Any = None
    directions: Any = None

    @property
    def faulty(self) -> Any:
        """Whether an atom, or the fit as a whole, looks wrong; directions that are missing apart."""
        of_atoms = (self.copy_of >= 0).any(-1) | self.unused.any(-1) | (self.mixed_with >= 0).any(-1)
        of_usage = self.misused.any(-1) | self.uneven | self.dense
        return ~self.finite | ~self.explained | of_atoms | of_usage

    @property
    def trouble(self) -> Any:
        """Whether the state can't be trusted."""
        return self.faulty | (self.missing > 0)


def inspect(task: Task, found: Estimate) -> Findings:
    """What is found without the directions that residuals share."""
    _, N, P = task.sizes
    unsettled, correlations = unsettled_signals(task, found)
    mixed_with, ratio = mixed_atoms(found)
    no = jnp.zeros(N, bool)
    unused, misused, uneven, dense = no, no, jnp.asarray(False), jnp.asarray(False)
    rho = task.prior.X.density()
    if rho is not None:
        expected = rho * P
        z = (found.nonzeros - expected) / jnp.sqrt(expected * (1 - rho))
        unused = found.nonzeros < _UNUSED * expected
        misused = jnp.abs(z) > _SIGMAS + 1
        uneven = jnp.mean(z**2) > 1 + _SIGMAS * jnp.sqrt(2.0 / N)
        dense = jnp.mean(found.nonzeros) / P > rho + _SIGMAS * jnp.sqrt(rho / (1.0 * N * P))
    unexplained = jnp.mean(found.F.variance) * jnp.mean(jnp.sum(found.X.mean**2 + found.X.variance, axis=0)) / N
    unexplained += jnp.mean(found.F.mean**2) * jnp.mean(jnp.sum(found.X.variance, axis=0)) / N
    explained = median(found.square) < _NOISES * task.channel.noise_scale(task.power, unexplained) + _SHARE * task.power
    return Findings(
        finite=jnp.all(jnp.isfinite(found.F.mean)),
        explained=explained,
        copy_of=copied_atoms(found),
        unused=unused,
        misused=misused,
        uneven=uneven,
        dense=dense,
        mixed_with=mixed_with,
        ratio=ratio,
        local=explained & (jnp.any(mixed_with >= 0) | (unsettled < _MINORITY * P)),
        unsettled=unsettled,
        correlations=correlations,
    )


def copied_atoms(found: Estimate) -> Any:
    """For each atom the other one that it is a copy of and that is used more (or, at a tie, comes earlier); -1 if there is none."""
    norm = jnp.sqrt(jnp.maximum(jnp.sum(found.F.mean**2, axis=0), jnp.finfo(found.F.mean.dtype).tiny))
    unit = found.F.mean / norm
    close = (jnp.abs(unit.T @ unit) > _COPY) & _yields(found)
    return jnp.where(jnp.any(close, axis=1), jnp.argmax(close, axis=1), -1)


def _yields(found: Estimate) -> Any:
    """[i, j]: of the two atoms, i is the one to give way: the one used less."""
    use = jnp.sum(found.X.mean**2, axis=1)
    order = jnp.arange(use.shape[0])
    return (use[:, None] < use) | ((use[:, None] == use) & (order[:, None] > order))


def residuals(task: Task, found: Estimate) -> Any:
    """Y less what F X/sqrt(N) says of it, also where Y was not seen; or where z has other units, how much y pulls at z."""
    channel = task.channel
    F, X = centred(found.F.mean, task.centre.F), centred(found.X.mean, task.centre.X)
    Z = F @ X / jnp.asarray(task.sizes[1] ** 0.5, task.Y.dtype)
    if not channel.shows_units:
        Z = with_offsets(found.offset, Z) if task.removes_means else Z
        return channel.output(task.Y, Z, found.square).g
    Y = without_offsets(found.offset, task.Y) if task.removes_means else task.Y
    return Y - (channel.fitted(Y, Z, task.mask) if channel.by_rows else Z)


def settled_signals(task: Task, found: Estimate) -> Any:
    """Which signals are explained about as well as the better ones, or better than the noise allows, as where there is none."""
    noise = task.channel.noise_scale(task.power) if isinstance(task.channel, GaussianNoise) else 0.0
    return found.square <= jnp.maximum(_UNSETTLED * quantile(found.square, 0.25), noise)


def unsettled_signals(task: Task, found: Estimate) -> tuple[Any, Any]:
    """How many signals have not settled, and the correlations of their residuals, over those of random directions."""
    M = task.sizes[0]
    unsettled = ~settled_signals(task, found)
    left = residuals(task, found)
    left = jnp.where(jnp.isfinite(left), task.seen(left), 0)
    if task.channel.unequal:
        left = left / jnp.sqrt(task.channel.variance)  # type: ignore[attr-defined]  # else noisy rows are what all have in common
    size = jnp.sqrt(jnp.sum(left**2, axis=0))
    unit = left * (unsettled / jnp.where(size > 0, size, 1))
    number = jnp.maximum(jnp.sum(unsettled), 1)
    return number, unit @ unit.T * (M / number)


def with_directions(seen: Findings) -> Findings:
    """The findings with the directions that the residuals of unsettled signals share: all signals that use an atom which nobody has found
    yet are left with it.

    On the host, and only where it matters: it is wanted seldom, and takes longer to compile (and to load what it needs) than to compute.
    Directions after those that are looked for are random.
    """
    correlations, number = seen.correlations, seen.unsettled
    M = correlations.shape[-1]
    missing, directions = np.zeros(np.shape(number), int), np.zeros_like(correlations)
    enough = number >= _FEWEST
    for k in np.argwhere(enough | seen.faulty):
        at = tuple(k)
        values, vectors = leading(correlations[at])
        edge = (1 + np.sqrt(M / number[at])) ** 2  # of random unit vectors: Marchenko and Pastur
        missing[at] = np.sum(values > _EDGES * edge) if enough[at] else 0
        directions[at] = np.random.default_rng(0).standard_normal((M, M)) / np.sqrt(M)
        directions[at][:, : len(values)] = vectors
    return seen._replace(correlations=None, missing=missing, directions=directions)


def leading(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of a symmetric matrix without negative ones, the largest first, and their vectors: at most `_DIRECTIONS`.

    By iteration of a subspace. A whole decomposition would wake the threads of LAPACK, which keep a core busy for a tenth of a second
    afterwards; the small ones here do not.
    """
    vectors = np.random.default_rng(0).standard_normal((len(matrix), min(_DIRECTIONS, len(matrix))))
    for _ in range(_POWERS):
        vectors = matrix @ vectors
        squares, turn = np.linalg.eigh(vectors.T @ vectors)
        kept = squares > np.finfo(float).eps * np.max(squares, initial=np.finfo(float).tiny)
        vectors = vectors @ turn[:, kept] / np.sqrt(squares[kept])
    values, turn = np.linalg.eigh(vectors.T @ matrix @ vectors)
    return values[::-1], (vectors @ turn)[:, ::-1]


def mixed_atoms(found: Estimate) -> tuple[Any, Any]:
    """For each atom the one that it is mixed with (-1: none), and how much of that is to be added to it.

    If an atom is a + c b where a and b are right, every signal that uses a alone must take off c of b: it uses both, at one ratio. So two
    atoms whose codes have the same ratio in many signals, or that are used together far too often, have the wrong axes in the right
    plane, and the ratio tells better ones.
    """
    X, V = found.X
    N, P = X.shape
    active = X**2 > V
    together = active.astype(X.dtype) @ active.astype(X.dtype).T
    uses = jnp.diagonal(together)
    chance = uses[:, None] * uses / P
    order = jnp.arange(N)
    yields = (uses[:, None] < uses) | ((uses[:, None] == uses) & (order[:, None] > order))
    partner = jnp.argmax(jnp.where(yields, together - chance, -jnp.inf), axis=1)
    both = active & active[partner]
    number, expected = jnp.sum(both, axis=1), chance[order, partner]
    often = number > expected + _TOGETHER * jnp.sqrt(expected) + _TOGETHER
    often &= jnp.sum(often) <= jnp.maximum(2, _FROZEN * N)
    ratio, evidence = _common_ratio(X, V, X[partner], V[partner], both)
    mixed = jnp.any(yields, axis=1) & (often | (evidence > _EVIDENCE + jnp.log(N)))
    # The better axis takes the place of the nearer of the two atoms.
    unit = found.F.mean / jnp.sqrt(jnp.maximum(jnp.sum(found.F.mean**2, axis=0), jnp.finfo(X.dtype).tiny))
    axes = found.F.mean + ratio * found.F.mean[:, partner]
    other = mixed & (jnp.abs(jnp.sum(axes * unit, axis=0)) < jnp.abs(jnp.sum(axes * unit[:, partner], axis=0)))
    place = jnp.where(other, partner, N)  # N: nowhere
    mixed_with = jnp.where(mixed & ~other, partner, -1).at[place].set(order, mode="drop")
    return mixed_with, ratio.at[place].set(1 / jnp.where(ratio == 0, 1, ratio), mode="drop")


def _common_ratio(x: Any, V: Any, y: Any, W: Any, both: Any) -> tuple[Any, Any]:
    """For each row the median of y/x over the signals where `both` are there, and how surely more of them have it than by chance: minus
    the logarithm of (Chernoff's bound on) the probability that so many do."""
    number = jnp.sum(both, axis=1)
    ratios = jnp.where(both, y / jnp.where(both, x, 1), jnp.inf)
    ratio = jax.vmap(ranked)(ratios, jnp.maximum(number - 1, 0) // 2)[:, None]
    ratio = jnp.where(jnp.isfinite(ratio), ratio, 0)
    width = _WITHIN * jnp.sqrt(W + ratio**2 * V)
    same = jnp.sum(both & (jnp.abs(y - ratio * x) < width), axis=1) - 1  # one of them is the median itself
    size = jnp.sqrt(jnp.sum(both * y**2, axis=1, keepdims=True) / jnp.maximum(number, 1)[:, None])
    # Whatever x is, y is in the window with at most this probability, if it is independent.
    window = jnp.minimum(1.0, (2 / jnp.pi) ** 0.5 * width / jnp.where(size > 0, size, 1))
    chance = jnp.maximum(jnp.sum(both * window, axis=1), jnp.finfo(x.dtype).tiny)
    more = (same > chance) & (same > _MOST * number)
    return ratio[:, 0], jnp.where(more, same * jnp.log(jnp.maximum(same, 1) / chance) - same + chance, 0.0)


def judge(outcome: Any, k: int, from_scratch: bool) -> tuple[Status, str]:
    """The status of instance k of an `execution.group.Outcome`, and what it rests on."""
    end, iterations = outcome.conclusion, int(outcome.iterations[k])
    if outcome.lost[k]:
        why = "the estimates are no longer finite" if not end.finite[k] else "the estimates explain the data worse than nothing would"
        return Status.DIVERGED, f"the run came apart ({why}); the best state on its way is returned"
    if from_scratch and not end.moved[k]:
        return Status.DEGENERATE, "nothing was learned: F is zero"
    if not end.settled[k]:
        return Status.MAX_ITERATIONS, f"the run had not settled after {iterations} iterations"
    if outcome.verdict is not None and outcome.verdict.trouble[k]:
        found = Findings(*(None if value is None else value[k] for value in outcome.verdict.found))
        return Status.DEGENERATE, "; ".join(findings_in_words(found))
    looked = "" if outcome.verdict is None else ", and no atom looks wrong"
    return Status.CONVERGED, f"the run settled after {iterations} iterations{looked}"


def findings_in_words(found: Findings) -> list[str]:
    """What is wrong, the clearest first. Atoms are counted from 1."""
    words = []
    if not found.finite:
        words.append("the estimates are not finite")
    copies = np.flatnonzero(found.copy_of >= 0)
    if copies.size:
        pairs = [f"{found.copy_of[i] + 1} and {i + 1}" for i in copies]
        words.append(f"{_number(copies.size, 'atom is a copy', 'atoms are copies')}: {_some(pairs)}")
    unused = np.flatnonzero(found.unused)
    if unused.size:
        words.append(f"{_number(unused.size, 'atom is', 'atoms are')} hardly used: {_some(unused + 1)}")
    mixed = np.flatnonzero(found.mixed_with >= 0)
    if mixed.size:
        pairs = [f"{found.mixed_with[i] + 1} and {i + 1}" for i in mixed]
        which = _number(mixed.size, "pair of atoms is", "pairs of atoms are")
        words.append(f"{which} mixed, so that signals use both where one would do: {_some(pairs)}")
    if found.missing > 0:
        words.append(f"the residuals of unsettled signals share {_number(int(found.missing), 'direction', 'directions')} that no atom has")
    misused = np.flatnonzero(found.misused & ~found.unused)
    if misused.size:
        words.append(f"{_number(misused.size, 'atom is', 'atoms are')} used far more or less than the density allows: {_some(misused + 1)}")
    if found.dense:
        words.append("codes are denser than the model's density")
    if found.uneven and not misused.size and not unused.size:
        words.append("atoms are used more unevenly than the density allows")
    if not found.explained:
        words.append("the residuals of most signals are far above the noise")
    return words


def _number(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _some(things: Any) -> str:
    listed = ", ".join(str(thing) for thing in list(things)[:_NAMED])
    return listed + (", ..." if len(things) > _NAMED else "")
