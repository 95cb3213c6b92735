"""What each ingredient of dictionary learning contributes: successes, atoms found and iterations without it."""

from __future__ import annotations

from typing import Any

import numpy as np

import spinodal as sp
from spinodal.evaluation.experiments import learn_dictionary

POINTS = {
    "N = 64, M = 32, P = 640, rho = .2": (64, sp.Problem.sparse(alpha=0.5, pi=10.0, rho=0.2, noise_variance=1e-8)),
    "N = 100, M = 50, P = 500, rho = .05": (100, sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.05, noise_variance=1e-8)),
}
# What is given to `solve` beside the data and the model.
VERSIONS: dict[str, dict[str, Any]] = {
    "all of it": {},
    "no annealing": {"search": sp.Search(anneal=0)},
    "no repairs (one annealed run)": {"search": sp.Search(repair=False)},
    "no repairs, slow annealing (1000)": {"search": sp.Search(repair=False, anneal=1000)},
    "no gauge": {"solver": sp.AMP(gauge=False)},
    "gains not clipped": {"solver": sp.AMP(clip_gains=False)},
    "no residual floor": {"solver": sp.AMP(residual_floor=0.0)},
    "residual floor 1": {"solver": sp.AMP(residual_floor=1.0)},
    "one variance for all": {"solver": sp.AMP(variance="scalar")},
    "a variance for each entry": {"solver": sp.AMP(variance="entry")},
    "damping .3": {"solver": sp.AMP(damping=0.3)},
    "damping .7": {"solver": sp.AMP(damping=0.7)},
    "parameters learned, rho x 2, Delta x 10": {"learn": ("noise_variance", "density")},
}
INSTANCES, FIRST_SEED, LIMIT = 5, 500, 3000


def main() -> None:
    """One table for each point."""
    for point, (n, problem) in POINTS.items():
        print(f"\n{point}: {INSTANCES} instances, at most {LIMIT} iterations")
        print(f"  {'':42s} solved   atoms  iterations")
        for name, options in VERSIONS.items():
            # Parameters that are learned start from wrong ones.
            believed = wrong(problem) if "learn" in options else None
            rows = [
                learn_dictionary(problem, n, seed=FIRST_SEED + k, believed=believed, max_iterations=LIMIT, **options)
                for k in range(INSTANCES)
            ]
            solved, atoms, iterations = (np.mean([row[key] for row in rows]) for key in ("solved", "atoms", "iterations"))
            print(f"  {name:42s} {solved * INSTANCES:.0f} of {INSTANCES}   {atoms:.3f}  {iterations:.0f}", flush=True)


def wrong(problem: sp.Problem) -> sp.Problem:
    """The problem with twice the density and ten times the noise."""
    slab = sp.GaussBernoulli(2 * problem.prior.X.rho)  # type: ignore[attr-defined]
    return problem.replace(prior=sp.Pair(problem.prior.F, slab), channel=sp.GaussianNoise(10 * problem.noise_variance))
