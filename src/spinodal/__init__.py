"""Spinodal: Bayes-optimal matrix factorization, Y = F X/sqrt(N) + noise. Theory and algorithms, one set of objects.

Names are imported when first used, so that `import spinodal` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_WHERE = {
    "cache": ("enable_cache",),
    "model.channels": (
        "Binary",
        "Channel",
        "Clipped",
        "FaultySensors",
        "GaussianNoise",
        "LogNormalGains",
        "OneBit",
        "Outliers",
        "Poisson",
        "Quantized",
        "SensorGains",
        "SensorOffsets",
        "Sensors",
        "StudentNoise",
        "UniformGains",
    ),
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
    "inference.calibration": ("calibrate",),
    "inference.completion": ("Completed", "complete"),
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
_MODULES = ("datasets", "images")

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


if TYPE_CHECKING:  # each name `as` itself: type checkers then take it as public, in strict mode too
    from . import datasets as datasets, images as images
    from .cache import (
        enable_cache as enable_cache,
    )
    from .errors import (
        InputError as InputError,
    )
    from .estimators import (
        BlindCalibration as BlindCalibration,
        DictionaryLearner as DictionaryLearner,
    )
    from .evaluation.scoring import (
        Score as Score,
        calibration as calibration,
        scale_floor as scale_floor,
        score as score,
        with_free_scales as with_free_scales,
    )
    from .inference import (
        AMP as AMP,
        MUAMP as MUAMP,
        BiGAMP as BiGAMP,
        Estimate as Estimate,
        Lasso as Lasso,
        Measured as Measured,
        Oracle as Oracle,
        RelaxedBP as RelaxedBP,
        Search as Search,
        Solution as Solution,
        Solver as Solver,
        Status as Status,
        solve as solve,
        solve_on_disk as solve_on_disk,
    )
    from .inference.calibration import (
        calibrate as calibrate,
    )
    from .inference.completion import (
        Completed as Completed,
        complete as complete,
    )
    from .io import (
        Measurements as Measurements,
        read_measurements as read_measurements,
    )
    from .model.channels import (
        Binary as Binary,
        Channel as Channel,
        Clipped as Clipped,
        FaultySensors as FaultySensors,
        GaussianNoise as GaussianNoise,
        LogNormalGains as LogNormalGains,
        OneBit as OneBit,
        Outliers as Outliers,
        Poisson as Poisson,
        Quantized as Quantized,
        SensorGains as SensorGains,
        SensorOffsets as SensorOffsets,
        Sensors as Sensors,
        StudentNoise as StudentNoise,
        UniformGains as UniformGains,
    )
    from .model.knowledge import (
        Classes as Classes,
        Hint as Hint,
        Knowledge as Knowledge,
        Known as Known,
        Nothing as Nothing,
    )
    from .model.model import (
        Model as Model,
        Problem as Problem,
    )
    from .model.priors import (
        GaussBernoulli as GaussBernoulli,
        Gaussian as Gaussian,
        Laplace as Laplace,
        Mixture as Mixture,
        NonnegativeGaussBernoulli as NonnegativeGaussBernoulli,
        Prior as Prior,
        Rademacher as Rademacher,
    )
    from .model.sampling import (
        Instance as Instance,
        Observed as Observed,
        sample as sample,
    )
    from .pair import (
        Pair as Pair,
    )
    from .theory import (
        amp_mse as amp_mse,
        bayes_mmse as bayes_mmse,
        bayes_transition as bayes_transition,
        effective_potential as effective_potential,
        error_curves as error_curves,
        fixed_point_curve as fixed_point_curve,
        fixed_points as fixed_points,
        phase as phase,
        phase_diagram as phase_diagram,
        pi_star as pi_star,
        potential as potential,
        potential_gauss_bernoulli as potential_gauss_bernoulli,
        spinodal as spinodal,
        state_evolution as state_evolution,
    )
