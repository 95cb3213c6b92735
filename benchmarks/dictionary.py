"""Dictionary learning from scratch: `solve` without F' against scikit-learn and SPAMS, error against time, on the same instances.

`python -m benchmarks dictionary --cap 120 --instances 3` gives every setting of every other method up to 120 s on each of 3 instances.
Times are of the CPU, all threads together, so that they can be compared on a busy machine; wall times are printed beside them.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import spinodal as sp
from benchmarks._peers import data_columns, installed
from spinodal.figures.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from spinodal.figures.theory import blank_figure

# An error that counts as having learned the dictionary, in dB.
GOAL = -40.0
# Settings of the others, of which the best is shown, chosen with the truth: one penalty, or all of these one after the other. A penalty
# shrinks what it keeps: -31 dB is the best that 0.1 can do at five nonzeros a signal, so alone it need not be tried.
ALONE = (0.03, 0.01)
LOWERED = (0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4)
# Mean squared change of unit atoms in a step: below the first the next penalty is due, below the second the method has settled.
NEXT, SETTLED = 1e-7, 1e-10
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "dictionary_time.png"
COLOURS = dict(
    zip(
        ("Spinodal", *(f"{a}, {b}" for a in ("scikit-learn", "SPAMS") for b in ("batch", "online"))),
        (BLUE, ORANGE, PURPLE, GREEN, VERMILION),
        strict=True,
    )
)


@dataclass(frozen=True)
class Case:
    """Sizes, nonzeros of a signal (exactly, or on average), noise, and for scale what EM-BiG-AMP took: seconds of one core and dB.

    EM-BiG-AMP (Parker, Schniter and Cevher 2014): the authors' MATLAB code under Octave, one thread, on another machine, one trial.
    """

    N: int
    M: int
    P: int
    K: int
    exact: bool
    noise: float
    em_big_amp: tuple[float, float]

    @property
    def name(self) -> str:
        how = f"exactly {self.K} nonzeros" if self.exact else f"Gauss-Bernoulli, rho = {self.K / self.N:g}"
        return f"N = {self.N}, M = {self.M}, P = {self.P}, {how}, Delta = {self.noise:g}"

    @property
    def problem(self) -> sp.Problem:
        return sp.Problem.sparse(alpha=self.M / self.N, pi=self.P / self.N, rho=self.K / self.N, noise_variance=self.noise)

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Y and F."""
        random = np.random.default_rng(seed)
        F, X = random.standard_normal((self.M, self.N)), random.standard_normal((self.N, self.P))
        rank = random.random((self.N, self.P))
        X *= rank.argsort(axis=0).argsort(axis=0) < self.K if self.exact else rank < self.K / self.N
        return F @ X / np.sqrt(self.N) + np.sqrt(self.noise) * random.standard_normal((self.M, self.P)), F


SQUARE = math.ceil(5 * 50 * math.log(50))
CASES = (
    Case(50, 50, SQUARE, 5, True, 1e-10, (26.0, -102.0)),
    Case(50, 50, SQUARE, 10, True, 1e-10, (29.0, -105.0)),
    Case(100, 50, 1000, 10, False, 1e-8, (82.0, -78.0)),
)


