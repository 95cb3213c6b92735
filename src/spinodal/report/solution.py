"""A solution in words, in a notebook and as labelled arrays: what was found, whether it can be relied on, and what to do next."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..inference.search.learning import IN_WORDS
from ..inference.search.learning import parameters as learnable
from ..inference.search.vote import SHARE
from ..inference.solution import Solution, Status
from .phases import ADVICE, recovered_in_words

if TYPE_CHECKING:
    import xarray

    from ..theory import Outcome

# How a run ended, in a sentence.
VERDICT = {
    Status.CONVERGED: "The run converged.",
    Status.MAX_ITERATIONS: "The run was stopped before it settled. Do not rely on it.",
    Status.DIVERGED: "The run came apart; the best state on its way is kept. Do not rely on it.",
    Status.DEGENERATE: "The run settled on something that is not a solution. Do not rely on it.",
    Status.MISFIT: "The run settled, but the data do not follow its model. Do not rely on it.",
    Status.UNCONFIRMED: "The run settled, but other runs do not confirm all of it. Do not rely on every atom.",
}
# What to do next, in a sentence.
NEXT_STEP = {
    Status.CONVERGED: "Check that the residuals look like noise, then use F and X with their variances.",
    Status.MAX_ITERATIONS: "Allow more iterations (max_iterations); if the run still does not settle, try fewer or more atoms, or more "
    "signals.",
    Status.DIVERGED: "Check the units of Y and the given parameters, or leave out noise_variance and density so that they are learned.",
    Status.DEGENERATE: "Try more atoms where residuals share directions that no atom has, and fewer where atoms are copies or unused; "
    "have a density learned that does not fit; or use more signals, or more runs (runs).",
    Status.MISFIT: "Name the channel that the reason suggests (channel=, or --channel on the command line).",
    Status.UNCONFIRMED: "Use only atoms of high reproducibility. More signals, fewer atoms or more runs (runs) may settle the others.",
}
# The same where F' says how many atoms there are and where to start.
WITH_F_PRIME = {
    Status.MAX_ITERATIONS: "Allow more iterations (max_iterations); if it still does not settle, use more signals or a better F_prime.",
    Status.DEGENERATE: "Check F_prime, and leave out eta, density and noise_variance so that they are learned; or use more signals.",
}
# What to do where a run is not confirmed for another reason than single atoms.
ALONE = "Leave runs out, so that runs from other starts can confirm the atoms."
UNSURE = "More signals, or less noise, would settle what the reason names; give a parameter that the data do not determine."
# Parameters of sensors, which are told whether they were learned or not.
OF_SENSORS = ("gain_spread", "offset_variance", "faulty")
# A mean squared residual of more than so many times the noise variance is not noise.
_UNEXPLAINED = 1.5
# Points and size of the picture in a notebook.
_POINTS, _WIDTH, _HEIGHT = 120, 260, 60


def one_line(solution: Solution) -> str:
    """The solution in a line: how it ended, its size, and how well it fits."""
    if solution.batched:
        return f"Solution of {_statuses(solution)}; {_size(solution)}"
    return f"Solution: {ending(solution)}, {_size(solution)}, {fit(solution)}{_warned(solution)}"


def summary(solution: Solution) -> str:
    """The solution on a page: size, status and reason, parameters, residual, what the theory expects, and the next step."""
    if solution.batched:
        return f"{one_line(solution)}\nsolution[k].summary() says more about one of them."
    outcome = predicted(solution)
    told = [("expected", expectation(solution, outcome)), ("next", next_step(solution, outcome))]
    rows = [("size", _size(solution)), *facts(solution), *told]
    return "\n".join(f"{name:<12}{words}" for name, words in rows)


def small_table(solution: Solution) -> str:
    """The solution as a notebook shows it: a table of a few lines and the course of the residual."""
    if solution.batched:
        return f"<p>{escape(one_line(solution))}</p>"
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(words)}</td></tr>'
        for name, words in (("size", _size(solution)), *facts(solution), ("next", next_step(solution, None)))
    )
    return f"<div><table>{rows}</table>{_course(solution)}</div>"


def to_xarray(solution: Solution) -> xarray.Dataset:
    """Means and variances as labelled arrays; everything else as attributes of numbers and words, which NetCDF files can hold."""
    import xarray

    one_instance(solution)
    (M, N), P = np.shape(solution.mean.F), np.shape(solution.mean.X)[1]
    rows, columns = (np.arange(size) if names is None else list(names) for names, size in zip(solution.names, (M, P), strict=True))
    arrays: dict[str, Any] = {
        "F": (("row", "atom"), solution.mean.F),
        "F_variance": (("row", "atom"), solution.variance.F),
        "X": (("atom", "column"), solution.mean.X),
        "X_variance": (("atom", "column"), solution.variance.X),
    }
    if solution.reproducibility is not None:
        arrays["reproducibility"] = (("atom",), solution.reproducibility)
    if solution.sensors is not None:
        (gain, gain_variance), (offset, offset_variance), faulty = solution.sensors
        of_rows = {"gain": gain, "gain_variance": gain_variance, "offset": offset, "offset_variance": offset_variance, "faulty": faulty}
        arrays |= {name: (("row",), value) for name, value in of_rows.items()}
    if solution.row_means is not None:
        arrays["row_means"] = (("row",), solution.row_means)
    attributes = {
        "status": str(solution.status),
        "reason": str(solution.reason),
        "iterations": int(solution.iterations),
        "runs": int(solution.runs),
        "residual": float(solution.residual),
        "free_entropy": float(solution.free_entropy),
        **{name: value for name, (value, _) in parameters(solution).items()},
        "learned": ", ".join(solution.learned),
        "warnings": "\n".join(solution.warnings),
        **({} if solution.seconds is None else {"seconds": float(solution.seconds)}),
    }
    return xarray.Dataset(arrays, {"row": rows, "atom": np.arange(N), "column": columns}, attributes)


def one_instance(solution: Solution) -> None:
    """Refuse a batch."""
    if solution.batched:
        raise InputError(f"solution must be of one instance, but it is a batch of {len(solution.mean.F)}; take one of them, solution[k].")


def status(solution: Solution) -> Status:
    """The status of a single instance."""
    return Status(str(solution.status))


def parameters(solution: Solution) -> dict[str, tuple[float, str]]:
    """The numbers of the model that was used, and whether each was given or learned. The slab's are left out at their defaults."""
    if solution.model is None:
        return {}
    prior = solution.model.prior.X
    of_channel = {name: value for name, value in learnable(solution.model).items() if name in OF_SENSORS or name in solution.learned}
    of_channel.pop("gain_median", None)  # a matter of units
    values = {"density": getattr(prior, "rho", None), "noise_variance": solution.model.noise_variance, "eta": solution.model.eta}
    values |= {name: value for name, value in of_channel.items() if values.get(name) is None}
    if values["density"] is not None:
        for name, default in (("mean", 0.0), ("variance", 1.0)):
            value = getattr(prior, name, None)
            if f"slab_{name}" in solution.learned or value not in (None, default):
                values[f"slab_{name}"] = value
    # Of a parameter that differs from row to row, the typical value.
    return {name: (float(np.median(value)), _origin(solution, name)) for name, value in values.items() if value is not None}


