"""What is assumed: priors, the measurement channel, what is known of F beforehand, and problems made of them."""

from .channels import Channel, GaussianNoise
from .knowledge import Hint, Knowledge, Known, Nothing, knowledge_of
from .model import Model, Problem
from .priors import GaussBernoulli, Gaussian, Laplace, Mixture, Moments, NonnegativeGaussBernoulli, Prior, Rademacher
from .sampling import Instance, Observed, sample

__all__ = [
    "Channel",
    "GaussBernoulli",
    "Gaussian",
    "GaussianNoise",
    "Hint",
    "Instance",
    "Knowledge",
    "Known",
    "Laplace",
    "Mixture",
    "Model",
    "Moments",
    "NonnegativeGaussBernoulli",
    "Nothing",
    "Observed",
    "Prior",
    "Problem",
    "Rademacher",
    "knowledge_of",
    "sample",
]
