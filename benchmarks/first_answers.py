"""How long a first answer takes in a new process, over `python -c "import jax"`, and what another number of atoms costs in one process.

`python -m benchmarks first_answers --repeats 5` runs the commands once to fill a compilation cache of its own, then all of them in turns,
each in a new process, and prints medians. The targets are for everything but the first ever call. Writes results/first_answers.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from spinodal.cache import VARIABLE

RESULTS = Path(__file__).parent / "results" / "first_answers.csv"
# The data: rows, signals, atoms, density of the codes, noise variance.
M, P, ATOMS, DENSITY, NOISE, SEED = 30, 500, 40, 0.1, 1e-3, 0
OTHER = ATOMS + 1
# Most that a command may take, over `import jax`.
THEORY, SOLVE, ANOTHER = 2.5, 4.0, 6.0
# A fit with another number of atoms may take this many warm fits and so many seconds more.
FITS, EXTRA = 2.0, 2.0
# The statuses of the command: 0, or 3 where the result can't be trusted. Both are answers.
ANSWERED = (0, 3)
# In one process, without a cache on disk: the first fit ever, fits already compiled, and a fit with another number of atoms.
IN_PROCESS = """
import json, sys, time
import numpy as np
import spinodal as sp

def fit(n_atoms):
    begun = time.perf_counter()
    sp.solve(Y, n_atoms=n_atoms)
    return time.perf_counter() - begun

Y = np.loadtxt(sys.argv[1], delimiter=",")
atoms, other = int(sys.argv[2]), int(sys.argv[3])
first, warm, before = fit(atoms), fit(atoms), time.process_time()
second, cpu, again = fit(other), time.process_time() - before, fit(other)
print(json.dumps({"first": first, "warm": warm, "second": second, "cpu": cpu, "again": again}))
"""


class Row(NamedTuple):
    """A measurement: its median seconds, what they are compared with, the figure made of both, and the most that it may be."""

    what: str
    seconds: float
    against: float
    figure: float
    target: float

    @property
    def met(self) -> bool:
        return self.figure <= self.target


def data(path: Path) -> None:
    """Write a Y that a sparse dictionary makes."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((ATOMS, P)) * (rng.random((ATOMS, P)) < DENSITY)
    Y = rng.standard_normal((M, ATOMS)) @ X / np.sqrt(ATOMS) + np.sqrt(NOISE) * rng.standard_normal((M, P))
    np.savetxt(path, Y, delimiter=",")


def seconds(words: Sequence[str], cache: Path) -> float:
    """How long a new Python process takes, with compiled code in `cache`."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, *words], env=os.environ | {VARIABLE: str(cache)}, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - begun
    if done.returncode not in ANSWERED:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return taken


def in_process(file: Path) -> dict[str, float]:
    """Seconds of fits in one process."""
    words = [sys.executable, "-c", IN_PROCESS, str(file), str(ATOMS), str(OTHER)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(folder: Path, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds of the commands and of the fits in one process."""
    file, cache = folder / "Y.csv", folder / "cache"
    data(file)
    theory = ["-m", "spinodal", "theory", "--alpha", "0.5", "--pi", "5", "--density", "0.1", "--noise-variance", "1e-3"]
    solve, other = (
        ["-m", "spinodal", "solve", str(file), "--n-atoms", str(n), "--out", str(folder / "solution.npz")] for n in (ATOMS, OTHER)
    )
    ever = {"theory": seconds(theory, cache), "solve": seconds(solve, cache)}
    print(f"the first call ever: theory {ever['theory']:.1f} s, solve {ever['solve']:.1f} s", flush=True)
    commands: dict[str, list[float]] = {"import jax": [], "theory": [], "solve": [], "another": []}
    fits: dict[str, list[float]] = {}
    for turn in range(repeats):
        commands["import jax"].append(seconds(["-c", "import jax"], cache))
        commands["theory"].append(seconds(theory, cache))
        commands["solve"].append(seconds(solve, cache))
        # A copy of the cache that has never seen the other number of atoms.
        fresh = Path(shutil.copytree(cache, folder / f"cache-{turn}"))
        commands["another"].append(seconds(other, fresh))
        for name, taken in in_process(file).items():
            fits.setdefault(name, []).append(taken)
    return tuple({name: median(values) for name, values in each.items()} for each in (commands, fits))  # type: ignore[return-value]


def rows(commands: dict[str, float], fits: dict[str, float]) -> list[Row]:
    """What is printed and written: ratios of the commands, and the seconds that a fit takes too long."""
    base = commands["import jax"]
    ratios = {
        "spinodal theory, one point": (commands["theory"], THEORY),
        f"spinodal solve, {M} x {P}, {ATOMS} atoms": (commands["solve"], SOLVE),
        f"the same with {OTHER} atoms, after {ATOMS}": (commands["another"], ANOTHER),
    }
    found = [Row(f"{what}: ratio", taken, base, taken / base, target) for what, (taken, target) in ratios.items()]
    compared = {f"a warm fit of {ATOMS}": fits["warm"], f"a warm fit of {OTHER}": fits["again"]}
    for what, warm in compared.items():
        excess = fits["second"] - FITS * warm - EXTRA
        name = f"in one process, first fit of {OTHER} atoms less {FITS:g} x {what} and {EXTRA:g} s: seconds"
        found.append(Row(name, fits["second"], warm, excess, 0.0))
    return found


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks first_answers", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        commands, fits = measure(Path(folder), options.repeats)
    table = rows(commands, fits)
    print(f"medians of {options.repeats}; import jax {commands['import jax']:.2f} s, the first fit in a process {fits['first']:.1f} s")
    width = max(len(row.what) for row in table)
    print(f"  {'':{width}s}  seconds  against  figure  target")
    for row in table:
        numbers = f"{row.seconds:7.2f}  {row.against:7.2f}  {row.figure:6.2f}  {row.target:6.1f}"
        print(f"  {row.what:{width}s}  {numbers}  {'met' if row.met else 'NOT MET'}")
    print(f"the first fit of {OTHER} atoms takes {fits['cpu']:.2f} s of CPU time: on a busy machine its seconds above say little")
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*Row._fields, "met"))
        writer.writerows((row.what, *(f"{value:.4g}" for value in row[1:]), row.met) for row in table)
