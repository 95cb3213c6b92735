"""docs/architecture.md is kept true: its tree is that of the source, and what it adds works with public names alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import spinodal

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "spinodal"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
# An addition is shown whole in fewer lines than this.
LINES = 40
ADDITIONS = ("prior", "channel", "kind of knowledge", "solver")
# What else an example may import: users have it, since Spinodal needs it.
OTHERS = {"dataclasses", "jax", "numpy", "typing"}


class Example(NamedTuple):
    """The code under a heading `How to add a ...`."""

    what: str
    code: str


def examples() -> list[Example]:
    found = re.findall(r"^## How to add a ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    return [
        Example(what, code) for what, text in found for code in re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ]


EXAMPLES = examples()
every_example = pytest.mark.parametrize("example", EXAMPLES, ids=[example.what for example in EXAMPLES])


def folders_in_the_tree() -> set[str]:
    """Paths below src/spinodal, from the indentation of the printed tree."""
    [tree] = re.findall(r"^```text\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    first, *lines = tree.splitlines()
    assert first == "src/spinodal/"
    paths: set[str] = set()
    above: list[str] = []
    for line in lines:
        indent, name, about = re.fullmatch(r"((?:  )+)(\w+)/ +(.*)", line).groups()  # type: ignore[union-attr]
        assert about, f"{name} has no line about it"
        above = [*above[: len(indent) // 2 - 1], name]
        paths.add("/".join(above))
    return paths


def test_the_tree_has_every_folder_and_no_other() -> None:
    folders = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*") if path.is_dir() and path.name != "__pycache__"}
    assert folders_in_the_tree() == folders


def test_each_addition_has_one_example() -> None:
    assert [example.what for example in EXAMPLES] == list(ADDITIONS)


@every_example
def test_it_is_short_and_uses_public_names_only(example: Example) -> None:
    assert len(example.code.splitlines()) < LINES
    for node in ast.walk(ast.parse(example.code)):
        if isinstance(node, ast.Import):
            assert all(name.name == "spinodal" or name.name.split(".")[0] in OTHERS for name in node.names)
            assert all(name.asname == "sp" for name in node.names if name.name == "spinodal")
        elif isinstance(node, ast.ImportFrom):
            assert str(node.module).split(".")[0] in OTHERS
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sp":
            assert node.attr in spinodal.__all__


@every_example
def test_it_checks_the_theory_or_another_route(example: Example) -> None:
    """The last line states a fact, and what is added is used by `solve`."""
    assert isinstance(ast.parse(example.code).body[-1], ast.Assert)
    assert "sp.solve(" in example.code
    assert "sp.amp_mse(" in example.code or example.what == "solver"


@pytest.mark.parametrize(
    "example",
    # Averages over a channel by quadrature compile for long.
    [pytest.param(example, id=example.what) for example in EXAMPLES],
)
@pytest.mark.claims
def test_it_runs(example: Example) -> None:
    exec(compile(example.code, f"docs/architecture.md, {example.what}", "exec", dont_inherit=True), {"__name__": "__main__"})
