"""Tutorials: every block runs, what the text says of the results is true, and the notebooks are notebooks."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import tutorials  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def printed(cells: list[tutorials.Cell]) -> str:
    return "".join(cell.printed for cell in cells)


def number_after(words: str, text: str) -> float:
    found = re.search(rf"{words}\s+([\d.e-]+)", text)
    assert found is not None, f"{words!r} was not printed"
    return float(found[1])


def test_every_tutorial_is_in_the_menu_and_in_the_list() -> None:
    assert {path.stem for path in tutorials.FOLDER.glob("*.md")} == {*tutorials.NAMES, "index"}
    menu, index = (ROOT / "mkdocs.yml").read_text(), (tutorials.FOLDER / "index.md").read_text()
    for name in tutorials.NAMES:
        assert f"tutorials/{name}.md" in menu
        assert f"({name}.md)" in index


@pytest.mark.claims
def test_a_table_with_holes() -> None:
    text = printed(tutorials.run_and_keep("table_with_holes"))
    assert "converged" in text
    assert number_after("error of what was filled in", text) < number_after("standard deviation of the missing fields", text) / 5
    assert 0.85 < number_after("within 90% error bars", text) < 0.95
    evidence = {int(n): float(nats) for n, nats in re.findall(r"^(\d+) (-?[\d.]+) \w+$", text, flags=re.MULTILINE)}
    assert max(evidence, key=lambda n: evidence[n]) == 16


@pytest.mark.claims
def test_a_badly_known_sensor_array() -> None:
    text = printed(tutorials.run_and_keep("sensor_array"))
    assert "converged" in text
    assert text.startswith("(36, 480) (36, 60)")
    assert number_after("learned eta", text) == pytest.approx(0.04, rel=0.2)
    errors = [float(each) for each in re.findall(r"error of the matrix ([\d.e-]+)", text)]
    assert errors[0] == pytest.approx(number_after("predicted", text))
    assert errors[1] < 2 * errors[0]
    assert 0.85 < float(text.split()[-1]) < 0.95


@pytest.mark.claims
def test_a_phase_diagram_for_your_own_prior() -> None:
    cells = tutorials.run_and_keep("own_prior")
    text = printed(cells)
    assert text.startswith("easy ; spinodal at 3.01")
    assert "converged" in text
    assert 1 < number_after("error on F", text) / number_after("predicted", text) < 2.5
    assert sum("image/png" in cell.given for cell in cells) == 1


def test_a_notebook_holds_words_code_and_results() -> None:
    cells = [
        tutorials.Cell("markdown", "# Title\n\nWords.\n"),
        tutorials.Cell("code", "print(1)\n2\n", "1\n", {"text/plain": "2"}),
        tutorials.Cell("code", "draw()\n", "", {"image/png": "AAAA"}),
    ]
    made = json.loads(tutorials.notebook(cells))
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code", "code"]
    assert made["nbformat"] == 4
    stream, result = made["cells"][1]["outputs"]
    assert (stream["text"], result["data"]) == ("1\n", {"text/plain": "2"})
    assert made["cells"][2]["outputs"][0]["data"] == {"image/png": "AAAA"}
    page = tutorials.page(cells, "name")
    assert page.startswith("# Title\n\n[Download as a notebook](name.ipynb)")
    assert "```text\n1\n```" in page
    assert "base64,AAAA" in page


def test_blocks_share_names_and_the_last_line_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tutorials, "FOLDER", tmp_path)
    (tmp_path / "short.md").write_text("# Short\n\n```python\na = 1\n```\n\nMore.\n\n```python\nprint(a)\na + 1\n```\n")
    first, second = (cell for cell in tutorials.run("short") if cell.kind == "code")
    assert (first.printed, first.given) == ("", {})
    assert (second.printed, second.given) == ("1\n", {"text/plain": "2"})


def test_what_was_made_of_the_same_text_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tutorials, "FOLDER", tmp_path)
    monkeypatch.setattr(tutorials, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(tutorials, "_run_apart", None)
    (tmp_path / "brief.md").write_text("# Brief\n\n```python\nprint(3)\n```\n")
    cells = tutorials.run_and_keep("brief")
    assert tutorials.results("brief") == (tutorials.page(cells, "brief"), tutorials.notebook(cells))
    (tmp_path / "brief.md").write_text("# Brief\n\n```python\nprint(4)\n```\n")
    assert not tutorials.kept("brief").exists()


@pytest.mark.claims
def test_a_detector_that_clips() -> None:
    text = printed(tutorials.run_and_keep("clipping_detector"))
    assert "misfit" in text
    assert 'channel="clipped"' in text
    assert "converged" in text
    assert number_after("noise variance", text) == pytest.approx(1e-3, rel=0.2)
    plain, told = (float(each) for each in re.findall(r"of the signals ([\d.e-]+)", text))
    assert told < plain / 5


@pytest.mark.claims
def test_counts() -> None:
    text = printed(tutorials.run_and_keep("counts"))
    assert "misfit" in text
    assert 'channel="poisson"' in text
    assert number_after("learned rate", text) == pytest.approx(5, rel=0.05)
    gaussian, roots, poisson = (float(each) for each in re.findall(r"of the signals ([\d.e-]+)", text))
    assert poisson < roots < gaussian


@pytest.mark.claims
def test_a_broken_antenna() -> None:
    text = printed(tutorials.run_and_keep("broken_antenna"))
    assert "broken: [6, 23]" in text
    plain, told = (float(each) for each in re.findall(r"of the signals ([\d.e-]+)", text))
    assert told < plain / 50
