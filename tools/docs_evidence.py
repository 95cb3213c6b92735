"""Tables of the evidence, made when the site is built from the files that the benchmarks write.

A line `<!-- results: NAME -->` in a page becomes the table of `benchmarks/results/NAME.csv`, with the command, the date and the machine
that `about.toml` beside it names.
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
MARK = re.compile(r"^<!-- results: (\w+) -->$", flags=re.MULTILINE)
Row = dict[str, str]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put each table in the place of its mark."""
    return MARK.sub(lambda found: table_of(found[1]), markdown)


def table_of(name: str) -> str:
    """The table of one file of results and, below it, where it comes from."""
    if name not in TABLES:
        raise PluginError(f"no table is made of results called {name!r}; there are {', '.join(TABLES)}")
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    about = tomllib.loads((RESULTS / "about.toml").read_text())[name]
    return f"{TABLES[name](rows)}\n\n*`{about['command']}`, {about['date']}, {about['machine']}; `benchmarks/results/{name}.csv`.*"


def noise(rows: list[Row]) -> str:
    """Error over the informed run's; of the right results, and of the wrong ones, how many are called converged."""
    return pivot(_by_size(rows), ("N", "M", "P", "rho"), "snr", _noise_cell, "N, M, P, ρ", "{} dB")


def noise_learned(rows: list[Row]) -> str:
    """The same where everything is learned, with the ranges of the learned density and noise variance over the true ones."""
    return pivot(_by_size(rows), ("N", "M", "P", "rho"), "snr", _learned_cell, "N, M, P, ρ", "{} dB")


def _by_size(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (int(row["N"]), int(row["M"]), float(row["snr"])))


def _noise_cell(rows: list[Row]) -> str:
    ratio = sum(float(row["error"]) / float(row["informed"]) for row in rows) / len(rows)
    right, wrong = ([row for row in rows if row["kind"] == kind] for kind in ("right", "wrong"))
    told = [f"{sum(row['status'] == 'converged' for row in kind)} of {len(kind)}" for kind in ((right, wrong) if wrong else (right,))]
    return "; ".join([f"{ratio:.2f}", *told] if right or wrong else [f"{ratio:.2f}"])


def _learned_cell(rows: list[Row]) -> str:
    ranges = [sorted(float(row[name]) for row in rows) for name in ("density", "noise_variance")]
    return f"{_noise_cell(rows)}<br>{'; '.join(f'{values[0]:.2f}–{values[-1]:.2f}' for values in ranges)}"


def frontier(rows: list[Row]) -> str:
    """Instances with every atom found, for each number of signals that was tried."""
    wanted = sorted({row["spinodals"] for row in rows}, key=float)
    rows = [{**row, "atoms": f"{row['method']}, ρ = {row['rho']}, N = {row['N']}"} for row in rows]
    return pivot(
        rows,
        ("atoms",),
        "spinodals",
        lambda cell: "; ".join(f"{row['solved']}/{row['instances']}" for row in cell),
        "signals, in spinodals",
        "{}",
        wanted,
    )


def wrong_models(rows: list[Row]) -> str:
    """Of the instances how many converged, and how many had which warning."""

    def cell(found: list[Row]) -> str:
        [row] = found
        return f"{row['converged']}; {row['warnings'] or 'none'}"

    return pivot(rows, ("case",), "decibels", cell, "data", "{} dB")


def bits(rows: list[Row]) -> str:
    """Signals per atom, for every third density."""
    shown = sorted({row["rho"] for row in rows}, key=float)[::3]
    return pivot(
        [row for row in rows if row["rho"] in shown], ("bits",), "rho", lambda cell: f"{float(cell[0]['pi']):.2f}", "bits", "ρ = {}"
    )


