"""After the site is built: nothing in it may ask the network for anything. Links to click on are another matter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

# Attributes whose address a browser fetches by itself. (`a` and `area` wait for a click.)
FETCHED = ("src", "srcset", "poster", "data", "background")
# What `link` elements merely state, without anything being fetched.
STATED = {"canonical", "alternate", "author", "license", "next", "prev", "help", "search"}
ELSEWHERE = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
IN_CSS = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
IN_JS = re.compile(r"""["'`](https?://[^"'`]+)["'`]""")
# Addresses in the theme's script that are only used where a page has the given mark, or a browser lacks what all have since 2020.
DORMANT = {
    "https://unpkg.com/mermaid": 'class="mermaid"',
    "https://api.github.com/": 'data-md-component="source"',
    "https://${e}/api/": 'data-md-component="source"',
    "https://unpkg.com/resize-observer-polyfill": None,
    "http://www.w3.org/": None,  # names of XML namespaces
    "https://": None,  # the beginning of an address that is compared, not fetched
}


class _Fetches(HTMLParser):
    """Collects what a page would fetch from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.style = tag == "style"
        addresses = [given[name] for name in FETCHED if name in given]
        if tag == "link" and not set(given.get("rel", "").split()) & STATED:
            addresses.append(given.get("href", ""))
        if tag in ("use", "image"):
            addresses.append(given.get("href", given.get("xlink:href", "")))
        self.found += [f"<{tag}> {address}" for address in addresses if ELSEWHERE.match(address)]
        self.found += [f"<{tag} style> {address}" for address in IN_CSS.findall(given.get("style", ""))]

    def handle_data(self, data: str) -> None:
        if self.style:
            self.found += [f"<style> {address}" for address in IN_CSS.findall(data)]

    def handle_endtag(self, tag: str) -> None:
        self.style = False


def fetched_from_elsewhere(site: Path) -> Iterator[str]:
    """A line for everything that the pages, styles and scripts below `site` would fetch from another host."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    for path, text in pages.items():
        parser = _Fetches()
        parser.feed(text)
        yield from (f"{path.relative_to(site)}: {found}" for found in parser.found)
    for path in sorted(site.rglob("*.css")):
        yield from (f"{path.relative_to(site)}: {found}" for found in IN_CSS.findall(path.read_text(encoding="utf-8")))
    for path in sorted(site.rglob("*.js")):
        for address in IN_JS.findall(path.read_text(encoding="utf-8")):
            known = next((start for start in DORMANT if address.startswith(start)), None)
            mark = None if known is None else DORMANT[known]
            if known is None or (known == "https://" and address != known) or (mark and any(mark in text for text in pages.values())):
                yield f"{path.relative_to(site)}: {address}"


def on_post_build(*, config: Any) -> None:
    found = list(fetched_from_elsewhere(Path(config["site_dir"])))
    if found:
        raise PluginError("the site would fetch from other hosts:\n" + "\n".join(found))
