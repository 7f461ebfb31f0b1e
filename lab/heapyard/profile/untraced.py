# SPDX-License-Identifier: Apache-2.0
"""Why a program that ran under the tracer left no trace: one sentence, with a remedy if any."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..catalog.elf import NotElfError, exported
from ..catalog.executable_check import Flaw, executable_flaw


def why_untraced(program: str) -> Flaw:
    """Of a command's first word, as PATH finds it. Reads the heads of files only."""
    path = Path(shutil.which(program) or program)
    flaw = executable_flaw(path)
    if flaw is not None:
        return flaw
    if _has_malloc(path):
        return f"'{path}' brings its own malloc, in front of which no library can be", "Link its allocator as a shared library."
    return (f"'{path}' allocated nothing by a malloc that a library can be in front of",
            "If it allocates at all, its allocator is part of it under other names: link it as a shared library.")


def _has_malloc(path: Path) -> bool:
    try:
        return bool(exported(path, ["malloc"]))
    except (NotElfError, OSError):
        return False  # a script, or a file that may not be read
