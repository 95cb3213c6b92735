"""`python -m benchmarks` runs every benchmark; `python -m benchmarks theory` those that are named."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module

import benchmarks


def main() -> int:
    known = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_"))
    wanted = sys.argv[1:] or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"benchmarks: the names are {', '.join(known)}, but {unknown[0]!r} was given.", file=sys.stderr)
        return 2
    for name in wanted:
        print(f"== {name}")
        import_module(f"benchmarks.{name}").main()
    return 0


sys.exit(main())
