"""What anyone could reach at a given size: the scale-fitted D of an oracle that knows the support, over state evolution, beside AMP's."""

from __future__ import annotations

import numpy as np

import spinodal as sp
from spinodal.evaluation.bounds import told_support_mse
from spinodal.evaluation.experiments import FIGURE_4
from spinodal.evaluation.record import record, solve_drawn

# Instances by size; each has this many probes of its trace.
SIZES = {100: 8, 200: 4}
PROBES = 2


def compare(problem: sp.Problem, n: int, seeds: int) -> None:
    """One line: means over instances with their standard errors."""
    expected = sp.amp_mse(problem).mse.F
    bound, found = [], []
    for seed in range(seeds):
        instance = sp.sample(problem, n, seed=seed)
        bound.append(np.mean(told_support_mse(problem, instance.truth, probes=PROBES, seed=seed)) / expected)
        found.append(record(solve_drawn(instance, problem), instance.truth).score.mse_scaled.F / expected)
    columns = "   ".join(
        f"{name} {np.mean(values):.3f} +- {np.std(values, ddof=1) / np.sqrt(seeds):.3f}"
        for name, values in (("told the support", bound), ("AMP", found), ("their ratio", np.divide(found, bound)))
    )
    print(
        f"N = {n}, alpha = {problem.alpha:g}, rho = {problem.prior.X.rho:g}, pi = {problem.pi:g}, eta = {problem.eta:g}: {columns}",
        flush=True,
    )


def main() -> None:
    for parameters in FIGURE_4:
        for pi in (3.0, 5.0):
            for n, seeds in SIZES.items():
                compare(sp.Problem.sparse(pi=pi, **parameters), n, seeds)
