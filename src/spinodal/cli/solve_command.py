"""spinodal solve: an instance from a file, its factors into a file."""

from __future__ import annotations

import json
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, check_choice
from ..pair import Pair
from ..problem import Observed, Problem
from ..scoring import scale_floor, score
from ..solvers import AMP, MUAMP, BiGAMP, Lasso, RelaxedBP, Solution
from ..solvers import solve as run_solver
from ..solvers.door import check_observed
from ..theory import amp_mse
from . import output
from .parsing import number

METHODS: dict[str, Any] = {"amp": AMP, "relaxed-bp": RelaxedBP, "mu-amp": MUAMP, "big-amp": BiGAMP, "lasso": Lasso}
ARRAYS = ("Y", "F_prime", "mask", "F", "X")
# What a damaged or forged archive makes zipfile and NumPy raise, besides ValueError.
_UNREADABLE = (OSError, EOFError, KeyError, MemoryError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error)


def read_instance(path: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of an .npz file and its parameters, if it has any. Nothing is unpickled."""
    if not Path(path).is_file():
        raise InputError(f"FILE must be an .npz file, but there is no file {path!r}.")
    if not zipfile.is_zipfile(path):
        raise InputError(f"FILE must be a whole .npz file, but {path!r} is not one, or was cut short.")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ARRAYS if name in file.files}
            about = json.loads(str(file["parameters"])) if "parameters" in file.files else {}
    except ValueError as error:
        why = "it holds pickled objects, which are never loaded" if "pickle" in str(error).lower() else f"it can't be read ({error})"
        raise InputError(f"FILE must be an .npz file of plain arrays, but in {path!r} {why}.") from None
    except _UNREADABLE as error:
        raise InputError(f"FILE must be a whole .npz file, but {path!r} can't be read ({error}).") from None
    if "Y" not in arrays:
        raise InputError(f"FILE must hold an array Y, but {path!r} has none.")
    return arrays, about if isinstance(about, dict) else {}


def _parameter(name: str, given: str | None, about: dict[str, Any]) -> float:
    if given is not None:
        return number(name, given)
    if name in about and about[name] is not None:
        return number(name, str(about[name]))
    raise InputError(f"{name} must be given with --{name}, since the file does not say it.")


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
    n_atoms: int | None,
    max_iter: int,
    seed: int,
    float32: bool,
    out: str,
    as_json: bool,
) -> None:
    check_choice("method", method, tuple(METHODS))
    arrays, about = read_instance(file)
    chosen = {name: _parameter(name, given, about) for name, given in (("rho", rho), ("delta", delta), ("eta", eta))}
    Y = arrays["Y"]
    shapes = Y.shape if Y.ndim == 2 and 0 not in Y.shape else (1, 1)
    F_prime = arrays.get("F_prime")
    columns = F_prime.shape[-1] if F_prime is not None and F_prime.ndim == 2 and F_prime.shape[-1] else n_atoms or 1
    problem = Problem.sparse(
        alpha=shapes[0] / columns, pi=shapes[1] / columns, rho=chosen["rho"], eta=chosen["eta"], noise_variance=chosen["delta"]
    )
    if Y.ndim != 2:
        raise InputError(f"Y must be an M x P matrix, but its shape is {Y.shape}.")
    observed = Observed(Y, F_prime, arrays.get("mask"))
    # Everything is refused before a directory is made or an iteration run.
    check_observed(observed, problem, n_atoms)
    truth = _truth(arrays, Y.shape) if "F" in arrays and "X" in arrays else None
    target = output.writable_file("out", out, ".npz")
    started = time.perf_counter()
    with live_line() as progress:
        solution = run_solver(
            observed,
            problem,
            METHODS[method](),
            n_atoms=n_atoms,
            max_iterations=max_iter,
            seed=seed,
            dtype=np.float32 if float32 else np.float64,
            progress=progress,
        )
    seconds = time.perf_counter() - started
    result: dict[str, Any] = {
        "method": method,
        "status": str(solution.status),
        "iterations": int(solution.iterations),
        "seconds": seconds,
        "residual": float(solution.residual),
        "free_entropy": float(solution.free_entropy) if np.isfinite(solution.free_entropy) else None,
    }
    if truth is not None:
        result |= _against_truth(solution, truth, problem)
    _save(target, solution, {**chosen, **result, "seed": seed})
    _report(result, target, as_json)
    if result["status"] != "converged":
        print(f"spinodal: the run ended as {result['status']}; the best state is in {target}.", file=sys.stderr)


def _truth(arrays: dict[str, np.ndarray], shape: tuple[int, ...]) -> Pair[np.ndarray]:
    """F and X of the file, refused unless they are real, finite and of shapes that fit Y."""
    F, X = arrays["F"], arrays["X"]
    for name, array in (("F", F), ("X", X)):
        if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            raise InputError(f"{name} must hold finite real numbers to score against, but it does not.")
    if F.ndim != 2 or X.ndim != 2 or F.shape[1] != X.shape[0] or (F.shape[0], X.shape[1]) != shape or 0 in F.shape:
        raise InputError(f"F and X must fit Y as M x N and N x P, but their shapes are {F.shape} and {X.shape}.")
    return Pair(F, X)


def _against_truth(solution: Solution, truth: Pair[np.ndarray], problem: Problem) -> dict[str, Any]:
    N = solution.mean.F.shape[1]
    found = score(solution.mean, truth)
    expected = amp_mse(problem).mse
    return {
        "mse_F": found.mse.F,
        "mse_X": found.mse.X,
        "mse_F_scaled": found.mse_scaled.F,
        "mse_X_scaled": found.mse_scaled.X,
        "mse_F_aligned": found.mse_aligned.F,
        "mse_X_aligned": found.mse_aligned.X,
        "atoms_recovered": found.atoms_recovered,
        "predicted": {"mse_F": expected.F, "mse_X": expected.X, "scale_floor": scale_floor(problem, N)},
    }


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
    if "predicted" in result:
        predicted = result["predicted"]
        rows += [
            ["mse F, raw", f"{shown(result['mse_F'])}  (scale floor {shown(predicted['scale_floor'])})"],
            ["mse F, atoms' scales fitted", f"{shown(result['mse_F_scaled'])}  (predicted {shown(predicted['mse_F'])})"],
            ["mse X, atoms' scales fitted", f"{shown(result['mse_X_scaled'])}  (predicted {shown(predicted['mse_X'])})"],
            ["atoms recovered", shown(result["atoms_recovered"])],
        ]
    output.table(f"{result['method']} -> {target}", ["", "value"], rows)
