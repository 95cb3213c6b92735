"""The documentation and reports in Chromium: what a search finds first, and what axe-core says.

The site is built without what has to be computed (reference, gallery, evidence): `make docs` builds all of it.
"""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from playwright.sync_api import Browser, Page

import spinodal as sp
from conftest import ACCESSIBLE
from spinodal.inference.solution import Status

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from unsolved import unsolved  # noqa: E402

# What a reader types, and the page that answers it.
SEARCHES = {"missing data": "your-data.html", "own data": "your-data.html", "outliers": "channels.html", "upload": "explorer.html"}
PAGES = ("index.html", "your-data.html", "explorer.html", "glossary.html", "tutorials/table_with_holes.html")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    nav = [part for part in settings["nav"] if not {"Reference", "Gallery"} & set(part)]
    hooks = [str(ROOT / "tools" / "docs_readers.py")]
    settings |= {
        "docs_dir": str(ROOT / "docs"),
        "site_dir": str(folder / "site"),
        "nav": nav,
        "hooks": hooks,
        "plugins": ["search"],
        "validation": {},
    }
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(folder / "mkdocs.yml")], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder / "site")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    yield context.new_page()
    context.close()


def test_a_search_finds_the_guide_first(site: str, page: Page) -> None:
    page.goto(f"{site}index.html")
    for words, wanted in SEARCHES.items():
        page.focus(".md-search__input")
        page.fill(".md-search__input", "")
        page.wait_for_function("() => !document.querySelector('.md-search-result__item')")
        page.type(".md-search__input", words)
        # The theme marks what was found in the address of a hit.
        page.wait_for_function(
            "words => [...document.querySelectorAll('.md-search-result__link')].some(a => new URL(a.href).searchParams.get('h') === words)",
            arg=words,
        )
        assert wanted in page.evaluate("document.querySelector('.md-search-result__link').href"), words


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_no_serious_problem_of_accessibility(site: str, page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "slate" else "light")
    for name in PAGES:
        page.goto(site + name)
        page.wait_for_function("scheme => document.body.dataset.mdColorScheme === scheme", arg=scheme)
        assert page.evaluate(ACCESSIBLE) == [], name


@pytest.mark.parametrize("status", [Status.CONVERGED, Status.DIVERGED])
def test_no_serious_problem_of_accessibility_in_reports(page: Page, tmp_path: Path, status: Status) -> None:
    """Of a result that can be trusted, and of one that can't, with warnings."""
    Y = np.random.default_rng(0).normal(3.0 if status is Status.DIVERGED else 0.0, 1.0, (8, 60))
    model = sp.Model(sp.Pair(sp.Gaussian(), sp.GaussBernoulli(0.2)), sp.GaussianNoise(0.1), sp.Nothing())
    path = unsolved(Y, model, 6, status=status).report(tmp_path / "report.html")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(path.as_uri())
        assert page.locator(".status.bad").count() > 0 or status.trusted
        assert page.evaluate(ACCESSIBLE) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
