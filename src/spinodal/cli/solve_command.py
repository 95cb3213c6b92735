"""spinodal solve: an instance from a file, its factors into a file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, check, check_choice, check_count
from ..evaluation.record import against_truth
from ..inference import AMP, METHODS, Solution
from ..inference import solve as run_solver
from ..inference.checks import check_observed
from ..io import read_measurements
from ..model.channels import GaussianNoise
from ..model.knowledge import knowledge_of
from ..model.model import Problem
from ..model.priors import GaussBernoulli, Gaussian
from ..pair import Pair
from . import output
from .interrupts import between_iterations
from .parsing import counts, number

# What a parameter that is to be estimated is called by the solver.
_LEARNED = {"rho": "rho", "delta": "noise", "eta": "eta"}
# Where estimates start: the density, the noise as a share of the data's power, and the error of F'.
_FIRST_GUESS = {"rho": 0.1, "delta": 0.01, "eta": 0.1}


def _parameter(name: str, given: str | None, said: dict[str, Any], default: float | None = None) -> tuple[float, str]:
    """A parameter's value and where it comes from; NaN for one to be estimated."""
    if given is not None and given.strip().lower() == "auto":
        return np.nan, "estimated"
    if given is not None:
        return number(name, given), "given"
    if name in said:
        return number(name, str(said[name])), "from the file"
    if default is not None:
        return default, "default"
    raise InputError(f"{name} must be given with --{name} (a number, or auto to have it estimated), since the file does not say it.")


def _problem(chosen: dict[str, tuple[float, str]], Y: np.ndarray) -> tuple[Problem, tuple[str, ...]]:
    """The problem as chosen, with first guesses for what is to be estimated, and the names of that."""
    power = max(float(np.nanmean(np.square(Y))), np.finfo(float).tiny)
    unknown = [name for name, (_, source) in chosen.items() if source == "estimated"]
    value = {name: _FIRST_GUESS[name] * (power if name == "delta" else 1) if name in unknown else chosen[name][0] for name in chosen}
    learn = tuple(_LEARNED[name] for name in unknown)
    slab = 1.0
    if "rho" in unknown:  # then the units of the data are anybody's guess too
        slab, learn = power / value["rho"], (*learn, "variance")
    check("rho", value["rho"], 0.0, 1.0, low_open=True, high_open=True)
    prior = Pair(F=Gaussian(), X=GaussBernoulli(value["rho"], 0.0, slab))
    return Problem(alpha=1.0, pi=1.0, prior=prior, channel=GaussianNoise(value["delta"]), knowledge=knowledge_of(value["eta"])), learn


def _estimated(problem: Problem, solution: Solution) -> Problem:
    """The problem with what was estimated in the place of the first guesses."""
    found = solution.parameters
    if found is None:
        return problem
    prior = problem.prior._replace(X=GaussBernoulli(float(found.rho), float(found.mean), float(found.variance)))
    channel = GaussianNoise(float(found.noise))
    return problem.replace(prior=prior, channel=channel, eta=problem.eta if found.eta is None else float(found.eta))


class _Fit(NamedTuple):
    """One number of atoms tried: the problem as estimated, the solution, and its log evidence in nats per observed entry of Y."""

    N: int
    problem: Problem
    solution: Solution
    evidence: float


def _matrix(file: str, transpose: bool) -> np.ndarray:
    """F' from a file of its own."""
    read = read_measurements(file, transpose=transpose).observed
    if read.mask is not None and not np.all(read.mask):
        raise InputError(f"f_prime must have all its entries, but some are missing in {file!r}.")
    return read.Y


