"""Estimates against the truth: raw errors, and errors after what Y can't see (scale, sign and order of the atoms) has been taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..errors import InputError
from ..model.model import Problem
from ..pair import Pair
from ..short import in_short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What counts as success, one criterion for each question, the same in every experiment, command and figure.
#
# Is a signal recovered? Its error is below this share of the signals' power: its large entries are right to 3%.
SIGNAL_RECOVERED = 1e-3
# Is an atom recovered? Its angle to the true one has a squared sine below this: they are within 6 degrees. Noisy data allow no more.
ATOM_RECOVERED = 1e-2
# Is a dictionary learned? At small noise every atom can be had exactly, and each must be this close: within 0.6 degrees.
DICTIONARY_LEARNED = 1e-4
# Is a signal at its predicted error? It is below this many times the prediction, which is scaled up for signals with more nonzeros than
# usual.
AT_PREDICTION = 3.0

# Instances scored together: their arrays stay in the cache. At N = 100, P = 500 a batch of 250 takes 1.6 ms each so, and 3.3 all at once.
_TOGETHER = 8


class Score(NamedTuple):
    """Mean squared errors per entry: raw; after each atom's scale was fitted to the truth; after order and signs were too. And matched
    atoms.

    `angle` holds 1 - cos^2 between each true atom and the one matched to it; `atoms_recovered` the fraction below a threshold; `signals`
    the error of each signal (column of X) after order, signs and scales were fitted.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> truth = sp.Pair(F=np.eye(3), X=np.eye(3))
        >>> found = sp.score(sp.Pair(F=-np.eye(3)[:, ::-1], X=-np.eye(3)[::-1]), truth)  # other order and signs
        >>> found.atoms_recovered, found.mse_aligned
        (1.0, Pair(F=0.0, X=0.0))
    """

    mse: Pair[float]
    mse_scaled: Pair[float]
    mse_aligned: Pair[float]
    angle: np.ndarray
    atoms_recovered: float
    signals: np.ndarray

    def __repr__(self) -> str:
        return in_short(self)

    def _repr_html_(self) -> str:
        from ..report.objects import score_table

        return score_table(self)

    def plot(self) -> Figure:
        """The error of each atom and of each signal, sorted, as a matplotlib figure. Of one instance.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> truth = sp.Pair(F=np.eye(3), X=np.eye(3))
            >>> len(sp.score(sp.Pair(F=np.eye(3) + 0.1, X=np.eye(3)), truth).plot().axes)
            2
        """
        from ..figures.theory import score_figure

        return score_figure(self)


def score(estimate: Pair[Any], truth: Pair[Any], *, recovered: float = ATOM_RECOVERED) -> Score:
    """Compare means of F (M x N) and X (N x P) with the truth. The estimate may have more or fewer atoms than the truth.

    Axes before those are of instances: each is scored by itself, and what was a number becomes an array.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> truth = sp.Pair(F=np.eye(3), X=np.eye(3))
        >>> found = sp.score(sp.Pair(F=2 * np.eye(3), X=np.eye(3) / 2), truth)  # other scales
        >>> found.mse_scaled
        Pair(F=0.0, X=0.0)
        >>> print(f"{found.mse.F:.4f}")  # without that
        0.3333
    """
    arrays = [np.asarray(value, dtype=float) for value in (*estimate, *truth)]
    batch = arrays[2].shape[:-2]
    F, X, F0, X0 = (value.reshape(-1, *value.shape[-2:]) for value in arrays)
    if F.shape[1] != F0.shape[1] or X.shape[2] != X0.shape[2]:
        raise InputError(
            f"estimate must have the M = {F0.shape[1]} and P = {X0.shape[2]} of the truth, but {F.shape[1]} and {X.shape[2]} were given."
        )
    some = [slice(k, k + _TOGETHER) for k in range(0, len(F0), _TOGETHER)]
    parts = zip(*(_scored(Pair(F[k], X[k]), Pair(F0[k], X0[k]), recovered) for k in some), strict=True)

    def shaped(values: tuple[np.ndarray, ...]) -> Any:
        joined = np.concatenate(values)
        joined = joined.reshape((*batch, *joined.shape[1:]))
        return joined if joined.ndim else float(joined)

    raw_F, raw_X, scaled_F, scaled_X, aligned_F, aligned_X, *rest = map(shaped, parts)
    return Score(Pair(raw_F, raw_X), Pair(scaled_F, scaled_X), Pair(aligned_F, aligned_X), *rest)


def _scored(estimate: Pair[np.ndarray], truth: Pair[np.ndarray], recovered: float) -> tuple[np.ndarray, ...]:
    """What a Score holds, for some instances: the errors one by one, angles, the share of atoms recovered, errors of signals."""
    (F, X), (F0, X0) = estimate, truth
    true, found = _matching(F0, F)
    angle = np.ones((len(F0), F0.shape[2]))
    np.put_along_axis(angle, true, _angle(_atoms(F0, true), _atoms(F, found)), axis=1)
    raw = scaled = Pair(*np.full((2, len(F0)), np.nan))
    signals, moved = np.empty((len(X0), X0.shape[2])), np.ones(len(F0), bool)
    if F.shape == F0.shape:
        raw, fitted = Pair(_mse(F, F0), _mse(X, X0)), fit_scales(Pair(F, X), F0)
        signals, moved = _mean_squares(fitted.X - X0), np.any(true != found, axis=1)
        scaled = Pair(_mse(fitted.F, F0), np.mean(signals, axis=1))
    aligned = Pair(*(values.copy() for values in scaled))
    if moved.any():
        there = Pair(F0[moved], X0[moved])
        fitted = _matched(Pair(F[moved], X[moved]), there, true[moved], found[moved])
        signals[moved] = _mean_squares(fitted.X - there.X)
        aligned.F[moved], aligned.X[moved] = _mse(fitted.F, there.F), np.mean(signals[moved], axis=1)
    return (*raw, *scaled, *aligned, angle, np.mean(angle < recovered, axis=1), signals)


def align(estimate: Pair[np.ndarray], truth: Pair[np.ndarray]) -> Pair[np.ndarray]:
    """The estimate with the order, signs and scales of its atoms fitted to the truth; atoms that were not found are zero."""
    F, X = (value[None] for value in estimate)
    F0, X0 = (value[None] for value in truth)
    return Pair(*(value[0] for value in _matched(Pair(F, X), Pair(F0, X0), *_matching(F0, F))))


def _atoms(F: np.ndarray, which: np.ndarray) -> np.ndarray:
    """The atoms asked for, of each instance."""
    return np.take_along_axis(F, which[:, None], axis=2)


def _matched(estimate: Pair[np.ndarray], truth: Pair[np.ndarray], true: np.ndarray, found: np.ndarray) -> Pair[np.ndarray]:
    matched = Pair(np.zeros_like(truth.F), np.zeros_like(truth.X))
    np.put_along_axis(matched.F, true[:, None], _atoms(estimate.F, found), axis=2)
    np.put_along_axis(matched.X, true[:, :, None], np.take_along_axis(estimate.X, found[:, :, None], axis=1), axis=1)
    return fit_scales(matched, truth.F)


def _matching(F0: np.ndarray, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """True atoms of each instance and the estimated ones that go with them, by the largest sum of absolute cosines."""
    cosines = np.swapaxes(_unit(F0), 1, 2) @ _unit(F)
    pairs = np.array([linear_sum_assignment(-np.abs(each)) for each in cosines])
    return pairs[:, 0], pairs[:, 1]


def fit_scales(estimate: Pair[np.ndarray], F0: np.ndarray) -> Pair[np.ndarray]:
    """Each atom times the number (of either sign) that fits the true atom best; its row of X divided by it."""
    F, X = estimate
    power = np.sum(F**2, axis=-2)
    k = np.sum(F * F0, axis=-2) / np.where(power > 0, power, 1.0)
    inverse = np.divide(1.0, k, out=np.zeros_like(k), where=k != 0)
    return Pair(F * k[..., None, :], X * inverse[..., None])


def signal_errors(estimate: Pair[Any], truth: Pair[Any]) -> np.ndarray:
    """Mean squared error of each signal (column of X) after the atoms' scales were fitted to the truth."""
    fitted = fit_scales(Pair(*(np.asarray(value, dtype=float) for value in estimate)), np.asarray(truth.F, dtype=float))
    return _mean_squares(fitted.X - truth.X)


