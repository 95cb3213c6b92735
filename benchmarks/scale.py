"""Many samples: fits and codes beside SPAMS and scikit-learn, in time and memory.

    python -m benchmarks scale [--samples 10000,100000] [--stream 1000000] [--cases 'fit;spams'] [--features 64]

Samples are 8 x 8 patches (16 x 16 for 256 features) of scikit-learn's photograph "china" with noise of standard deviation 15, means taken
off, in single precision; there are 256 atoms. `--stream` learns from a memory map by `partial_fit`, every sample once. Each case runs in a
process of its own, whose peak of memory is told. CPU seconds are those of all threads. Codes and SPAMS's matching pursuit with the same
atoms take turns where it is installed: medians of each, and of the ratio. Rows go to benchmarks/results/scale.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

LONG = True
TABLE = Path(__file__).parent / "results" / "scale.csv"
ATOMS, NOISE, SEED = 256, 15.0, 0
# What SPAMS's tutorial sets for such patches, in units of the noise; minibatches of 512 and one pass, as ours.
PENALTY, BATCH, LEFT = 3.0, 512, 1.15
# Turns of the codes and of matching pursuit.
TURNS = 5
FIELDS = ("case", "machine", "samples", "features", "wall", "cpu", "peak_mb", "patch_psnr", "status", "omp_cpu", "over_omp")


def patches(count: int, features: int, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Patches with noise, and without, means of the noisy ones taken off."""
    from sklearn.datasets import load_sample_image

    picture = load_sample_image("china.jpg") @ np.array([0.299, 0.587, 0.114])
    rng = np.random.default_rng(seed)
    side = int(np.sqrt(features))
    row, column = (rng.integers(0, size - side + 1, count) for size in picture.shape)
    at = (row[:, None, None] + np.arange(side)[:, None], column[:, None, None] + np.arange(side))
    clean = picture[at].reshape(count, features)
    noisy = clean + NOISE * rng.normal(size=clean.shape)  # noise of its own for every patch: none is seen twice
    mean = noisy.mean(axis=1, keepdims=True)
    return (noisy - mean).astype(np.float32), (clean - mean).astype(np.float32)


def psnr(restored: np.ndarray, clean: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((restored - clean) ** 2)))


def measured(work: Any) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    value = work()
    return value, time.perf_counter() - wall, time.process_time() - cpu


