"""How long a first answer takes in a new process, over `python -c "import jax"`, and what another number of atoms costs in one process.

`python -m benchmarks first_answers --repeats 5` runs the commands once to fill a compilation cache of its own, then all of them in turns,
each in a new process, and prints medians. The targets are for everything but the first ever call. Writes results/first_answers.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
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
    begun = time.perf_counter(), time.process_time()
    sp.solve(Y, n_atoms=n_atoms)
    return time.perf_counter() - begun[0], time.process_time() - begun[1]

Y = np.loadtxt(sys.argv[1], delimiter=",")
atoms, other = int(sys.argv[2]), int(sys.argv[3])
print(json.dumps({"first": fit(atoms), "warm": fit(atoms), "second": fit(other), "again": fit(other)}))
"""


class Times(NamedTuple):
    """Seconds on the clock, and of the CPU, all threads together. The second hardly depends on what else the machine does."""

    wall: float
    cpu: float


class Row(NamedTuple):
    """A measurement: seconds, what they are compared with, the figure made of both, the most that it may be, and the figure in CPU time."""

    what: str
    seconds: float
    against: float
    figure: float
    target: float
    cpu_figure: float

    @property
    def met(self) -> bool:
        return self.figure <= self.target


def data(path: Path) -> None:
    """Write a Y that a sparse dictionary makes."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((ATOMS, P)) * (rng.random((ATOMS, P)) < DENSITY)
    Y = rng.standard_normal((M, ATOMS)) @ X / np.sqrt(ATOMS) + np.sqrt(NOISE) * rng.standard_normal((M, P))
    np.savetxt(path, Y, delimiter=",")


def timed(words: Sequence[str], cache: Path) -> Times:
    """How long a new Python process takes, with compiled code in `cache`."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *words], env=os.environ | {VARIABLE: str(cache)}, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in ANSWERED:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return Times(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def in_process(file: Path) -> dict[str, Times]:
    """Times of fits in one process."""
    words = [sys.executable, "-c", IN_PROCESS, str(file), str(ATOMS), str(OTHER)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return {name: Times(*times) for name, times in json.loads(done.stdout).items()}


def measure(folder: Path, repeats: int) -> dict[str, Times]:
    """Medians of the commands and of the fits in one process."""
    file, cache = folder / "Y.csv", folder / "cache"
    data(file)
    theory = ["-m", "spinodal", "theory", "--alpha", "0.5", "--pi", "5", "--density", "0.1", "--noise-variance", "1e-3"]
    solve, other = (
        ["-m", "spinodal", "solve", str(file), "--n-atoms", str(n), "--out", str(folder / "solution.npz")] for n in (ATOMS, OTHER)
    )
    ever = timed(theory, cache), timed(solve, cache)
    print(f"the first call ever: theory {ever[0].wall:.1f} s, solve {ever[1].wall:.1f} s", flush=True)
    turns = []
    for turn in range(repeats):
        # A copy of the cache that has never seen the other number of atoms.
        fresh = Path(shutil.copytree(cache, folder / f"cache-{turn}"))
        commands = {
            "import jax": timed(["-c", "import jax"], cache),
            "theory": timed(theory, cache),
            "solve": timed(solve, cache),
            "another": timed(other, fresh),
        }
        turns.append(commands | in_process(file))
    return {name: Times(*(median(each) for each in zip(*(turn[name] for turn in turns), strict=True))) for name in turns[0]}


def rows(times: dict[str, Times]) -> list[Row]:
    """What is printed and written: ratios of the commands, and the seconds that a fit takes too long."""
    base = times["import jax"]
    ratios = {
        "spinodal theory, one point: ratio": (times["theory"], THEORY),
        f"spinodal solve, {M} x {P}, {ATOMS} atoms: ratio": (times["solve"], SOLVE),
        f"the same with {OTHER} atoms, after {ATOMS}: ratio": (times["another"], ANOTHER),
    }
    found = [
        Row(what, taken.wall, base.wall, taken.wall / base.wall, target, taken.cpu / base.cpu) for what, (taken, target) in ratios.items()
    ]
    second = times["second"]
    for atoms, warm in ((ATOMS, times["warm"]), (OTHER, times["again"])):
        excess, cpu = (mine - FITS * theirs - EXTRA for mine, theirs in zip(second, warm, strict=True))
        what = f"in one process, first fit of {OTHER} atoms less {FITS:g} x a warm fit of {atoms} and {EXTRA:g} s: seconds"
        found.append(Row(what, second.wall, warm.wall, excess, 0.0, cpu))
    return found


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks first_answers", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        times = measure(Path(folder), options.repeats)
    table = rows(times)
    jax, first = times["import jax"], times["first"]
    print(f"medians of {options.repeats}; import jax {jax.wall:.2f} s, the first fit in a process {first.wall:.1f} s")
    width = max(len(row.what) for row in table)
    print(f"  {'':{width}s}  seconds  against  figure  target           in CPU time")
    for row in table:
        numbers = f"{row.seconds:7.2f}  {row.against:7.2f}  {row.figure:6.2f}  {row.target:6.1f}"
        print(f"  {row.what:{width}s}  {numbers}  {'met' if row.met else 'NOT MET':7s}  {row.cpu_figure:6.2f}")
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*Row._fields, "met"))
        writer.writerows((row.what, *(f"{value:.4g}" for value in row[1:]), row.met) for row in table)
