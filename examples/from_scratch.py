"""A dictionary learned from nothing but data: forty atoms, their order and signs unknown, density and noise learned on the way.

    python examples/from_scratch.py [--out DIR]

The learned atoms are put beside the true ones: before matching any order and sign is as good as another, after it all agree.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment

import spinodal as sp
from spinodal.figures.theory import BLUE, GREY, blank_figure

SIZE = 40


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    problem = sp.Problem.sparse(alpha=0.5, pi=10.0, rho=0.1, noise_variance=1e-8)
    instance = sp.sample(problem, SIZE, seed=options.seed)
    guess = sp.Model.sparse(rho=0.3, noise_variance=1e-4)
    solution = sp.solve(instance.observed, guess, n_atoms=SIZE, learn=("noise_variance", "density"))
    found = sp.score(solution.mean, instance.truth)
    print(f"{solution.status} after {solution.iterations} iterations; atoms found: {found.atoms_recovered:.0%}")
    print(f"learned: density {solution.model.prior.X.rho:.3f} (true .1), noise variance {solution.model.noise_variance:.2e} (true 1e-8)")
    print(f"1 - cos^2 of an atom: mean {found.angle.mean():.1e}, predicted {sp.amp_mse(problem).mse.F:.1e}")
    picture(instance, solution).savefig(options.out / "from_scratch.png", dpi=110)


def cosines(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return (truth / np.linalg.norm(truth, axis=0)).T @ (found / np.linalg.norm(found, axis=0))


def picture(instance: sp.Instance, solution: sp.Solution) -> Figure:
    """The level of the residuals as the iterations go, and the cosines between true and learned atoms, as they come and matched."""
    figure, (progress, raw, matched) = blank_figure(11.0, 3.6, 1, 3)
    progress.semilogy(np.arange(1, int(solution.iterations) + 1), solution.trace.level[: int(solution.iterations)], color=BLUE)
    progress.axhline(float(solution.model.noise_variance), color=GREY, ls=":", label="learned noise variance")
    progress.set(xlabel="iteration", ylabel="variance of the typical signal's residuals", title="epochs of cooling, each forgets X")
    progress.legend(fontsize=8)
    between = cosines(solution.mean.F, instance.truth.F)
    order = linear_sum_assignment(-np.abs(between))[1]
    for panel, values, title in ((raw, between, "as learned"), (matched, between[:, order], "order matched")):
        image = panel.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
        panel.set(xlabel="learned atom", ylabel="true atom", title=title)
    figure.colorbar(image, ax=matched, label="cosine")
    for panel in (progress, raw, matched):
        panel.title.set_fontsize(10)
    return figure


if __name__ == "__main__":
    main()