def scale_floor(problem: Problem, n: int) -> float:
    """Error on F that the undetermined scale of each atom leaves at size N = n: 1/(M/eta + 2 M + 2 rho P) for unit variances.

    Only the priors and F' fix the scale k of an atom; this is the variance of log k given everything else, times the power of F.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, eta=0.1)
        >>> print(f"{sp.scale_floor(problem, 100):.2e}")
        1.43e-03
    """
    M, _, P = problem.sizes(n)
    power = float(problem.prior.F.second_moment())
    used = float(problem.prior.X.dimension()) * P
    if problem.eta == 0:
        return 0.0
    return power / (M * power / float(problem.eta) + 2 * M + 2 * used)


def with_free_scales(solution: Any, problem: Problem) -> Pair[np.ndarray]:
    """A solution's variances of F and X with what the atoms' undetermined scales add.

    `solve` reports variances given the scales, for errors after the scales were fitted to the truth; these are for raw errors. The
    variance of log k is that of `scale_floor`: Gaussian F, spike-and-slab X.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> solution = sp.solve(sp.sample(problem, 20, seed=1).observed, problem)
        >>> bool((sp.with_free_scales(solution, problem).F > solution.variance.F).all())
        True
    """
    mean, variance = solution.mean, solution.variance
    share = scale_floor(problem, np.shape(mean.F)[-1]) / float(problem.prior.F.second_moment())
    return Pair(*(np.asarray(v) + share * (np.asarray(m) ** 2 + np.asarray(v)) for m, v in zip(mean, variance, strict=True)))


