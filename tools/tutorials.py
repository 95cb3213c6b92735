"""Tutorials run as notebooks are: blocks share their names, and what the last line of a block gives is shown.

One source makes page and notebook. As a hook of MkDocs this puts the results into the pages, and adds the notebooks. What a run of the
tests made of the same text with the same code is not made again.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "tutorials"
KEPT = ROOT / ".pytest_cache" / "tutorials"
NAMES = ("table_with_holes", "sensor_array", "own_prior", "clipping_detector", "counts", "broken_antenna")
BLOCK = re.compile(r"^```python\n(.*?)^```$\n?", flags=re.MULTILINE | re.DOTALL)
# A tutorial that takes longer than this does not belong among those that are run for every build.
SECONDS = 600


class Cell(NamedTuple):
    """Words between blocks, or a block with what it printed and what its last line gave: text, HTML or a picture (PNG in base64)."""

    kind: str
    source: str
    printed: str = ""
    given: dict[str, str] = {}  # noqa: RUF012 (never changed)


def run(name: str) -> list[Cell]:
    """The cells of a tutorial, its blocks run one after another in an empty folder."""
    parts = BLOCK.split((FOLDER / f"{name}.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for k, part in enumerate(parts):
                cells.append(
                    Cell("code", part, *_run_block(part, names, f"{name}, block {k // 2 + 1}")) if k % 2 else Cell("markdown", part)
                )
        finally:
            os.chdir(before)
    return cells


def kept(name: str) -> Path:
    """Where the cells of a tutorial are kept, by what they were made from: its text and the package."""
    digest = hashlib.sha256((FOLDER / f"{name}.md").read_bytes())
    for file in sorted((ROOT / "src").rglob("*.py")):
        digest.update(file.read_bytes())
    return KEPT / f"{name}-{digest.hexdigest()[:16]}.json"


def run_and_keep(name: str) -> list[Cell]:
    """The cells of a tutorial, kept for the documentation."""
    cells = run(name)
    KEPT.mkdir(parents=True, exist_ok=True)
    whole = kept(name).with_suffix(f".{os.getpid()}")
    whole.write_text(json.dumps(cells), encoding="utf-8")
    whole.replace(kept(name))  # the documentation may be built while tests run
    return cells


def _run_block(source: str, names: dict[str, Any], where: str) -> tuple[str, dict[str, str]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    return printed.getvalue(), {} if value is None else shown(value)


def shown(value: Any) -> dict[str, str]:
    """A value as notebooks show it, by the kind of its picture."""
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=90)
        return {"image/png": base64.b64encode(picture.getvalue()).decode()}
    as_html = getattr(value, "_repr_html_", None)
    return {"text/plain": repr(value)} | ({"text/html": as_html()} if as_html else {})


def page(cells: list[Cell], name: str) -> str:
    """The tutorial with its results, and a link to the notebook below its title."""
    title, _, rest = cells[0].source.partition("\n")
    parts = [f"{title}\n\n[Download as a notebook]({name}.ipynb){{ .md-button }}\n{rest}"]
    for cell in cells[1:]:
        if cell.kind == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}```\n")
        if cell.printed:
            parts.append(f"```text\n{cell.printed.rstrip()}\n```\n")
        if "image/png" in cell.given:
            parts.append(
                f'<p class="given"><img alt="What the block above drew" src="data:image/png;base64,{cell.given["image/png"]}"></p>\n'
            )
        elif "text/html" in cell.given:
            flat = " ".join(cell.given["text/html"].split())
            parts.append(f'<div class="given">{flat}</div>\n')
        elif cell.given:
            parts.append(f"```text\n{cell.given['text/plain']}\n```\n")
    return "\n".join(parts)


def notebook(cells: list[Cell]) -> str:
    """The tutorial as a notebook, results included."""
    made: list[dict[str, Any]] = []
    count = 0
    for k, cell in enumerate(cells):
        same = {"id": f"cell-{k}", "metadata": {}, "source": cell.source.strip()}
        if cell.kind == "markdown":
            made.append({"cell_type": "markdown", **same})
            continue
        count += 1
        outputs: list[dict[str, Any]] = []
        if cell.printed:
            outputs.append({"output_type": "stream", "name": "stdout", "text": cell.printed})
        if cell.given:
            outputs.append({"output_type": "execute_result", "execution_count": count, "data": cell.given, "metadata": {}})
        made.append({"cell_type": "code", **same, "execution_count": count, "outputs": outputs})
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    return json.dumps({"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False)


@cache
def results(name: str) -> tuple[str, str]:
    """Page and notebook of a tutorial, run in a process of its own unless its cells are kept."""
    if not kept(name).exists():
        _run_apart(name)
    cells = [Cell(*cell) for cell in json.loads(kept(name).read_text(encoding="utf-8"))]
    return page(cells, name), notebook(cells)


def _run_apart(name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MPLBACKEND": "agg"}
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
    if done.returncode:
        from mkdocs.exceptions import PluginError

        raise PluginError(f"docs/tutorials/{name}.md failed:\n{done.stderr[-2000:]}")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the notebooks to what MkDocs found."""
    from mkdocs.structure.files import File

    for name in NAMES:
        files.append(File.generated(config, f"tutorials/{name}.ipynb", content=results(name)[1]))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Show the results in the pages."""
    found = re.fullmatch(r"tutorials/(\w+)\.md", page.file.src_uri)
    return results(found[1])[0] if found and found[1] in NAMES else markdown


if __name__ == "__main__":
    run_and_keep(sys.argv[1])
