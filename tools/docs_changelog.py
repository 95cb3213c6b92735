"""The changelog in the site: CHANGELOG.md of the repository, whose links are made to start from the page's own folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent


def on_files(files: Files, *, config: Any) -> Files:
    """Add the page to what MkDocs found."""
    files.append(File.generated(config, "changelog.md", content=page()))
    return files


def page() -> str:
    """The changelog, with links into docs/ as they are within it."""
    return re.sub(r"\]\(docs/", "](", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
