"""First looks at measurements, from which the learning of a channel's parameters starts."""

from __future__ import annotations

import numpy as np

# Of typical entries, where learning starts: so much of their power is noise. It must come down from above: from below, codes that are too
# dense explain it, and it is never found.
NOISE_SHARE = 0.3
# The median of the size of a standard normal number, and how many standard deviations are far out.
_MEDIAN, _FAR = 0.6745, 6.0


def typical_power(seen: np.ndarray) -> float:
    """The mean square of the entries but for a few that are far out; never zero."""
    power = (np.median(np.abs(seen)) / _MEDIAN) ** 2 or np.mean(np.square(seen))
    return max(float(power), float(np.finfo(float).tiny))


def far_out(seen: np.ndarray) -> np.ndarray:
    """The entries that are far out."""
    return seen[np.abs(seen) > _FAR * typical_power(seen) ** 0.5]
