"""spinodal solve: an instance from a file, its factors into a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from .. import inference
from ..errors import InputError, check_choice, check_count, check_path, shown
from ..inference.search.learning import IN_WORDS
from ..inference.solution import Solution
from ..inference.starts import ROWS
from ..io import Measurements, read_measurements
from ..io.read import kind_of, read_matrix
from ..io.write import named_file, save_solution
from ..report import solution as words
from . import output
from .parsing import counts, number

_AUTO = "auto"
# What is added to the name of the input for the default name of the output.
_OURS = "-spinodal.npz"
_WRITTEN = (".npz", ".nc", ".csv")
# The arrays that a file of F' may have, the first that there is: as a sample, or an earlier solution, has them.
_FOR_F_PRIME = ("F_prime", "F")


def solve(
    *,
    file: str,
    out: str | None,
    n_atoms: str | None,
    given: dict[str, str | None],
    f_prime: str | None,
    method: str,
    array: str | None,
    transpose: bool,
    channel: str | None,
    layout: dict[str, Any],
    report: str | None,
    atom_shape: tuple[int, int] | None,
    float32: bool,
    devices: int | None,
    lenient: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """`given` maps density, noise_variance and eta to their words; `layout` says how a table is written; `options` are those of `solve`."""
    check_choice("method", method, tuple(inference.METHODS))
    sizes = None if n_atoms is None else counts("n_atoms", n_atoms)
    with output.stages() as stage:
        say = stage or (lambda *_: None)
        say("reading", 0, np.nan)
        measured = _measured(file, f_prime, array, transpose, layout)
        told: dict[str, Any] = {name: _number_or_auto(name, text, measured) for name, text in given.items() if name != "noise_variance"}
        told["noise_variance"] = _noise(given["noise_variance"], measured, transpose, layout["decimal"])
        told["n_atoms"] = measured.parameters.get("n_atoms") if sizes is None else sizes[0] if len(sizes) == 1 else sizes
        told["channel"] = channel
        if channel is not None and given["noise_variance"] is None:
            told["noise_variance"] = None  # the file's, if it has one, is of another channel
        told["solver"] = None if method == "amp" else inference.METHODS[method]()
        told["dtype"] = np.float32 if float32 else np.float64
        # Everything is refused before an iteration is run, and nothing is made before there is something to write.
        page = _page(report, atom_shape, measured.observed.Y.shape[0])
        target = _target(out, file)
        with output.between_iterations(stage) as progress, _enough_memory(measured, sizes):
            solution = inference.solve(measured.observed, progress=progress, mesh=_mesh(devices), **told, **options)
        solution = replace(solution, names=measured.names)
        result = _result(solution, method)
        if measured.truth is not None:
            from ..evaluation.record import against_truth

            say("predicting", 0, np.nan)
            result |= against_truth(solution, measured.truth, words.predicted(solution))
        say("writing", 0, np.nan)
        save_solution(solution, target, {**result["parameters"], **result, "seed": options["seed"]})
        # After the solution, which may have taken hours: it is there whatever becomes of the page.
        if page is not None:
            say("predicting", 0, np.nan)
            from ..report.page import write_report

            write_report(solution, page, title=file, truth=measured.truth, method=method, atom_shape=atom_shape)
            result["report"] = str(page)
    _show(result, words.parameters(solution), target, as_json)
    for warning in result["warnings"]:
        print(f"warning: {_sentence(warning)}", file=sys.stderr)
    if not result["trusted"]:
        print(
            f"spinodal: the result can't be trusted: {result['status']}, {_sentence(result['reason'])} {result['next_step']}",
            file=sys.stderr,
        )
        raise typer.Exit(0 if lenient else output.UNTRUSTED)


def _measured(file: str, f_prime: str | None, array: str | None, transpose: bool, layout: dict[str, Any]) -> Measurements:
    """The file, with F' from a file of its own if one is named."""
    measured = read_measurements(file, array=array, transpose=transpose, **layout)
    if f_prime is None:
        return measured
    matrix = read_matrix(f_prime, _FOR_F_PRIME, transpose=transpose, decimal=layout["decimal"])
    return measured._replace(observed=measured.observed._replace(F_prime=matrix))


def _number_or_auto(name: str, text: str | None, measured: Measurements) -> float | str | None:
    """A parameter as the options say it, or else the file; None if neither does."""
    if text is not None and text.strip().lower() == _AUTO:
        return _AUTO
    if text is not None:
        return number(name, text)
    return number(name, str(measured.parameters[name])) if name in measured.parameters else None


def _noise(text: str | None, measured: Measurements, transpose: bool, decimal: str) -> Any:
    """The noise variance: a number or auto, as others; "rows"; or a file with one for each row, column or entry of Y, laid out like Y's."""
    if text is not None and text.strip().lower() == ROWS:
        return ROWS
    if text is None or not Path(text).is_file():
        return _number_or_auto("noise_variance", text, measured)
    return read_matrix(text, ("noise_variance",), transpose=transpose, decimal=decimal)


def _target(out: str | None, file: str) -> Path:
    """The file to be written, which may not be the one that was read."""
    path = Path(out) if out is not None else _default_out(Path(file))
    if path.suffix not in _WRITTEN:
        raise InputError(
            f"out must be a file name ending in {', '.join(_WRITTEN[:-1])} or {_WRITTEN[-1]}, but {shown(str(path))} was given."
        )
    check_path("out", path)
    if path.exists() and path.samefile(file):
        raise InputError(f"out must be another file than FILE, but {str(path)!r} was given for both.")
    return named_file("out", path, path.suffix)


