"""The documentation site: nothing it shows comes from elsewhere, its gallery has every example, its reference every public name.

`make docs` builds it (in continuous integration, too) and fails on warnings, broken links and whatever `fetched_from_elsewhere` finds.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import spinodal

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import docs_changelog  # noqa: E402
import docs_evidence  # noqa: E402
import docs_gallery  # noqa: E402
import docs_math  # noqa: E402
import docs_offline  # noqa: E402


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://cdn.example/x.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/css">'),
        ("a.html", '<link href="https://fonts.example" rel="preconnect" crossorigin>'),
        ("a.html", '<img alt="" src="http://pictures.example/x.png">'),
        ("a.html", '<img srcset="https://pictures.example/x.png 2x">'),
        ("a.html", '<iframe src="https://example.org"></iframe>'),
        ("a.html", "<style>@import 'https://example.org/x.css';</style>"),
        ("a.html", '<p style="background: url(https://example.org/x.png)">'),
        ("a.css", "@font-face { src: url('https://fonts.example/x.woff2') }"),
        ("a.js", 'fetch("https://example.org/data.json")'),
    ],
)
def test_what_would_be_fetched_from_elsewhere_is_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert len(list(docs_offline.fetched_from_elsewhere(tmp_path))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<a href="https://example.org">a link to click on</a>'),
        ("a.html", '<script src="assets/x.js"></script><link rel="stylesheet" href="../x.css"><img src="x.png">'),
        ("a.html", '<img src="data:image/png;base64,AAAA"><link rel="canonical" href="https://example.org">'),
        ("a.css", "@font-face { src: url(fonts/x.woff2) }"),
        ("a.js", 'script("https://unpkg.com/mermaid@11/dist/mermaid.min.js")'),
    ],
)
def test_what_is_here_may_be_used(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert list(docs_offline.fetched_from_elsewhere(tmp_path)) == []


def test_sleeping_addresses_are_found_where_a_page_wakes_them(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('script("https://unpkg.com/mermaid@11/dist/mermaid.min.js")')
    (tmp_path / "a.html").write_text('<pre class="mermaid"></pre>')
    assert len(list(docs_offline.fetched_from_elsewhere(tmp_path))) == 1


def test_the_gallery_has_every_example() -> None:
    assert docs_gallery.EXAMPLES.keys() == {path.stem for path in (ROOT / "examples").glob("*.py")}
    menu = (ROOT / "mkdocs.yml").read_text()
    for name, example in docs_gallery.EXAMPLES.items():
        assert f"{example.title}: gallery/{name}.md" in menu
        assert (f"({name}.md)") in (ROOT / "docs" / "gallery" / "index.md").read_text()


def test_a_page_shows_what_the_example_says_its_result_and_its_source() -> None:
    text = docs_gallery.page("digits", "the result")
    assert text.startswith("# Handwritten digits\n\nSparse coding of handwritten digits")
    assert "python examples/digits.py" in text
    assert text.index("the result") < text.index("## Source") < text.index("from __future__")


def test_the_reference_has_every_public_name() -> None:
    pages = "\n".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    shown = {path.rsplit(".", 1)[-1] for path in re.findall(r"^::: spinodal\.(\S+)$", pages, flags=re.MULTILINE)}
    assert set(spinodal.__all__) - {"__version__"} <= shown


def test_every_file_of_results_is_shown_with_its_date_and_machine() -> None:
    pages = "\n".join(path.read_text() for path in (ROOT / "docs" / "evidence").glob("*.md"))
    results = {path.stem for path in docs_evidence.RESULTS.glob("*.csv")}
    assert results == docs_evidence.TABLES.keys() == set(docs_evidence.MARK.findall(pages))
    for name in results:
        table = docs_evidence.table_of(name)
        widths = {line.count("|") for line in table.splitlines() if line.startswith("|")}
        assert len(widths) == 1
        assert re.search(r"\*`python -m benchmarks .*`, \d{4}-\d\d-\d\d, .*\*$", table)


def test_a_table_of_noise_says_what_was_right_and_what_was_called_so() -> None:
    right = {"N": "4", "M": "2", "P": "8", "rho": "0.1", "snr": "5", "error": "2", "informed": "1", "kind": "right", "status": "converged"}
    rows = [right, right | {"status": "unconfirmed"}, right | {"kind": "wrong", "error": "5"}]
    assert docs_evidence.noise(rows).splitlines()[-1] == "| 4, 2, 8, 0.1 | 3.00; 1 of 2; 1 of 1 |"
    assert docs_evidence.noise(rows[:2]).splitlines()[-1] == "| 4, 2, 8, 0.1 | 2.00; 1 of 2 |"
    assert docs_evidence.noise([right | {"kind": "neither"}]).splitlines()[-1] == "| 4, 2, 8, 0.1 | 2.00 |"


def test_results_that_no_table_is_made_of_are_refused() -> None:
    with pytest.raises(Exception, match="no table is made of results called 'nothing'"):
        docs_evidence.on_page_markdown("<!-- results: nothing -->")


def test_the_changelog_in_the_site_leads_to_pages_of_the_site() -> None:
    assert "](docs/" not in docs_changelog.page()
    assert "](glossary.md)" in docs_changelog.page()


def test_formulas_become_mathml() -> None:
    made = docs_math.on_page_content(
        '<p><span class="arithmatex">\\(a &lt; b\\)</span></p><div class="arithmatex">\\[\\frac{1}{2}\\]</div>'
    )
    assert made.count("<math") == made.count("<svg") == 2
    assert 'fill="currentColor"' in made
    assert "<mo>&#x0003C;</mo>" in made
    assert "<mfrac>" in made
    assert "arithmatex" not in made
