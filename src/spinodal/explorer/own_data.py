"""A file of the reader's as a worker reads and solves it: a summary, the warnings that `solve` has, and afterwards the report and the files
that the command line writes.
"""

from __future__ import annotations

import base64
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, printable, shown
from ..io import Measurements, read_measurements
from .state import VALUES, nearest, written

# A table that the page solves has at most so many entries, and so many atoms.
MOST_ENTRIES, MOST_ATOMS = 1_000_000, 400
# Seconds between two things that are said of a solve under way.
_PAUSE = 0.1
# Rows and columns of a file that are shown, and letters of a name.
_ROWS, _COLUMNS, _LETTERS = 5, 6, 24

Say = Callable[[dict[str, Any]], None]


def work(question: dict[str, Any], say: Say) -> None:
    """Read a file, or read and solve it."""
    measured = read(question)
    if question["do"] == "read":
        say({"ended": "read", "result": summary(measured)})
    else:
        solve_file(measured, question, say)


def read(question: dict[str, Any]) -> Measurements:
    """The file, which is on the disk under a name of ours while it is read."""
    given = question["options"]
    with tempfile.TemporaryDirectory(prefix="spinodal-") as folder:
        path = Path(folder, "table" + question["kind"])
        path.write_bytes(base64.b64decode(question["content"]))
        try:
            measured = read_measurements(
                path,
                transpose=given["transpose"],
                decimal="," if given["comma"] else ".",
                na=[given["na"]] if given["na"] else [],
                header=given["header"],
            )
        except InputError as error:
            raise InputError(str(error).replace(repr(str(path)), shown(question["name"]))) from None
    M, P = measured.observed.Y.shape
    if M * P > MOST_ENTRIES:
        raise InputError(
            f"Y must have at most {MOST_ENTRIES:,} entries on this page, but {M} x {P} was given; `spinodal solve` has no such limit."
        )
    return measured


def summary(measured: Measurements) -> dict[str, Any]:
    """What is in the file, what looks wrong with it, and a number of atoms to begin with."""
    observed, names = measured.observed, measured.names
    Y = np.asarray(observed.Y, dtype=float)
    seen = np.isfinite(Y) if observed.mask is None else np.asarray(observed.mask, bool)
    values = Y[seen]
    M, P = Y.shape
    rows = [
        ["measurements, M", f"{M}", "rows of Y" + _named(names.rows)],
        ["signals, P", f"{P}", "columns of Y" + _named(names.columns)],
        ["observed", f"{100 * seen.mean():.4g}%", f"{int((~seen).sum()):,} of {seen.size:,} entries are missing"],
        ["mean", f"{values.mean():.4g}", "in the units of Y"],
        ["standard deviation", f"{values.std():.4g}", "in the units of Y"],
        ["range", f"{values.min():.4g} to {values.max():.4g}", "in the units of Y"],
    ]
    known = None if observed.F_prime is None else int(np.shape(observed.F_prime)[1])
    if known:
        rows.append(["F′", f"{M} x {known}", "what is known of the matrix beforehand"])
    rows += [[name, f"{float(value):.4g}", "as the file says"] for name, value in measured.parameters.items()]
    atoms = known or int(measured.parameters.get("n_atoms", min(M, P, MOST_ATOMS)))
    return {
        "rows": rows,
        "warnings": warnings(measured, atoms),
        "corner": _corner(Y, seen, names),
        "M": M,
        "P": P,
        "n_atoms": atoms,
        "f_prime": known is not None,
        "given": {name: written(float(value)) for name, value in measured.parameters.items() if name != "n_atoms"},
    }


def warnings(measured: Measurements, n_atoms: int) -> list[str]:
    """What looks wrong with the data themselves: the checks of `solve` that need no fit."""
    from ..inference.starts import automatic
    from ..inference.suspicious_data import of_data, off_centre, orientation
    from ..inference.suspicious_table import Table
    from ..report.solution import sentence

    observed = measured.observed
    Y = np.asarray(observed.Y, dtype=float)
    seen = np.isfinite(Y) if observed.mask is None else np.asarray(observed.mask, bool)
    table = Table(np.where(seen, Y, 0.0), seen, measured.names.rows)
    model, _ = automatic(observed._replace(Y=table.Y, mask=seen))
    with np.errstate(all="ignore"):
        found, rest = of_data(table, model, n_atoms, "auto" if off_centre(table.Y, seen, n_atoms) else None)
        turned = orientation(rest, n_atoms) if rest.power > 0 else None
    return [sentence(each) for each in (*found, *([turned] if turned else []))]


