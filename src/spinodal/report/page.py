"""One page about one solution, complete in itself: parameters, status, fit, atoms, uncertainties, and the place in the phase diagram."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..errors import InputError, check_count
from ..evaluation.record import against_truth
from ..figures import report as draw
from ..figures import theory as figures
from ..figures.palette import GREY, PHASE_COLOURS, phase_key
from ..figures.sensors import NINETY
from ..inference.search.learning import IN_WORDS
from ..inference.solution import Solution
from ..io.write import named_file, whole_file
from ..model.model import Problem
from ..model.sampling import Instance
from ..pair import Pair
from ..theory import LEAST_GAIN, Outcome, pi_gain, spinodal
from . import sensors as of_sensors
from . import solution as words
from .phases import PHASE_IN_WORDS, percent, recovered_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A colour that nothing is drawn in; on the page it becomes the colour of the text.
_INK = "#010203"
# Colours of the figures that change with the page's, light or dark.
_ADAPTED = {
    _INK: "currentColor",
    "#000000": "currentColor",
    GREY: "var(--soft)",
    **{colour: f"var(--{phase_key(phase)})" for phase, colour in PHASE_COLOURS.items()},
}
# Names of the parameters with the paper's letters.
_NAMES = IN_WORDS | {"density": "density of X, ρ", "noise_variance": "noise variance, Δ", "eta": "error of F′, η"}
# Signals named as explained worst, and codes listed with their intervals.
_WORST, _INTERVALS = 3, 8
_LIGHT = """color-scheme: light; --paper: #fff; --ink: #1b1f24; --soft: #5f6368; --line: #ddd; --impossible: #e8e8e8; --hard: #fbe3c8;
  --easy: #dff0e6; --nothing-to-gain: #b4b8be;"""
_DARK = """color-scheme: dark; --paper: #16181c; --ink: #e6e6e6; --soft: #a0a7b0; --line: #444; --impossible: #333; --hard: #5a4020;
  --easy: #1f4030; --nothing-to-gain: #585f69;"""
# The system's colours unless whoever shows the page says otherwise (data-theme); on paper always the light ones.
_STYLE = (
    f"""
:root {{ {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {_DARK} }} }}
@media screen {{ :root[data-theme=dark] {{ {_DARK} }} }}
"""
    + """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { background: var(--paper); color: var(--ink); }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.status { font-size: 1.1rem; padding: .1rem .9rem; border-left: .35rem solid #009E73; background: var(--easy); }
.status.bad { border-color: #D55E00; background: var(--hard); }
.status.hard { border-color: #E69F00; background: var(--hard); }
.status.impossible { border-color: var(--soft); background: var(--impossible); }
.status.nothing-to-gain { border-color: var(--soft); background: var(--nothing-to-gain); }
.warnings { margin-top: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem 1.2rem .2rem 0; border-bottom: 1px solid var(--line); }
td.number, th:nth-child(2) { text-align: right; } td.number { font-variant-numeric: tabular-nums; }
footer { color: var(--soft); font-size: .9rem; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
@media print { section { break-inside: avoid; } body { margin: 0; } }
"""
)


def check_atom_shape(shape: tuple[int, int], M: int) -> None:
    """Refuse a shape of images that the M entries of an atom don't fill."""
    for length in shape:
        check_count("atom_shape", length)
    if shape[0] * shape[1] != M:
        raise InputError(f"atom_shape must be H W with H x W = {M}, the rows of Y, but {shape[0]} {shape[1]} was given.")


def place_in_words(problem: Problem, n: int, pi_spinodal: float | None) -> str:
    """How many signals message passing needs with N = n, and how many there are: what the spinodal says, in a sentence."""
    if pi_spinodal is None:
        return "With more signals the errors would fall smoothly: there is no number at which they jump."
    if np.isinf(pi_spinodal):
        return "No number of signals would bring message passing to a better answer."
    if pi_spinodal == 0:
        return "Message passing finds the best answer with any number of signals."
    times = float(problem.pi) / pi_spinodal
    many = f"{times:.0f}" if times > 10 else f"{times:.1f}" if times > 1 else f"{times:.2g}"
    needed = f"With {np.ceil(pi_spinodal * n):.0f} signals or more (the spinodal, π = {_number(pi_spinodal)}) nothing stops message passing"
    return f"{needed}; these data have {many} times as many."


