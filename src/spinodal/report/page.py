"""One page about one solution, complete in itself: parameters, status, fit, atoms, uncertainties, and the place in the phase diagram."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import __version__
from ..errors import InputError, check_count
from ..evaluation.scoring import scale_floor, score
from ..figures import report as draw
from ..figures import theory as figures
from ..model.model import Problem
from ..model.sampling import Instance, Observed
from ..pair import Pair
from ..theory import Outcome, outcomes, spinodal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..inference import Solution

# A colour that nothing is drawn in; on the page it becomes the colour of the text.
_INK = "#010203"
# Colours of the figures that change with the page's, light or dark.
_ADAPTED = {
    _INK: "currentColor",
    "#000000": "currentColor",
    figures.GREY: "var(--soft)",
    **{colour: f"var(--{phase})" for phase, colour in figures.PHASE_COLOURS.items()},
}
# Residuals of so many times the noise variance are not noise.
_UNEXPLAINED = 1.5
_STATUS = {
    "converged": "The run converged: the estimates no longer change.",
    "max_iterations": "The run was stopped before it settled. Allow more iterations before relying on it.",
    "diverged": "The run came apart, and the best state on its way is shown here. Do not rely on it.",
    "degenerate": "The run settled on what is not a solution: nothing was learned, or atoms are copies, unused or overused.",
}
_PHASE = {
    "easy": "message passing is expected to reach the best error that is possible.",
    "hard": "a better error is possible, but message passing is expected to stop before it.",
    "impossible": "the data are expected not to determine F and X: no method can do well.",
}
_NAMES = {"rho": "density of X, ρ", "delta": "noise variance, Δ", "eta": "error of F′, η"}
_STYLE = """
:root { color-scheme: light dark; --soft: #666; --line: #ddd; --impossible: #e8e8e8; --hard: #fbe3c8; --easy: #dff0e6; }
@media (prefers-color-scheme: dark) { :root { --soft: #999; --line: #444; --impossible: #333; --hard: #5a4020; --easy: #1f4030; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e6e6e6; } }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.status { font-size: 1.1rem; padding: .6rem .9rem; border-left: .35rem solid #009E73; background: var(--easy); }
.status.bad { border-color: #D55E00; background: var(--hard); }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem 1.2rem .2rem 0; border-bottom: 1px solid var(--line); }
td.number, th:nth-child(2) { text-align: right; } td.number { font-variant-numeric: tabular-nums; }
footer { color: var(--soft); font-size: .9rem; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
"""


class Run(NamedTuple):
    """What the page says of the run itself. `parameters` maps a name to its value and a note, such as "given" or "estimated"."""

    title: str
    parameters: Mapping[str, tuple[float, str]]
    method: str = "amp"
    seconds: float | None = None
    atom_shape: tuple[int, int] | None = None


def check_atom_shape(shape: tuple[int, int], M: int) -> None:
    """Refuse a shape of images that the M entries of an atom don't fill."""
    for length in shape:
        check_count("atom_shape", length)
    if shape[0] * shape[1] != M:
        raise InputError(f"atom_shape must be H W with H x W = {M}, the rows of Y, but {shape[0]} {shape[1]} was given.")


def place_in_words(problem: Problem, outcome: Outcome, pi_spinodal: float | None) -> str:
    """Where the problem lies, in a few words: "easy, 3.1 spinodals"."""
    if pi_spinodal is None:
        return f"{outcome.phase}, no transition"
    if np.isinf(pi_spinodal):
        return f"{outcome.phase}, the spinodal out of reach"
    if pi_spinodal == 0:
        return f"{outcome.phase}, with any number of signals"
    times = float(problem.pi) / pi_spinodal
    return f"{outcome.phase}, {times:.{0 if times > 10 else 1}f} spinodals" if times > 1 else f"{outcome.phase}, {times:.2g} spinodals"


def report_html(observed: Observed, problem: Problem, solution: Solution, run: Run, truth: Pair[Any] | None = None) -> str:
    """The page. `problem` has the priors, noise and eta that were used, and alpha = M/N, pi = P/N of the data."""
    import matplotlib

    if run.atom_shape is not None:
        check_atom_shape(run.atom_shape, np.shape(observed.Y)[0])
    style: Any = draw.figure_style(_INK) | {"svg.hashsalt": "spinodal"}
    with matplotlib.rc_context(style):
        sections = [
            _parameters(observed, problem, solution, run),
            _place(problem, solution),
            _convergence(problem, solution),
            _fit(observed, problem, solution),
            _atoms(problem, solution, run.atom_shape),
            _uncertainty(problem, solution),
            *([_truth(observed, problem, solution, truth)] if truth is not None else []),
        ]
    status = str(solution.status)
    title = escape(run.title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}: factors found by spinodal</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Factors of {title}</h1>
<p class="status{"" if status == "converged" else " bad"}">{escape(_STATUS.get(status, status))}</p>
{"".join(sections)}
<footer><p>Y = F X/√N + noise. Made by spinodal {__version__}. {escape(figures.CAVEAT)}</p></footer>
</body>
</html>
"""


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
    return f"<table>\n<tr>{head}</tr>\n{''.join(f'<tr>{row}</tr>' for row in cells)}\n</table>\n"


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


def _parameters(observed: Observed, problem: Problem, solution: Solution, run: Run) -> str:
    (M, N), P = np.shape(solution.mean.F), np.shape(observed.Y)[1]
    fraction = float(problem.observed_fraction)
    rows = [
        ("measurements, M", str(M), "rows of Y"),
        ("signals, P", str(P), "columns of Y"),
        ("atoms, N", str(N), "columns of F"),
        ("α = M/N", _number(M / N), ""),
        ("π = P/N", _number(P / N), ""),
        ("observed entries", f"{100 * fraction:.4g}%", ""),
        *((_NAMES.get(name, name), _number(float(value)), note) for name, (value, note) in run.parameters.items()),
        ("method", run.method, ""),
        ("iterations", str(int(solution.iterations)), ""),
        *([("seconds", _number(run.seconds), "")] if run.seconds is not None else []),
        ("mean squared residual", _number(float(solution.residual)), "squared units of Y"),
        ("free entropy", _number(float(solution.free_entropy)), "of each entry of X; higher is better"),
    ]
    return _section("Parameters", _table(["", "value", ""], rows))


def _place(problem: Problem, solution: Solution) -> str:
    outcome, pi_spinodal = outcomes([problem])[0], spinodal(problem)
    pi, N = float(problem.pi), np.shape(solution.mean.F)[1]
    parts = [
        f"<p><strong>{escape(place_in_words(problem, outcome, pi_spinodal).capitalize())}</strong>: {escape(_PHASE[outcome.phase])}</p>\n"
    ]
    if pi_spinodal is not None and 0 < pi_spinodal < np.inf:
        side = "more" if pi > pi_spinodal else "fewer"
        parts.append(
            _say(f"The spinodal is at π = {_number(pi_spinodal)}, or {np.ceil(pi_spinodal * N):.0f} signals; these data have {side}.")
        )
        if outcome.phase == "easy" and pi <= pi_spinodal:
            parts.append(_say("Nothing better exists at this number of signals, but above the spinodal it does."))
    power = Pair(F=float(problem.prior.F.second_moment()), X=float(problem.prior.X.second_moment()))
    rows = [
        (f"{name}, {who}", _number(getattr(point.mse, name)), f"{100 * getattr(point.mse, name) / getattr(power, name):.3g}% of its power")
        for name in ("F", "X")
        for who, point in (("best possible", outcome.bayes), ("message passing", outcome.amp))
    ]
    parts.append(_table(["expected mean squared error", "", ""], rows))
    if hasattr(problem.prior.X, "rho"):
        parts.append(_svg(draw.position_figure(problem, pi_spinodal), "Phase diagram with these data in it"))
    return _section("Where these data lie", *parts)


def _convergence(problem: Problem, solution: Solution) -> str:
    if int(solution.iterations) == 0:
        return _section("Convergence", _say("This method has no iterations to report."))
    figure = draw.convergence_figure(solution, float(problem.noise_variance))
    return _section("Convergence", _svg(figure, "Mean squared residual against the iteration"))


def _fit(observed: Observed, problem: Problem, solution: Solution) -> str:
    left, noise = draw.residuals(observed, solution), float(problem.noise_variance)
    words = f"The mean squared residual is {_number(float(solution.residual))}"
    if noise > 0:
        ratio = float(solution.residual) / noise
        words += f", {_number(ratio)} times the noise variance. "
        words += (
            "Noise alone does not explain it." if ratio > _UNEXPLAINED else "Below 1 is as it should be: F and X were fitted to these data."
        )
    else:
        words += "; no noise was assumed."
    return _section("Residuals", _say(words), _svg(draw.residual_figure(left, noise), "Histogram of the residuals, and each signal's"))


def _atoms(problem: Problem, solution: Solution, shape: tuple[int, int] | None) -> str:
    F, used = np.asarray(solution.mean.F, dtype=float), draw.usage(problem, solution)
    order = np.argsort(-used, kind="stable")
    words = "Means of the entries of F." if shape is None else "Atoms as images, the most used first, each on its own scale."
    if shape is not None and order.size > draw.MOST_IMAGES:
        words += f" {draw.MOST_IMAGES} of {order.size} are shown."
    often = f"The most used atom is {order[0] + 1}, the least used {order[-1] + 1}; their mean squares are {_number(used[order[0]])} and "
    return _section(
        "Atoms",
        _say(words),
        _svg(draw.atoms_figure(F, order, shape), "The atoms"),
        _say(f"{often}{_number(used[order[-1]])} times what the prior expects."),
        _svg(draw.usage_figure(used), "Usage of each atom"),
    )


def _uncertainty(problem: Problem, solution: Solution) -> str:
    def quantiles(variance: Any) -> tuple[str, str]:
        finite = variance[np.isfinite(variance)]
        middle, high = np.sqrt(np.quantile(finite, (0.5, 0.95))) if finite.size else (np.nan, np.nan)
        return _number(float(middle)), _number(float(high))

    rows = [(name, *quantiles(getattr(solution.variance, name))) for name in ("F", "X")]
    return _section(
        "Uncertainty",
        _say("Standard deviations of the entries given the data, as reported. They assume that the priors and the noise are right."),
        _table(["", "median", "95% are below"], rows),
        _svg(draw.uncertainty_figure(problem, solution), "Histograms of the reported standard deviations"),
    )


def _truth(observed: Observed, problem: Problem, solution: Solution, truth: Pair[Any]) -> str:
    found, expected = score(Pair(*solution.mean), truth), outcomes([problem])[0].amp.mse
    floor = scale_floor(problem, np.shape(solution.mean.F)[1])
    rows = [
        ("F, raw", _number(found.mse.F), f"{_number(expected.F + floor)} expected, atoms' free scales included"),
        ("F, order, signs and scales fitted", _number(found.mse_aligned.F), f"{_number(expected.F)} expected"),
        ("X, order, signs and scales fitted", _number(found.mse_aligned.X), f"{_number(expected.X)} expected"),
        ("atoms recovered", f"{100 * found.atoms_recovered:.4g}%", ""),
    ]
    parts = [_table(["mean squared error", "", ""], rows)]
    # Without F' the atoms come in an order of their own, and entries can't be compared one by one.
    if observed.F_prime is not None and np.shape(solution.mean.F) == np.shape(truth.F):
        figure = figures.recovery_figure(problem, Instance(observed, truth), solution)
        parts.append(_svg(figure, "Recovered against true signals, and reported against actual errors"))
    return _section("Against the truth in the file", *parts)
