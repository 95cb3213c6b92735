"""Models, problems and scores as notebooks show them: small tables."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model.model import Model, Problem

if TYPE_CHECKING:
    from ..evaluation.scoring import Score


def table(rows: Iterable[tuple[str, ...]], heads: tuple[str, ...] = ()) -> str:
    """A table whose first column names its rows."""
    left = 'style="text-align:left"'
    head = f"<tr>{''.join(f'<th {left}>{escape(name)}</th>' for name in heads)}</tr>" if heads else ""
    body = "".join(
        f"<tr><th {left}>{escape(name)}</th>{''.join(f'<td {left}>{escape(cell)}</td>' for cell in cells)}</tr>" for name, *cells in rows
    )
    return f"<div><table>{head}{body}</table></div>"


def model_table(model: Model) -> str:
    """What is assumed; of a problem, also its ratios."""
    rows = [
        ("matrix F", repr(model.prior.F)),
        ("signals X", repr(model.prior.X)),
        ("channel", repr(model.channel)),
        ("known of F", _knowledge(model)),
    ]
    if isinstance(model, Problem):
        rows += [
            ("α = M/N", f"{_number(model.alpha)} measurements per atom"),
            ("π = P/N", f"{_number(model.pi)} signals per atom"),
        ]
        if np.ndim(model.observed_fraction) or float(model.observed_fraction) < 1:
            rows.append(("observed", f"{_number(model.observed_fraction)} of the entries of Y"))
    return table([(type(model).__name__, "Y = F X/√N through a channel"), *rows])


def score_table(score: Score) -> str:
    """Errors of F and X, raw and after what Y can't see was fitted."""
    names = {"mse": "raw", "mse_scaled": "scales fitted", "mse_aligned": "order, signs and scales fitted"}
    rows: list[tuple[str, ...]] = [(words, *(_number(value) for value in getattr(score, name))) for name, words in names.items()]
    if np.ndim(score.atoms_recovered) == 0:
        rows.append(("atoms recovered", f"{float(score.atoms_recovered):.0%}", ""))
        rows.append(("median signal", "", _number(np.median(score.signals))))
    return table(rows, ("mean squared error", "matrix F", "signals X"))


def _knowledge(model: Model) -> str:
    words = {0.0: " (known exactly)", float("inf"): " (nothing)"}
    eta = model.eta
    return repr(model.knowledge) + (words.get(float(eta), "") if eta is not None and not np.ndim(eta) else "")


def _number(value: Any) -> str:
    return f"{float(value):.4g}" if np.ndim(value) == 0 else f"{np.shape(value)[0]} instances, median {np.median(value):.4g}"
