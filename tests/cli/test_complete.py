"""spinodal complete: a table in, a table without holes out, and what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROWS, COLUMNS = 60, 6


def written(path: Path) -> np.ndarray:
    """A table with names and a few holes; what it holds."""
    random = np.random.default_rng(0)
    table = random.normal(size=(ROWS, 1)) * random.normal(size=COLUMNS) + 0.1 * random.normal(size=(ROWS, COLUMNS))
    holes = random.random(table.shape) < 0.05
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", *(f"feature {j}" for j in range(COLUMNS))])
        for i, row in enumerate(table):
            writer.writerow([f"sample {i}", *("" if holes[i, j] else repr(float(x)) for j, x in enumerate(row))])
    return np.where(holes, np.nan, table)


@pytest.mark.claims
def test_a_table_is_filled_in_and_keeps_its_names(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    table = written(tmp_path / "table.csv")
    done = run_cli("complete", "table.csv", "--intervals", "intervals.csv", "--level", "0.8", "--json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert told["filled"] == np.isnan(table).sum()
    rows = list(csv.reader((tmp_path / "table-filled.csv").open()))
    assert rows[0] == ["", *(f"feature {j}" for j in range(COLUMNS))]
    assert [row[0] for row in rows[1:]] == [f"sample {i}" for i in range(ROWS)]
    filled = np.array([row[1:] for row in rows[1:]], dtype=float)
    np.testing.assert_array_equal(filled[~np.isnan(table)], table[~np.isnan(table)])
    assert np.isfinite(filled).all()
    lines = list(csv.DictReader((tmp_path / "intervals.csv").open()))
    assert len(lines) == np.isnan(table).sum()
    assert all(float(line["low"]) < float(line["value"]) < float(line["high"]) for line in lines)
    first = lines[0]
    i, j = int(first["row"].split()[1]), int(first["column"].split()[1])
    assert np.isnan(table[i, j])
    assert filled[i, j] == float(first["value"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no.csv"], "there is no file 'no.csv'"),
        (["table.csv", "--out", "table.csv"], "out must be another file than the table"),
        (["table.csv", "--out", "out.xlsx"], "out must be a file name ending in .csv"),
        (["table.csv", "--out", "a.csv", "--intervals", "a.csv"], "intervals must be another file than out"),
        (["table.csv", "--level", "most"], "level must be a number"),
        (["table.csv", "--max-components", "0"], "max_components must be a whole number"),
        (["small.csv"], "Y must have at least 2 rows, 2 columns and 300 entries"),
    ],
)
def test_bad_words_are_refused_in_a_sentence(run_cli: Callable[..., Any], tmp_path: Path, words: list[str], sentence: str) -> None:
    written(tmp_path / "table.csv")
    (tmp_path / "small.csv").write_text("1,2\n3,4\n")
    done = run_cli("complete", *words)
    assert done.code == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == ["small.csv", "table.csv"]
