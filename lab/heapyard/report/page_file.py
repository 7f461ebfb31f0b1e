# SPDX-License-Identifier: Apache-2.0
"""Writing a page: complete or not at all."""

from __future__ import annotations

from pathlib import Path

from ..model.errors import HeapyardError


def write_page(path: Path, text: str) -> None:
    """Write a page to `path`; HeapyardError when it cannot be written."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise HeapyardError(f"{path}: the report cannot be written ({error.strerror})") from None
