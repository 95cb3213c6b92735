"""The report: complete in itself, well formed, with nothing of the user's left unescaped, and true in its words."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import spinodal as sp
from spinodal.figures import report as draw
from spinodal.figures.palette import PHASE_COLOURS, phase_key
from spinodal.inference.solution import Names, Status
from spinodal.report.page import check_atom_shape, place_in_words, report_html, write_report
from spinodal.report.phases import ADVICE, PHASE_IN_WORDS
from spinodal.report.solution import ALONE, NEXT_STEP, UNSURE, VERDICT, WITH_F_PRIME, next_step
from spinodal.theory import PHASES, outcomes

PROBLEM = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.1, eta=0.1, noise_variance=1e-2)


@cache
def drawn() -> Any:
    return sp.sample(PROBLEM, 20, seed=5)


solve = sp.solve


@cache
def solved() -> Any:
    return replace(solve(drawn().observed, PROBLEM), learned=("noise_variance",))


BAD = [status for status in Status if not status.trusted]
EMPTY = {"meta", "br", "hr", "img", "path", "use", "rect", "image"}


class Page(HTMLParser):
    """Checks that tags are closed in order; gathers the text outside figures, and every address."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.addresses: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "svg" not in self.open and "style" not in self.open:
            self.text += data


@pytest.fixture(scope="module")
def page() -> str:
    return report_html(solved(), title="data.csv", truth=drawn().truth, atom_shape=(3, 4))


def test_the_page_is_whole_and_needs_no_other(page: str) -> None:
    parsed = Page(page)
    assert parsed.open == []
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in parsed.addresses)
    assert "<script" not in page
    assert not re.search(r"url\((?!#)|@import", page)
    assert page.count("<svg ") == page.count('role="img"') == 7
    assert "prefers-color-scheme: dark" in page


def test_figures_take_the_colours_of_the_page(page: str) -> None:
    figures = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)).lower()
    assert "currentcolor" in figures
    assert "var(--easy)" in figures
    assert not re.search(r"(fill|stroke): (#010203|#000000|#ffffff|#666666)", figures)


def test_it_says_what_was_used_and_found(page: str) -> None:
    text = Page(page).text
    for words in (
        "The run converged",
        "given",
        "learned",
        "Easy: message passing",
        "fall smoothly",
        "Residuals",
        "Uncertainty",
        "most used",
        "60",
    ):
        assert words in text
    assert NEXT_STEP[Status.CONVERGED] in text
    found = sp.score(solved().mean, drawn().truth)
    assert f"{found.mse_aligned.X:.4g}" in text
    assert f"{solved().residual:.4g}" in text


def test_the_same_result_gives_the_same_page(page: str) -> None:
    assert report_html(solved(), title="data.csv", truth=drawn().truth, atom_shape=(3, 4)) == page


def test_names_are_escaped() -> None:
    nasty = "<script>alert('x')</script>&\".csv"
    names = Names(rows=(nasty,) * 12, columns=(nasty,) * 60)
    page = report_html(replace(solved(), reason=nasty, names=names, status=Status.DIVERGED), title=nasty, method=nasty)
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;.csv" in page
    assert Page(page).text.count(nasty) == 7  # title twice, reason, method, and three signals
    table = replace(solved(), reason=nasty)._repr_html_()
    assert "<script" not in table


def with_hint(status: Status) -> str:
    """The next step of a solve that was given an F'."""
    return {**NEXT_STEP, **WITH_F_PRIME}[status]


