"""The colours of all figures, on paper and on the page. Okabe and Ito's, which colour-blind readers can tell apart."""

from __future__ import annotations

BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#666666"
LINES = (BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION)
# "Nothing to gain" is the only dark one, so that readers who see no hues can tell it from the others, too.
PHASE_COLOURS = {"impossible": "#e8e8e8", "hard": "#fbe3c8", "easy": "#dff0e6", "nothing to gain": "#b4b8be"}


def phase_key(phase: str) -> str:
    """A phase as themes and style sheets name it: "nothing-to-gain"."""
    return phase.replace(" ", "-")


# What the page's figures are drawn in; the same hues, lighter or darker where the background asks for it.
THEMES = {
    "light": {
        **{phase_key(phase): colour for phase, colour in PHASE_COLOURS.items()},
        "paper": "#ffffff",
        "back": "#f3f4f6",
        "ink": "#1b1f24",
        "faint": "#d5d9de",
        "muted": GREY,
        "signals": BLUE,
        "matrix": ORANGE,
        "bayes": VERMILION,
        "amp": GREEN,
        "bound": VERMILION,
        "spinodal": BLUE,
        "accent": BLUE,
        "on-accent": "#ffffff",
        "link": "#005a8c",
        "warning": "#8a3b00",
    },
    "dark": {
        "impossible": "#2b2f36",
        "hard": "#4a3618",
        "easy": "#14392d",
        "nothing-to-gain": "#585f69",
        "paper": "#16191d",
        "back": "#0e1013",
        "ink": "#e6e8ea",
        "faint": "#363c44",
        "muted": "#a0a7b0",
        "signals": SKY,
        "matrix": ORANGE,
        "bayes": "#ff7f32",
        "amp": "#2cc79a",
        "bound": "#ff7f32",
        "spinodal": SKY,
        "accent": SKY,
        "on-accent": "#0e1013",
        "link": SKY,
        "warning": "#ff9d5c",
    },
}
