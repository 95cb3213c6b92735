"""The report: complete in itself, well formed, with nothing of the user's left unescaped, and true in its words."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import spinodal as sp
from spinodal import report_figures
from spinodal.report.page import Run, check_atom_shape, place_in_words, report_html
from spinodal.theory import outcomes

PROBLEM = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.1, eta=0.1, noise_variance=1e-2)
INSTANCE = sp.sample(PROBLEM, 20, seed=5)
SOLUTION = sp.solve(INSTANCE.observed, PROBLEM)
RUN = Run("data.csv", {"rho": (0.1, "given"), "delta": (0.01, "estimated"), "eta": (np.inf, "default")}, atom_shape=(3, 4))
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
    return report_html(INSTANCE.observed, PROBLEM, SOLUTION, RUN, INSTANCE.truth)


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
    for words in ("The run converged", "given", "estimated", "∞", "Easy, no transition", "Residuals", "Uncertainty", "most used", "60"):
        assert words in text
    found = sp.score(SOLUTION.mean, INSTANCE.truth)
    assert f"{found.mse_aligned.X:.4g}" in text
    assert f"{SOLUTION.residual:.4g}" in text


def test_the_same_result_gives_the_same_page(page: str) -> None:
    assert report_html(INSTANCE.observed, PROBLEM, SOLUTION, RUN, INSTANCE.truth) == page


def test_names_are_escaped() -> None:
    nasty = "<script>alert('x')</script>&\".csv"
    run = Run(nasty, {nasty: (1.0, nasty)}, method=nasty)
    page = report_html(INSTANCE.observed, PROBLEM, SOLUTION._replace(status=nasty), run)
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;.csv" in page
    assert Page(page).text.count(nasty) == 6  # title twice, status, name, note, method


@pytest.mark.parametrize(
    ("status", "words"),
    [("max_iterations", "before it settled"), ("diverged", "Do not rely on it"), ("degenerate", "not a solution")],
)
def test_bad_endings_are_said_plainly(status: str, words: str) -> None:
    page = report_html(INSTANCE.observed, PROBLEM, SOLUTION._replace(status=status), RUN)
    assert words in page
    assert 'class="status bad"' in page


def test_methods_without_iterations_known_matrices_and_missing_entries() -> None:
    problem = PROBLEM.replace(eta=0.0, channel=sp.GaussianNoise(0.0), observed_fraction=0.7)
    observed = sp.sample(problem, 20, seed=1).observed
    silent = SOLUTION._replace(iterations=0, variance=sp.Pair(0 * SOLUTION.variance.F, 0 * SOLUTION.variance.X), free_entropy=-np.inf)
    page = report_html(observed, problem, silent, RUN._replace(seconds=2.5))
    assert Page(page).open == []
    assert "no iterations to report" in page
    assert "70%" in page


def test_a_run_that_came_to_nothing_finite() -> None:
    lost = sp.Pair(SOLUTION.mean.F * np.nan, SOLUTION.mean.X * np.nan)
    page = report_html(INSTANCE.observed, PROBLEM, SOLUTION._replace(mean=lost, variance=lost, residual=np.nan, status="diverged"), RUN)
    assert Page(page).open == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 0.8, "pi": 5.0, "noise_variance": 1e-3}, "easy, 3.9 spinodals"),
        ({"alpha": 0.5, "pi": 400.0, "eta": 1.0}, "easy, 273 spinodals"),
        ({"alpha": 0.5, "rho": 0.2, "pi": 3.0, "eta": 1.0, "noise_variance": 1e-6}, "hard, 0.84 spinodals"),
        ({"alpha": 0.5, "pi": 5.0, "noise_variance": 0.1}, "easy, 0.59 spinodals"),
        ({"alpha": 0.5, "pi": 5.0, "eta": 0.1, "noise_variance": 0.1}, "easy, no transition"),
        ({"alpha": 0.5, "eta": 0.0, "pi": 5.0}, "easy, with any number of signals"),
        ({"alpha": 0.5, "rho": 0.6, "pi": 5.0}, "impossible, the spinodal out of reach"),
    ],
)
def test_the_place_in_words(changes: dict[str, float], words: str) -> None:
    problem = sp.Problem.sparse(**{"rho": 0.1, **changes})
    assert place_in_words(problem, outcomes([problem])[0], sp.spinodal(problem)) == words


def test_residuals_and_usage_are_what_they_say() -> None:
    left = report_figures.residuals(INSTANCE.observed, SOLUTION)
    assert np.mean(left**2) == pytest.approx(float(SOLUTION.residual), rel=1e-9)
    drawn = sp.sample(PROBLEM, 400, seed=0).truth
    exact = SOLUTION._replace(mean=drawn, variance=sp.Pair(0 * drawn.F, 0 * drawn.X))
    # The mean square of 1200 coefficients of density 0.1: each has variance (3 rho - rho^2)/rho^2 = 29.
    used = report_figures.usage(PROBLEM, exact)
    assert abs(used.mean() - 1) < 4 * np.sqrt(29 / drawn.X.size)


def test_shapes_that_do_not_fill_an_atom_are_refused() -> None:
    for shape in ((3, 5), (0, 12), (-3, -4)):
        with pytest.raises(sp.InputError, match="atom_shape"):
            check_atom_shape(shape, 12)
