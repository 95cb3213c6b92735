"""What a sweep computes: a TOML file, read strictly. A misspelt key is refused, and the word that was meant is suggested.

seed = 0                     # of everything random
instances = 4                # draws of every point
N = [50, 100]
channel = "clipped:low=-1,high=1,variance=0.01"  # Gaussian noise of the design's noise_variance if there is none

[grid]                       # every combination; or [random] with points = 200, drawn from intervals and lists
alpha = 0.5
rho = [0.1, 0.2]
pi = { from = 1.0, to = 10.0, count = 10, scale = "log" }
eta = [0.1, inf]
noise_variance = 1e-8

[[solver]]                   # AMP with its defaults if there is none
method = "amp"
damping = 0.5
"""

from __future__ import annotations

import difflib
import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, check_choice, check_count, check_file, check_seed, shown
from ..inference import METHODS, Search
from ..inference.checks import MOST_ITERATIONS, MOST_RUNS
from ..inference.search.learning import LEARNABLE
from ..model import priors
from ..model.channels import named_channel

# Numbers of a problem that a design may vary, with the values of those that need not be given.
AXES = ("alpha", "pi", "rho", "eta", "noise_variance", "observed_fraction")
_DEFAULTS = {"eta": math.inf, "noise_variance": 0.0, "observed_fraction": 1.0}
# What surrounds a solver, in its table beside its own options.
AROUND = ("learn", "anneal", "repair")
_NUMBERS = ("seed", "instances", "N", "batch", "max_iterations", "tolerance", "runs")
_TOP = ("name", "dtype", *_NUMBERS, "channel", "grid", "random", "prior", "solver")
_INTERVAL = ("from", "to", "count", "scale")
_PRIORS = ("Gaussian", "GaussBernoulli", "Laplace", "NonnegativeGaussBernoulli", "Rademacher")
# More points than this in a sweep are taken for a mistake, and so are more instances solved together, and a longer file.
_MOST_POINTS, _LARGEST_BATCH, _LONGEST_FILE = 1_000_000, 10_000, 10**6
# Names joined by dots, so many that the reader of TOML takes minutes over them.
_DEEP = re.compile(r"(?:[ \t]{0,9}\.[ \t]{0,9}[\"'\w-]+){100}")
# Instances solved together, unless the spec says.
_BATCH = 64


@dataclass(frozen=True)
class Spec:
    """A sweep as its file has it. `designs` holds the numbers of the problem for each point of the grid or random design."""

    text: str
    name: str
    seed: int
    instances: int
    sizes: tuple[int, ...]
    batch: int
    dtype: str
    options: dict[str, Any]
    prior: dict[str, dict[str, Any]]
    solvers: tuple[dict[str, Any], ...]
    designs: tuple[dict[str, float], ...]
    axes: dict[str, tuple[float, ...]] | None  # the values of a grid; None for a random design
    channel: str | None = None  # in words; None for Gaussian noise


def read_spec(path: str | Path) -> Spec:
    """The spec in a TOML file."""
    check_file("the spec", path)
    try:
        if Path(path).stat().st_size > _LONGEST_FILE:
            raise InputError(f"the spec must be a file of at most {_LONGEST_FILE} bytes, but {str(path)!r} is larger.")
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"the spec must be a TOML file, but {str(path)!r} can't be read: {reason}.") from None
    return parse_spec(text, name=Path(path).stem)


def parse_spec(text: str, *, name: str = "sweep") -> Spec:
    """The spec in the text of a TOML file; everything in it is checked now."""
    try:
        if _DEEP.search(text):
            raise RecursionError
        given = tomllib.loads(text)
    except ValueError as error:  # also of numbers with thousands of digits
        raise InputError(f"the spec must be valid TOML, but: {str(error).rstrip('.')}.") from None
    except RecursionError:
        raise InputError("the spec must be a TOML file of few levels, but brackets or names in it are nested too deeply.") from None
    _known("the spec", given, _TOP)
    if ("grid" in given) == ("random" in given):
        raise InputError(
            "the spec must have one of the tables [grid] and [random], but it has " + ("both." if "grid" in given else "none.")
        )
    name = given.get("name", name)
    if not isinstance(name, str):
        raise InputError(f"name must be text, but {shown(name)} was given.")
    seed = given.get("seed", 0)
    check_seed("seed", seed)
    prior = {side: _prior(side, given.get("prior", {}).get(side)) for side in _checked_prior(given)}
    options: dict[str, Any] = {"max_iterations": _count(given, "max_iterations", 10_000, high=MOST_ITERATIONS)}
    options["runs"] = _count(given, "runs", 1, high=MOST_RUNS) if "runs" in given else None
    options["tolerance"] = _number("tolerance", given.get("tolerance", 3e-4))
    dtype = given.get("dtype", "float64")
    check_choice("dtype", dtype, ("float64", "float32"))
    sizes = given.get("N")
    sizes = tuple(sizes) if isinstance(sizes, list) and sizes else (sizes,)
    for n in sizes:
        check_count("N", n)
    _different("N", sizes)
    instances, solvers = _count(given, "instances", 1), _solvers(given.get("solver", [{"method": "amp"}]))
    each = len(sizes) * instances * len(solvers)
    axes, designs = _grid(given["grid"], prior, each) if "grid" in given else (None, _random(given["random"], prior, seed, each))
    batch = _count(given, "batch", _BATCH, high=_LARGEST_BATCH)
    channel = _channel(given.get("channel"), given.get("grid", given.get("random", {})))
    return Spec(text, name, seed, instances, sizes, batch, dtype, options, prior, solvers, designs, axes, channel)


