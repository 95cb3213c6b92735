"""Priors of single entries: the same object serves the theory (mmse, free entropy) and the solvers (denoisers)."""

from .base import Moments, Prior, Support
from .gaussian import GaussBernoulli, Gaussian, Mixture, Rademacher
from .halfline import Laplace, NonnegativeGaussBernoulli

__all__ = [
    "GaussBernoulli",
    "Gaussian",
    "Laplace",
    "Mixture",
    "Moments",
    "NonnegativeGaussBernoulli",
    "Prior",
    "Rademacher",
    "Support",
]
