"""Run a sweep, or go on with one. What is finished and sound is in the ledger; everything else is computed again."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from .compute import machine
from .contents import Contents, forget_failed, mend, read
from .executors import Runs
from .ledger import LEDGER, Ledger, create, open_ledger, sole_writer
from .plan import Batch, Plan, check_sizes, make_plan, pending
from .spec import Spec, parse_spec


class Standing(NamedTuple):
    """How far a sweep is: points in all, those finished by status, and the spec and plan it follows."""

    total: int
    statuses: dict[str, int]
    spec: Spec
    plan: Plan

    @property
    def finished(self) -> int:
        return sum(self.statuses.values())


Progress = Callable[[int, int], None]
# Told in a sentence what the user should know.
Say = Callable[[str], Any]
# Who computes, or who chooses that once it is known what there is to compute.
Executor = Runs | Callable[[Sequence[Batch]], Runs]


def run_sweep(spec: Spec, directory: Path, executor: Executor, progress: Progress | None = None) -> Standing:
    """Start a sweep in a directory that has none, and run it to its end."""
    from .. import __version__

    plan = make_plan(spec)
    check_sizes(plan)
    with sole_writer(directory):
        if (directory / LEDGER).exists():
            open_ledger(directory, read_only=True).close()  # a damaged one is called that
            raise InputError(
                f"out must hold no sweep yet, but there is one in {str(directory)!r}; go on with it by `spinodal sweep resume`."
            )
        ledger = create(directory, {"spec": spec.text, "name": spec.name, "digest": plan.digest, "version": __version__})
        return _compute(ledger, spec, plan, executor, progress)


def resume_sweep(
    directory: Path, executor: Executor, *, retry_failed: bool = False, progress: Progress | None = None, say: Say = warnings.warn
) -> Standing:
    """Compute what is missing of a sweep, or damaged. Failed points stay as they are unless they are to be tried again.

    `say` is told in a sentence what was damaged.
    """
    open_ledger(directory, read_only=True).close()  # refused before a lock is made where there is no sweep
    with sole_writer(directory):
        ledger = open_ledger(directory)
        try:
            spec, plan = _planned(ledger)
            check_sizes(plan)
            found = read(ledger, plan)
            _tell(found, ledger, say)
            mend(ledger, found)
            if retry_failed:
                forget_failed(ledger, read(ledger, plan))
        except BaseException:
            ledger.close()
            raise
        return _compute(ledger, spec, plan, executor, progress)


def standing(directory: Path, say: Say = warnings.warn) -> Standing:
    """How far the sweep in a directory is. Damaged points count as not computed, and `say` is told of them."""
    return look(directory, say)[0]


def look(directory: Path, say: Say = warnings.warn) -> tuple[Standing, Contents, dict[str, str]]:
    """How far the sweep in a directory is, all that its ledger holds, and what the ledger says about itself."""
    ledger = open_ledger(directory, read_only=True)
    try:
        spec, plan = _planned(ledger)
        found = read(ledger, plan)
        _tell(found, ledger, say)
        return _standing(found, spec, plan), found, ledger.about()
    finally:
        ledger.close()


def _tell(found: Contents, ledger: Ledger, say: Say) -> None:
    remark = found.remark(str(ledger.path))
    if remark is not None:
        say(remark)


def _planned(ledger: Ledger) -> tuple[Spec, Plan]:
    about = ledger.about()
    spec = parse_spec(about["spec"], name=about["name"])
    plan = make_plan(spec)
    if plan.digest != about["digest"]:
        raise InputError(
            f"{ledger.path} must hold a sweep that this version plans the same way, but version {about['version']} planned it."
        )
    return spec, plan


def _standing(found: Contents, spec: Spec, plan: Plan) -> Standing:
    return Standing(len(plan.points), dict(Counter(row["status"] for row in found.points.values())), spec, plan)


def _compute(ledger: Ledger, spec: Spec, plan: Plan, executor: Executor, progress: Progress | None) -> Standing:
    try:
        finished = read(ledger, plan).finished
        todo = list(pending(plan, finished))
        total, done = len(plan.points), sum(len(batch.points) for batch in plan.batches if batch.number in finished)
        if todo:
            chosen = executor(todo) if callable(executor) else executor
            run = ledger.begin_run(chosen.name, machine())
            for result in chosen.map(todo, lambda numbers: ledger.attempt(run, numbers)):
                ledger.commit(run, result)
                done += len(result.rows)
                if progress is not None:
                    progress(done, total)
        return _standing(read(ledger, plan), spec, plan)
    finally:
        ledger.close()
