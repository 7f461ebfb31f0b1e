# SPDX-License-Identifier: Apache-2.0
"""Reads the kernel's small files; a file that is absent or not readable reads as None."""

from __future__ import annotations

import re
from pathlib import Path

from ...model.huge_pages import chosen


class Files:
    """The kernel's files below `root`, which tests replace by a folder of their own."""

    def __init__(self, root: Path):
        self.root = root

    def text(self, path: str) -> str | None:
        """Stripped content of `path` (relative to the root); None when it cannot be read."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """The content as a whole number; None when it is none."""
        text = self.text(path)
        return int(text) if text and re.fullmatch(r"-?\d+", text) else None

    def glob(self, pattern: str) -> list[str]:
        """Paths relative to the root, sorted."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))

    def chosen(self, path: str) -> str | None:
        """The word in brackets of a file such as `always [madvise] never`."""
        return chosen(self.text(path) or "")

    def table(self, path: str) -> dict[str, int]:
        """A file of `name number` or `Name: number unit` lines; empty when it cannot be read."""
        found = re.findall(r"^(\S+?):?\s+(-?\d+)\b.*$", self.text(path) or "", re.MULTILINE)
        return {name: int(value) for name, value in found}