def case(name: str, samples: int, features: int) -> dict[str, Any]:
    """One case, in this process."""
    few, clean = patches(4000, features, seed=1)
    status, beside = "", {}
    if name == "stream":
        restored, wall, cpu, status = _streamed(samples, features, few)
    elif name.startswith("spams"):
        import spams

        data = np.asfortranarray(patches(samples, features)[0].T, dtype=np.float64)
        steps = max(300, samples // BATCH)
        D, wall, cpu = measured(
            lambda: spams.trainDL(data, K=ATOMS, lambda1=PENALTY * NOISE, iter=steps, batchsize=BATCH, numThreads=-1, verbose=False)
        )
        D = np.asfortranarray(D)

        def pursue(values: np.ndarray) -> Any:
            return spams.omp(values, D, eps=features * (LEFT * NOISE) ** 2, L=min(features, 64), numThreads=-1)

        if name == "spams omp":
            _, wall, cpu = measured(lambda: pursue(data))
        restored = (D @ pursue(np.asfortranarray(few.T, dtype=np.float64))).T
    else:
        import spinodal as sp

        data = patches(samples, features)[0]
        model = sp.DictionaryLearner(ATOMS, random_state=SEED)
        if name == "transform":
            model.fit(data[:20_000])
            model.transform(data[:20_000])  # compiles
            wall, cpu, beside = _taking_turns(model, data)
        elif name == "sklearn omp":
            from sklearn.linear_model import orthogonal_mp_gram

            D = model.fit(data[:20_000]).components_.astype(np.float64)
            wide = data.astype(np.float64)
            _, wall, cpu = measured(
                lambda: orthogonal_mp_gram(D @ D.T, D @ wide.T, tol=features * (LEFT * NOISE) ** 2, norms_squared=np.sum(wide**2, axis=1))
            )
        else:
            _, wall, cpu = measured(lambda: model.fit(data))
        status, restored = model.status_, model.inverse_transform(model.transform(few))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    import jax

    return {
        "case": name,
        "machine": jax.devices()[0].device_kind,
        "samples": samples,
        "features": features,
        "wall": round(wall, 2),
        "cpu": round(cpu, 2),
        "peak_mb": round(peak),
        "patch_psnr": round(psnr(restored, clean), 3),
        "status": status,
    } | beside


def _taking_turns(model: Any, data: np.ndarray) -> tuple[float, float, dict[str, float]]:
    """Median times of the codes; beside them those of matching pursuit with the same atoms, and the median ratio of two turns."""
    turns = []
    if find_spec("spams") is not None:
        import spams

        wide, D = (np.asfortranarray(each.T, dtype=np.float64) for each in (data, model.components_))
    for _ in range(TURNS):
        turns.append(measured(lambda: model.transform(data))[1:])
        if find_spec("spams") is not None:
            left, most = data.shape[1] * (LEFT * NOISE) ** 2, min(data.shape[1], 64)
            turns[-1] += measured(lambda: spams.omp(wide, D, eps=left, L=most, numThreads=-1))[1:]  # noqa: B023 used at once
    wall, cpu, *omp = np.median(turns, axis=0).round(2).tolist()
    if not omp:
        return wall, cpu, {}
    return wall, cpu, {"omp_cpu": omp[1], "over_omp": round(float(np.median([turn[1] / turn[3] for turn in turns])), 2)}


def _streamed(samples: int, features: int, few: np.ndarray) -> tuple[np.ndarray, float, float, str]:
    """A memory map of all samples, learned chunk by chunk."""
    import spinodal as sp

    chunk = 65_536
    with tempfile.TemporaryDirectory() as folder:
        table = np.memmap(Path(folder, "patches.f32"), np.float32, "w+", shape=(samples, features))
        for k, first in enumerate(range(0, samples, chunk)):
            rows = table[first : first + chunk]
            rows[:] = patches(len(rows), features, seed=100 + k)[0]
        table.flush()
        model = sp.DictionaryLearner(ATOMS, random_state=SEED)

        def learn() -> None:
            for first in range(0, samples, chunk):
                model.partial_fit(np.array(table[first : first + chunk]))

        _, wall, cpu = measured(learn)
    return model.inverse_transform(model.transform(few)), wall, cpu, model.status_


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser("benchmarks scale")
    parser.add_argument("--samples", default="10000,100000", help="samples of the fits and codes")
    parser.add_argument("--stream", default="", help="samples that are streamed")
    parser.add_argument("--features", type=int, default=64, help="64 or 256")
    parser.add_argument("--cases", default="fit;transform;spams;spams omp;sklearn omp", help="which, with ; between them")
    parser.add_argument("--one", default="", help="(used inside) one case, as JSON")
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(case(*json.loads(options.one))))
        return
    wanted = [(name, int(count)) for count in filter(None, options.samples.split(",")) for name in filter(None, options.cases.split(";"))]
    wanted += [("stream", int(count)) for count in filter(None, options.stream.split(","))]
    for name, count in wanted:
        if "spams" in name and find_spec("spams") is None:
            print("SPAMS is not installed and is left out: pip install 'spinodal[bench]'")
            continue
        command = [sys.executable, "-m", "benchmarks", "scale", "--one", json.dumps([name, count, options.features])]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode:
            print(f"{name}, {count} samples: {found.stderr[-500:]}")
            continue
        row = json.loads(found.stdout.strip().splitlines()[-1])
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        key = ("case", "machine", "samples", "features")
        rows = list(csv.DictReader(TABLE.open())) if TABLE.exists() else []
        row = dict.fromkeys(FIELDS, "") | row
        rows = [old for old in rows if any(str(old[name]) != str(row[name]) for name in key)] + [row]
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
