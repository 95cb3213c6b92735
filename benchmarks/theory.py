"""Theory: spinodals from the fixed-point curve against bisection on iterated state evolution, scaling, and start-up times."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
from scipy.integrate import quad

import spinodal as sp
from spinodal.cache import VARIABLE

ALPHA = 0.5
ETAS = [0.01, 0.1, 1.0, np.inf]
# Where the baseline is measured: (rho, eta). A few points are enough, each takes seconds.
BASELINE_POINTS = [(0.1, 1.0), (0.2, np.inf)]
# The baseline's bisection stops at this relative width in pi.
PI_TOLERANCE = 1e-6
# A relative step below this is a fixed point: at PI_TOLERANCE above the fold the slowest step is still larger.
STUCK = 1e-9
RECOVERED = 1e-10


def slab_mmse(rho: float, a: float) -> float:
    """mmse of a Gauss-Bernoulli entry by adaptive quadrature, split where the slab takes over from the point."""
    wide = 1 + a
    root, scale, gain = math.sqrt(a), rho / math.sqrt(wide), a / wide

    def integrand(u: float) -> float:
        square = u * u
        point, slab = (1 - rho) * math.exp(-square / 2), scale * math.exp(-square / (2 * wide))
        belief = slab / (point + slab)
        mean = root * u / wide
        return slab * (1 / wide + (1 - belief) * mean * mean)

    odds = math.log((1 - rho) / rho * math.sqrt(wide))
    kink = math.sqrt(2 * odds / gain) if odds > 0 else 1.0
    end = 9 * math.sqrt(wide)
    edges = [0.0, *sorted(edge for edge in (kink - 1, kink, kink + 1, 3 * kink) if 0 < edge < end), end]
    total = sum(quad(integrand, low, high, epsabs=0, epsrel=1e-8)[0] for low, high in pairwise(edges))
    return 2 * total / math.sqrt(2 * math.pi)


def recovers(rho: float, eta: float, pi: float) -> bool:
    """Iterate Eqs. (25) and (26) from an uninformed start, without noise, until recovered or stuck."""
    side = 0.0 if math.isinf(eta) else 1 / eta
    E, D = rho * (1 - 1e-6), (1 - 1e-6) / (1 + side)
    while True:
        V = E + D * (rho - E)
        new_E, new_D = slab_mmse(rho, ALPHA * (1 - D) / V), 1 / (1 + side + pi * (rho - E) / V)
        if new_E < RECOVERED:
            return True
        if abs(new_E / E - 1) < STUCK and abs(new_D / D - 1) < STUCK:
            return False
        E, D = new_E, new_D


def bisected_spinodal(rho: float, eta: float) -> float:
    low = ALPHA / (ALPHA - rho)
    high = 2 * low
    while not recovers(rho, eta, high):
        low, high = high, 2 * high
    while high / low - 1 > PI_TOLERANCE:
        middle = (low + high) / 2
        low, high = (low, middle) if recovers(rho, eta, middle) else (middle, high)
    return (low + high) / 2


def timed(function: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def diagram(points: int) -> object:
    base = sp.Problem.sparse(alpha=ALPHA, pi=1.0, rho=0.1)
    return sp.phase_diagram(base, rho=np.linspace(0.005, 0.495, points), eta=ETAS)


def best_of(runs: int, function: Callable[[], object]) -> float:
    return min(timed(function)[0] for _ in range(runs))


def process_time(code: str) -> float:
    return best_of(3, lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True))


def main() -> None:
    first, _ = timed(partial(diagram, 100))
    warm = best_of(3, partial(diagram, 100))
    per_spinodal = warm / 400
    print(f"diagram of 4 eta x 100 rho: {warm:.2f} s = {per_spinodal * 1e3:.2f} ms a spinodal; compilation, once: {first - warm:.2f} s")

    print(f"bisection on iterated state evolution with scipy.integrate.quad, to {PI_TOLERANCE:g} in pi, steps of {STUCK:g}:")
    times = []
    for rho, eta in BASELINE_POINTS:
        seconds, value = timed(partial(bisected_spinodal, rho, eta))
        ours = sp.spinodal(sp.Problem.sparse(alpha=ALPHA, pi=1.0, rho=rho, eta=eta))
        times.append(seconds)
        print(f"  rho = {rho}, eta = {eta}: {seconds:.1f} s, {value:.6f} (curve: {ours:.6f}), {seconds / per_spinodal:.0f} times slower")
    print(f"ratio of the means: {np.mean(times) / per_spinodal:.0f}; with the compilation in it: {np.mean(times) / (first / 400):.0f}")

    counts = (100, 200, 400)
    costs = [warm, *(best_of(2, partial(diagram, count)) for count in counts[1:])]
    shown = (f"{n}: {cost:.2f} s ({cost / n * 1e3:.1f} ms each)" for n, cost in zip(counts, costs, strict=True))
    print("cost against number of rho: " + ", ".join(shown))

    bare = process_time("pass")
    starts = {
        "import jax": process_time("import jax"),
        "import spinodal": process_time("import spinodal"),
        "spinodal --help": process_time("import sys; sys.argv = ['spinodal', '--help']; from spinodal.cli import main; main()"),
    }
    own = ", ".join(f"{name}: {seconds - bare:.2f} s" for name, seconds in starts.items())
    print(f"start-up beyond `python -c pass` ({bare:.2f} s): {own}")
    command = "import sys; sys.argv = ['spinodal', 'reproduce', 'fig1', '--out', sys.argv[1]]; from spinodal.cli import main; main()"
    print(f"spinodal reproduce fig1, a process of its own with compilation: {figure_time(command):.1f} s")


def figure_time(command: str) -> float:
    """Seconds of a command without a compilation cache; it is given a directory to write to."""
    uncached = os.environ | {VARIABLE: "0"}
    with tempfile.TemporaryDirectory() as directory:
        words = [sys.executable, "-c", command, directory]
        return timed(lambda: subprocess.run(words, check=True, capture_output=True, env=uncached))[0]
