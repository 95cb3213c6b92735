"""Pictures restored by a model that is learned from the damaged picture itself.

Examples:
    >>> import numpy as np
    >>> import spinodal as sp
    >>> truth = 128 + 60 * np.sin(np.arange(64) / 5)[:, None] * np.ones(64)
    >>> noisy = truth + 20 * np.random.default_rng(0).normal(size=truth.shape)
    >>> found = sp.images.denoise(noisy)
    >>> bool(np.std(found.image - truth) < np.std(noisy - truth) / 2)
    True
"""

from .fill import inpaint
from .restore import Restored, denoise

__all__ = ["Restored", "denoise", "inpaint"]
