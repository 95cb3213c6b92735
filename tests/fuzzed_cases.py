"""The cases of fuzzing.py: for each kind of input something sound that is spoiled, and what must hold of what comes of it."""

from __future__ import annotations

import warnings
from typing import Any

from fuzzed_input import options, specs, tables
from fuzzed_requests import requests
from fuzzed_shared import Family
from fuzzed_state import checkpoints, disks, ledgers, models


def families(world: Any) -> dict[str, tuple[int, Family]]:
    """How many cases of each kind, and what makes one. Everything sound is made here, and compiled."""
    warnings.filterwarnings("ignore", "Duplicate name", UserWarning)  # of zip files that hold a name twice
    return {
        "tables": (170, tables(world)),
        "options": (120, options(world)),
        "specs": (70, specs(world)),
        "checkpoints": (50, checkpoints(world)),
        "models": (70, models(world)),
        "ledgers": (60, ledgers(world)),
        "requests": (100, requests()),
        "disks": (25, disks(world)),
    }
