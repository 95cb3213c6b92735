"""`python -m benchmarks` runs all but the longest; `python -m benchmarks theory` those that are named. Options follow a single name."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module

import benchmarks

# Benchmarks with options of their own.
WITH_OPTIONS = (
    "channels",
    "completion",
    "defaults",
    "dictionary",
    "first_answers",
    "frontier",
    "load",
    "noise",
    "pictures",
    "scale",
    "sensors",
    "sweeps",
)


def main() -> int:
    known = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_"))
    given = sys.argv[1:]
    first_option = next((k for k, word in enumerate(given) if word.startswith("-")), len(given))
    wanted, options = given[:first_option], given[first_option:]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"benchmarks: the names are {', '.join(known)}, but {unknown[0]!r} was given.", file=sys.stderr)
        return 2
    if options and wanted not in ([name] for name in WITH_OPTIONS):
        print(f"benchmarks: only {', '.join(WITH_OPTIONS)} have options, each alone, but {options[0]!r} was given.", file=sys.stderr)
        return 2
    for name in wanted or known:
        benchmark = import_module(f"benchmarks.{name}")
        if wanted or not getattr(benchmark, "LONG", False):
            print(f"== {name}")
            benchmark.main(options) if options else benchmark.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