def test_the_next_step_is_one_that_can_be_taken() -> None:
    """With F' there is one number of atoms, and one run; and a run that nobody confirmed has no shares to go by."""
    assert not any(word in words for words in WITH_F_PRIME.values() for word in ("atoms", "runs"))
    scratch = replace(solved(), observed=solved().observed._replace(F_prime=None), status=Status.DEGENERATE)
    assert next_step(scratch, None) == NEXT_STEP[Status.DEGENERATE]
    N = scratch.mean.F.shape[1]
    for share, expected in ((None, ALONE), (np.ones(N), UNSURE), (np.r_[0.2, np.ones(N - 1)], NEXT_STEP[Status.UNCONFIRMED])):
        assert next_step(replace(scratch, status=Status.UNCONFIRMED, reproducibility=share), None) == expected


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize("status", BAD)
def test_bad_endings_are_said_plainly_and_the_theory_is_not_asked(status: Status) -> None:
    page = report_html(replace(solved(), status=status), truth=drawn().truth)
    text = Page(page).text
    assert 'class="status bad"' in page
    assert ("Do not rely on every atom" if status is Status.UNCONFIRMED else "Do not rely on it") in VERDICT[status]
    for words in (VERDICT[status], with_hint(status), "There is no prediction", "learned, not to be relied on"):
        assert words in text
    for words in ("expected", "message passing", "as it should be", "spinodals"):
        assert words not in text.replace("what the prior expects", "")


def test_methods_without_iterations_known_matrices_and_missing_entries() -> None:
    problem = PROBLEM.replace(eta=0.0, channel=sp.GaussianNoise(0.0), observed_fraction=0.7)
    observed = sp.sample(problem, 20, seed=1).observed
    silent = replace(
        solved(),
        iterations=0,
        variance=sp.Pair(0 * solved().variance.F, 0 * solved().variance.X),
        free_entropy=-np.inf,
        model=sp.Model(problem.prior, problem.channel, problem.knowledge),
        observed=observed,
        seconds=2.5,
    )
    page = report_html(silent)
    assert Page(page).open == []
    assert "no iterations to report" in page
    assert f"{100 * observed.mask.mean():.4g}%" in page
    assert "<svg" not in silent._repr_html_()  # there is no course to draw
    assert len(silent.plot().axes) > 2


def test_a_run_that_came_to_nothing_finite() -> None:
    lost = sp.Pair(solved().mean.F * np.nan, solved().mean.X * np.nan)
    ended = replace(solved(), mean=lost, variance=lost, residual=np.nan, status=Status.DIVERGED)
    assert Page(report_html(ended)).open == []
    assert "nan" in ended.summary()
    ended.plot()


@pytest.mark.usefixtures("without_figures")
def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("page.txt", "page", "folder.html"):
        (tmp_path / "folder.html").mkdir(exist_ok=True)
        with pytest.raises(sp.InputError, match="path must be a file"):
            write_report(solved(), tmp_path / name)
    with pytest.raises(sp.InputError, match="atom_shape"):
        write_report(solved(), tmp_path / "new" / "page.html", atom_shape=(5, 5))
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]
    untrusted = replace(solved(), status=Status.DIVERGED)
    assert untrusted.report(tmp_path / "new" / "page.html", title="mine") == tmp_path / "new" / "page.html"
    assert (tmp_path / "new" / "page.html").read_text() == report_html(untrusted, title="mine")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]


# In words, in a notebook, and as labelled arrays


def test_a_solution_prints_as_one_helpful_line() -> None:
    line = repr(solved())
    assert "\n" not in line
    for words in ("converged", f"{solved().iterations} iterations", "Y 12 x 60", "20 atoms", "of the noise variance"):
        assert words in line


def test_the_summary_says_what_to_rely_on_and_what_to_do_next() -> None:
    text = solved().summary()
    expected = outcomes([solved().problem])[0].amp.recovered
    for words in (
        "converged",
        str(solved().reason),
        "density of X 0.1 (given)",
        "noise variance 0.01 (learned)",
        "as it should be",
        "easy",
        f"{100 * expected.F:.1f}% of F",
        f"{100 * expected.X:.1f}% of X",
        NEXT_STEP[Status.CONVERGED],
    ):
        assert words in text
    assert "noise alone does not explain it" in replace(solved(), residual=0.1).summary()
    assert "a little more than noise" in replace(solved(), residual=0.012).summary()


