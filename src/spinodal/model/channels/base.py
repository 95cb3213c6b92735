"""A channel is its log-partition function; everything else follows from it.

For an entry z of F X/sqrt(N) that is normal with mean w and variance V before y is seen,

    log Z(y; w, V) = log of the integral of p(y | z) N(z; w, V) over z,
    g = d log Z/dw,    precision = -dg/dw,

and the posterior of z has mean w + V g and variance V - V^2 precision. The theory asks how much y tells about z on average: as much as
Gaussian noise of some variance would, the channel's equivalent noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import check, check_positive
from ..parametric import Parametric
from .averages import ChannelAverages, ChannelTable, noise_at_ratio, read_table, tabulate
from .outcomes import Outcomes, probe_outcomes

# Entries drawn to see what a measurement is worth, and the share of the power of z that is left unknown then.
_PROBES, _ALMOST_KNOWN = 1000, 1e-4


class Output(NamedTuple):
    """What an entry of Y says about its z: the slope g of log Z in the mean of z, and the precision -dg/dw."""

    g: Any
    precision: Any


class Channel(Parametric):
    """Base of all channels. A subclass needs `log_partition` and `sample`; its attributes are its parameters.

    Examples:
        A channel of your own needs two methods; here noise of variance 1, written out:

        >>> import jax
        >>> import jax.numpy as jnp
        >>> import spinodal as sp
        >>> class UnitNoise(sp.Channel):
        ...     def log_partition(self, y, w, V):
        ...         return -((y - w) ** 2) / (2 * (1 + V)) - jnp.log(2 * jnp.pi * (1 + V)) / 2
        ...     def sample(self, key, z):
        ...         return z + jax.random.normal(key, z.shape)
        >>> print(float(UnitNoise().output(2.0, 1.0, 1.0).g))
        0.5
    """

    # Whether y - z does not depend on z, so that the theory's averages are the same at every w.
    additive = False
    # The parameters that data can tell.
    learns: tuple[str, ...] = ()
    # Whether the signals of a row share something unknown, so that `output` needs whole rows of Y. Such a channel has
    # `output_where(y, w, V, mask)`, which leaves entries out that were not observed.
    by_rows = False
    # Whether the rows of Y differ in how much they tell, whatever is in them, so that averages over a column are too coarse for messages.
    unequal = False
    entry_shape: tuple[int, ...] = ()  # of what differs from entry to entry of Y, along rows and columns; none: all entries are alike

    @property
    def shows_units(self) -> bool:
        """Whether y is z up to noise, so that the size of Y tells that of z."""
        return type(self).predicted is Channel.predicted

    def first_power(self, seen: Any) -> float | None:
        """The power of z, as a first look at the observed entries suggests it; None where they do not tell.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).first_power(np.array([1.0, -3.0])), sp.OneBit().first_power(np.array([1.0, -1.0]))
            (5.0, None)
        """
        return float(np.mean(np.square(seen))) if self.shows_units else None

    def first_guess(self, seen: Any) -> dict[str, Any]:
        """Parameters that have no usual value, as a first look at the observed entries suggests them; None if it suggests nothing. Those
        that can be learned are learned from there.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.OneBit().first_guess(np.ones(5))
            {'variance': 0.03}
            >>> sorted(sp.Poisson().first_guess(np.array([0, 2, 3, 1])))
            ['rate']
        """
        return {}

    def log_partition(self, y: Any, w: Any, V: Any) -> Any:
        """log of the integral of p(y | z) N(z; w, V) over z, elementwise.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.GaussianNoise(1.0).log_partition(2.0, 1.0, 1.0)):.4f}")  # a normal density of variance 2
            -1.5155
        """
        raise TypeError(f"{type(self).__name__} must define log_partition(y, w, V).")

    def sample(self, key: Any, z: Any) -> Any:
        """Y for an array of z, each entry drawn by itself.

        Examples:
            >>> import jax
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).sample(jax.random.key(0), np.zeros((3, 5))).shape
            (3, 5)
        """
        raise TypeError(f"{type(self).__name__} must define sample(key, z).")

    # ---- derived from log_partition; overridden where float64 or speed asks for it

    def output(self, y: Any, w: Any, V: Any) -> Output:
        """g and precision of every entry. Either may come smaller, to be broadcast, where entries share it.

        Examples:
            >>> import spinodal as sp
            >>> g, precision = sp.GaussianNoise(1.0).output(2.0, 1.0, 1.0)
            >>> float(g), float(precision)
            (0.5, 0.5)
        """
        shape = jnp.broadcast_shapes(jnp.shape(y), jnp.shape(w), jnp.shape(V))
        w = jnp.broadcast_to(jnp.asarray(w), shape)
        one = jnp.ones_like(w)

        def slope(w: Any) -> Any:
            return jax.jvp(lambda w: self.log_partition(y, w, V), (w,), (one,))[1]

        g, curvature = jax.jvp(slope, (w,), (one,))
        return Output(g, -curvature)

    def log_densities(self, y: Any, w: Any, V: Any, mask: Any) -> Any:
        """log Z of the entries that were observed, zero in the others; where a row is one measurement, its share of the row's.

        Examples:
            >>> import spinodal as sp
            >>> print(f"{float(sp.GaussianNoise(1.0).log_densities(2.0, 1.0, 1.0, None)):.4f}")
            -1.5155
        """
        values = self.log_partition(y, w, V)
        return values if mask is None else values * mask

    def at_least(self, variance: Any) -> Self:
        """The channel with noise of at least this variance, where it has a noise that could vanish: below it rounding errors win.

        Examples:
            >>> import spinodal as sp
            >>> float(sp.GaussianNoise(0.0).at_least(0.25).variance)
            0.25
        """
        return self

    def input_power(self, measured: Any, expected: Any) -> Any:
        """The power of z, from the mean square of the observed entries of Y and what the priors say it is.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).input_power(2.0, 1.0)  # noise included: it is for orientation only
            2.0
        """
        return expected

    def noise_scale(self, power: Any, V: Any = 0.0) -> Any:
        """The variance of Gaussian noise that a measurement of a z of this power is worth where all but V of z is known, about. The noise
        of a quantiser, say, falls with V.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).noise_scale(1.0)
            0.1
        """
        for_z, for_y = jax.random.split(jax.random.key(0))
        z = jnp.sqrt(jnp.asarray(power)) * jax.random.normal(for_z, (_PROBES,), jnp.result_type(power, jnp.float32))
        for_y, for_w = jax.random.split(for_y)
        V = jnp.clip(V, _ALMOST_KNOWN * power, power)
        w = z * (1 - V / power) + jnp.sqrt(V * (1 - V / power)) * jax.random.normal(for_w, z.shape, z.dtype)
        return jnp.maximum(1 / jnp.mean(self.output(self.sample(for_y, z).astype(z.dtype), w, V).g ** 2) - V, 0.0)

    def predicted(self, z: Any) -> Any:
        """The y to expect for a known z: z itself where the noise has no mean, which is what residuals are taken from.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).predicted(2.0)
            2.0
        """
        return z

    def fitted(self, y: Any, z: Any, mask: Any) -> Any:
        """The y to expect for a known z, with what y itself says of a row's sensor.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).fitted(2.5, 2.0, None)
            2.0
        """
        return self.predicted(z)

    def learnable(self) -> dict[str, Any]:
        """The parameters that can be learned from data, by name.

        Examples:
            >>> import spinodal as sp
            >>> sp.Outliers(0.01, 0.05, 1.0).learnable()
            {'variance': 0.01, 'share': 0.05, 'outlier_variance': 1.0}
        """
        return {name: getattr(self, name) for name in self.learns}

    def relearned(self, values: dict[str, Any]) -> Self:
        """The channel with other values of these parameters.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).relearned({"variance": 0.2})
            GaussianNoise(variance=0.2)
        """
        return self.replace(**values)

    def by_signal(self) -> dict[str, Any]:
        """The parameters that have a column for each signal, by name: who takes a block of Y takes their block with it.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> list(sp.GaussianNoise(np.ones((3, 5))).by_signal())
            ['variance']
            >>> sp.GaussianNoise(0.1).by_signal()
            {}
        """
        return {}

    def slopes_of_size(self, y: Any, power: Any, mask: Any) -> tuple[Any, Any] | None:
        """Where the size of each row of z is not seen in y, since a gain makes up for it: the slope of the log density of the logarithm of
        each row's gain, and how much it bends, at a given power of z in each row (columns). None where y shows the size.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).slopes_of_size(2.0, 1.0, None) is None
            True
        """
        return None

    def beside_atoms(self) -> Self:
        """The channel for arrays that have an axis for the atoms between rows and signals.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.GaussianNoise(np.ones((3, 5))).beside_atoms().variance.shape
            (3, 1, 5)
        """
        return self

    def fault_of_shape(self, shape: tuple[int, ...]) -> str | None:
        """What is wrong with the parameters for a Y of this shape, in a sentence; None if nothing is.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.GaussianNoise(np.ones((3, 1))).fault_of_shape((4, 9))
            'noise_variance must be a number, 4 x 1, 1 x 9 or 4 x 9 for this Y, but its shape is (3, 1).'
        """
        return None

    def fault_of(self, y: np.ndarray) -> str | None:
        """What measurements must be and these are not, to follow "Y must ..."; None if the channel can have put them all out.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.Poisson().fault_of(np.array([0.0, 2.5]))
            'must hold counts (0, 1, 2, ...) for this channel'
        """
        return None

    # ---- what the theory asks, by quadrature over y and w; overridden where there is a closed form

    @property
    def noiseless(self) -> Any:
        """Whether y is z itself, so that z can be known exactly."""
        return False

    def outcomes(self, power: float) -> Outcomes:
        """The values that y can take for z of variance `power`. Found from `sample` unless a subclass knows better.

        Examples:
            >>> import jax.numpy as jnp
            >>> import spinodal as sp
            >>> from jax.scipy.special import log_ndtr
            >>> class Sign(sp.Channel):
            ...     def log_partition(self, y, w, V):
            ...         return log_ndtr(y * w / jnp.sqrt(V))
            ...     def sample(self, key, z):
            ...         return jnp.where(z > 0, 1.0, -1.0)
            >>> Sign().outcomes(1.0).points
            array([-1.,  1.])
        """
        return probe_outcomes(self, power)

    def over_outcomes(self, w: Any, V: Any) -> tuple[Any, Any] | None:
        """E[g^2] and E[log Z] over y at one w, where there is a closed form; None: by quadrature over `outcomes`.

        Examples:
            >>> import spinodal as sp
            >>> square, log_z = sp.Clipped(-100.0, 100.0, 1.0).over_outcomes(0.0, 1.0)  # hardly ever cut: 1/(variance + V)
            >>> print(f"{float(square):.4f}")
            0.5000
        """
        return None

    def table(self, power: float) -> ChannelTable | None:
        """The averages for z of variance `power`, tabulated; None for a channel that has closed forms.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).table(1.0) is None
            True
        """
        return tabulate(self, power)

    def fault_in_theory(self) -> str | None:
        """Why fixed points and transitions can't be computed, in a sentence; None if they can.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).fault_in_theory() is None
            True
        """
        return None

    def for_theory(self) -> Self:
        """The channel as the equations need it once the table is made: without its large arrays.

        Examples:
            >>> import numpy as np
            >>> import spinodal as sp
            >>> sp.GaussianNoise(np.array([[1.0], [3.0]])).for_theory()
            GaussianNoise(variance=2.0)
        """
        return self

    def rows_apart(self) -> Channel:
        """The channel as state evolution follows it: with the rows of Y one by one, where the law of what they have of their own is known.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).rows_apart()
            GaussianNoise(variance=0.1)
            >>> sp.SensorGains(0.1, spread=0.3).rows_apart().variance.shape  # noise over the square of the gain, of 64 likely sensors
            (64, 1)
        """
        return self

    def averages_at(self, V: Any, power: Any, table: Any) -> ChannelAverages:
        """The averages at one V: pure JAX, scalar in and out.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).averages_at(0.5, 1.0, None).equivalent_noise
            0.1
        """
        return read_table(table, V, power)

    def noise_at_ratio(self, ratio: Any, power: Any, table: Any) -> Any:
        """The equivalent noise where the explained part of z is `ratio` times the unexplained part and that noise together.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussianNoise(0.1).noise_at_ratio(2.0, 1.0, None)
            0.1
        """
        return noise_at_ratio(self, table, ratio, power)

    def averages(self, V: Any, power: float = 1.0) -> ChannelAverages:
        """The equivalent noise and the free entropy where z has the variance `power`, of which V is not explained yet.

        The equivalent noise is the variance of the Gaussian noise that would tell as much about z: 1/E[g^2] - V. The free entropy is
        E[log Z] + log sqrt(2 pi). Both are averages over y from its own law and over the explained part w of z.

        Examples:
            >>> import spinodal as sp
            >>> noise, free_entropy = sp.GaussianNoise(0.1).averages([0.0, 0.9], power=1.0)
            >>> noise.tolist()
            [0.1, 0.1]
            >>> print(f"{free_entropy[1]:.4f}")  # -(1 + log(V + .1))/2
            -0.5000
        """
        check_positive("power", power)
        check("V", V, 0.0, float(power))
        V = np.asarray(V, dtype=float)
        table = self.table(float(power))
        with jax.enable_x64(True):
            at = _averages(self, V.ravel(), float(power), table)
        return ChannelAverages(*(np.broadcast_to(np.asarray(value), V.size).reshape(V.shape) for value in at))


@jax.jit
def _averages(channel: Channel, V: Any, power: Any, table: Any) -> ChannelAverages:
    return jax.vmap(lambda v: channel.averages_at(v, power, table))(V)
