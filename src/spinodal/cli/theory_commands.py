"""spinodal theory, diagram, curve, sample."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from ..errors import InputError, check, check_count, check_nonnegative, check_positive
from ..io.write import named_file, plain, whole_file, writable_directory
from ..model.channels import GaussianNoise, named_channel
from ..model.model import Problem
from ..model.sampling import sample as draw
from ..report.phases import recovered_in_words
from ..theory import FixedPoint, error_curves, outcomes, phase_diagram, pi_star, spinodal, state_evolution
from ..theory.setup import LEAST
from . import output
from .parsing import grid, number, numbers

_MOST_POINTS = 20_000


def problem_from(*, alpha: str, pi: str, density: str, eta: str, noise_variance: str, observed: str, channel: str | None = None) -> Problem:
    """The paper's problem from the words of the command line, perhaps with another channel than Gaussian noise."""
    rho, noise = number("density", density), number("noise_variance", noise_variance)
    _check_density(rho)
    check_nonnegative("noise_variance", noise)
    problem = Problem.sparse(
        alpha=number("alpha", alpha),
        pi=number("pi", pi),
        rho=rho,
        eta=number("eta", eta),
        noise_variance=noise,
        observed_fraction=number("observed", observed),
    )
    if channel is None:
        return problem
    if noise != 0:
        raise InputError(f"noise_variance must be left out where a channel is named, which has its own, but {noise_variance} was given.")
    return problem.replace(channel=named_channel(channel))


def _check_density(rho: float | list[float]) -> None:
    check("density", rho, 0.0, 1.0, low_open=True, high_open=True)
    check("density", rho, LEAST, 1.0, high_open=True)


def parameters(problem: Problem) -> dict[str, Any]:
    """A sparse problem's parameters by their names on the command line."""
    gaussian = isinstance(problem.channel, GaussianNoise)
    return {
        "alpha": float(problem.alpha),
        "pi": float(problem.pi),
        "density": float(problem.prior.X.rho),  # type: ignore[attr-defined]
        "eta": float(problem.eta),
        **({"noise_variance": float(problem.noise_variance)} if gaussian else {"channel": repr(problem.channel)}),
        "observed": float(problem.observed_fraction),
    }


def theory(*, as_json: bool, **words: Any) -> None:
    problem = problem_from(**words)
    outcome = outcomes([problem])[0]
    trajectory = state_evolution(problem)

    def errors(point: FixedPoint) -> dict[str, float]:
        mse, recovered = point.mse, point.recovered
        return {"mse_F": mse.F, "mse_X": mse.X, "recovered_F": recovered.F, "recovered_X": recovered.X}

    result: dict[str, Any] = {
        **parameters(problem),
        "pi_star": pi_star(problem),
        "pi_spinodal": spinodal(problem),
        "phase": outcome.phase,
        "bayes": {**errors(outcome.bayes), "free_entropy": outcome.bayes.free_entropy},
        "amp": {**errors(outcome.amp), "iterations": trajectory.iterations},
        "fixed_points": [{"snr_X": p.snr_X, **errors(p), "stable": p.stable, "free_entropy": p.free_entropy} for p in outcome.fixed_points],
    }
    if as_json:
        output.print_json(result)
        return
    shown = output.shown
    words_of = ", ".join(f"{name} = {value if isinstance(value, str) else shown(value)}" for name, value in parameters(problem).items())
    verdict = f"phase: {outcome.phase};  pi* = {shown(result['pi_star'])},  spinodal = {shown(result['pi_spinodal'])}"
    share = f"AMP recovers {recovered_in_words(outcome.amp)};  at best {recovered_in_words(outcome.bayes)}"
    output.table(
        f"{words_of}\n{verdict}\n{share}",
        ["", "mse_F", "mse_X", "free entropy", ""],
        [
            ["Bayes-optimal", *(shown(result["bayes"][key]) for key in ("mse_F", "mse_X", "free_entropy")), ""],
            ["AMP", shown(result["amp"]["mse_F"]), shown(result["amp"]["mse_X"]), "", f"{trajectory.iterations} iterations"],
            *(
                ["fixed point", shown(p.mse.F), shown(p.mse.X), shown(p.free_entropy), "stable" if p.stable else "unstable"]
                for p in outcome.fixed_points
            ),
        ],
    )


def _check_points(*axes: list[float]) -> None:
    """Refuse a figure of more points than anyone waits for."""
    check_count("the number of points of the figure", math.prod(map(len, axes)), 1, _MOST_POINTS)


def diagram(*, density: str, eta: str, out: str, as_json: bool, **words: Any) -> None:
    densities, etas = grid("density", density), numbers("eta", eta)
    _check_density(densities)
    _check_points(densities, etas)
    check("eta", etas, 0.0, np.inf)
    problem = problem_from(pi="1", density="0.5", eta="inf", **words)
    directory = writable_directory("out", out)
    with output.progress_bar("spinodals") as progress:
        dataset = phase_diagram(problem, rho=densities, eta=etas, progress=progress)
    from ..figures.theory import phase_diagram_figure

    paths = output.save_figure(phase_diagram_figure(dataset), directory, "diagram")
    output.report_files(paths + output.save_dataset(dataset, directory, "diagram"), as_json)


def curve(*, pi: str, eta: str, out: str, as_json: bool, **words: Any) -> None:
    signals, etas = grid("pi", pi), numbers("eta", eta)
    check_positive("pi", signals)
    check("eta", etas, 0.0, np.inf)
    _check_points(signals, etas)
    problem = problem_from(pi="1", eta="inf", **words)
    directory = writable_directory("out", out)
    with output.progress_bar("errors") as progress:
        dataset = error_curves(problem, eta=etas, pi=signals, progress=progress)
    from ..figures.theory import error_curves_figure

    paths = output.save_figure(error_curves_figure(dataset), directory, "curve")
    output.report_files(paths + output.save_dataset(dataset, directory, "curve"), as_json)


def sample_file(*, n: int, seed: int, out: str, as_json: bool, **words: Any) -> None:
    problem = problem_from(**words)
    check_count("n", n)
    check_count("seed", seed, 0)
    target = named_file("out", out, ".npz")
    instance = draw(problem, n, seed=seed)
    M, N = instance.truth.F.shape
    P = instance.truth.X.shape[1]
    about = {**parameters(problem), "N": N, "M": M, "P": P, "seed": seed}
    # At eta = inf nothing is known of F: F_prime is there, and says so.
    F_prime = instance.observed.F_prime if instance.observed.F_prime is not None else np.full((M, N), np.nan)
    arrays = {"Y": instance.observed.Y, "F_prime": F_prime, "F": instance.truth.F, "X": instance.truth.X}
    if instance.observed.mask is not None:
        arrays["mask"] = instance.observed.mask
    with whole_file(target) as temporary:
        np.savez(temporary, parameters=np.array(json.dumps(plain(about))), **arrays)
    output.report_files([target], as_json, about)