def pivot(
    rows: list[Row],
    down: tuple[str, ...],
    across: str,
    cell: Callable[[list[Row]], str],
    corner: str,
    head: str,
    order: Iterable[str] | None = None,
) -> str:
    """A table with a line for each value of `down` and a column for each of `across`, both in the order in which they come."""
    columns = list(order or dict.fromkeys(row[across] for row in rows))
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(", ".join(row[name] for name in down), []).append(row)
    table = [f"| {corner} | " + " | ".join(head.format(column) for column in columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for name, found in lines.items():
        cells = [[row for row in found if row[across] == column] for column in columns]
        table.append(f"| {name} | " + " | ".join(cell(each) if each else "" for each in cells) + " |")
    return "\n".join(table)


def sensors(rows: list[Row]) -> str:
    """Instances recovered and, in brackets, those recovered when the gains or the faults are told."""
    rows = [{**row, "case": f"{row['kind']}, {row['P']} signals"} for row in rows]
    return pivot(rows, ("case",), "alpha", lambda cell: f"{cell[0]['recovered']} ({cell[0]['told']})", "of ten", "α = {}")


def sensors_predicted(rows: list[Row]) -> str:
    """The rate of each transition."""
    return pivot(rows, ("kind",), "P", lambda cell: f"{float(cell[0]['alpha']):.3f}", "α at the transition", "P = {}")


def channel_cost(rows: list[Row]) -> str:
    """CPU time of an iteration over that with Gaussian noise."""
    rows = [{**row, "what": "over Gaussian noise"} for row in rows]
    return pivot(rows, ("channel",), "what", lambda cell: f"{float(cell[0]['ratio']):.2f}", "an iteration with", "{}")


def right_channel(rows: list[Row]) -> str:
    """The error of X with Gaussian noise and with the right channel, and how many of the runs are called converged."""
    long = []
    for row in rows:
        times = float(row["gaussian"]) / float(row["right"])
        cells = {
            "Gaussian noise": f"{float(row['gaussian']):.1e}",
            "converged": f"{row['gaussian_converged']} of {row['instances']} ({row['gaussian_status']})",
            "right channel": f"{float(row['right']):.1e}",
            "converged, right": f"{row['right_converged']} of {row['instances']}",
            "times better": f"{times:.0f}" if times >= 10 else f"{times:.2g}",
        }
        long += [{"data": row["case"], "what": name, "value": value} for name, value in cells.items()]
    return pivot(long, ("data",), "what", lambda cell: cell[0]["value"], "data", "{}")


def channels(rows: list[Row]) -> str:
    """Errors of F and X over the predicted ones, and how many runs have both near them."""

    def cell(found: list[Row]) -> str:
        [row] = found
        size = "" if row["n"] == "200" else f", N = {row['n']}"
        return f"F {float(row['ratio_F']):.2f}, X {float(row['ratio_X']):.2f} ({row['within']} of {row['of']}{size})"

    return pivot(rows, ("channel",), "kind", cell, "channel", "{}")


def pictures(rows: list[Row]) -> str:
    """PSNR in dB of every picture, for each task and level."""
    names = {"denoise": "noise of σ = {}", "inpaint": "{}% of the pixels missing"}
    rows = [{**row, "what": names.get(row["task"], row["task"] + " {}").format(row["level"])} for row in rows]
    return pivot(rows, ("what", "picture"), "method", lambda cell: f"{float(cell[0]['psnr']):.2f}", "PSNR, dB", "{}")


def completion(rows: list[Row]) -> str:
    """Error, log density, and shares in the 50% and 90% intervals, of every table and method."""

    def cell(found: list[Row]) -> str:
        row = found[0]
        inside = " / ".join(f"{100 * float(row[name]):.0f}" for name in ("coverage_50", "coverage_90"))
        return f"{float(row['rmse']):.3f}, {float(row['log_density']):.2f}, {inside}%"

    return pivot(rows, ("data", "design"), "method", cell, "error, log density, coverage", "{}")


def defaults(rows: list[Row]) -> str:
    """What held-out samples say of each setting, and how far the defaults are from the best."""
    lines = []
    for name in dict.fromkeys(row["data"] for row in rows):
        here = [row for row in rows if row["data"] == name]
        own = next(row for row in here if row["setting"] == "defaults")
        best = max(here, key=lambda row: float(row["decibels"]))
        behind, times = float(best["decibels"]) - float(own["decibels"]), float(own["cpu"]) / float(best["cpu"])
        lines += [{**row, "data": f"{name} ({row['shape']})"} for row in here]
        lines.append({"data": lines[-1]["data"], "setting": "defaults, to the best", "text": f"-{behind:.2f} dB, {times:.1f} × CPU time"})

    def cell(found: list[Row]) -> str:
        row = found[0]
        if "text" in row:
            return row["text"]
        ended = "" if row["status"] in ("converged", "unconfirmed") else f" ({row['status'].replace('_', ' ')})"
        return f"{float(row['decibels']):.2f} dB, {float(row['log_density']):.2f}, {float(row['cpu']):.0f} s{ended}"

    order = [*dict.fromkeys(row["setting"] for row in rows), "defaults, to the best"]
    return pivot(lines, ("data",), "setting", cell, "data (samples × features, components)", "{}", order)


def load(rows: list[Row]) -> str:
    """Answers, the slowest of them, errors of the server, and memory at rest and at most."""
    names = {"answers": "answers", "slowest_s": "slowest, s", "errors": "errors", "rest_MB": "memory at rest, MB", "peak_MB": "at most, MB"}
    kept = [row for k, row in enumerate(rows) if k in (0, 1, len(rows) - 1) or k % 10 == 0]
    long = [{"after": row["after"], "what": name, "value": row[key]} for row in kept for key, name in names.items()]
    return pivot(long, ("after",), "what", lambda cell: cell[0]["value"], "after", "{}")


def scale(rows: list[Row]) -> str:
    """Seconds, memory and what is left of the noise, for every case."""
    names = {"wall": "s", "cpu": "CPU s", "over_omp": "CPU s over those of OMP", "peak_mb": "peak, MB", "patch_psnr": "PSNR of patches, dB"}
    names |= {"status": "status"}
    words = {
        "fit": "fit",
        "transform": "codes",
        "stream": "fit, streamed",
        "spams": "SPAMS's fit",
        "spams omp": "SPAMS's OMP",
        "sklearn omp": "scikit-learn's OMP",
    }
    long = [
        {"what": words[row["case"]], "samples": f"{int(row['samples']):,}", "machine": row["machine"], "name": name, "value": row[key]}
        for row in rows
        for key, name in names.items()
    ]
    return pivot(long, ("what", "samples", "machine"), "name", lambda cell: cell[0]["value"], "what, samples, machine", "{}")


def first_answers(rows: list[Row]) -> str:
    """Seconds, what they are compared with, the figure made of both, and the most that it may be."""
    names = {"seconds": "s", "against": "compared with, s", "figure": "figure", "cpu_figure": "in CPU time", "target": "at most"}
    long = [{"what": row["what"], "name": name, "value": row[key]} for row in rows for key, name in names.items()]
    return pivot(long, ("what",), "name", lambda cell: cell[0]["value"], "what", "{}")


TABLES: dict[str, Callable[[list[Row]], str]] = {
    "noise": noise,
    "noise_auto": noise_learned,
    "frontier": frontier,
    "wrong_models": wrong_models,
    "bits": bits,
    "sensors": sensors,
    "sensors_predicted": sensors_predicted,
    "right_channel": right_channel,
    "channels": channels,
    "channel_cost": channel_cost,
    "pictures": pictures,
    "completion": completion,
    "defaults": defaults,
    "load": load,
    "first_answers": first_answers,
    "scale": scale,
}
