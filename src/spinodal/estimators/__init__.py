"""Estimators for scikit-learn: data are samples x features there, the transpose of the Y of `spinodal.solve`."""

try:
    import sklearn  # noqa: F401
except ImportError:
    raise ImportError(
        "spinodal.DictionaryLearner and spinodal.BlindCalibration need scikit-learn: pip install 'spinodal[sklearn]'."
    ) from None

from .models import BlindCalibration, DictionaryLearner

__all__ = ["BlindCalibration", "DictionaryLearner"]