@contextmanager
def live_line() -> Iterator[Callable[[int, float, float], None] | None]:
    """A line on the terminal that follows the iterations; nothing when piped."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("compiling") as status:
        yield lambda iteration, residual, damping: status.update(f"iteration {iteration}   residual {residual:.3e}   damping {damping:.2f}")


def solve(
    *,
    file: str,
    method: str,
    rho: str | None,
    delta: str | None,
    eta: str | None,
    f_prime: str | None,
    n_atoms: str | None,
    array: str | None,
    transpose: bool,
    report: str | None,
    atom_shape: tuple[int, int] | None,
    max_iter: int,
    restarts: int,
    seed: int,
    float32: bool,
    checkpoint: str | None,
    every: int,
    devices: int | None,
    out: str,
    as_json: bool,
) -> None:
    check_choice("method", method, tuple(METHODS))
    measured = read_measurements(file, array=array, transpose=transpose)
    if f_prime is not None:
        measured = measured._replace(observed=measured.observed._replace(F_prime=_matrix(f_prime, transpose)))
    sizes = [None] if n_atoms is None else counts("n_atoms", n_atoms)
    truth = measured.truth
    # Without F' there is only dictionary learning.
    defaults = {"eta": np.inf} if measured.observed.F_prime is None else {}
    given = {"rho": rho, "delta": delta, "eta": eta}
    chosen = {name: _parameter(name, value, measured.parameters, defaults.get(name)) for name, value in given.items()}
    problem, learn = _problem(chosen, measured.observed.Y)
    if learn and method != "amp":
        raise InputError(f"method must be amp where parameters are to be estimated, but {method} was given.")
    # Everything is refused before a directory is made or an iteration run.
    checked = [check_observed(measured.observed, problem, size) for size in sizes]
    observed, candidates = checked[0][0], [N for _, N, _ in checked]
    M, P = observed.Y.shape
    seen = 1.0 if observed.mask is None else float(np.mean(observed.mask))
    check_count("restarts", restarts)
    check_count("max_iterations", max_iter)
    check_count("seed", seed, 0)
    check_count("every", every)
    if checkpoint is not None and len(candidates) > 1:
        raise InputError(f"checkpoint must be left out where several numbers of atoms are tried, but {str(checkpoint)!r} was given.")
    mesh = _mesh(devices)
    page = _page(report, atom_shape, M)
    target = output.named_file("out", out, ".npz")
    for name, path in (("out", target), ("report", page)):
        if path is not None:
            output.writable_directory(name, str(path.parent))
    started = time.perf_counter()
    problem = problem.replace(observed_fraction=seen)
    tried: list[_Fit] = []
    with live_line() as line, between_iterations(line) as progress:
        for N in candidates:
            here = problem.replace(alpha=M / N, pi=P / N)
            with _enough_memory(M, N, P):
                solution = run_solver(
                    observed,
                    here,
                    AMP(learn=learn) if learn else METHODS[method](),
                    n_atoms=N,
                    max_iterations=max_iter,
                    restarts=restarts,
                    seed=seed,
                    dtype=np.float32 if float32 else np.float64,
                    progress=progress,
                    checkpoint=checkpoint,
                    every=every,
                    mesh=mesh,
                )
            tried.append(_Fit(N, _estimated(here, solution) if learn else here, solution, float(solution.free_entropy) * N / (M * seen)))
    seconds = time.perf_counter() - started
    chosen_N, problem, solution, _ = max(tried, key=lambda fit: fit.evidence if np.isfinite(fit.evidence) else -np.inf)
    slab = problem.prior.X
    used = {"rho": slab.rho, "delta": problem.noise_variance, "eta": problem.eta}  # type: ignore[attr-defined]
    chosen = {name: (float(used[name]), source) for name, (_, source) in chosen.items()}
    if "variance" in learn:
        chosen["slab_variance"] = (float(slab.variance), "estimated")  # type: ignore[attr-defined]
    result: dict[str, Any] = {
        "method": method,
        "status": str(solution.status),
        "iterations": int(solution.iterations),
        "seconds": seconds,
        "residual": float(solution.residual),
        "free_entropy": float(solution.free_entropy) if np.isfinite(solution.free_entropy) else None,
        "parameters": {name: value for name, (value, _) in chosen.items()},
        "estimated": [name for name, (_, source) in chosen.items() if source == "estimated"],
    }
    if seen < 1:
        result["observed"] = seen
    if len(tried) > 1:
        result["n_atoms"] = chosen_N
        result["candidates"] = [
            {"n_atoms": fit.N, "evidence": fit.evidence, "status": str(fit.solution.status), "iterations": int(fit.solution.iterations)}
            for fit in tried
        ]
    if truth is not None:
        result |= against_truth(solution, truth, problem)
    _save(target, solution, {**{name: value for name, (value, _) in chosen.items()}, **result, "seed": seed})
    if page is not None:
        from ..report.page import Run, report_html

        run = Run(title=file, parameters=chosen, method=method, seconds=seconds, atom_shape=atom_shape)
        with output.whole_file(page) as temporary:
            temporary.write_text(report_html(observed, problem, solution, run, truth), encoding="utf-8", errors="replace")
        result["report"] = str(page)
    _report(result, target, as_json)
    if result["status"] != "converged":
        print(f"spinodal: the run ended as {result['status']}; the best state is in {target}.", file=sys.stderr)


def _mesh(devices: int | None) -> Any:
    """The first so many devices in a row; None for the one that JAX uses by itself."""
    import jax

    if devices is None:
        return None
    check_count("devices", devices)
    if devices > len(jax.devices()):
        raise InputError(f"devices must be at most the {len(jax.devices())} that JAX sees here, but {devices} was given.")
    return jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("signals",))


@contextmanager
def _enough_memory(M: int, N: int, P: int) -> Iterator[None]:
    """Out of memory, in NumPy's words or XLA's, becomes one sentence."""
    import jax

    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise InputError(
            f"Y and n_atoms must leave room in memory, but {M} x {P} with {N} atoms is too large; try fewer signals or atoms, or --float32."
        ) from None


def _page(report: str | None, atom_shape: tuple[int, int] | None, M: int) -> Path | None:
    """Where the report goes, if there is to be one."""
    if atom_shape is not None:
        from ..report.page import check_atom_shape

        check_atom_shape(atom_shape, M)
        if report is None:
            raise InputError("atom_shape must come with --report, which draws the atoms, but no report was asked for.")
    return None if report is None else output.named_file("report", report, ".html")


def _save(target: Path, solution: Solution, about: dict[str, Any]) -> None:
    length = int(solution.iterations)
    arrays: dict[str, Any] = {f"trace_{name}": np.asarray(values)[:length] for name, values in solution.trace._asdict().items()}
    arrays |= {"F_mean": solution.mean.F, "F_var": solution.variance.F, "X_mean": solution.mean.X, "X_var": solution.variance.X}
    with output.whole_file(target) as temporary:
        np.savez(temporary, parameters=np.array(json.dumps(output.plain(about))), **arrays)


def _report(result: dict[str, Any], target: Path, as_json: bool) -> None:
    if as_json:
        output.print_json({**result, "out": str(target)})
        return
    shown = output.shown
    rows = [[name.replace("_", " "), shown(result[name])] for name in ("status", "iterations", "seconds", "residual", "free_entropy")]
    rows += [[f"{name}, estimated", shown(result["parameters"][name])] for name in result["estimated"]]
    if "predicted" in result:
        predicted = result["predicted"]
        # Without F' atoms come in any order and with any sign, so they are matched with the true ones first.
        how, words = ("aligned", "atoms matched") if np.isinf(result["parameters"]["eta"]) else ("scaled", "atoms' scales fitted")
        if how == "scaled":
            rows.append(["mse F, raw", f"{shown(result['mse_F'])}  (scale floor {shown(predicted['scale_floor'])})"])
        rows += [[f"mse {x}, {words}", f"{shown(result[f'mse_{x}_{how}'])}  (predicted {shown(predicted[f'mse_{x}'])})"] for x in "FX"]
        rows.append(["atoms recovered", shown(result["atoms_recovered"])])
    if "observed" in result:
        rows.insert(0, ["observed entries", f"{100 * result['observed']:.4g}%"])
    output.table(f"{result['method']} -> {target}", ["", "value"], rows)
    if "candidates" in result:
        rows = [[str(fit["n_atoms"]), shown(fit["evidence"]), fit["status"], str(fit["iterations"])] for fit in result["candidates"]]
        title = f"{result['n_atoms']} atoms are the likeliest"
        output.table(title, ["atoms", "log evidence per entry of Y, nats", "status", "iterations"], rows)
