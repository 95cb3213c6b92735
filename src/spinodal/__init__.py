"""Spinodal: Bayes-optimal matrix factorization, Y = F X/sqrt(N) + noise. Theory and algorithms, one set of objects.

Names are imported when first used, so that `import spinodal` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "cache": ("enable_cache",),
    "model.channels": ("Binary", "Channel", "Clipped", "GaussianNoise", "OneBit", "Outliers", "Poisson", "Quantized", "StudentNoise"),
    "errors": ("InputError",),
    "estimators": ("BlindCalibration", "DictionaryLearner"),
    "io": ("Measurements", "read_measurements"),
    "pair": ("Pair",),
    "model.priors": ("GaussBernoulli", "Gaussian", "Laplace", "Mixture", "NonnegativeGaussBernoulli", "Prior", "Rademacher"),
    "model.knowledge": ("Classes", "Hint", "Knowledge", "Known", "Nothing"),
    "model.model": ("Model", "Problem"),
    "model.sampling": ("Instance", "Observed", "sample"),
    "evaluation.scoring": ("Score", "calibration", "scale_floor", "score", "with_free_scales"),
    "inference": (
        "AMP",
        "BiGAMP",
        "Estimate",
        "Lasso",
        "MUAMP",
        "Measured",
        "Oracle",
        "RelaxedBP",
        "Search",
        "Solution",
        "Solver",
        "Status",
        "solve",
        "solve_on_disk",
    ),
    "theory": (
        "amp_mse",
        "bayes_mmse",
        "bayes_transition",
        "effective_potential",
        "error_curves",
        "fixed_point_curve",
        "fixed_points",
        "phase",
        "phase_diagram",
        "pi_star",
        "potential",
        "potential_gauss_bernoulli",
        "state_evolution",
    ),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names} | {"spinodal": "theory"}
# Modules with names of their own, as in `spinodal.images.denoise`.
_MODULES = ("images",)

__all__ = ["__version__", *sorted((*_MODULE_OF, *_MODULES))]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'spinodal' has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from . import images
    from .cache import enable_cache
    from .errors import InputError
    from .estimators import BlindCalibration, DictionaryLearner
    from .evaluation.scoring import Score, calibration, scale_floor, score, with_free_scales
    from .inference import (
        AMP,
        MUAMP,
        BiGAMP,
        Estimate,
        Lasso,
        Measured,
        Oracle,
        RelaxedBP,
        Search,
        Solution,
        Solver,
        Status,
        solve,
        solve_on_disk,
    )
    from .io import Measurements, read_measurements
    from .model.channels import Binary, Channel, Clipped, GaussianNoise, OneBit, Outliers, Poisson, Quantized, StudentNoise
    from .model.knowledge import Classes, Hint, Knowledge, Known, Nothing
    from .model.model import Model, Problem
    from .model.priors import GaussBernoulli, Gaussian, Laplace, Mixture, NonnegativeGaussBernoulli, Prior, Rademacher
    from .model.sampling import Instance, Observed, sample
    from .pair import Pair
    from .theory import (
        amp_mse,
        bayes_mmse,
        bayes_transition,
        effective_potential,
        error_curves,
        fixed_point_curve,
        fixed_points,
        phase,
        phase_diagram,
        pi_star,
        potential,
        potential_gauss_bernoulli,
        spinodal,
        state_evolution,
    )
