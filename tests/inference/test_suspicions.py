"""Data that do not follow the model are warned of, each with its own sentence; data drawn from the model are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.solution import Names, Status
from spinodal.inference.suspicions import suspicions
from spinodal.inference.suspicious_data import Table, of_data, orientation, outliers

N, M, P, RHO, DELTA = 20, 20, 300, 0.15, 1.5e-3
MODEL = sp.Model.sparse(rho=RHO, noise_variance=DELTA)
# A data set drawn from the model may be warned of once in so many; with fewer sets than that in a test, none may.
RATE = 1e-3


def drawn(seed: int = 0, *, atoms: int = N, rows: int = M, signals: int = P, delta: float = DELTA) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Y, F and X of the model."""
    rng = np.random.default_rng(seed)
    F, X = rng.standard_normal((rows, atoms)), rng.standard_normal((atoms, signals)) * (rng.random((atoms, signals)) < RHO)
    return F @ X / np.sqrt(atoms) + np.sqrt(delta) * rng.standard_normal((rows, signals)), F, X


def given(Y: np.ndarray, mask: np.ndarray | None = None, names: Names = Names()) -> Any:
    """A solution of Y in which nothing was found: what is said of it is said of the data. The run was told to be untrusted."""
    F, X = np.zeros((len(Y), N)), np.zeros((N, Y.shape[1]))
    trace = sp.inference_trace if hasattr(sp, "inference_trace") else None
    return sp.Solution(
        mean=sp.Pair(F, X), variance=sp.Pair(F + 1, X + RHO), status=Status.MAX_ITERATIONS, reason="", iterations=0, residual=1.0,
        free_entropy=np.nan, trace=trace, model=MODEL, observed=sp.Observed(Y, None, mask), names=names,
    )


def data_warnings(Y: np.ndarray, **more: Any) -> str:
    return "\n".join(suspicions(given(Y, **more)))
