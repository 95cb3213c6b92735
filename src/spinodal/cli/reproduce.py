"""spinodal reproduce and spinodal demo: figures with their data, from the library's own functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from .. import figures
from ..errors import check_choice
from ..problem import Problem
from ..theory import error_curves, outcomes, phase_diagram, pi_star, spinodal
from . import output


def _fig1(directory: Path, progress: Callable[[int, int], None]) -> list[Path]:
    """Phase diagram at alpha = 0.5 without noise, for several eta."""
    problem = Problem.sparse(alpha=0.5, pi=1.0, rho=0.1)
    dataset = phase_diagram(problem, rho=np.linspace(0.005, 0.495, 99), eta=[0.01, 0.1, 1.0, np.inf], progress=progress)
    return output.save_figure(figures.phase_diagram_figure(dataset), directory, "fig1") + output.save_dataset(dataset, directory, "fig1")


def _fig2(directory: Path, progress: Callable[[int, int], None]) -> list[Path]:
    """Errors against pi at alpha = 0.5, rho = 0.2 without noise, for three eta."""
    problem = Problem.sparse(alpha=0.5, pi=1.0, rho=0.2)
    dataset = error_curves(problem, eta=[0.01, 1.0, np.inf], pi=np.linspace(1.0, 5.0, 161), progress=progress)
    return output.save_figure(figures.error_curves_figure(dataset), directory, "fig2") + output.save_dataset(dataset, directory, "fig2")


def _fig3(directory: Path, progress: Callable[[int, int], None]) -> list[Path]:
    """The factor graph with N = 3, P = 2, M = 2."""
    return output.save_figure(figures.factor_graph_figure(N=3, M=2, P=2), directory, "fig3")


FIGURES: dict[str, Callable[[Path, Callable[[int, int], None]], list[Path]]] = {"fig1": _fig1, "fig2": _fig2, "fig3": _fig3}


def reproduce(what: str, *, out: str, as_json: bool) -> None:
    check_choice("the figure", what, (*FIGURES, "all"))
    directory = output.writable_directory("out", out)
    paths: list[Path] = []
    for name in FIGURES if what == "all" else [what]:
        with output.progress_bar(name) as progress:
            paths += FIGURES[name](directory, progress)
    output.report_files(paths, as_json)


def demo(*, out: str) -> None:
    directory = output.writable_directory("out", out)
    print("1. The phase diagram at alpha = 0.5 without noise (figure 1 of the paper).")
    with output.progress_bar("spinodals") as progress:
        paths = _fig1(directory, progress)
    problem = Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
    outcome = outcomes([problem])[0]
    print("2. One point explained: alpha = 0.5, rho = 0.2, eta = 1, Delta = 1e-6, pi = 3.")
    print(f"   Exact recovery would be possible above pi* = {pi_star(problem):.4g}; AMP gets there above {spinodal(problem):.4g}.")
    print(f"   So pi = 3 is {outcome.phase}: the best error on X is {outcome.bayes.mse.X:.2g}, AMP stops at {outcome.amp.mse.X:.2g}.")
    paths += output.save_figure(figures.explain_figure(problem), directory, "explained")
    for path in paths:
        print(f"   {path}")
