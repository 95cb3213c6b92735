"""Dictionary learning told something wrong: the number of atoms, the density, the noise, or the shape of the slab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import spinodal as sp
from spinodal.evaluation.record import record
from spinodal.evaluation.scoring import DICTIONARY_LEARNED

N, M, P, RHO, DELTA = 100, 50, 1000, 0.1, 1e-8
INSTANCES, FIRST_SEED = 5, 700
Slab = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
SLABS: dict[str, Slab] = {
    "Gaussian": lambda rng, shape: rng.standard_normal(shape),
    "Laplace": lambda rng, shape: rng.laplace(size=shape) / np.sqrt(2),
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "+-1": lambda rng, shape: rng.choice((-1.0, 1.0), shape),
}


class Case(NamedTuple):
    """What is true of the slab, and what the solver is told."""

    slab: str = "Gaussian"
    atoms: int = N
    rho: float = RHO
    delta: float = DELTA
    learn: tuple[str, ...] = ()


CASES = {
    "told the truth": Case(),
    "10% too many atoms": Case(atoms=110),
    "10% too few atoms": Case(atoms=90),
    "density twice too high": Case(rho=2 * RHO),
    "density twice too low": Case(rho=RHO / 2),
    "density twice too high, learned": Case(rho=2 * RHO, learn=("density",)),
    "noise ten times too high": Case(delta=10 * DELTA),
    "noise ten times too low": Case(delta=DELTA / 10),
    "noise ten times too low, learned": Case(delta=DELTA / 10, learn=("noise_variance",)),
    "Laplace slab": Case("Laplace"),
    "uniform slab": Case("uniform"),
    "slab of +-1": Case("+-1"),
    "all learned, 10% too many atoms": Case(atoms=110, rho=0.3, delta=1e-4, learn=("noise_variance", "density", "slab_variance")),
}


def instance(slab: Slab, seed: int) -> tuple[np.ndarray, sp.Pair[Any]]:
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((M, N))
    X = slab(rng, (N, P)) * (rng.random((N, P)) < RHO)
    return F @ X / np.sqrt(N) + np.sqrt(DELTA) * rng.standard_normal((M, P)), sp.Pair(F, X)


def main() -> None:
    print(f"N = {N}, M = {M}, P = {P}, rho = {RHO}, Delta = {DELTA}; {INSTANCES} instances")
    print(f"  An atom is found if 1 - cos^2 < {DICTIONARY_LEARNED:g}.")
    print(f"  {'':36s} all found  atoms found  median 1 - cos^2  iterations  status")
    for name, case in CASES.items():
        problem = sp.Problem.sparse(alpha=M / case.atoms, pi=P / case.atoms, rho=case.rho, noise_variance=case.delta)
        every, share, angle, iterations, status = 0, [], [], [], []
        for k in range(INSTANCES):
            Y, truth = instance(SLABS[case.slab], FIRST_SEED + k)
            if case.atoms != N:  # the scaling of Y is with the number of atoms that the solver is told
                Y = Y * np.sqrt(N / case.atoms)
            solution = sp.solve(Y, problem, n_atoms=case.atoms, learn=case.learn, max_iterations=4000)
            found = record(solution, truth)
            every += bool(found.learned)
            share.append(found.atoms_learned)
            angle.append(np.median(found.score.angle))
            iterations.append(int(found.iterations))
            status.append(found.status)
        words = ", ".join(f"{status.count(word)} {word}" for word in sorted(set(status)))
        row = f"{every} of {INSTANCES}     {np.mean(share):.3f}        {np.median(angle):.1e}           {np.mean(iterations):.0f}"
        print(f"  {name:36s} {row}       {words}", flush=True)
