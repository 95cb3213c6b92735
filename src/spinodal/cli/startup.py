"""What the command line sets before JAX is imported: a quiet terminal, and compiled code kept from one run to the next."""

from __future__ import annotations

import gc
import os
import sys
import warnings

from .. import cache

# How many new objects, and how many looks at younger ones, make Python look for garbage. Nearly all that a command makes, modules and
# traced functions, lives to its end: with Python's own thresholds a tenth of a first answer went into looking through it.
_SELDOM, _AS_USUAL = (50_000, 10, 10), gc.get_threshold()


def seldom_look_for_garbage() -> None:
    """For commands that end soon."""
    gc.set_threshold(*_SELDOM)


def look_for_garbage_as_usual() -> None:
    """For those that stay, and must not grow."""
    gc.set_threshold(*_AS_USUAL)


def prepare(*, use_cache: bool) -> None:
    """Set the environment that JAX reads when it is imported. What the user has set stays."""
    cache.keep_quiet()
    os.environ["MPLBACKEND"] = "agg"  # figures go to files only; Matplotlib ends on a word here that it can't use
    if not use_cache or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        if "jax" in sys.modules:  # it won't read the environment again
            cache.enable_cache()
        elif (directory := cache.ready_directory()) is not None:
            for name, setting in cache.settings(directory).items():
                os.environ.setdefault(name.upper(), str(setting))
    for each in complaints:
        print(f"spinodal: {each.message}", file=sys.stderr)