@pytest.mark.parametrize("status", BAD)
def test_the_summary_of_a_run_that_can_not_be_trusted(status: Status) -> None:
    text = replace(solved(), status=status).summary()
    assert "recovered" not in text
    assert not any(phase in text for phase in PHASES)
    assert "as it should be" not in text
    for words in (status.value, "can't be trusted", "learned, not to be relied on", with_hint(status)):
        assert words in text


@pytest.mark.parametrize(("count", "first"), [(0, ""), (1, "First see to the warning. "), (2, "First see to the warnings. ")])
def test_warnings_come_first_where_the_result_can_not_be_trusted(count: int, first: str) -> None:
    for status, expected in ((Status.DEGENERATE, first + with_hint(Status.DEGENERATE)), (Status.CONVERGED, NEXT_STEP[Status.CONVERGED])):
        warned = replace(solved(), status=status)
        vars(warned)["warnings"] = ("rows 1 and 2 are noisier",) * count
        assert next_step(warned, None) == expected


def test_every_status_has_its_words() -> None:
    assert set(NEXT_STEP) == set(VERDICT) == set(Status)
    assert set(PHASE_IN_WORDS) == set(PHASES) == set(PHASE_COLOURS) == {"easy", *ADVICE}
    assert all(words.endswith(".") for each in (NEXT_STEP, VERDICT, PHASE_IN_WORDS, ADVICE) for words in each.values())


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({"noise_variance": 3.0}, "nothing to gain"),
        pytest.param({"noise_variance": 1e-6, "rho": 0.3, "eta": 1.0}, "hard", marks=pytest.mark.claims),
        pytest.param({"noise_variance": 0.0, "rho": 0.5, "eta": 1.0}, "impossible", marks=pytest.mark.claims),
    ],
)
def test_a_phase_that_is_not_easy_says_what_it_means_and_what_to_do(changes: dict[str, float], phase: str) -> None:
    """On a run that can be trusted: what was assumed is another matter than how the run ended."""
    there = replace(solved(), model=sp.Model.sparse(**{"rho": 0.1, "eta": 0.1, **changes}))
    page = report_html(there)
    told = Page(page).text
    for words in (f"{phase.capitalize()}: {PHASE_IN_WORDS[phase]}", ADVICE[phase]):
        assert words in told
    assert NEXT_STEP[Status.CONVERGED] not in told
    assert f'<div class="status {phase_key(phase)}">' in page
    assert f"var(--{phase_key(phase)})" in page[page.index("<svg") :]
    for words in (f"{phase}: ", "% of F and ", "% of X recovered", ADVICE[phase]):
        assert words in there.summary()


def test_a_notebook_shows_a_table_and_a_picture() -> None:
    table = solved()._repr_html_()
    assert Page(table).open == []
    assert "<polyline" in table
    assert "converged" in Page(table).text


