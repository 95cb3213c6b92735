"""What the theory expects, in words for readers who know none of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..theory import FixedPoint

# What a phase means, for readers who know none of the theory's words.
PHASE_IN_WORDS = {
    "easy": "message passing is expected to find the best answer that these data allow.",
    "hard": "these data allow a better answer, but message passing is expected to stop at a worse one.",
    "impossible": "a much better answer exists, but these data do not single it out: no method is expected to find it.",
    "nothing to gain": "the noise hides almost everything: no method is expected to learn more than was known without these data.",
}
# What to do in a phase where the answer of a run that can be trusted is not the last word.
ADVICE = {
    "hard": "Take F and X with care. With more signals, less noise or a better F', message passing would find the better answer.",
    "impossible": "Do not expect much of F and X. Only better data help: more signals or measurements, less noise, or a better F'.",
    "nothing to gain": "Do not use F and X: they say hardly more than the priors. Reduce the noise, or take many more measurements.",
}


def percent(share: float) -> str:
    """A share to a tenth of a percent: "96.3%"."""
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def recovered_in_words(point: FixedPoint) -> str:
    """The shares of F and X that are recovered at a fixed point: "88% of F and 96.3% of X"; an F that was known is left out."""
    return " and ".join(f"{percent(share)} of {name}" for name, share in point.recovered._asdict().items() if not np.isnan(share))
