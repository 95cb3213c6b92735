"""What every control and number of the page means: the tooltips, and the page of help that they link to."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from ..report.phases import PHASE_IN_WORDS
from ..report.solution import NEXT_STEP, VERDICT
from .state import CHANNELS, State

# The sliders: their letters, what they are called, and what that means and is measured in.
SLIDERS = {
    "alpha": ("α = M/N", "measurements", "Measurements of each signal, per atom: a ratio. Below 1 there are more atoms than measurements."),
    "rho": ("ρ", "density of X", "The share of entries of X that are not zero, from 0 to 1."),
    "eta": (
        "η",
        "error of the matrix",
        "How wrong the known matrix F′ is: the variance of its error, in units of that of F. 0.01 is 10% off, 1 is as much error as truth, "
        "inf is no F′ at all.",
    ),
    "delta": (
        "Δ",
        "noise variance",
        "The variance of the noise on an entry of Y, in squared units of Y. Without noise that entry has variance ρ.",
    ),
    "pi": ("π = P/N", "signals", "Signals per atom: a ratio. More is always better."),
}
# Other controls.
CONTROLS = {
    "x": ("prior of X", "What is assumed of one entry of the signals."),
    "f": ("prior of F", "What is assumed of one entry of the matrix."),
    "channel": (
        "channel",
        "How an entry of F X/√N becomes an entry of Y. A channel other than Gaussian noise takes a few seconds when you choose it, or when "
        "its noise changes; counts take a minute.",
    ),
    "n": ("N", "Atoms of the instance that is drawn and solved, from 10 to 400."),
    "seed": ("seed", "Another seed draws another instance."),
}
READOUT = {
    "π*": "The counting bound: as many equations as unknowns. Without noise nobody recovers F and X with fewer signals per atom.",
    "πˢ": "The spinodal: with more signals per atom, message passing (AMP) reaches the best possible error.",
    "π_B": "The Bayes-optimal transition: with more signals per atom, the best possible error is small.",
    "Bayes E, D": "The smallest mean squared errors of X and of F that any method can have on average.",
    "AMP E, D": "The mean squared errors of X and of F that message passing reaches.",
    "AMP recovers": "The share of F and X that message passing learns, beyond what was known beforehand.",
}
OWN = {
    "own-file": ("your file", "A table with a row for each measurement and a column for each signal. It stays on this computer."),
    "own-transpose": ("signals are rows", "Turn the table: each of its rows is a signal."),
    "own-header": ("first line holds names", "Names that are numbers look like data. Say so here."),
    "own-comma": ("decimal comma", "Numbers are written 3,14."),
    "own-na": ("missing is written", "A word or number that stands for a missing entry, such as -999. Empty fields, NA and NaN are known."),
    "own-means": (
        "leave row means on",
        "Means further from zero than chance are taken off first, so that F X/√N need not explain them. Tick to leave them on.",
    ),
    "own-atoms": ("atoms, N", "How many patterns to look for. Try several: the report says when there are too many."),
    "own-density": ("density", "The share of nonzero codes, if you know it. Left empty, it is learned."),
    "own-noise": ("noise variance", "In squared units of Y, if you know it. Left empty, it is learned."),
    "own-eta": ("error of F′, η", "How wrong the F′ in your file is. Left empty, it is learned."),
    "own-channel": (
        "channel",
        "Left empty: Gaussian noise. Otherwise its name, as on the command line: clipped, or clipped:low=-1,high=1 with what you know",
    ),
    "own-seed": ("seed", "Of what is random in the search."),
}


class Preset(NamedTuple):
    """A state to begin with."""

    label: str
    says: str
    state: State


PRESETS = {
    "figure-1": Preset(
        "The paper’s Figure 1",
        "No noise, half as many measurements as atoms. Click in the diagram: below π* nobody can, above πˢ AMP can.",
        State(alpha=0.5, rho=0.2, eta=1.0, delta=0.0, pi=5.0),
    ),
    "badly-known": Preset(
        "A badly known matrix",
        "The known matrix is as much error as truth. Some signals calibrate it: press Run and compare with the prediction.",
        State(),
    ),
    "from-scratch": Preset(
        "From scratch",
        "Nothing is known of the matrix: dictionary learning, with 20 signals per atom.",
        State(eta=float("inf"), pi=20.0, n=60),
    ),
    "one-bit": Preset(
        "1 bit",
        "Only the sign of each measurement is kept. It hides the size of a signal, so at small N the errors on X lie above the prediction.",
        State(alpha=2.0, eta=0.1, delta=1e-4, pi=10.0, channel="one-bit"),
    ),
}


def help_page(style: str) -> str:
    """The page of help, from the same words as the tooltips."""

    def listed(items: list[tuple[str, str, str]]) -> str:
        return "<dl>" + "".join(f'<dt id="{escape(id)}">{escape(name)}</dt><dd>{escape(text)}</dd>' for id, name, text in items) + "</dl>"

    sections = [
        ("Sliders", [(id, f"{letter}, {name}", text) for id, (letter, name, text) in SLIDERS.items()]),
        ("Other controls", [(id, *words) for id, words in CONTROLS.items()]),
        ("Channels", [(f"channel-{id}", each.label, each.words.format(delta="Δ", scale="√Δ")) for id, each in CHANNELS.items()]),
        ("Presets", [(f"preset-{id}", each.label, each.says) for id, each in PRESETS.items()]),
        ("The numbers at the top", [(f"number-{k}", *words) for k, words in enumerate(READOUT.items())]),
        ("Phases", [(f"phase-{k}", phase, text[:1].upper() + text[1:]) for k, (phase, text) in enumerate(PHASE_IN_WORDS.items())]),
        ("Your own data", [(id, *words) for id, words in OWN.items()]),
        ("How a run can end", [(f"status-{each}", str(each), f"{VERDICT[each]} {NEXT_STEP[each]}") for each in VERDICT]),
    ]
    body = "".join(f"<section><h2>{escape(title)}</h2>{listed(items)}</section>" for title, items in sections)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Spinodal: help</title><link rel="stylesheet" href="/assets/explorer.css"><style>{style}</style></head>
<body class="help-page"><main><h1>What is what</h1><p><a href="/">Back to the explorer</a></p>{body}
<p>The guides are in the folder docs of the source: glossary.md has every letter, explorer.md this page, troubleshooting.md every
status, your-data.md and channels.md how to solve a table of your own, concepts.md what a spinodal is.</p></main></body></html>
"""
