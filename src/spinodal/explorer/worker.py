"""What a worker does. What JAX compiles for it, tens of megabytes for each shape, goes when the worker ends.

A worker reads questions from its standard input and tells of its work on its standard output, in lines of JSON. It ends with its server.
A question is the state of a live run, or a file to read or to solve.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError
from ..evaluation.record import Record, record, solve_drawn
from ..evaluation.scoring import ATOM_RECOVERED, Score, align, fit_scales, score
from ..model.sampling import sample
from ..pair import Pair
from .state import MOST_ITERATIONS, State

Say = Callable[[dict[str, Any]], None]
# Entries of X that are drawn.
_SHOWN = 1_500


def main() -> None:
    """Answer one question after another until there are no more."""
    # Whatever else is printed must not come between our lines.
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def say(what: dict[str, Any]) -> None:
        told.write(json.dumps(what) + "\n")
        told.flush()

    for line in sys.stdin:
        tell(json.loads(line), say)
        give_back_memory()


def give_back_memory() -> None:
    """Hand what compiling took and freed back to the system, where the C library knows how: a worker that waits should be small."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def tell(question: dict[str, Any], say: Say) -> None:
    """Do what is asked, and say how it goes: `errors` or `progress` on the way, and how it `ended`."""
    try:
        if "state" in question:
            solve(State(**question["state"]), say)
        else:
            from .own_data import work

            work(question, say)
    except InputError as error:
        say({"ended": f"refused: {error}"})
    except BrokenPipeError:
        raise
    except Exception as error:  # whatever it is, the page should say so and go on
        say({"ended": f"failed: {type(error).__name__}"})


def solve(state: State, say: Say) -> None:
    problem = state.problem()
    instance = sample(problem, state.n, seed=state.seed)

    def watch(iteration: int, means: Pair[np.ndarray]) -> None:
        scored = score(means, instance.truth)
        error = _errors(scored, state)
        say({"iteration": iteration, "errors": [float(error.F), float(error.X), float(np.median(scored.signals))]})

    solution = solve_drawn(instance, problem, max_iterations=MOST_ITERATIONS, seed=state.seed, watch=watch)
    found = record(solution, instance.truth)
    say({"ended": str(found.status), "result": _result(found, solution.mean, instance.truth, state)})


def _errors(scored: Score, state: State) -> Pair[float]:
    """Order and signs are free where nothing was known of F, scales always."""
    return scored.mse_aligned if np.isinf(state.eta) else scored.mse_scaled


def _result(found: Record, mean: Pair[Any], truth: Pair[Any], state: State) -> dict[str, Any]:
    """Some entries of X against the truth, and the angle of every atom."""
    fitted = align(mean, truth) if np.isinf(state.eta) else fit_scales(mean, truth.F)
    shown = np.sort(np.random.default_rng(0).choice(truth.X.size, min(_SHOWN, truth.X.size), replace=False))
    error = _errors(found.score, state)
    return {
        "true_X": _short(truth.X.ravel()[shown]),
        "found_X": _short(fitted.X.ravel()[shown]),
        "angle": _short(found.score.angle),
        "recovered": float(found.score.atoms_recovered),
        "threshold": ATOM_RECOVERED,
        "mse_X": float(error.X),
        "mse_F": float(error.F),
    }


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
