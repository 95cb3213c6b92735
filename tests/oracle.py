"""Independent arithmetic to test against: mpmath at many digits, and plain scipy. Shares no code with the package."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
from scipy.integrate import quad

# Decimal digits carried by the mpmath integrals.
DIGITS = 25
# The slab is cut this many standard deviations out: beyond is below 1e-40.
SPAN = 14


def gauss_bernoulli_mmse(rho: Any, a: Any, digits: int = DIGITS) -> mp.mpf:
    """mmse of (1 - rho) delta_0 + rho N(0, 1) at signal-to-noise ratio a, by quadrature split around the kink of the slab probability.

    u = b/sqrt(a) has density (1 - rho) N(0, 1) + rho N(0, 1 + a).
    """
    with mp.workdps(digits):
        rho, a = mp.mpf(rho), mp.mpf(a)
        wide = 1 + a

        def integrand(u: mp.mpf) -> mp.mpf:
            point = (1 - rho) * mp.exp(-u * u / 2)
            slab = rho * mp.exp(-u * u / (2 * wide)) / mp.sqrt(wide)
            belief = slab / (point + slab)
            mean = mp.sqrt(a) * u / wide
            # In units of rho/(1 + a): mp.quad stops at an absolute error.
            return (point + slab) / mp.sqrt(2 * mp.pi) * belief * (1 + wide * (1 - belief) * mean * mean) / rho

        end = SPAN * mp.sqrt(wide)
        odds = mp.log((1 - rho) / rho * mp.sqrt(wide))
        kink = mp.sqrt(max(mp.mpf(0), 2 * wide / a * odds))
        edges = {mp.mpf(0), end} | {mp.mpf(k) for k in range(1, 17)} | {kink + mp.mpf(k) / 4 for k in range(-4, 5)}
        while max(edge for edge in edges if edge < end) * mp.mpf("1.8") < end:
            edges.add(max(edge for edge in edges if edge < end) * mp.mpf("1.8"))
        value, error = mp.quad(integrand, sorted(edge for edge in edges if 0 <= edge <= end), error=True)
        assert error < mp.mpf("1e-12") * value
        return 2 * value * rho / wide


def curve(alpha: Any, rho: Any, delta: Any, eta: Any, A: Any, digits: int = DIGITS) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    """(pi, E, D) of the fixed point at signal-to-noise ratio A, for standard Gaussian F: the explicit curve, at many digits.

    Parameters are strings or exact numbers, so that 0.2 means one fifth.
    """
    E = gauss_bernoulli_mmse(rho, A, digits)
    with mp.workdps(digits):
        alpha, rho, delta, eta, A = (mp.mpf(value) for value in (alpha, rho, delta, eta, A))
        D = (alpha - A * (delta + E)) / (alpha + A * (rho - E))
        V = alpha * (1 - D) / A
        return V * (1 / D - (1 + eta) / eta) / (rho - E), E, D


def integral(density_times_f: Any, edges: np.ndarray) -> float:
    """Adaptive quadrature on each piece between edges, summed."""
    pieces = [quad(density_times_f, low, high, epsabs=0, epsrel=1e-12, limit=200)[0] for low, high in pairwise(edges)]
    return float(np.sum(pieces))
