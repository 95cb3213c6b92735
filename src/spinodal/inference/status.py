"""From what was seen of a run to its status, and the reason in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from .execution.group import Outcome
from .search.diagnostics import Findings
from .solution import Status

# Atoms named in a reason, at most.
_NAMED = 5


def judge(outcome: Outcome, k: int, from_scratch: bool) -> tuple[Status, str]:
    """The status of instance k and what it rests on."""
    end, iterations = outcome.conclusion, int(outcome.iterations[k])
    if outcome.lost[k]:
        why = "the estimates are no longer finite" if not end.finite[k] else "the estimates explain the data worse than nothing would"
        return Status.DIVERGED, f"the run came apart ({why}); the best state on its way is returned"
    if from_scratch and not end.moved[k]:
        return Status.DEGENERATE, "nothing was learned: F is zero"
    if not end.settled[k]:
        return Status.MAX_ITERATIONS, f"the run had not settled after {iterations} iterations"
    if outcome.verdict is not None and outcome.verdict.trouble[k]:
        found = Findings(*(None if value is None else value[k] for value in outcome.verdict.found))
        return Status.DEGENERATE, "; ".join(findings_in_words(found))
    return Status.CONVERGED, f"the run settled after {iterations} iterations, and no atom looks wrong"


def findings_in_words(found: Findings) -> list[str]:
    """What is wrong, the clearest first. Atoms are counted from 1."""
    words = []
    if not found.finite:
        words.append("the estimates are not finite")
    copies = np.flatnonzero(found.copy_of >= 0)
    if copies.size:
        pairs = [f"{found.copy_of[i] + 1} and {i + 1}" for i in copies]
        words.append(f"{_number(copies.size, 'atom is a copy', 'atoms are copies')}: {_some(pairs)}")
    unused = np.flatnonzero(found.unused)
    if unused.size:
        words.append(f"{_number(unused.size, 'atom is', 'atoms are')} hardly used: {_some(unused + 1)}")
    mixed = np.flatnonzero(found.mixed_with >= 0)
    if mixed.size:
        pairs = [f"{found.mixed_with[i] + 1} and {i + 1}" for i in mixed]
        words.append(f"{_number(mixed.size, 'pair of atoms is', 'pairs of atoms are')} used together too often: {_some(pairs)}")
    if found.missing > 0:
        words.append(f"the residuals of unsettled signals share {_number(int(found.missing), 'direction', 'directions')} that no atom has")
    misused = np.flatnonzero(found.misused & ~found.unused)
    if misused.size:
        words.append(f"{_number(misused.size, 'atom is', 'atoms are')} used far more or less than the density allows: {_some(misused + 1)}")
    if found.dense:
        words.append("codes are denser than the model's density")
    if found.uneven and not misused.size and not unused.size:
        words.append("atoms are used more unevenly than the density allows")
    if not found.explained:
        words.append("the residuals of most signals are far above the noise")
    return words


def _number(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _some(things: Any) -> str:
    listed = ", ".join(str(thing) for thing in list(things)[:_NAMED])
    return listed + (", ..." if len(things) > _NAMED else "")