def _origin(solution: Solution, name: str) -> str:
    """Whether a parameter was given or learned and, where runs were compared, how far they agree on it."""
    if name not in solution.learned:
        return "given"
    learned = "learned" if status(solution).trusted else "learned, not to be relied on"
    if name not in solution.ranges:
        return learned
    low, high = solution.ranges[name]
    return f"{learned}; {low:.3g} to {high:.3g} in the runs compared"


def ending(solution: Solution) -> str:
    """The status and after how many iterations: "converged after 57 iterations"."""
    count = int(solution.iterations)
    return f"{status(solution)} after {count} iterations" if count else str(status(solution))


def fit(solution: Solution) -> str:
    """The residual, beside the noise variance if there is one."""
    words, ratio = f"residual {float(solution.residual):.3g}", noise_ratio(solution)
    return words if ratio is None else f"{words} ({ratio:.3g} of the noise variance)"


def runs_in_words(solution: Solution) -> str:
    """How many runs were compared, and how often they found the atoms; nothing where there was one run."""
    share = solution.reproducibility
    if share is None or int(solution.runs) < 2:
        return ""
    known = np.asarray(share)[np.isfinite(share)]
    if not known.size:
        return f"{int(solution.runs)} from different starts, none of which says anything about the others"
    least = int(np.nanargmin(share)) + 1
    return (
        f"{int(solution.runs)} from different starts; on average {100 * known.mean():.3g}% of the runs that did not start from an atom "
        f"found it, and {100 * known.min():.3g}% found atom {least}"
    )


def noise_ratio(solution: Solution) -> float | None:
    """The mean squared residual over the noise variance; None where there is no noise, or the channel has no such number."""
    noise = 0.0 if solution.model is None else solution.model.noise_variance
    return float(solution.residual) / float(noise) if noise is not None and float(noise) > 0 else None


def fit_in_words(solution: Solution) -> str:
    """What the residual says about the fit of a run that can be trusted; nothing where there is no noise to compare with."""
    ratio = noise_ratio(solution)
    if ratio is None or not status(solution).trusted:
        return ""
    if ratio > _UNEXPLAINED:
        return "noise alone does not explain it"
    if ratio > 1:
        return "a little more than noise, so look at the signals explained worst"
    return "as it should be, for F and X were fitted to these data"


def predicted(solution: Solution) -> Outcome | None:
    """What the theory says of data like these; None if the run can't be trusted, since it would rest on wrong parameters, or if its
    parameters are beyond those that the theory is computed for."""
    if not status(solution).trusted or solution.model is None:
        return None
    from ..theory import outcomes

    try:
        return outcomes([solution.problem])[0]
    except InputError:  # parameters beyond those that the theory is computed for
        return None