def _channel(words: Any, design: Any) -> str | None:
    """The channel in words, checked; it has its own noise."""
    if words is None:
        return None
    if not isinstance(words, str):
        raise InputError(f'channel must be words like "clipped:low=-1,high=1", but {shown(words)} was given.')
    named_channel(words)
    if "noise_variance" in design:
        raise InputError("noise_variance must be left out where a channel is named, which has its own, but the design gives it.")
    return words


def _check_points(total: int) -> None:
    """Refuse a sweep of too many points, before any is made."""
    if total > _MOST_POINTS:
        raise InputError(f"the spec must have at most {_MOST_POINTS} points, but it has {shown(total)}.")


def _known(where: str, given: Any, accepted: Iterable[str]) -> None:
    """Refuse a key that is not one of those accepted, and say which one was probably meant."""
    accepted = tuple(accepted)
    if not isinstance(given, dict):
        raise InputError(f"{where} must be a table with keys from {', '.join(accepted)}, but {shown(given)} was given.")
    for key in given:
        if key not in accepted:
            near = difflib.get_close_matches(key, accepted, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise InputError(f"{where} must have keys from {', '.join(accepted)}, but {shown(key)} was given{hint}")


def _count(given: dict[str, Any], name: str, default: int, low: int = 1, high: int | None = None) -> int:
    value = given.get(name, default)
    check_count(name, value, low, high)
    return int(value)


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
            raise InputError(f"{name} must be a number, but {shown(value)} was given.")
        return float(value)
    except OverflowError:
        raise InputError(f"{name} must be a number of at most {np.finfo(float).max:.1g}, but {shown(value)} was given.") from None


def _solvers(given: Any) -> tuple[dict[str, Any], ...]:
    tables = given if isinstance(given, list) else [given]
    for table in tables:
        if not isinstance(table, dict) or "method" not in table:
            raise InputError(f"solver must be a table with a method, one of {', '.join(METHODS)}, but {shown(table)} was given.")
        check_choice("the method of a solver", table["method"], tuple(METHODS))
        solver = METHODS[table["method"]]
        _known(f"the solver {table['method']}", table, ("method", *AROUND, *(field.name for field in fields(solver))))
        make_solver(table)
        around_solver(table)
    _different("solver", tables)
    return tuple(tables)


def _different(name: str, values: Any) -> None:
    if len({json.dumps(value, sort_keys=True, default=str) for value in values}) < len(values):
        raise InputError(f"{name} must hold different values, but one is there twice.")


def make_solver(table: dict[str, Any]) -> Any:
    """The solver that a table of the spec describes."""
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items() if name not in ("method", *AROUND)}
    return METHODS[table["method"]](**options)


def around_solver(table: dict[str, Any]) -> dict[str, Any]:
    """The options of `solve` in such a table: what surrounds the solver, and what is learned."""
    search = {name: table[name] for name in ("anneal", "repair") if name in table}
    if not isinstance(table.get("learn", []), list):
        raise InputError(f"learn must be a list of names from {', '.join(LEARNABLE)}, but {shown(table['learn'])} was given.")
    for name in table.get("learn", ()):
        check_choice("learn", name, LEARNABLE)
    return ({"search": Search(**search)} if search else {}) | ({"learn": tuple(table["learn"])} if "learn" in table else {})


def _checked_prior(given: dict[str, Any]) -> tuple[str, ...]:
    _known("prior", given.get("prior", {}), ("F", "X"))
    return ("F", "X")