@dataclass
class Curve:
    """Error of a dictionary against the time spent on it. The clock starts when the curve is made and stands still while it looks."""

    truth: np.ndarray
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    worst: list[float] = field(default_factory=list)
    settled: bool = False

    def __post_init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()

    def look(self, F: np.ndarray) -> None:
        """Normalised mean squared error in dB, order, signs and scales fitted, and the largest 1 - cos^2 of an atom."""
        wall, cpu = time.perf_counter(), time.process_time()
        no_signals = np.zeros((F.shape[1], 1))
        score = sp.score(sp.Pair(F, no_signals), sp.Pair(self.truth, no_signals))
        self.seconds.append(wall - self.start[0])
        self.cpu.append(cpu - self.start[1])
        self.error.append(10 * math.log10(score.mse_aligned.F / np.mean(self.truth**2)))
        self.worst.append(float(score.angle.max()))
        self.start = self.start[0] + time.perf_counter() - wall, self.start[1] + time.process_time() - cpu

    @property
    def reached(self) -> int | None:
        """Index of the first look at or below the goal."""
        return next((k for k, error in enumerate(self.error) if error <= GOAL), None)

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better: the time to the goal, then the error."""
        return self.cpu[self.reached] if self.reached is not None else math.inf, min(self.error)


# By method: its curve, and the seconds of compilation before it.
Result = dict[str, tuple[Curve, float]]


def solved(case: Case, Y: np.ndarray) -> tuple[float, float, sp.Solution]:
    """Wall and CPU seconds of `solve`, and its solution."""
    wall, cpu = time.perf_counter(), time.process_time()
    solution = sp.solve(Y, case.problem, n_atoms=case.N)
    return time.perf_counter() - wall, time.process_time() - cpu, solution


def watched(case: Case, Y: np.ndarray, F: np.ndarray) -> Curve:
    """The error of F while `solve` runs. It is shown every iteration at first, later every twentieth.

    Where a run is repaired the present estimate is shown, also while it is worse than the one kept.
    """
    sp.solve(Y, case.problem, n_atoms=case.N, max_iterations=1, watch=lambda iteration, mean: None)  # compiles what looking needs
    curve = Curve(F)
    sp.solve(Y, case.problem, n_atoms=case.N, watch=lambda iteration, mean: curve.look(mean.F))
    return curve


def peer_curve(learner: Any, Y: np.ndarray, F: np.ndarray, penalties: Sequence[float], cap: float) -> Curve:
    """One setting of another method until it has settled at its last penalty, or its time is up."""
    dictionary = data_columns(Y, F.shape[1], seed=0)
    step = learner(Y, dictionary)
    curve = Curve(F)
    for penalty in penalties:
        change = math.inf
        while change > (SETTLED if penalty == penalties[-1] else NEXT):
            before = dictionary.copy()
            dictionary = step(penalty)
            curve.look(dictionary)
            change = float(np.mean(np.sum((dictionary - before) ** 2, axis=0)))
            if curve.cpu[-1] > cap:
                return curve
    curve.settled = True
    return curve


def line(name: str, curve: Curve, setting: str, ours: float) -> str:
    """Time to the goal, also over `ours`, and the best error."""
    k, best = curve.reached, int(np.argmin(curve.error))
    cpu, wall = (times[-1 if k is None else k] for times in (curve.cpu, curve.seconds))
    ratio = f"{cpu / ours:.1f} x" if k is not None else "never, it has settled" if curve.settled else f"> {cpu / ours:.1f} x"
    how = "in" if k is not None else "not in"
    end = f"best {curve.error[best]:.1f} dB, worst atom {curve.worst[best]:.0e}, at cpu {curve.cpu[best]:.1f} s"
    return f"  {name:22s} {GOAL:g} dB {how} cpu {cpu:.2f} s, wall {wall:.2f}: {ratio}; {end} [{setting}]"


def compare(case: Case, seed: int, cap: float, learners: dict[str, Any], compilation: float | None) -> Result:
    """All methods on one instance, printed; the best curve of each, and the seconds of compilation before it. None: not compiled yet."""
    Y, F = case.draw(seed)
    print(f"{case.name}, instance {seed}", flush=True)
    # Twice the same instance: another one may need a repair that the first did not, and so more compiled functions.
    first = solved(case, Y)[1]
    wall, cpu, solution = solved(case, Y)
    once = f"; compilation, once for a shape: cpu {first - cpu:.1f} s" if compilation is None else ""
    compilation = first - cpu if compilation is None else compilation
    final, curve = Curve(F), watched(case, Y, F)
    final.look(solution.mean.F)
    curves = {"Spinodal": (curve, compilation)}
    iterations, (seconds, error) = int(solution.iterations), case.em_big_amp
    end = f"{final.error[0]:.1f} dB, worst atom {final.worst[0]:.0e}, {solution.status}"
    print(f"  Spinodal, whole solve  cpu {cpu:.2f} s, wall {wall:.2f}: {end}")
    print(f"  what it consists of    {iterations} iterations x cpu {1e3 * cpu / iterations:.2f} ms{once}")
    print(line("Spinodal, on its way", curve, "defaults", cpu), flush=True)
    print(f"  EM-BiG-AMP, elsewhere  ended at {error:g} dB in {seconds:g} cpu s: {seconds / cpu:.0f} x the cpu time of the whole solve")
    for name, learner in learners.items():
        settings = {f"penalty {value:g}": (value,) for value in ALONE} | {
            f"penalty lowered from {LOWERED[0]:g} to {LOWERED[-1]:g}": LOWERED
        }
        tried = {setting: peer_curve(learner, Y, F, penalties, cap) for setting, penalties in settings.items()}
        best = min(tried, key=lambda setting: tried[setting].rank)
        one = min(list(tried)[: len(ALONE)], key=lambda setting: tried[setting].rank)
        for setting in dict.fromkeys((best, one)):
            print(line(name, tried[setting], setting, cpu), flush=True)
        curves[name] = tried[best], 0.0
    return curves


def draw(results: dict[Case, Result]) -> None:
    figure, axes = blank_figure(4.4 * len(results), 4.4, 1, len(results), sharey=True)
    for axis, (case, curves) in zip(axes, results.items(), strict=True):
        for name, (curve, compilation) in curves.items():
            own = {"color": COLOURS[name], "lw": 2.5 if name == "Spinodal" else 1.3, "zorder": 3 if name == "Spinodal" else 2}
            axis.semilogx(curve.cpu, curve.error, label=name, **own)
            if compilation:
                later = np.add(curve.cpu, compilation)
                axis.semilogx(later, curve.error, color=COLOURS[name], lw=1, ls="--", label=f"{name}, with compilation")
        axis.semilogx(*case.em_big_amp, "*", ms=11, color=GREY, label="EM-BiG-AMP's end, another machine", ls="")
        axis.axhline(GOAL, color=GREY, lw=0.8, ls=":")
        sparsity = f"K = {case.K}" if case.exact else rf"$\rho$ = {case.K / case.N:g}"
        axis.set_title(rf"N = {case.N}, M = {case.M}, P = {case.P}, {sparsity}, $\Delta$ = {case.noise:g}", fontsize=10)
        axis.set(xlabel="seconds of CPU time", ylim=(-112, 2))
    axes[0].set_ylabel("error of the dictionary, NMSE (dB)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(FIGURE, dpi=130)
    print(f"{FIGURE.relative_to(Path.cwd()) if FIGURE.is_relative_to(Path.cwd()) else FIGURE} written")


def threads() -> str:
    """What each library uses unless told otherwise, which is how it is run here."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        pools = "unknown"
    else:
        pools = ", ".join(sorted({f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()})) or "none"
    return f"{os.cpu_count()} cores; JAX uses all; scikit-learn n_jobs = None (1); SPAMS numThreads = -1 (all); thread pools: {pools}"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser("benchmarks dictionary")
    parser.add_argument("--cap", type=float, default=12.0, help="CPU seconds for a setting of another method on an instance")
    parser.add_argument("--instances", type=int, default=1, help="instances of each case; the figure shows the first")
    options = parser.parse_args(arguments)
    print(threads())
    print(f"x: CPU time to {GOAL:g} dB over that of Spinodal's whole solve, compiled, which is longer than its own time to {GOAL:g} dB.")
    print(f"Others: the best of {len(ALONE) + 1} settings, {options.cap:g} s each, and the best with one penalty.")
    learners = installed()
    results: dict[Case, Result] = {}
    compilations: dict[tuple[int, int, int], float] = {}
    for case in CASES:
        for seed in range(options.instances):
            shape = case.N, case.M, case.P
            result = compare(case, seed, options.cap, learners, compilations.get(shape))
            compilations[shape] = result["Spinodal"][1]
            results.setdefault(case, result)
    draw(results)
