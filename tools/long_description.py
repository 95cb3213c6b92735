"""The README as package indexes show it.

They have neither our pictures nor our pages, so pictures become a line of text and relative links their words.

A metadata hook of hatchling, called when a wheel or an sdist is built.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)[^)]+\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)")


def without_relative_addresses(text: str) -> str:
    """Pictures as their captions, links as their words; blocks of code stay as they are."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if part.startswith("```") else LINK.sub(r"\1", PICTURE.sub(r"*Picture in the repository: \1.*", part)) for part in parts
    )


class LongDescription(MetadataHookInterface):
    """Sets `readme`, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_relative_addresses(text)}
