"""Mathematics of the pages, drawn when the site is built: no script, no network, no font that a reader may lack.

The extension `arithmatex` finds $...$ and $$...$$. Each becomes a drawing in the colour of the text, with the same formula as MathML for
screen readers.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import ziamath
from latex2mathml.converter import convert

FOUND = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)
# Pixels of a line of text while drawing; on the page all lengths are relative to the text around.
_SIZE = 16.0
ziamath.config.svg2 = False  # paths in place of symbols, whose names would repeat on a page


def on_page_content(html: str, **_: Any) -> str:
    """Replace every formula on a page."""
    return FOUND.sub(lambda found: formula(unescape(found[2]).strip(), block=found[1] == "div"), html)


def formula(latex: str, *, block: bool) -> str:
    """A formula on the line of the text, or by itself, where it can be scrolled if the page is narrow."""
    drawn = ziamath.Latex(latex, size=_SIZE, color="currentColor", inline=not block).svg()
    head = re.match(r'<svg ([^>]*?)width="([\d.]+)" height="([\d.]+)" viewBox="(\S+) (\S+) (\S+) (\S+)"', drawn)
    assert head is not None
    width, height, top = float(head[2]), float(head[3]), float(head[5])
    style = f"width:{width / _SIZE:.3f}em;height:{height / _SIZE:.3f}em;vertical-align:{-(height + top) / _SIZE:.3f}em"
    box = " ".join(head.groups()[3:])
    picture = f'<svg {head[1]}aria-hidden="true" style="{style}" viewBox="{box}"{drawn[head.end() :]}'
    words = f'<span class="for-readers">{convert(latex, display="block" if block else "inline")}</span>'
    tag = "div" if block else "span"
    return f'<{tag} class="formula">{picture}{words}</{tag}>'