def next_step(solution: Solution, outcome: Outcome | None) -> str:
    """What to do next: what the status asks for, or else the phase. Warnings come first where the result can't be trusted."""
    ended = status(solution)
    if outcome is not None:
        return ADVICE.get(outcome.phase, NEXT_STEP[ended])
    first = "" if ended.trusted or not solution.warnings else f"First see to the warning{'s' * (len(solution.warnings) > 1)}. "
    return first + _after(solution, ended)


def _after(solution: Solution, ended: Status) -> str:
    """What the status asks for, as far as this solve allows it."""
    if solution.observed is not None and solution.observed.F_prime is not None:
        return WITH_F_PRIME.get(ended, NEXT_STEP[ended])
    if ended is Status.UNCONFIRMED:
        share = solution.reproducibility
        if share is None:
            return ALONE
        if not np.any(np.asarray(share) < SHARE):
            return UNSURE
    return NEXT_STEP[ended]


def expectation(solution: Solution, outcome: Outcome | None) -> str:
    """The phase, and the share of F and X that the theory expects message passing to recover, in words."""
    if outcome is None:
        return "not computed, because the run can't be trusted" if not status(solution).trusted else "not covered by the theory"
    return f"{outcome.phase}: {recovered_in_words(outcome.amp)} recovered, if the model is right"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith(".") else ".")


def facts(solution: Solution) -> list[tuple[str, str]]:
    """What is known of the run without asking the theory."""
    # An infinite eta says that nothing is known of F, which is no number to report.
    used = [f"{IN_WORDS.get(name, name)} {value:.4g} ({how})" for name, (value, how) in parameters(solution).items() if np.isfinite(value)]
    seconds = "" if solution.seconds is None else f" in {float(solution.seconds):.3g} s"
    verdict = fit_in_words(solution)
    return [
        ("status", f"{ending(solution)}{seconds}"),
        ("reason", str(solution.reason)),
        *([("runs", compared)] if (compared := runs_in_words(solution)) else []),
        *([("model", ", ".join(used))] if used else []),
        *_of_sensors(solution),
        ("fit", f"{fit(solution)}{'; ' if verdict else ''}{verdict}"),
        *(("warning", warning) for warning in solution.warnings),
    ]


def _of_sensors(solution: Solution) -> list[tuple[str, str]]:
    """What each sensor is like, in a line."""
    if solution.sensors is None:
        return []
    from .sensors import sensors_in_words

    return [("sensors", sensors_in_words(solution))]


def _warned(solution: Solution) -> str:
    """How many warnings there are, if any."""
    count = len(solution.warnings)
    return f"; {count} warning{'s' if count > 1 else ''}" if count else ""


def _size(solution: Solution) -> str:
    (M, N), P = np.shape(solution.mean.F)[-2:], np.shape(solution.mean.X)[-1]
    return f"Y {M} x {P}, {N} atoms"


def _statuses(solution: Solution) -> str:
    counts = Counter(str(each) for each in solution.status)
    return f"a batch of {len(solution.status)}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _course(solution: Solution) -> str:
    """The residual against the iteration, on a logarithmic scale, with the noise variance dotted: an SVG in the colour of the text."""
    course = np.asarray(solution.trace.residual, dtype=float)[: int(solution.iterations)]
    kept = np.unique(np.linspace(0, course.size - 1, _POINTS).astype(int)) if course.size else np.zeros(0, int)
    kept = kept[np.isfinite(course[kept]) & (course[kept] > 0)]
    if kept.size < 2:
        return ""
    ratio = noise_ratio(solution)
    heights = np.log(course[kept])
    noise = None if ratio is None else np.log(float(solution.model.noise_variance))
    low, high = heights.min(), heights.max()
    if noise is not None and low - 3 < noise < high:  # a line far below would flatten the curve
        low = min(low, noise)
    span = max(high - low, 1e-9)
    margin = 4

    def down(height: float) -> str:
        return f"{margin + (high - height) / span * (_HEIGHT - 2 * margin):.1f}"

    across = (kept - kept[0]) / (kept[-1] - kept[0]) * _WIDTH
    points = " ".join(f"{x:.1f},{down(y)}" for x, y in zip(across, heights, strict=True))
    line = ""
    if noise is not None and low <= noise <= high:
        line = (
            f'<line x1="0" x2="{_WIDTH}" y1="{down(noise)}" y2="{down(noise)}" stroke="currentColor" stroke-dasharray="2 3" opacity=".6"/>'
        )
    label = "Mean squared residual, each entry predicted from the others, against the iteration (logarithmic); the noise variance is dotted"
    return (
        f'<svg role="img" aria-label="{label}" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"><title>{label}</title>'
        f'{line}<polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="1.5"/></svg>'
    )
