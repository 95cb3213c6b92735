"""A hook of the documentation: search puts guides before evidence, and screen readers hear what the theme forgets to say."""

from __future__ import annotations

from typing import Any

# How much a hit counts: a reader who types two words wants to do something. Records of measurements and of changes come last.
BOOSTS = {
    "your-data.md": 3.0,
    "files.md": 1.5,
    "explorer.md": 1.5,
    "channels.md": 4.0,
    "evidence/": 0.3,
    "reference/": 0.7,
    "changelog.md": 0.1,
    "architecture.md": 0.1,
    "equations.md": 0.5,
    "roadmap.md": 0.3,
}
# The theme's search is a dialog without a name.
_SEARCH = 'data-md-component="search" role="dialog"'


def boost(path: str) -> float:
    """How much a hit on a page counts."""
    return next((value for name, value in BOOSTS.items() if path.startswith(name)), 1.0)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Before a page is indexed."""
    page.meta.setdefault("search", {}).setdefault("boost", boost(page.file.src_uri))
    return markdown


def on_post_page(output: str, **_: Any) -> str:
    """When a page is written."""
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')