def solve_file(measured: Measurements, question: dict[str, Any], say: Say) -> None:
    """Solve it as `spinodal solve` would."""
    from .. import inference

    given = question["options"]
    M, P = measured.observed.Y.shape
    has_hint = measured.observed.F_prime is not None
    N = int(np.shape(measured.observed.F_prime)[1]) if has_hint else given["n_atoms"]
    if max(M, N) * P > MOST_ENTRIES or N > MOST_ATOMS:
        raise InputError(
            f"n_atoms must be at most {min(MOST_ATOMS, MOST_ENTRIES // P)} with {P} signals on this page, but {N} was given; "
            "`spinodal solve` has no such limit."
        )
    told: dict[str, Any] = {
        name: given[name] if given[name] is not None else measured.parameters.get(name) for name in ("density", "noise_variance")
    }
    if given["channel"] is not None:
        told["noise_variance"] = None  # the channel says it
    if has_hint:
        told["eta"] = given["eta"] if given["eta"] is not None else measured.parameters.get("eta")
    solution = inference.solve(
        measured.observed,
        n_atoms=None if has_hint else N,
        channel=given["channel"],
        center=False if given["keep_means"] else "auto",
        seed=given["seed"],
        progress=_progress(say),
        **told,
    )
    solution = replace(solution, names=measured.names)
    say({"progress": ["report", int(solution.iterations), float(solution.residual)]})
    say({"ended": str(solution.status), "result": result(solution), "files": files(solution, measured, question)})


def _progress(say: Say) -> Callable[[str, int, float], None]:
    last: list[Any] = [-np.inf, ""]

    def told(stage: str, iteration: int, residual: float) -> None:
        now = time.monotonic()
        if now - last[0] >= _PAUSE or stage != last[1]:
            last[:] = [now, stage]
            say({"progress": [stage, int(iteration), None if np.isnan(residual) else float(residual)]})

    return told


def result(solution: Any) -> dict[str, Any]:
    """What the page says of a solution, in the report's words."""
    from ..report import solution as words

    status, outcome = words.status(solution), words.predicted(solution)
    facts = [*words.facts(solution), ("expected", words.expectation(solution, outcome))]
    return {
        "trusted": status.trusted,
        "verdict": words.VERDICT[status],
        "reason": words.sentence(str(solution.reason)),
        "next": words.next_step(solution, outcome),
        "facts": [[name, text] for name, text in facts if name not in ("reason", "warning")],
        "warnings": [words.sentence(each) for each in solution.warnings],
        "place": place(solution) if outcome is not None else None,
    }


def place(solution: Any) -> dict[str, str] | None:
    """The nearest state of the sliders: nothing where the model is not one of theirs.

    The sliders' nonzeros have variance 1, so the noise is counted in units of theirs. Missing entries are like fewer of both.
    """
    problem = solution.problem
    rho, slab, noise = getattr(problem.prior.X, "rho", None), getattr(problem.prior.X, "variance", None), problem.noise_variance
    if rho is None or slab is None or noise is None or float(problem.prior.X.mean) != 0:
        return None
    share = float(problem.observed_fraction)
    eta = np.inf if problem.eta is None else float(problem.eta)
    values = {
        "alpha": share * float(problem.alpha),
        "rho": float(rho),
        "eta": eta,
        "delta": float(noise) / float(slab),
        "pi": share * float(problem.pi),
    }
    highest = {name: max(value for value in VALUES[name] if np.isfinite(value)) for name in VALUES}
    inside = {name: value if np.isinf(value) else float(np.clip(value, VALUES[name][0], highest[name])) for name, value in values.items()}
    return {name: written(VALUES[name][nearest(name, value)]) for name, value in inside.items()}


def files(solution: Any, measured: Measurements, question: dict[str, Any]) -> dict[str, str]:
    """The report and the results as files, in base64."""
    from ..io.write import save_solution
    from ..report import solution as words
    from ..report.page import report_html

    status = words.status(solution)
    about = {
        **{name: value for name, (value, _) in words.parameters(solution).items()},
        "method": "amp",
        "status": str(status),
        "reason": str(solution.reason),
        "trusted": status.trusted,
        "iterations": int(solution.iterations),
        "residual": float(solution.residual),
        "warnings": list(solution.warnings),
        "learned": list(solution.learned),
        "seed": question["options"]["seed"],
    }
    page = report_html(solution, title=printable(question["name"]), truth=measured.truth)
    made = {"report.html": page.encode("utf-8", "replace")}
    with tempfile.TemporaryDirectory(prefix="spinodal-") as folder:
        for name in ("solution.npz", "solution.csv"):
            save_solution(solution, Path(folder, name), about)
            made[name] = Path(folder, name).read_bytes()
    return {name: base64.b64encode(content).decode() for name, content in made.items()}


def _named(names: tuple[str, ...] | None) -> str:
    return "" if names is None else f", named {_short(names[0])}, ..."


def _short(name: str) -> str:
    name = printable(name)
    return name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"


def _corner(Y: np.ndarray, seen: np.ndarray, names: Any) -> dict[str, Any]:
    """The upper left corner of Y, to see whether it was read as meant."""
    rows, columns = (
        [_short(name) for name in (given or tuple(str(k + 1) for k in range(size)))[:most]]
        for given, size, most in ((names.rows, Y.shape[0], _ROWS), (names.columns, Y.shape[1], _COLUMNS))
    )
    cells = [[f"{Y[i, k]:.5g}" if seen[i, k] else "missing" for k in range(len(columns))] for i in range(len(rows))]
    return {"rows": rows, "columns": columns, "cells": cells}