def report_html(
    solution: Solution,
    *,
    title: str = "your data",
    truth: Pair[Any] | None = None,
    method: str = "amp",
    atom_shape: tuple[int, int] | None = None,
) -> str:
    """The page. `atom_shape` (H, W) draws the atoms as images; `truth` adds the errors against it.

    Examples:
        >>> import spinodal as sp
        >>> from spinodal.report.page import report_html
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> solution = sp.solve(sp.sample(problem, 20, seed=1).observed, problem)
        >>> report_html(solution, title="my data").startswith("<!DOCTYPE html>")
        True
    """
    import matplotlib

    words.one_instance(solution)
    if atom_shape is not None:
        check_atom_shape(atom_shape, np.shape(solution.mean.F)[0])
    outcome = words.predicted(solution)
    style: Any = draw.figure_style(_INK) | {"svg.hashsalt": "spinodal"}
    with matplotlib.rc_context(style):
        sections = [
            _parameters(solution, method),
            *([_sensors(solution)] if solution.sensors is not None else []),
            _place(solution, outcome),
            _convergence(solution),
            _fit(solution),
            _atoms(solution, atom_shape),
            _uncertainty(solution),
            *([_truth(solution, truth, outcome)] if truth is not None else []),
        ]
    status = words.status(solution)
    heading = escape(title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{heading}: factors found by spinodal</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>Factors of {heading}</h1>
<div class="status {"bad" if not status.trusted else phase_key(outcome.phase) if outcome else ""}">
<p><strong>{escape(words.VERDICT[status])}</strong> {escape(words.sentence(str(solution.reason)))}</p>
<p>Next step: {escape(words.next_step(solution, outcome))}</p>
</div>
{_warnings(solution)}{"".join(sections)}
</main>
<footer><p>Y = F X/√N + noise. Made by spinodal {__version__}. {escape(figures.CAVEAT)}</p></footer>
</body>
</html>
"""


def write_report(solution: Solution, path: str | Path, **options: Any) -> Path:
    """Write the page to a file ending in .html, whole or not at all. The options are those of `report_html`.

    Examples:
        >>> from pathlib import Path
        >>> import tempfile
        >>> import spinodal as sp
        >>> from spinodal.report.page import write_report
        >>> problem = sp.Problem.sparse(alpha=0.6, pi=6.0, rho=0.1, eta=0.01, noise_variance=1e-4)
        >>> solution = sp.solve(sp.sample(problem, 20, seed=1).observed, problem)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report(solution, Path(folder, "page.html")).name
        'page.html'
    """
    target = named_file("path", path, ".html")
    page = report_html(solution, **options)
    with whole_file(target) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")
    return target


def _warnings(solution: Solution) -> str:
    """A box with the signs that the data do not follow the model, if there are any."""
    if not solution.warnings:
        return ""
    items = "".join(f"<li>{escape(words.sentence(warning))}</li>\n" for warning in solution.warnings)
    title = "Something looks wrong with the data or the model."
    return f'<div class="status bad warnings">\n<p><strong>{title}</strong></p>\n<ul>\n{items}</ul>\n</div>\n'


def _number(value: float) -> str:
    return "∞" if value == np.inf else "−∞" if value == -np.inf else "–" if np.isnan(value) else f"{value:.4g}"


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{''.join(parts)}\n</section>\n"


def _say(sentence: str, kind: str = "") -> str:
    return f"<p{f' class={kind}' if kind else ''}>{escape(sentence)}</p>\n"


def _table(columns: list[str], rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of a name, a number and whatever follows."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    cells = ("".join(f"<td{' class=number' if k == 1 else ''}>{escape(cell)}</td>" for k, cell in enumerate(row)) for row in rows)
    table = f"<table>\n<tr>{head}</tr>\n{''.join(f'<tr>{row}</tr>' for row in cells)}\n</table>"
    return f'<div class="wide">{table}</div>\n'


def _svg(figure: Figure, label: str) -> str:
    """The figure as part of the page, in the page's colours."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, dpi=100, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    # Groups are numbered alike in every figure, and names must not come twice in a page.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    for colour, adapted in _ADAPTED.items():
        text = re.sub(rf"(fill|stroke): {colour}\b", rf"\1: {adapted}", text, flags=re.IGNORECASE)
    named = text.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
    return f"<figure>{named}</figure>\n"


def _sensors(solution: Solution) -> str:
    columns, rows = of_sensors.standing_out(solution)
    picture = _svg(of_sensors.sensors_picture(solution), "Gain, offset and health of every sensor")
    told = _say(f"{words.sentence(of_sensors.sensors_in_words(solution))} Gains are relative to the typical sensor.")
    return _section("The sensors", told, picture, _say("Those that stand out most:"), _table(columns, rows))


def _parameters(solution: Solution, method: str) -> str:
    (M, N), P = np.shape(solution.mean.F), np.shape(solution.mean.X)[1]
    rows = [
        ("measurements, M", str(M), "rows of Y"),
        ("signals, P", str(P), "columns of Y"),
        ("atoms, N", str(N), "columns of F"),
        ("α = M/N", _number(M / N), ""),
        ("π = P/N", _number(P / N), ""),
        ("observed entries", f"{100 * float(solution.problem.observed_fraction):.4g}%", ""),
        *((_NAMES.get(name, name), _number(value), how) for name, (value, how) in words.parameters(solution).items()),
        ("method", method, ""),
        ("iterations", str(int(solution.iterations)), ""),
        *([("seconds", _number(float(solution.seconds)), "")] if solution.seconds is not None else []),
        ("mean squared residual", _number(float(solution.residual)), "squared units of Y"),
        ("free entropy", _number(float(solution.free_entropy)), "per entry of X; higher is better"),
    ]
    return _section("Parameters", _table(["quantity", "value", "remark"], rows))


def _place(solution: Solution, outcome: Outcome | None) -> str:
    title = "Where these data lie"
    if not words.status(solution).trusted:
        return _section(
            title,
            _say(
                "There is no prediction, because it would rest on a run that can't be trusted. Take the next step above, then look again."
            ),
        )
    if outcome is None:
        return _section(title, _say("The theory does not cover this kind of noise."))
    problem, pi_spinodal = solution.problem, spinodal(solution.problem)
    N = np.shape(solution.mean.F)[1]
    needed = [place_in_words(problem, N, pi_spinodal)]
    if outcome.phase == "nothing to gain" and np.isfinite(enough := pi_gain(problem)):
        needed.append(f"With {np.ceil(enough * N):.0f} signals (π = {_number(enough)}), {percent(LEAST_GAIN)} of F or X could be learned.")
    parts = [
        f"<p><strong>{escape(outcome.phase.capitalize())}</strong>: {escape(PHASE_IN_WORDS[outcome.phase])}</p>\n",
        _say(f"Message passing is expected to recover {recovered_in_words(outcome.amp)} beyond what was known without these data."),
        _say(" ".join(needed)),
    ]
    rows = [
        (f"{name}, {who}", _number(getattr(point.mse, name)), _recovered(getattr(point.recovered, name)))
        for name in ("F", "X")
        for who, point in (("best possible", outcome.bayes), ("message passing", outcome.amp))
    ]
    parts.append(_table(["expected", "mean squared error", "recovered"], rows))
    if hasattr(problem.prior.X, "rho"):
        parts.append(_svg(draw.position_figure(problem, pi_spinodal), "Phase diagram with these data in it"))
    return _section(title, *parts)


def _recovered(share: float) -> str:
    return "known beforehand" if np.isnan(share) else percent(share)


def _convergence(solution: Solution) -> str:
    if int(solution.iterations) == 0:
        return _section("Convergence", _say("This method has no iterations to report."))
    return _section("Convergence", _svg(draw.convergence_figure(solution), "Mean squared residual against the iteration"))


def _fit(solution: Solution) -> str:
    said, ratio = f"The mean squared residual is {_number(float(solution.residual))}", words.noise_ratio(solution)
    said += "; no noise variance was assumed." if ratio is None else f", {_number(ratio)} times the noise variance."
    if verdict := words.fit_in_words(solution):
        said += f" {words.sentence(verdict)}"
    if solution.observed is None:
        return _section("Residuals", _say(said))
    left = draw.residuals(solution)
    return _section(
        "Residuals",
        _say(said),
        _svg(draw.residual_figure(left, draw.noise_of(solution)), "Histogram of the residuals, and each signal's"),
        _worst_signals(solution, left),
    )


def _worst_signals(solution: Solution, left: np.ndarray) -> str:
    """Which signals are explained worst, by their names if they have some."""
    each = draw.signal_residuals(left)
    names = solution.names.columns or [str(k + 1) for k in range(each.size)]
    worst = np.argsort(-each, kind="stable")[:_WORST]
    return _say("Signals explained worst: " + ", ".join(f"{names[k]} ({_number(float(each[k]))})" for k in worst) + ".")


def _atoms(solution: Solution, shape: tuple[int, int] | None) -> str:
    F, used = np.asarray(solution.mean.F, dtype=float), draw.usage(solution)
    order = np.argsort(-used, kind="stable")
    said = "Means of the entries of F." if shape is None else "Atoms as images, the most used first, each on its own scale."
    if shape is not None and order.size > draw.MOST_IMAGES:
        said += f" {draw.MOST_IMAGES} of {order.size} are shown."
    often = f"The most used atom is {order[0] + 1}, the least used {order[-1] + 1}; their mean squares are {_number(used[order[0]])} and "
    return _section(
        "Atoms",
        _say(said),
        _svg(draw.atoms_figure(F, order, shape, solution.names.rows), "The atoms"),
        _say(f"{often}{_number(used[order[-1]])} times what the prior expects."),
        _svg(draw.usage_figure(used), "Usage of each atom"),
        *_reproducibility(solution),
    )


def _reproducibility(solution: Solution) -> list[str]:
    """How often other runs found each atom; nothing where there was one run."""
    compared = words.runs_in_words(solution)
    if not compared:
        return []
    share = np.asarray(solution.reproducibility, dtype=float)
    return [
        _say(f"Runs: {compared}. A right atom is the same in most runs; a wrong one is wrong in its own way in each."),
        _svg(draw.reproducibility_figure(share), "Share of the other runs that found each atom"),
    ]


def _uncertainty(solution: Solution) -> str:
    def quantiles(variance: Any) -> tuple[str, str]:
        finite = variance[np.isfinite(variance)]
        middle, high = np.sqrt(np.quantile(finite, (0.5, 0.95))) if finite.size else (np.nan, np.nan)
        return _number(float(middle)), _number(float(high))

    rows = [(name, *quantiles(getattr(solution.variance, name))) for name in ("F", "X")]
    return _section(
        "Uncertainty",
        _say("Standard deviations of the entries given the data, as reported. They assume that the priors and the noise are right."),
        _table(["entries of", "median", "95% are below"], rows),
        _svg(draw.uncertainty_figure(solution), "Histograms of the reported standard deviations"),
        *_intervals(solution),
    )


def _intervals(solution: Solution) -> list[str]:
    """The largest codes with their intervals."""
    mean, variance = (np.asarray(pair.X, dtype=float) for pair in (solution.mean, solution.variance))
    if not words.status(solution).trusted or not np.isfinite(mean).all() or not np.isfinite(variance).all():
        return []
    names = solution.names.columns or [str(k + 1) for k in range(mean.shape[1])]
    largest = np.argsort(-np.abs(mean), axis=None, kind="stable")[:_INTERVALS]
    rows = []
    for atom, signal in zip(*np.unravel_index(largest, mean.shape), strict=True):
        reach = NINETY * np.sqrt(variance[atom, signal])
        low, high = (_number(float(mean[atom, signal] + side * reach)) for side in (-1, 1))
        rows.append((f"atom {atom + 1} in signal {names[signal]}", _number(float(mean[atom, signal])), f"{low} to {high}"))
    return [_say("The largest entries of X, each with its 90% interval:"), _table(["entry", "mean", "90% interval"], rows)]


def _truth(solution: Solution, truth: Pair[Any], outcome: Outcome | None) -> str:
    found = against_truth(solution, truth, outcome)
    expected = found.get("predicted")
    raw, F, X = "", "", ""
    if expected is not None:
        raw = f"{_number(expected['mse_F'] + expected['scale_floor'])} expected, atoms' free scales included"
        F, X = (f"{_number(expected[name])} expected" for name in ("mse_F", "mse_X"))
    observed = solution.observed
    # Without F' the atoms come in an order of their own, and entries can't be compared one by one.
    comparable = observed is not None and observed.F_prime is not None and np.shape(solution.mean.F) == np.shape(truth.F)
    rows = [
        *([("F, raw", _number(found["mse_F"]), raw)] if comparable else []),
        ("F, order, signs and scales fitted", _number(found["mse_F_aligned"]), F),
        ("X, order, signs and scales fitted", _number(found["mse_X_aligned"]), X),
        ("atoms recovered", f"{100 * found['atoms_recovered']:.4g}%", ""),
    ]
    parts = [_table(["mean squared error", "value", "theory"], rows)]
    if outcome is not None and comparable:
        figure = figures.recovery_figure(solution.problem, Instance(observed, truth), solution)  # type: ignore[arg-type]
        parts.append(_svg(figure, "Recovered against true signals, and reported against actual errors"))
    return _section("Against the truth", *parts)
