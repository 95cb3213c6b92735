"""spinodal reproduce and spinodal demo: figures with their data, from the library's own functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import check_choice, check_count
from ..figures import theory as figures
from ..io.write import writable_directory
from ..model.model import Problem
from ..model.sampling import sample
from ..theory import amp_mse, error_curves, outcomes, phase_diagram, pi_star, spinodal
from . import output
from .parsing import counts


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


# Figure 4: where pi is sampled, at which sizes and how often. On an accelerator --sizes 100,200,400,1000 takes minutes.
_PI_4 = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
_PI_4_FAST = (1.5, 3.0, 5.0)
_SIZES_4, _SIZES_4_FAST = (100, 200, 400), (50, 100)
_SEEDS_4, _SEEDS_4_FAST = 4, 2


def _fig4(directory: Path, fast: bool, sizes: str | None, seeds: int | None) -> list[Path]:
    """AMP against the Bayes-optimal error at several sizes, both panels."""
    from ..evaluation.experiments import FIGURE_4, figure_4

    chosen = tuple(counts("sizes", sizes)) if sizes else _SIZES_4_FAST if fast else _SIZES_4
    instances = seeds if seeds is not None else _SEEDS_4_FAST if fast else _SEEDS_4
    pi = _PI_4_FAST if fast else _PI_4
    paths: list[Path] = []
    panels = []
    with output.progress_bar("fig4") as progress:
        total, done = len(FIGURE_4) * len(chosen) * len(pi), 0

        def tick() -> None:
            nonlocal done
            done += 1
            progress(done, total)

        for panel in range(len(FIGURE_4)):
            panels.append(figure_4(panel, sizes=chosen, pi=pi, instances=instances, progress=tick))
            # Each panel is saved as soon as it is done, so that an interruption loses one panel at most.
            paths += output.save_dataset(panels[-1], directory, f"fig4_{'ab'[panel]}")
    return output.save_figure(figures.figure_4_figure(panels), directory, "fig4") + paths


# The dictionary map: density and signals per atom, size, and instances a point.
_RHO_D, _RHO_D_FAST = (0.05, 0.1, 0.15, 0.2, 0.25), (0.1, 0.2)
_PI_D, _PI_D_FAST = (2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 14.0), (5.0, 10.0)
_SIZE_D, _SIZE_D_FAST = 100, 40


def _dictionary(directory: Path, fast: bool, sizes: str | None, seeds: int | None) -> list[Path]:
    """Dictionaries learned from scratch over (rho, pi), against pi* and the spinodal."""
    from ..evaluation.experiments import dictionary_map

    n = counts("sizes", sizes)[0] if sizes else _SIZE_D_FAST if fast else _SIZE_D
    instances = seeds if seeds is not None else _SEEDS_4_FAST if fast else _SEEDS_4
    rho, pi = (_RHO_D_FAST, _PI_D_FAST) if fast else (_RHO_D, _PI_D)
    dataset = None
    with output.progress_bar("dictionary") as progress:
        try:
            for done, so_far in enumerate(dictionary_map(n=n, rho=rho, pi=pi, instances=instances), start=1):
                dataset = so_far
                progress(done, len(rho) * len(pi))
        except KeyboardInterrupt:
            if dataset is not None:  # what is finished is kept
                output.save_dataset(dataset, directory, "dictionary")
            raise
    assert dataset is not None
    figure = output.save_figure(figures.dictionary_figure(dataset), directory, "dictionary")
    return figure + output.save_dataset(dataset, directory, "dictionary")


# The phase diagram as AMP finds it: a sweep, of which a run that was interrupted goes on.
_PHASE = """
name = "phase"
N = {n}
instances = {instances}
batch = {batch}
max_iterations = {iterations}
[grid]
alpha = 0.5
rho = {rho}
pi = {pi}
eta = {eta}
noise_variance = 1e-8
"""
_PHASE_FULL: dict[str, Any] = {
    "n": 100,
    "instances": 4,
    "batch": 64,
    "iterations": 2000,
    "rho": [0.05, 0.1, 0.15, 0.2, 0.25, 0.3],
    "pi": [1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0],
    "eta": [0.01, 0.1, 1.0],
}
_PHASE_FAST: dict[str, Any] = _PHASE_FULL | {
    "n": 30,
    "instances": 2,
    "iterations": 400,
    "rho": [0.05, 0.15, 0.3],
    "pi": [1.5, 3.0, 6.0],
    "eta": [0.01, 1.0],
}


def _phase(directory: Path, fast: bool, sizes: str | None, seeds: int | None) -> list[Path]:
    """What AMP recovers over (rho, pi) at several eta, over the transitions of the theory."""
    from ..figures.sweeps import sweep_figure
    from ..sweeps import dataset, parse_spec, resume_sweep, run_sweep, suited
    from ..sweeps.ledger import LEDGER
    from .sweep_commands import note

    given: dict[str, Any] = {}
    if sizes:
        given["n"] = counts("sizes", sizes)[0]
    if seeds is not None:
        given["instances"] = seeds
    chosen = (_PHASE_FAST if fast else _PHASE_FULL) | given
    spec = parse_spec(_PHASE.format(**chosen))
    where = directory / f"phase_N{chosen['n']}_{chosen['instances']}{'_fast' if fast else ''}"
    where.mkdir(exist_ok=True)
    executor = partial(suited, say=note)
    with output.progress_bar("phase") as progress:
        if (where / LEDGER).exists():
            resume_sweep(where, executor, progress=progress)
        else:
            run_sweep(spec, where, executor, progress)
    found = dataset(where)
    return output.save_figure(sweep_figure(found), directory, "phase") + output.save_dataset(found, directory, "phase")


# What takes long, and options with it.
MEASURED: dict[str, Callable[[Path, bool, str | None, int | None], list[Path]]] = {
    "fig4": _fig4,
    "dictionary": _dictionary,
    "phase": _phase,
}
FIGURES: dict[str, Callable[[Path, Callable[[int, int], None]], list[Path]]] = {"fig1": _fig1, "fig2": _fig2, "fig3": _fig3}


# Larger sizes and more instances are taken for a mistake.
_LARGEST_SIZE, _MOST_SEEDS = 10_000, 1000


def _check_work(sizes: str | None, seeds: int | None) -> None:
    for n in counts("sizes", sizes) if sizes else []:
        check_count("sizes", n, 2, _LARGEST_SIZE)
    if seeds is not None:
        check_count("seeds", seeds, 1, _MOST_SEEDS)


def reproduce(what: str, *, out: str, as_json: bool, fast: bool = False, sizes: str | None = None, seeds: int | None = None) -> None:
    check_choice("the figure", what, (*FIGURES, *MEASURED, "all"))
    _check_work(sizes, seeds)
    directory = writable_directory("out", out)
    paths: list[Path] = []
    for name in [*FIGURES, *MEASURED] if what == "all" else [what]:
        if name in MEASURED:
            paths += MEASURED[name](directory, fast, sizes, seeds)
            continue
        with output.progress_bar(name) as progress:
            paths += FIGURES[name](directory, progress)
    output.report_files(paths, as_json)


def demo(*, out: str) -> None:
    directory = writable_directory("out", out)
    print("1. The phase diagram at alpha = 0.5 without noise (figure 1 of the paper).")
    with output.progress_bar("spinodals") as progress:
        paths = _fig1(directory, progress)
    problem = Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
    outcome = outcomes([problem])[0]
    print("2. One point explained: alpha = 0.5, rho = 0.2, eta = 1, Delta = 1e-6, pi = 3.")
    print(f"   Exact recovery would be possible above pi* = {pi_star(problem):.4g}; AMP gets there above {spinodal(problem):.4g}.")
    print(f"   So pi = 3 is {outcome.phase}: the best error on X is {outcome.bayes.mse.X:.2g}, AMP stops at {outcome.amp.mse.X:.2g}.")
    paths += output.save_figure(figures.explain_figure(problem), directory, "explained")
    paths += _recovered(directory)
    print("Figures and data:")
    for path in paths:
        print(f"   {path}")


def _recovered(directory: Path) -> list[Path]:
    """One instance with a matrix known to 30%, recovered by AMP, against its prediction."""
    from ..evaluation.record import record, solve_drawn
    from ..evaluation.scoring import scale_floor

    problem = Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, eta=0.1, noise_variance=1e-8)
    n = 200
    print(f"3. One instance recovered: N = {n}, alpha = 0.5, rho = 0.1, pi = 5, eta = 0.1, Delta = 1e-8.")
    instance = sample(problem, n, seed=1)
    solution = solve_drawn(instance, problem)
    found, expected = record(solution, instance.truth), amp_mse(problem).mse
    print(f"   AMP {found.status} in {found.iterations} iterations.")
    print(f"   Error on F: {found.score.mse_scaled.F:.3g} with the atoms' scales fitted (predicted {expected.F:.3g}),")
    print(f"   {found.score.mse.F:.3g} raw (predicted {expected.F + scale_floor(problem, n):.3g}: Y does not fix the scales).")
    return output.save_figure(figures.recovery_figure(problem, instance, solution), directory, "recovered")