def _prior(side: str, table: Any) -> dict[str, Any]:
    """The table of a prior, with its kind and parameters checked; `rho` may be left to the design."""
    if table is None:
        return {"kind": "Gaussian"} if side == "F" else {"kind": "GaussBernoulli"}
    where = f"prior.{side}"
    if not isinstance(table, dict) or table.get("kind") not in _PRIORS:
        raise InputError(f"{where} must be a table with a kind, one of {', '.join(_PRIORS)}, but {shown(table)} was given.")
    _known(where, table, ("kind", *(field.name for field in fields(getattr(priors, table["kind"])))))
    return {key: value if key == "kind" else _number(f"{where}.{key}", value) for key, value in table.items()}


def make_prior(table: dict[str, Any], rho: float | None) -> priors.Prior:
    """The prior that a table describes, with the density of the point where the prior has one."""
    kind = getattr(priors, table["kind"])
    parameters = {key: value for key, value in table.items() if key != "kind"}
    if rho is not None:
        parameters["rho"] = rho
    prior: priors.Prior = kind(**parameters)
    return prior


def _needed(prior: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    """Axes that a design must give: the density only where the prior of X has one that is not given yet."""
    has_rho = any(field.name == "rho" for field in fields(getattr(priors, prior["X"]["kind"])))
    return ("alpha", "pi", "rho") if has_rho and "rho" not in prior["X"] else ("alpha", "pi")


def _accepted(prior: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    return tuple(name for name in AXES if name != "rho" or "rho" in _needed(prior))


def _complete(where: str, given: dict[str, Any], prior: dict[str, dict[str, Any]]) -> dict[str, Any]:
    missing = [name for name in _needed(prior) if name not in given]
    if missing:
        raise InputError(f"{where} must give {', '.join(_needed(prior))}, but {missing[0]} is missing.")
    return {**{name: value for name, value in _DEFAULTS.items() if name not in given}, **given}


def _grid(given: Any, prior: dict[str, dict[str, Any]], each: int) -> tuple[dict[str, tuple[float, ...]], tuple[dict[str, float], ...]]:
    _known("[grid]", given, _accepted(prior))
    given = _complete("[grid]", given, prior)
    axes = {name: _values(name, given[name]) for name in AXES if name in given}
    _check_points(math.prod(map(len, axes.values())) * each)
    points = tuple(dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    return axes, points


def _values(name: str, value: Any) -> tuple[float, ...]:
    """A number, a list of them, or { from, to, count, scale }."""
    if isinstance(value, dict):
        _known(name, value, _INTERVAL)
        low, high, log = _interval(name, value)
        count = _count(value, "count", 0, low=2, high=_MOST_POINTS)
        return tuple(float(x) for x in (np.geomspace if log else np.linspace)(low, high, count))
    values = value if isinstance(value, list) else [value]
    if not values:
        raise InputError(f"{name} must be a number or a list of them, but the list is empty.")
    numbers = tuple(_number(name, each) for each in values)
    _different(name, numbers)
    return numbers


def _interval(name: str, value: dict[str, Any]) -> tuple[float, float, bool]:
    low, high = (_number(f"{name}.{key}", value.get(key)) for key in ("from", "to"))
    scale = value.get("scale", "linear")
    check_choice(f"{name}.scale", scale, ("linear", "log"))
    if not (low < high and math.isfinite(high - low) and (scale == "linear" or low > 0)):
        raise InputError(
            f"{name} must run from a number to a larger finite one (both positive on a log scale), but {low:g} to {high:g} was given."
        )
    return low, high, scale == "log"


def _random(given: Any, prior: dict[str, dict[str, Any]], seed: int, each: int) -> tuple[dict[str, float], ...]:
    """Points drawn from intervals { from, to, scale }, lists (one of them each time) and numbers."""
    _known("[random]", given, ("points", *_accepted(prior)))
    count = _count(given, "points", 0)
    _check_points(count * each)
    given = _complete("[random]", {name: value for name, value in given.items() if name != "points"}, prior)
    columns: dict[str, np.ndarray] = {}
    for place, name in enumerate(AXES):
        if name not in given:
            continue
        random = np.random.default_rng([seed, place])  # an axis draws the same whatever the others are
        if isinstance(given[name], dict):
            _known(name, given[name], ("from", "to", "scale"))
            low, high, log = _interval(name, given[name])
            columns[name] = np.exp(random.uniform(np.log(low), np.log(high), count)) if log else random.uniform(low, high, count)
        else:
            columns[name] = random.choice(np.array(_values(name, given[name])), count)
    return tuple({name: float(values[k]) for name, values in columns.items()} for k in range(count))
