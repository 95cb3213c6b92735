"""`calibrate`: what is wrong with the sensors, and the signals all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError, check_nonnegative, shown
from ..model.channels import LogNormalGains, Sensors
from .api import solve
from .checks import as_observed
from .search.learning import parameters
from .solution import Solution
from .starts import AUTO, automatic

# Where the learning starts: the noise, the offsets and what a faulty sensor reports, as shares of the data's power; the spread of the
# gains, the share of faulty sensors, and the error of the entries of F0.
_NOISE, _OFFSETS, _FAULTS = 0.01, 0.1, 1.0
_SPREAD, _FAULTY, _ETA = 0.2, 0.05, 0.01


def calibrate(
    Y: Any,
    F0: Any,
    *,
    gains: bool = True,
    offsets: bool = True,
    faults: bool = True,
    eta: float | str = AUTO,
    noise_variance: float | str = AUTO,
    density: float | str = AUTO,
    mask: Any = None,
    **options: Any,
) -> Solution:
    """Signals from badly known sensors: Y = gain F X/sqrt(N) + offset + noise, a gain and an offset for each row of Y, and faulty rows.

    How much the gains differ, how large the offsets are, how many sensors are faulty and how wrong the entries of F0 are is all learned:
    what the data do not support shrinks to nothing. `solution.sensors` says what each sensor is like, and `solution.report(path)` shows it.

    Args:
        Y: the data, M x P, a row for each sensor and a column for each signal; NaN where an entry is missing.
        F0: the matrix as it should be, M x N, such that Y is about F0 X/sqrt(N).
        gains: whether sensors may have gains of their own.
        offsets: whether they may have offsets.
        faults: whether some may be faulty, and say nothing.
        eta: the error of the entries of F0, as in `solve`; 0 if they are exact; "auto" learns it.
        noise_variance: the variance of the noise, if you know it; "auto" learns it.
        density: the share of nonzeros in X, likewise.
        mask: False where an entry of Y is missing.
        **options: as in `solve`.

    Examples:
        >>> import numpy as np
        >>> import spinodal as sp
        >>> sensors = sp.Sensors(1e-4, gains=sp.LogNormalGains(0.3))
        >>> problem = sp.Problem.sparse(alpha=0.8, pi=2.0, rho=0.1, eta=0.0).replace(channel=sensors)
        >>> observed, truth = sp.sample(problem, 50, seed=1)
        >>> solution = sp.calibrate(observed.Y, observed.F_prime, eta=0.0, offsets=False, faults=False)
        >>> solution.sensors.gain.mean.shape
        (40,)
    """
    observed, names = as_observed(Y, F0, mask)
    if observed.Y.ndim != 2:
        raise InputError(f"Y must be one data set for calibrate, M x P, but it has {observed.Y.ndim} dimensions.")
    if observed.F_prime is None:
        raise InputError("F0 must be a matrix, M x N; without one use solve, which learns it.")
    seen = observed.Y if observed.mask is None else observed.Y[observed.mask]
    power = max(float(np.mean(np.square(seen))), float(np.finfo(float).tiny))
    learn_noise = isinstance(noise_variance, str) and noise_variance == "auto"
    if not learn_noise:
        check_nonnegative("noise_variance", noise_variance)
    for name, given in (("gains", gains), ("offsets", offsets), ("faults", faults)):
        if not isinstance(given, (bool, np.bool_)):
            raise InputError(f"{name} must be True or False, but {shown(given)} was given.")
    if "learn" in options:
        raise InputError("learn must be left out of calibrate, which learns what it is not given.")
    channel = Sensors(
        variance=_NOISE * power if learn_noise else float(noise_variance),
        gains=LogNormalGains(_SPREAD) if gains else None,
        offset_variance=_OFFSETS * power if offsets else None,
        faulty=_FAULTY if faults else None,
        fault_variance=_FAULTS * power,
    )
    model, learn = automatic(observed, density=density, eta=eta, channel=channel)
    if "eta" in learn:
        model = model.replace(eta=_ETA)
    own = [name for name in parameters(model) if name not in ("density", "slab_mean", "slab_variance", "eta")]
    learned = (*(name for name in own if learn_noise or name != "noise_variance"), *learn)
    if gains:  # signals of twice the size with gains of half the size are the same, so one of the two is learned
        learned = tuple(name for name in learned if name != "slab_variance")
    solution = solve(observed, model, learn=learned, **options)
    return replace(_with_unit_gains(solution) if gains else solution, names=names)


def _with_unit_gains(solution: Solution) -> Solution:
    """The same solution with the median gain 1: signals in the units of the typical sensor."""
    channel, prior = solution.model.channel, solution.model.prior
    scale = float(channel.gains.median)
    X, spread = solution.mean.X * scale, solution.variance.X * scale**2
    unit = channel.replace(gains=channel.gains.replace(median=1.0))
    if channel.noise_first:
        unit = unit.replace(variance=channel.variance * scale**2)
    slab = prior.X.replace(mean=prior.X.mean * scale, variance=prior.X.variance * scale**2)
    return replace(
        solution,
        mean=solution.mean._replace(X=X),
        variance=solution.variance._replace(X=spread),
        model=solution.model.replace(prior=prior._replace(X=slab), channel=unit),
    )
