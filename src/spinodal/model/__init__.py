"""What is assumed: priors, the measurement channel, what is known of F beforehand, and problems made of them."""

from .channels import (
    Binary,
    Channel,
    Clipped,
    FaultySensors,
    GaussianNoise,
    LogNormalGains,
    OneBit,
    Outliers,
    Poisson,
    Quantized,
    SensorGains,
    SensorOffsets,
    Sensors,
    StudentNoise,
    UniformGains,
)
from .knowledge import Hint, Knowledge, Known, Nothing, knowledge_of
from .model import Model, Problem
from .priors import GaussBernoulli, Gaussian, Laplace, Mixture, Moments, NonnegativeGaussBernoulli, Prior, Rademacher
from .sampling import Instance, Observed, sample

__all__ = [
    "UniformGains",
    "Sensors",
    "SensorOffsets",
    "SensorGains",
    "LogNormalGains",
    "FaultySensors",
    "Binary",
    "Channel",
    "Clipped",
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
    "OneBit",
    "Outliers",
    "Poisson",
    "Prior",
    "Problem",
    "Quantized",
    "Rademacher",
    "StudentNoise",
    "knowledge_of",
    "sample",
]
