"""What a ledger holds of its plan: the points that are computed, and what was damaged and has to be computed again."""

from __future__ import annotations

from typing import Any, NamedTuple

from .compute import FAILED, RESULTS, STATUSES
from .ledger import Ledger, Rows
from .plan import Plan

_CHECKED = ("runs", "attempts", "batches", "points")


class Contents(NamedTuple):
    """All that can be trusted: rows by the names of their points, those of batches and runs, and the batches that are finished.

    `broken` are batches with rows in the ledger that are not finished, since some of their rows are damaged or gone; `lost` is how many
    points that costs. `damaged` has the places of rows whose checksum fails, by table.
    """

    points: dict[str, dict[str, Any]]
    batches: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    finished: set[int]
    broken: set[int]
    lost: int
    damaged: dict[str, list[int]]
    places: dict[str, dict[int, int]]  # of the sound rows of batches and points: their batches

    def remark(self, name: str) -> str | None:
        """One sentence about what is damaged, if anything is."""
        if self.lost:
            return f"{name} has damaged or missing rows: {self.lost} of its points must be computed again, by `spinodal sweep resume`."
        if any(self.damaged.values()):
            return f"{name} has damaged rows about its runs, which were left out; the results of all points are sound."
        return None


def read(ledger: Ledger, plan: Plan) -> Contents:
    """Check every row of a ledger against its checksum, and what is sound against the plan."""
    with ledger.at_once():  # a batch that is committed meanwhile is in none of the tables
        tables = {name: ledger.rows(name) for name in _CHECKED}
    batch_of = {point.id: batch.number for batch in plan.batches for point in batch.points}
    recorded = {row["batch"] for row in tables["batches"].sound.values()}
    points = {
        row["id"]: row
        for row in tables["points"].sound.values()
        if row["batch"] in recorded and batch_of.get(row["id"]) == row["batch"] and _is_result(row)
    }
    finished = {batch.number for batch in plan.batches if batch.number in recorded and all(point.id in points for point in batch.points)}
    touched = _touched(tables["batches"]) | _touched(tables["points"])
    broken = (touched - finished) & {batch.number for batch in plan.batches}
    return Contents(
        points=points,
        batches=list(tables["batches"].sound.values()),
        runs=list(tables["runs"].sound.values()),
        finished=finished,
        broken=broken,
        lost=sum(point.id not in points for batch in plan.batches if batch.number in broken for point in batch.points),
        damaged={name: list(rows.damaged) for name, rows in tables.items()},
        places={name: {place: row["batch"] for place, row in tables[name].sound.items()} for name in ("batches", "points")},
    )


def mend(ledger: Ledger, contents: Contents) -> None:
    """Take damaged rows out, and what is left of the batches that they belonged to."""
    forget(ledger, contents, contents.broken)
    ledger.forget(contents.damaged)


def forget_failed(ledger: Ledger, contents: Contents) -> None:
    """Take the batches with failed points out, to be computed again."""
    forget(ledger, contents, {row["batch"] for row in contents.points.values() if row["status"] == FAILED})


def forget(ledger: Ledger, contents: Contents, numbers: set[int]) -> None:
    """Take batches out, with their points."""
    ledger.forget({name: [place for place, batch in rows.items() if batch in numbers] for name, rows in contents.places.items()})


def _touched(rows: Rows) -> set[Any]:
    """Batches that rows speak of, sound or not."""
    return {row["batch"] for kind in rows for row in kind.values()}


def _is_result(row: dict[str, Any]) -> bool:
    """Whether a row is one that a batch could have left: someone may have written another, with its checksum."""
    return row["status"] in STATUSES[1:] and all(row[name] is None or isinstance(row[name], float) for name in RESULTS)
