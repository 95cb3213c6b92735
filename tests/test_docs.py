"""The documentation is kept true: the equations' table, and the code that readers will paste."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
# The paper numbers 26 equations.
EQUATIONS = 26
ROWS = re.findall(r"^\| (after )?\((\d+)\) \|[^|]*\| ([^|]*) \|", (ROOT / "docs" / "equations.md").read_text(), flags=re.MULTILINE)
NAMED = [(after + number, name) for after, number, cell in ROWS for name in re.findall(r"`([\w.]+)`", cell)]


def resolve(path: str) -> Any:
    """The object with a dotted name: the longest importable module, then attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(f"{path} does not exist")


def cited(text: str) -> set[int]:
    """Numbers of the equations that a docstring cites: Eq. (6), Eqs. (25) and (26), Eqs. (1)-(3), each followed by `of KMZ13`."""
    numbers: set[int] = set()
    for phrase in re.findall(r"Eqs?\. ([()\d, and-]+?) of KMZ13", text):
        for first, last in re.findall(r"\((\d+)\)(?:-\((\d+)\))?", phrase):
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def test_every_equation_of_the_paper_is_listed_once_and_in_order() -> None:
    assert [int(number) for after, number, _ in ROWS if not after] == list(range(1, EQUATIONS + 1))
    assert all("`" in cell or "docs/solvers.md" in cell for *_, cell in ROWS)


@pytest.mark.parametrize(("equation", "name"), NAMED)
def test_each_function_exists_and_cites_its_equation(equation: str, name: str) -> None:
    assert int(equation.removeprefix("after ")) in cited(resolve(name).__doc__)


def test_no_source_cites_an_equation_that_the_table_gives_to_another() -> None:
    """A citation in the theory's source is of an equation that the table attributes to a function of the same file."""
    table: dict[str, set[int]] = {}
    for equation, name in NAMED:
        table.setdefault(resolve(name).__module__, set()).add(int(equation.removeprefix("after ")))
    for path in [*(ROOT / "src" / "spinodal").glob("theory/*.py"), ROOT / "src" / "spinodal" / "problem.py"]:
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        allowed = table.get(module, set()) | {5, 6, 7}  # the potential and its conjugates are spoken of everywhere
        assert cited(path.read_text()) <= allowed | ({1, 2, 3} if module == "spinodal.problem" else set()), path


def code_blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


PAGES = ("priors", "solvers", "dictionary-learning", "your-data", "estimators", "cluster")


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{page}.md" for page in PAGES)])
def test_python_examples_run(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks(document)
    assert blocks
    for block in blocks:
        exec(compile(block, document, "exec", dont_inherit=True), {"__name__": "__main__"})
    printed = capsys.readouterr().out.split()
    if document == "README.md":
        # What the comments beside the code promise.
        assert printed[0] == "hard"
        assert float(printed[1]) == pytest.approx(5 / 3)
        assert printed[2].startswith("3.58361")


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
