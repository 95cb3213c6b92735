"""How much features of little noise count when samples are restored: entries that were hidden tell.

Where the model is right, each feature counts by its own noise variance. In real data what the components leave of a sample is no
independent noise: many features of little noise may all deviate together, and codes that follow them closely restore the others worse.
Then codes found with more equal noise variances restore hidden entries better, although the samples as a whole are less likely.
"""

from __future__ import annotations

import numpy as np

from .learned import Learned, published_codes

# The weights that are tried: with 1 each feature counts by its own noise, with 0 all count alike.
_WEIGHTS = (1.0, 0.5, 0.0)
# Samples that tell, at most, and the share of their entries that is hidden. Fewer are looked at where a step for all of them would take
# more than so many multiplications.
_SAMPLES, _HIDDEN, _WORK = 512, 0.2, 5e8
# A weight below 1 must be better by this many standard errors.
_SURELY = 2.0
# It makes no difference where the noise variances of nine in ten features are within this factor.
_ALIKE = 2.0


def for_restoring(learned: Learned) -> Learned:
    """The model with the noise variances that codes are found with when samples are restored."""
    if learned.noise_weight == 1:
        return learned
    common = np.log(np.mean(learned.feature_noise, dtype=np.float64))
    noise = np.exp(common + learned.noise_weight * (np.log(learned.feature_noise.astype(np.float64)) - common))
    return learned._replace(feature_noise=noise.astype(learned.feature_noise.dtype))


def with_noise_weight(learned: Learned, data: np.ndarray, seed: int, own_density: bool | None = None) -> Learned:
    """The model with the weight by which entries hidden from some of these samples (rows) are restored best."""
    low, high = np.quantile(learned.feature_noise, (0.05, 0.95))
    if not high > _ALIKE * low > 0:
        return learned
    random = np.random.default_rng(seed)
    atoms, features = learned.components.shape
    number = int(min(_SAMPLES, max(1, _WORK // (atoms**2 * features))))
    some = data[random.permutation(len(data))[:number]].astype(np.float64)
    hidden = ~np.isnan(some) & (random.random(some.shape) < _HIDDEN)
    seen = np.where(hidden, np.nan, some)

    def errors(weight: float) -> np.ndarray:
        """The squared error of each sample."""
        model = for_restoring(learned._replace(noise_weight=weight))
        restored = published_codes(model, seen, own_density=own_density, only=("mean",)).mean @ learned.components
        return np.sum(np.where(hidden, some - restored, 0.0) ** 2, axis=1)

    found = np.array([errors(weight) for weight in _WEIGHTS])
    best = int(np.argmin(found.sum(axis=1)))
    gain = found[0] - found[best]
    surely = gain.mean() > _SURELY * gain.std() / np.sqrt(len(gain))
    return learned._replace(noise_weight=_WEIGHTS[best] if surely else 1.0)
