"""Defaults on real data: `DictionaryLearner(n).fit(X)` beside the best settings that we know.

    python -m benchmarks defaults [--data 'digits, 64;wine'] [--settings 'defaults;no message passing']

A quarter of the samples of every data set, 1000 at most, is not learned from. A fifth of the entries of these is held out and restored:
the error says how far a setting is behind the best of them, in decibels and as a share of the root mean square. The log density of
their entries (all of them, natural logarithm) is that of the same samples under each model. Codes are found by expectation propagation
for both, whatever the model was learned by.

Patches are 8 x 8, their means taken off. Noisy ones are compared with the clean ones. Each fit runs in a process of its own; CPU seconds
are those of all threads, and programs are compiled by an earlier run if the cache on disk has them: run it twice for times. Rows go to
benchmarks/results/defaults.csv, in place of older ones of the same case.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import spinodal as sp
from spinodal.estimators.validation import is_fast

LONG = True
TABLE = Path(__file__).parent / "results" / "defaults.csv"
SIDE, SEED = 8, 0
# Shares of the samples, and of their entries, that are held out, and the most samples.
TESTED, MOST_TESTED, HELD_OUT = 0.25, 1000, 0.2
# What the defaults may miss of the best: decibels, a share of the error, and times its CPU time.
DECIBELS, SHARE, TIMES = 0.2, 0.02, 3.0
DEFAULTS = "defaults"
# Features with one value in this share of the samples are left out.
CONSTANT = 0.95
# Settings that were the best somewhere, or that one would try.
SETTINGS: dict[str, dict[str, Any]] = {
    DEFAULTS: {},
    "no message passing": {"max_iter": 0},
    "other coder": {"max_iter": 0},
    "own density": {"max_iter": 0, "own_density": True},
    "three starts": {"max_iter": 0, "n_init": 3},
    "other schedule": {"max_iter": 0},
}
# What the other schedule is: minibatches, or for many samples, which have them by default, rounds over all of them; of these message
# passing, the coder and the number of starts make no difference.
MANY = ("china", "china, noisy")
WITH_MANY = (DEFAULTS, "own density", "other schedule")


class Row(NamedTuple):
    """One fit; decibels are those of the signal over the error of the held-out entries."""

    data: str
    shape: str
    setting: str
    status: str
    decibels: float
    log_density: float
    cpu: float


class Data(NamedTuple):
    """The package it comes with, how many samples and components, and the samples: measured, and as they should be restored."""

    package: str
    samples: int
    components: int
    read: Callable[[], tuple[np.ndarray, np.ndarray]]


def patches_of(picture: np.ndarray, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """All patches, grey, their means taken off: measured, and clean."""
    grey = picture @ np.array([0.299, 0.587, 0.114])
    clean = np.lib.stride_tricks.sliding_window_view(grey, (SIDE, SIDE)).reshape(-1, SIDE**2)
    clean = clean[np.random.default_rng(SEED).permutation(len(clean))[:50_000]]
    noisy = clean + noise * np.random.default_rng(SEED + 1).normal(size=clean.shape)
    mean = noisy.mean(axis=1, keepdims=True)
    return noisy - mean, clean - mean


def same(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return values, values


DATA = {
    "china": Data("sklearn", 17_000, 128, lambda: patches_of(sp.datasets.photograph("china").values)),
    "china, noisy": Data("sklearn", 17_000, 128, lambda: patches_of(sp.datasets.photograph("china").values, 25.0)),
    "flower": Data("sklearn", 4000, 64, lambda: patches_of(sp.datasets.photograph("flower").values)),
    "portrait": Data("matplotlib", 4000, 64, lambda: patches_of(sp.datasets.portrait().values)),
    "portrait, noisy": Data("matplotlib", 4000, 64, lambda: patches_of(sp.datasets.portrait().values, 25.0)),
    "digits, 32": Data("sklearn", 1797, 32, lambda: same(_standardised(sp.datasets.digits().values))),
    "digits, 64": Data("sklearn", 1797, 64, lambda: same(_standardised(sp.datasets.digits().values))),
    "wine": Data("sklearn", 178, 4, lambda: same(_standardised(sp.datasets.wine().values))),
    "indian pines": Data("tensorly", 4000, 16, lambda: same(_standardised(sp.datasets.indian_pines().values.reshape(-1, 200)))),
    "fermentation": Data("chemotools", 1629, 8, lambda: same(_standardised(sp.datasets.fermentation().values))),
}


def _standardised(values: np.ndarray) -> np.ndarray:
    """Features of mean 0 and variance 1; those that hardly ever change left out."""
    most_common = np.array([np.unique(each, return_counts=True)[1].max() for each in values.T])
    values = values[:, most_common < CONSTANT * len(values)]
    return (values - values.mean(axis=0)) / values.std(axis=0)


class Case(NamedTuple):
    """Samples to learn from; those that test, with holes and whole; what should be in the holes, and where they are."""

    learned: np.ndarray
    holed: np.ndarray
    whole: np.ndarray
    truth: np.ndarray
    held: np.ndarray


def case(name: str) -> Case:
    measured, clean = DATA[name].read()
    random = np.random.default_rng(SEED + 2)
    order = random.permutation(len(measured))[: DATA[name].samples]
    tested = order[: min(int(TESTED * len(order)), MOST_TESTED)]
    whole = measured[tested]
    held = random.random(whole.shape) < HELD_OUT
    return Case(measured[order[len(tested) :]], np.where(held, np.nan, whole), whole, clean[tested], held)


def fitted(name: str, setting: str, samples: np.ndarray) -> tuple[Any, float]:
    """The model, and CPU seconds."""
    model = sp.DictionaryLearner(DATA[name].components, random_state=SEED, **SETTINGS[setting])
    if setting == "other coder":
        model.set_params(fast=not is_fast(model, samples.shape, DATA[name].components))
    weight = None
    with tempfile.TemporaryDirectory() as folder:
        if setting == "other schedule" and name in MANY:  # samples with weights are learned in rounds
            weight = np.r_[1 + 1e-6, np.ones(len(samples) - 1)]
        elif setting == "other schedule":  # what is outside memory is learned in minibatches
            table = np.memmap(Path(folder, "samples"), np.float64, "w+", shape=samples.shape)
            table[:] = samples
            samples = table
        begun = time.process_time()
        model.fit(samples, sample_weight=weight)
        return model, time.process_time() - begun


def measured(name: str, setting: str) -> Row:
    """One fit, in this process."""
    sp.enable_cache()
    given = case(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, cpu = fitted(name, setting, given.learned)
        model.set_params(fast=False)
        error = (model.restore(given.holed)[0] - given.truth)[given.held]
        density = float(np.mean(model.score_samples(given.whole))) / given.whole.shape[1]
    decibels = 10 * np.log10(np.mean(given.truth[given.held] ** 2) / np.mean(error**2))
    shape = "{} x {}, {}".format(*given.learned.shape, DATA[name].components)
    return Row(name, shape, setting, model.status_, float(decibels), density, cpu)


def rows_there() -> dict[tuple[str, str], Row]:
    """What was measured so far."""
    if not TABLE.exists():
        return {}
    numbers = ("decibels", "log_density", "cpu")
    with TABLE.open() as file:
        rows = [Row(*(float(r[name]) if name in numbers else r[name] for name in Row._fields)) for r in csv.DictReader(file)]
    return {(row.data, row.setting): row for row in rows}


def keep(row: Row) -> None:
    rows = rows_there() | {(row.data, row.setting): row}
    places = [(data, setting) for data in DATA for setting in SETTINGS if (data, setting) in rows]
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows([f"{x:.4f}" if isinstance(x, float) else x for x in rows[place]] for place in places)


class Distance(NamedTuple):
    """How far the defaults are from the best setting, and whether that is near enough."""

    defaults: Row
    best: Row
    decibels: float
    share: float
    nats: float
    times: float
    held: bool


def distance(rows: Sequence[Row]) -> Distance:
    """From rows of one data set. The best setting is that with the smallest error of held-out entries."""
    [defaults] = [row for row in rows if row.setting == DEFAULTS]
    best = max(rows, key=lambda row: row.decibels)
    behind = best.decibels - defaults.decibels
    share = 10 ** (behind / 20) - 1
    nats = max(row.log_density for row in rows) - defaults.log_density
    times = defaults.cpu / best.cpu
    near = behind <= DECIBELS and share <= SHARE
    held = near and times <= TIMES and defaults.status in ("converged", "unconfirmed")
    return Distance(defaults, best, behind, share, nats, times, held)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser("benchmarks defaults")
    parser.add_argument("--data", default=";".join(DATA), help="data sets, separated by semicolons")
    parser.add_argument("--settings", default=";".join(SETTINGS), help="separated by semicolons")
    parser.add_argument("--one", default="", help="(used inside) one fit, as JSON")
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measured(*json.loads(options.one))))
        return
    for name in options.data.split(";"):
        if find_spec(DATA[name].package) is None:
            print(f"{name} is left out: {DATA[name].package} is not installed")
            continue
        for setting in options.settings.split(";"):
            if name in MANY and setting not in WITH_MANY:
                continue
            command = [sys.executable, "-m", "benchmarks", "defaults", "--one", json.dumps([name, setting])]
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            if found.returncode:
                print(f"{name}, {setting}: {found.stderr[-500:]}")
                continue
            row = Row(*json.loads(found.stdout.strip().splitlines()[-1]))
            keep(row)
            print(
                f"{name} ({row.shape}), {setting}: {row.status}, {row.decibels:.2f} dB, "
                f"{row.log_density:.4f} nats an entry, cpu {row.cpu:.1f} s",
                flush=True,
            )
    for name in DATA:
        rows = [row for row in rows_there().values() if row.data == name]
        if any(row.setting == DEFAULTS for row in rows):
            found = distance(rows)
            print(
                f"{name}: {found.defaults.status}, {found.decibels:.2f} dB ({found.share:.1%}) and {found.nats:.3f} nats behind the best "
                f"({found.best.setting}), {found.times:.2f} times its CPU time: {'held' if found.held else 'MISSED'}"
            )