class Calibration(NamedTuple):
    """Per bin of entries: the mean reported variance, the mean squared error, and the number of entries."""

    reported: np.ndarray
    actual: np.ndarray
    entries: np.ndarray


def calibration(mean: Any, variance: Any, truth: Any, *, bins: int = 12) -> Calibration:
    """Reported variances against actual squared errors. Entries are sorted by reported variance into bins of equal total variance.

    So every bin expects the same sum of squared errors, and none rests on a few rare events.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> rng = np.random.default_rng(0)
        >>> variance = rng.uniform(0.5, 2.0, 10_000)
        >>> bins = sp.calibration(np.zeros(10_000), variance, np.sqrt(variance) * rng.normal(size=10_000), bins=4)
        >>> (bins.actual / bins.reported).round(1)  # honest variances
        array([1., 1., 1., 1.])
    """
    reported, actual = np.ravel(variance).astype(float), np.ravel((np.asarray(mean) - np.asarray(truth)) ** 2)
    order = np.argsort(reported)
    reported, actual = reported[order], actual[order]
    total = np.cumsum(reported)
    if total.size == 0 or total[-1] <= 0:
        return Calibration(np.zeros(0), np.zeros(0), np.zeros(0, int))
    which = np.minimum((total / total[-1] * bins).astype(int), bins - 1)
    entries = np.bincount(which, minlength=bins)
    kept = entries > 0
    averages = [np.bincount(which, weights=values, minlength=bins)[kept] / entries[kept] for values in (reported, actual)]
    return Calibration(averages[0], averages[1], entries[kept])


def _mse(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.mean(_mean_squares(a - b), axis=-1)


def _mean_squares(off: np.ndarray) -> np.ndarray:
    """Mean square of each column."""
    return np.einsum("...np,...np->...p", off, off) / off.shape[-2]


def _unit(F: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(F, axis=-2, keepdims=True)
    return F / np.where(norm > 0, norm, 1.0)


def _angle(F0: np.ndarray, F: np.ndarray) -> np.ndarray:
    """1 - cos^2, from the component across, so that small angles keep their digits."""
    u, v = _unit(F0), _unit(F)
    across = v - u * np.sum(u * v, axis=-2, keepdims=True)
    return np.where(np.linalg.norm(F, axis=-2) > 0, np.sum(across**2, axis=-2), 1.0)
