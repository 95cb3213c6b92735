"""A solution that has found nothing of the data, so that only the data are left to suspect: no solver runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import spinodal as sp
from spinodal.inference.solution import UNNAMED, Names, Status, Trace


def unsolved(
    Y: Any, model: sp.Model, n_atoms: int, *, mask: Any = None, names: Names = UNNAMED, status: Status = Status.MAX_ITERATIONS
) -> sp.Solution:
    """F = 0 and X = 0, with the variances of the priors."""
    F, X = np.zeros((len(Y), n_atoms)), np.zeros((n_atoms, Y.shape[1]))
    variance = sp.Pair(F + float(model.prior.F.moments().variance), X + float(model.prior.X.moments().variance))
    trace = Trace(*(np.zeros(0) for _ in Trace._fields))
    about: dict[str, Any] = {"iterations": 0, "residual": 1.0, "free_entropy": np.nan, "trace": trace, "model": model, "names": names}
    return sp.Solution(sp.Pair(F, X), variance, status, "nothing was tried", observed=sp.Observed(Y, None, mask), **about)
