"""What is a spinodal? Three pictures of one problem as the number of signals grows: potential, fixed points, and the way AMP takes.

    python examples/what_is_a_spinodal.py [--out DIR]

A matrix known as badly as its own size (eta = 1), signals with a fifth of their entries not zero, hardly any noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import spinodal as sp
from spinodal.figures.palette import BLUE, GREEN, GREY, LINES, VERMILION
from spinodal.figures.theory import CAVEAT, blank_figure

PROBLEM = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
# Signals per atom: one for each phase, and how near to the spinodal state evolution is watched.
BELOW, BETWEEN, ABOVE = 2.1, 3.0, 4.5
NEAR = (0.9, 0.98, 1.005, 1.05, 1.5)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    bayes, spinodal = sp.bayes_transition(PROBLEM), sp.spinodal(PROBLEM)
    assert bayes is not None
    assert spinodal is not None
    print(f"counting bound {sp.pi_star(PROBLEM):.3f}, Bayes-optimal transition {bayes:.3f}, spinodal {spinodal:.3f}")
    for pi in (BELOW, BETWEEN, ABOVE):
        here = PROBLEM.replace(pi=pi)
        best, reached = sp.bayes_mmse(here).mse.X, sp.amp_mse(here).mse.X
        print(f"pi = {pi}: {sp.phase(here):10s} best error on X {best:.1e}, AMP's {reached:.1e}")
    figures = {"potential": potential_figure(), "s_curve": curve_figure(bayes, spinodal), "evolution": evolution_figure(spinodal)}
    for name, figure in figures.items():
        figure.savefig(options.out / f"{name}.png", dpi=110)


def potential_figure() -> Figure:
    """The potential along the error, with one hill or two; AMP comes from the right and stops on the first."""
    figure, panels = blank_figure(10.5, 3.4, 1, 3)
    for panel, pi in zip(panels, (BELOW, BETWEEN, ABOVE), strict=True):
        here = PROBLEM.replace(pi=pi)
        errors = np.geomspace(2e-7, float(here.prior.X.second_moment()) * 0.999, 400)
        phi, _ = sp.effective_potential(here, errors)
        panel.semilogx(errors, phi, color=BLUE, lw=2)
        for point, colour, size, name in ((sp.bayes_mmse(here), VERMILION, 130, "Bayes-optimal"), (sp.amp_mse(here), GREEN, 55, "AMP")):
            panel.scatter(point.mse.X, point.free_entropy, color=colour, s=size, zorder=3, label=name)
        panel.set(xlabel="error on the signals, E", title=rf"$\pi = {pi:g}$: {sp.phase(here)}")
    panels[0].set_ylabel(r"potential $\Phi(E, D^*(E))$")
    panels[2].legend(fontsize=8, loc="lower left")
    return captioned(figure)


def curve_figure(bayes: float, spinodal: float) -> Figure:
    """All fixed points of all pi: the S-curve, and where it folds."""
    figure, (panel,) = blank_figure(6.4, 4.2)
    curve = sp.fixed_point_curve(PROBLEM)
    shown = curve.pi < 20  # beyond the right edge, so that the line reaches it
    for stable, style, name in ((True, "-", "stable"), (False, "--", "unstable")):
        values = np.where(shown & (curve.stable == stable), curve.mse_X, np.nan)
        panel.semilogy(curve.pi, values, color=BLUE, ls=style, lw=2, label=f"fixed points, {name}")
    panel.axvline(bayes, color=VERMILION, lw=1, label=rf"Bayes-optimal, $\pi = {bayes:.2f}$")
    panel.axvline(spinodal, color=GREEN, ls=":", lw=2, label=rf"spinodal, $\pi = {spinodal:.2f}$")
    panel.set(xlabel=r"signals per atom $\pi = P/N$", ylabel="error on the signals, E", xlim=(0, 6), title="the fixed points fold back")
    panel.legend(fontsize=8, loc="center right")
    return captioned(figure)


def evolution_figure(spinodal: float) -> Figure:
    """State evolution on both sides of the spinodal: stopped below it, slow just above it."""
    figure, (panel,) = blank_figure(6.4, 4.2)
    for share, colour in zip(NEAR, LINES, strict=False):
        path = sp.state_evolution(PROBLEM.replace(pi=share * spinodal))
        panel.loglog(np.arange(path.iterations + 1) + 1, path.mse.X, color=colour, lw=2, label=f"{share:g} spinodals")
    panel.set(xlabel="iteration + 1", ylabel="error on the signals, E", title="state evolution from an uninformed start")
    panel.legend(fontsize=8, loc="lower left")
    return captioned(figure)


def captioned(figure: Figure) -> Figure:
    figure.supxlabel(CAVEAT, fontsize=7, color=GREY)
    return figure


if __name__ == "__main__":
    main()
