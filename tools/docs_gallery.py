"""Pages of the gallery, made when the site is built: each example is run, and its page shows what it printed, what it drew and its source.

Two take minutes. Their pages show the committed figure and say so; the slow tests run them.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
# An example that takes longer than this does not belong among those that are run for every build.
SECONDS = 300


class Example(NamedTuple):
    """An example: the title of its page, the figures it writes, and, where it is not run for the page, why and where its numbers are."""

    title: str
    figures: tuple[str, ...]
    not_run: str = ""


EXAMPLES = {
    "what_is_a_spinodal": Example("What is a spinodal?", ("potential.png", "s_curve.png", "evolution.png")),
    "calibration": Example("A sensing matrix known to 10%", ("calibration.png",)),
    "from_scratch": Example("A dictionary from scratch", ("from_scratch.png",)),
    "digits": Example(
        "Handwritten digits",
        ("digits.png",),
        "It takes about a minute, so the figure is one made before; `make test-slow` runs it. "
        "What it printed is in [the table](../evidence/real-data.md#handwritten-digits).",
    ),
    "photograph": Example(
        "A photograph",
        ("photograph.png",),
        "It takes minutes, so the figure is one made before; `make test` runs it on a small photograph, `make test-slow` as it is. "
        "What it printed is in [the table](../evidence/real-data.md#a-photograph).",
    ),
}


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages and their figures to what MkDocs found."""
    for name, example in EXAMPLES.items():
        page, figures = (page_not_run if example.not_run else page_run)(name)
        files.append(File.generated(config, f"gallery/{name}.md", content=page))
        for figure, content in figures.items():
            files.append(File.generated(config, f"gallery/{name}_{figure}", content=content))
    return files


@cache
def page_run(name: str) -> tuple[str, dict[str, bytes]]:
    """The page of an example that is run now, and its figures."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--out", folder]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MPLBACKEND": "agg"}
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
        if done.returncode:
            raise PluginError(f"examples/{name}.py failed:\n{done.stderr[-2000:]}")
        figures = {figure: (Path(folder) / figure).read_bytes() for figure in EXAMPLES[name].figures}
    pictures = "\n\n".join(f"![{EXAMPLES[name].title}: {Path(figure).stem}]({name}_{figure})" for figure in figures)
    return page(name, f"It printed, when this page was made,\n\n```text\n{done.stdout.rstrip()}\n```\n\nand drew\n\n{pictures}"), figures


def page_not_run(name: str) -> tuple[str, dict[str, bytes]]:
    example = EXAMPLES[name]
    pictures = "\n\n".join(f"![{example.title}](../images/{figure})" for figure in example.figures)
    return page(name, f"{example.not_run}\n\n{pictures}"), {}


def page(name: str, result: str) -> str:
    """Title, what the example says of itself, its result, its source."""
    source = (ROOT / "examples" / f"{name}.py").read_text()
    about = ast.get_docstring(ast.parse(source)) or ""
    usage = [part for part in about.split("\n\n") if part.startswith("    ")]
    words = [part for part in about.split("\n\n") if part not in usage]
    command = "\n".join(line.strip() for part in usage for line in part.splitlines())
    text = "\n\n".join(words)
    return f"# {EXAMPLES[name].title}\n\n{text}\n\n```sh\n{command}\n```\n\n{result}\n\n## Source\n\n```python\n{source}```\n"
