"""What the guide says of tables with holes is what was measured."""

from __future__ import annotations

from benchmarks.completion import rows_there

# What issue and guide promise of: pixels of a satellite, spectra of a fermentation, patches of a picture.
DATA = ("indian pines", "fermentation", "patches")
OTHERS = ("FactorAnalysis", "SoftImpute")


def test_errors_and_densities_are_at_least_as_good_as_those_of_others_at_their_best() -> None:
    rows = rows_there()
    for data in DATA:
        ours = rows[data, "holes", "Spinodal"]
        for other in OTHERS:
            assert ours.rmse <= rows[data, "holes", other].rmse
            assert ours.log_density >= rows[data, "holes", other].log_density


def test_intervals_hold_what_they_say() -> None:
    for (data, _, method), row in rows_there().items():
        if method == "Spinodal" and data in DATA:
            assert 0.45 <= row.coverage_50 <= 0.56
            assert 0.86 <= row.coverage_90 <= 0.94
