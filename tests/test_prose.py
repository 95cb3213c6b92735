"""Pages that can be read: short sentences in what users read, and guides of a length that one reads to the end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LONGEST_SENTENCE = 40
LONGEST_GUIDE = 1200
# What is read from the beginning to the end: not the reference (docstrings), the gallery (examples) and the evidence (measurements).
GUIDES = sorted({*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")} - {DOCS / "changelog.md"})


def prose(text: str) -> str:
    """A page without its front matter, blocks of code, comments, addresses of links and raw HTML."""
    text = re.sub(r"\A---\n.*?^---$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^( *)(```+|~~~+).*?^\1\2 *$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->|</?[a-zA-Z][^>]*>", "", text, flags=re.DOTALL)
    text = re.sub(r"^\$\$.*?\$\$$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


def sentences(text: str) -> list[str]:
    """The sentences of a page. Every paragraph, heading, item of a list and cell of a table ends one."""
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )|\n(?=#)|\|", prose(text)):
        flat = re.sub(r"^\s*(?:[-*+#>]+|\d+\.)\s+", "", " ".join(block.split()))
        found += re.split(r"(?<=[.!?])[*_)\"”]*\s+(?=[A-Z0-9Α-Ω(*_`\"“\[<α-ω$])", flat)
    return [sentence for sentence in found if sentence]


def words(text: str) -> int:
    """Words and numbers; signs by themselves are none, and a piece of code in a sentence is one."""
    return sum(bool(re.search(r"\w", word)) for word in re.sub(r"`[^`]*`", "code", text).split())


def newest(changelog: str) -> str:
    """The newest release's section."""
    return re.split(r"^## ", changelog, flags=re.MULTILINE)[1]


def too_long(text: str) -> list[str]:
    return [f"{words(each)} words: {each}" for each in sentences(text) if words(each) > LONGEST_SENTENCE]


@pytest.mark.parametrize("page", [*GUIDES, ROOT / "README.md"], ids=lambda page: page.name)
def test_no_sentence_of_a_guide_is_too_long(page: Path) -> None:
    assert not too_long(page.read_text())


def test_no_sentence_about_the_newest_release_is_too_long() -> None:
    assert not too_long(newest((ROOT / "CHANGELOG.md").read_text()))


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_no_guide_is_too_long(page: Path) -> None:
    assert words(prose(page.read_text())) <= LONGEST_GUIDE


def test_long_sentences_are_seen() -> None:
    long = " ".join(["word"] * (LONGEST_SENTENCE + 1))
    assert len(too_long(f"# A page\n\nShort. {long}.\n\n* {long}\n\n| a | {long} |\n")) == 3
    assert not too_long(f"```python\n{long}\n```\n\n{' '.join(['word'] * 20)}. {' '.join(['Word'] * 30)}.")
