"""The tables in the guide are those of the measured rows, and say what the guide says of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from benchmarks.pictures import TUNED, rows_there, tables

GUIDE = Path(__file__).parents[2] / "docs" / "pictures.md"


def test_the_guide_shows_the_tables_of_the_rows() -> None:
    assert tables() in GUIDE.read_text()


def test_spinodal_is_above_matching_pursuit_on_every_picture_and_level() -> None:
    found: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in rows_there().values():
        if row.task == "denoise" and row.picture not in TUNED:
            found[row.picture, row.level][row.method] = row.psnr
    ahead = [each["Spinodal"] - each["SPAMS + OMP"] for each in found.values()]
    assert len({picture for picture, _ in found}) >= 6
    assert min(ahead) > 0
    assert np.mean(ahead) > 0.2
