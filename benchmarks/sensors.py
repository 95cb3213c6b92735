"""Few signals from unknown sensors with F known: how often all signals are recovered, beside being told the gains or the faults.

N = 200, exactly 40 nonzeros in each signal, no noise; recovered means a correlation with the truth above .999 over all signals. The grid is
that of the Cal-AMP papers (Schuelke, Caltagirone, Krzakala and Zdeborova 2013, 2015): gains uniform in [.6, 1.4], or 20% faulty sensors
that report noise of the signal's power. Writes results/sensors.csv and draws docs/images/sensors.png; `--draw` only draws. Ten minutes.
`--predict` computes the transitions that state evolution with whole rows predicts (results/sensors_predicted.csv), and draws. Some minutes.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

import spinodal as sp
from spinodal.figures.palette import BLUE, GREY, ORANGE, VERMILION
from spinodal.figures.theory import blank_figure

LONG = True  # runs only when named
N, NONZEROS, INSTANCES, ITERATIONS = 200, 40, 10, 1000
RATES = (0.4, 0.45, 0.5, 0.6, 0.8)
SIGNALS = {"gains": (2, 3, 10), "faulty": (1, 3, 10)}
RHO, FAULTY, ENOUGH = NONZEROS / N, 0.2, 0.999
CHANNELS = {"gains": sp.SensorGains(0.0, gains=sp.UniformGains(0.6, 1.4)), "faulty": sp.FaultySensors(0.0, FAULTY, RHO)}
RESULTS = Path(__file__).parent / "results" / "sensors.csv"
PREDICTED = RESULTS.with_name("sensors_predicted.csv")
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "sensors.png"


def recovered(Y: np.ndarray, F: np.ndarray, X: np.ndarray, channel: sp.Channel) -> bool:
    """Whether all signals are found with F known."""
    model = sp.Model.sparse(rho=RHO, eta=0.0).replace(channel=channel)
    found = sp.solve(Y, model, F_prime=F, max_iterations=ITERATIONS, search=sp.Search(anneal=0, repair=False)).mean.X
    size = np.sqrt(np.sum(found**2) * np.sum(X**2))
    return bool(size > 0 and np.sum(found * X) / size > ENOUGH)


def instance(kind: str, rate: float, P: int, seed: int) -> tuple[bool, bool]:
    """Whether one instance is recovered: as it is, and told the gains or the faults."""
    random = np.random.default_rng((seed, P, round(1000 * rate)))
    M = round(rate * N)
    F, X = random.normal(size=(M, N)), np.zeros((N, P))
    for signal in X.T:
        signal[random.choice(N, NONZEROS, replace=False)] = random.normal(size=NONZEROS)
    z = F @ X / np.sqrt(N)
    with jax.enable_x64(True):
        Y = np.asarray(CHANNELS[kind].sample(jax.random.key(seed), z))
    works = np.isclose(Y / z, (Y / z)[:, :1]).all(axis=1) if kind == "gains" else np.isclose(Y, z).all(axis=1)
    return recovered(Y, F, X, CHANNELS[kind]), recovered(z[works], F[works], X, sp.GaussianNoise(0.0))


def measure() -> None:
    with RESULTS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("kind", "P", "alpha", "recovered", "told", "instances"))
        for kind, numbers in SIGNALS.items():
            for P in numbers:
                for rate in RATES:
                    ends = [instance(kind, rate, P, seed) for seed in range(INSTANCES)]
                    found, told = (sum(end[k] for end in ends) for k in (0, 1))
                    print(f"{kind}, P = {P}, alpha = {rate:g}: {found} of {INSTANCES}; told: {told}", flush=True)
                    table.writerow((kind, P, rate, found, told, INSTANCES))
                    file.flush()


# State evolution with whole rows: errors of X that are looked at, relative to its power, entries drawn for each, and the spread of a noise
# that stands for none.
ERRORS, ENTRIES, LEAST = np.geomspace(1e-5, 0.98, 36), 60_000, 1e-12


def information(channel: sp.Channel, P: int, error: float) -> float:
    """E[g^2] of an entry where the variance `error` of z is not explained yet: rows of P signals are drawn from their own law."""
    rng = np.random.default_rng(1)
    shape = (ENTRIES // P, P)
    w = np.sqrt(RHO - error) * rng.normal(size=shape)
    z = w + np.sqrt(error) * rng.normal(size=shape)
    with jax.enable_x64(True):
        y = channel.sample(jax.random.key(2), z)
        g = _g(channel.at_least(LEAST), y, w, error)
    return float(np.mean(np.asarray(g) ** 2))


@jax.jit
def _g(channel: sp.Channel, y: jax.Array, w: jax.Array, V: jax.Array) -> jax.Array:
    return channel.output(y, w, V).g


def transition(channel: sp.Channel, P: int) -> float:
    """The rate from which AMP with F known recovers the signals: a fixed point has alpha E[g^2] = snr(E), so that it gets through above
    the largest snr(E)/E[g^2]."""
    prior = sp.GaussBernoulli(RHO)
    snr = np.geomspace(1e-3, 1e9, 4000)
    mmse = np.asarray(prior.mmse(snr))
    errors = RHO * ERRORS
    needed = np.exp(np.interp(np.log(errors), np.log(mmse[::-1]), np.log(snr[::-1])))
    return float(max(needed[k] / information(channel, P, error) for k, error in enumerate(errors)))


def predict() -> None:
    with PREDICTED.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("kind", "P", "alpha"))
        known = transition(sp.GaussianNoise(0.0), 1)
        print(f"known sensors: {known:.3f}", flush=True)
        table.writerow(("known", 1, f"{known:.4f}"))
        for kind, numbers in SIGNALS.items():
            for P in numbers:
                found = transition(CHANNELS[kind], P)
                print(f"{kind}, P = {P}: {found:.3f}", flush=True)
                table.writerow((kind, P, f"{found:.4f}"))
                file.flush()


def draw() -> None:
    with RESULTS.open() as file:
        rows = list(csv.DictReader(file))
    predicted = []
    if PREDICTED.exists():
        with PREDICTED.open() as file:
            predicted = list(csv.DictReader(file))
    figure, axes = blank_figure(9.6, 3.4, 1, 2, sharey=True)
    titles = {"gains": "unknown gains", "faulty": "20% faulty sensors"}
    for axis, (kind, numbers) in zip(axes, SIGNALS.items(), strict=True):
        for P, colour in zip(numbers, (BLUE, ORANGE, VERMILION), strict=True):
            here = [row for row in rows if row["kind"] == kind and int(row["P"]) == P]
            rates = [float(row["alpha"]) for row in here]
            axis.plot(rates, [int(row["recovered"]) / int(row["instances"]) for row in here], "o-", color=colour, label=f"{P} signals")
            axis.plot(rates, [int(row["told"]) / int(row["instances"]) for row in here], ":", color=colour)
            for row in predicted:
                if (row["kind"], int(row["P"])) == (kind, P) and float(row["alpha"]) <= rates[-1]:
                    axis.axvline(float(row["alpha"]), color=colour, ls="--", lw=1)
        axis.plot([], [], ":", color=GREY, label="told which")
        axis.plot([], [], "--", color=GREY, lw=1, label="predicted, large N")
        axis.set(xlabel=r"measurements per entry $\alpha$", title=titles[kind])
        axis.legend(fontsize=8)
    axes[0].set_ylabel("share of instances recovered")
    figure.savefig(FIGURE, dpi=120)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sensors", description=__doc__)
    parser.add_argument("--draw", action="store_true", help="only draw the results so far")
    parser.add_argument("--predict", action="store_true", help="compute the predicted transitions, and draw")
    options = parser.parse_args(arguments)
    if options.predict:
        predict()
    elif not options.draw:
        measure()
    draw()