def test_the_figure_has_four_panels_and_names() -> None:
    names = Names(rows=tuple(f"$sensor_{k}$" for k in range(12)))
    figure = replace(solved(), names=names).plot()
    assert [axis.get_xlabel() for axis in figure.axes[:4]] == ["atom (column of F)", "iteration", "$Y - FX/\\sqrt{N}$", "atom (row of X)"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(names.rows or ())


def test_labelled_arrays_survive_a_netcdf_file(tmp_path: Path) -> None:
    names = Names(rows=tuple(f"sensor {k}" for k in range(12)), columns=tuple(f"day {k}" for k in range(60)))
    dataset = replace(solved(), names=names).to_xarray()
    dataset.to_netcdf(tmp_path / "solution.nc", engine="scipy")
    with xarray.open_dataset(tmp_path / "solution.nc", engine="scipy") as read:
        xarray.testing.assert_identical(read.load(), dataset)
        np.testing.assert_array_equal(read.F.sel(row="sensor 3"), solved().mean.F[3])
        np.testing.assert_array_equal(read.X_variance.sel(column="day 59", atom=2), solved().variance.X[2, 59])
        assert read.attrs["status"] == "converged"
        assert read.attrs["noise_variance"] == 1e-2
        assert read.attrs["learned"] == "noise_variance"
    assert solved().to_xarray().row.values.tolist() == list(range(12))


def test_batches_are_counted_and_refused_where_one_is_needed() -> None:
    twice = {name: sp.Pair(*(np.stack([value, value]) for value in getattr(solved(), name))) for name in ("mean", "variance")}
    batch = replace(solved(), **twice, status=np.array([Status.CONVERGED, Status.DIVERGED], dtype=object))
    assert repr(batch) == "Solution of a batch of 2: 1 converged, 1 diverged; Y 12 x 60, 20 atoms"
    assert "solution[k]" in batch.summary()
    assert "batch of 2" in batch._repr_html_()
    for refused in (batch.to_xarray, batch.plot, lambda: report_html(batch)):
        with pytest.raises(sp.InputError, match=r"of one instance, but it is a batch of 2; take one of them, solution\[k\]"):
            refused()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 0.8, "pi": 5.0, "noise_variance": 1e-3}, "3.9 times as many"),
        ({"alpha": 0.5, "pi": 400.0, "eta": 1.0}, "273 times as many"),
        ({"alpha": 0.5, "rho": 0.2, "pi": 3.0, "eta": 1.0, "noise_variance": 1e-6}, "With 359 signals or more (the spinodal, π = 3.584)"),
        ({"alpha": 0.5, "pi": 5.0, "noise_variance": 0.1}, "0.59 times as many"),
        ({"alpha": 0.5, "pi": 5.0, "eta": 0.1, "noise_variance": 0.1}, "fall smoothly"),
        ({"alpha": 0.5, "eta": 0.0, "pi": 5.0}, "with any number of signals"),
        ({"alpha": 0.5, "rho": 0.6, "pi": 5.0}, "No number of signals"),
    ],
)
def test_the_place_in_words(changes: dict[str, float], words: str) -> None:
    problem = sp.Problem.sparse(**{"rho": 0.1, **changes})
    assert words in place_in_words(problem, 100, sp.spinodal(problem))


def test_residuals_and_usage_are_what_they_say() -> None:
    left = draw.residuals(solved())
    assert np.mean(left**2) == pytest.approx(float(solved().residual), rel=1e-9)
    assert np.mean(draw.signal_residuals(left) ** 2) == pytest.approx(float(solved().residual), rel=1e-9)
    drawn = sp.sample(PROBLEM, 400, seed=0).truth
    exact = replace(solved(), mean=drawn, variance=sp.Pair(0 * drawn.F, 0 * drawn.X))
    # The mean square of 1200 coefficients of density 0.1: each has variance (3 rho - rho^2)/rho^2 = 29.
    used = draw.usage(exact)
    assert abs(used.mean() - 1) < 4 * np.sqrt(29 / drawn.X.size)


def test_shapes_that_do_not_fill_an_atom_are_refused() -> None:
    for shape in ((3, 5), (0, 12), (-3, -4)):
        with pytest.raises(sp.InputError, match="atom_shape"):
            check_atom_shape(shape, 12)


def test_the_largest_codes_come_with_their_intervals_where_they_can_be_trusted() -> None:
    page = report_html(solved())
    X, variance = np.asarray(solved().mean.X), np.asarray(solved().variance.X)
    atom, signal = np.unravel_index(np.argmax(np.abs(X)), X.shape)
    low, high = (X[atom, signal] + side * 1.645 * np.sqrt(variance[atom, signal]) for side in (-1, 1))
    assert f"<td>atom {atom + 1} in signal {signal + 1}</td>" in page
    assert f"<td>{low:.4g} to {high:.4g}</td>" in page
    assert "90% interval" not in report_html(replace(solved(), status=Status.DIVERGED))
