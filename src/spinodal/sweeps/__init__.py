"""Many solves that survive: a spec, a plan, a ledger, and executors from this process to a cluster. docs/cluster.md is the guide."""

from .executors import EXECUTORS, Dask, InProcess, suited
from .export import dataset, table
from .run import Standing, resume_sweep, run_sweep, standing
from .spec import Spec, parse_spec, read_spec

__all__ = [
    "EXECUTORS",
    "Dask",
    "InProcess",
    "Spec",
    "Standing",
    "dataset",
    "parse_spec",
    "read_spec",
    "resume_sweep",
    "run_sweep",
    "standing",
    "suited",
    "table",
]
