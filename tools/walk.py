"""Which modules a call passes: from `spinodal solve file.csv` to the result, and in one iteration of message passing.

python tools/walk.py
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np


def modules_passed(call: Callable[[], Any]) -> list[str]:
    """Modules of the package that a function was called in, in the order of the first call. Module and class bodies are not functions."""
    passed: dict[str, None] = {}

    def look(frame: Any, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("spinodal.") and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            passed.setdefault(name)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(passed)


def import_everything() -> None:
    """Calls made while modules are imported are not part of a walk."""
    import spinodal

    for module in pkgutil.walk_packages(spinodal.__path__, "spinodal."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def of_a_command() -> list[str]:
    """`spinodal solve file.csv --n-atoms 8`, to the file it writes."""
    import spinodal as sp
    from spinodal.cli import main
    from spinodal.inference.execution import machine
    from spinodal.inference.execution.programs import Compiled

    problem = sp.Problem.sparse(alpha=0.75, pi=15.0, rho=0.15, noise_variance=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "file.csv")
        np.savetxt(table, sp.sample(problem, 8, seed=0).observed.Y, delimiter=",")
        words = ["spinodal", "solve", str(table), "--n-atoms", "8", "--lenient", "--json"]

        def call() -> None:
            before, sys.argv = sys.argv, words
            try:
                # What threads do is not seen: programs compiled ahead, and runs side by side.
                with mock.patch.object(Compiled, "ahead"), mock.patch.object(machine, "cores", return_value=1):
                    main()
            except SystemExit:
                pass
            finally:
                sys.argv = before

        return modules_passed(call)


def of_an_iteration() -> list[str]:
    """One step of AMP from scratch, as it is traced."""
    import jax

    import spinodal as sp
    from spinodal.inference.task import make_task

    problem = sp.Problem.sparse(alpha=0.75, pi=15.0, rho=0.15, noise_variance=1e-3)
    observed, solver = sp.sample(problem, 8, seed=0).observed, sp.AMP()
    with jax.enable_x64(True):
        task = make_task(observed, problem, 8, "float64", sp.Pair(False, False))
        state = solver.init(task, None)
        # As in the loop, where the task is what it is and the state goes round.
        return modules_passed(lambda: jax.make_jaxpr(lambda state: solver.step(task, state))(state))


def main() -> None:
    import_everything()
    for what, passed in (("spinodal solve file.csv", of_a_command()), ("one iteration of AMP", of_an_iteration())):
        print(f"{what}: {len(passed)} modules")
        for name in passed:
            print(f"  {name}")


if __name__ == "__main__":
    main()