def _default_out(file: Path) -> Path:
    name = file.name.removesuffix(file.suffix)
    return file.with_name((name if kind_of(file) == file.suffix.lower() else Path(name).stem) + _OURS)


def _page(report: str | None, atom_shape: tuple[int, int] | None, M: int) -> Path | None:
    """Where the report goes, if there is to be one."""
    if atom_shape is not None:
        from ..report.page import check_atom_shape

        check_atom_shape(atom_shape, M)
        if report is None:
            raise InputError("atom_shape must come with --report, which draws the atoms, but no report was asked for.")
    return None if report is None else named_file("report", report, ".html")


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
def _enough_memory(measured: Measurements, sizes: list[int] | None) -> Iterator[None]:
    """Out of memory, in NumPy's words or XLA's, becomes one sentence."""
    import jax

    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        M, P = measured.observed.Y.shape
        atoms = f" with {max(sizes)} atoms" if sizes else ""
        raise InputError(
            f"Y and n_atoms must leave room in memory, but {M} x {P}{atoms} is too large; try fewer signals or atoms, or --float32."
        ) from None


def _result(solution: Solution, method: str) -> dict[str, Any]:
    """What is printed, and saved beside the arrays."""
    status = words.status(solution)
    candidates = solution.candidates
    return {
        "method": method,
        "status": str(status),
        "reason": str(solution.reason),
        "trusted": status.trusted,
        "next_step": words.next_step(solution, None),
        "iterations": int(solution.iterations),
        "runs": int(solution.runs),
        **({} if solution.runs < 2 else {"reproducibility": np.asarray(solution.reproducibility).tolist()}),
        "seconds": solution.seconds,
        "residual": float(solution.residual),
        "free_entropy": float(solution.free_entropy) if np.isfinite(solution.free_entropy) else None,
        "n_atoms": int(np.shape(solution.mean.F)[1]),
        "observed": float(solution.problem.observed_fraction),
        "parameters": {name: value for name, (value, _) in words.parameters(solution).items()},
        "learned": list(solution.learned),
        **({} if solution.row_means is None else {"centered": True}),
        "warnings": list(solution.warnings),
        **({"candidates": [dict(zip(_CANDIDATE, each, strict=True)) for each in candidates]} if candidates else {}),
    }


_CANDIDATE = ("n_atoms", "evidence", "status", "iterations")


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _show(result: dict[str, Any], used: dict[str, tuple[float, str]], target: Path, as_json: bool) -> None:
    if as_json:
        output.print_json({**result, "out": str(target)})
        return
    shown = output.shown
    rows = [
        [name.replace("_", " "), shown(result[name])] for name in ("status", "reason", "iterations", "seconds", "residual", "free_entropy")
    ]
    if "reproducibility" in result:
        rows.insert(3, ["runs compared", str(result["runs"])])
        rows.insert(4, ["least often found again", _least_found(result["reproducibility"])])
    if result["observed"] < 1:
        rows.insert(0, ["observed entries", f"{100 * result['observed']:.4g}%"])
    # An infinite eta says that nothing is known of F, which is no number to report.
    rows += [[f"{IN_WORDS.get(name, name)}, {how}", shown(value)] for name, (value, how) in used.items() if np.isfinite(value)]
    rows += _errors(result) if "mse_F" in result else []
    output.table(f"{result['method']}, {result['n_atoms']} atoms", ["", "value"], rows)
    if "candidates" in result:
        rows = [
            [str(each["n_atoms"]), shown(each["evidence"]), str(each["status"]), str(each["iterations"])] for each in result["candidates"]
        ]
        title = f"{result['n_atoms']} atoms have the highest evidence"
        output.table(title, ["atoms", "log evidence per entry of Y, nats", "status", "iterations"], rows)
    print(f"F, X and their variances are in {target}.")
    if "centered" in result:
        print("The mean of each row was subtracted first and saved as row_means: Y is F X/sqrt(N) + row_means.")
    if "report" in result:
        print(f"The report is {result['report']}.")
    if result["trusted"]:
        print(f"Next step: {result['next_step']}")


def _least_found(shares: list[float]) -> str:
    """The atom that the fewest other runs found."""
    if not np.isfinite(shares).any():
        return "not known"
    least = int(np.nanargmin(shares))
    return f"atom {least + 1}, by {100 * shares[least]:.3g}% of the other runs"


def _errors(result: dict[str, Any]) -> list[list[str]]:
    """Errors against the truth. Without F' atoms come in any order and with any sign, so they are matched with the true ones first."""
    predicted: dict[str, float] = result.get("predicted", {})
    unknown = np.isinf(result["parameters"].get("eta", np.nan))
    how, fitted = ("aligned", "atoms matched") if unknown else ("scaled", "atoms' scales fitted")

    def beside(value: float, name: str, label: str) -> str:
        return output.shown(value) + (f"  ({label} {output.shown(predicted[name])})" if name in predicted else "")

    rows = [] if unknown else [["mse F, raw", beside(result["mse_F"], "scale_floor", "scale floor")]]
    rows += [[f"mse {x}, {fitted}", beside(result[f"mse_{x}_{how}"], f"mse_{x}", "predicted")] for x in "FX"]
    return [*rows, ["atoms recovered", output.shown(result["atoms_recovered"])]]
