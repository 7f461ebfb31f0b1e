# SPDX-License-Identifier: Apache-2.0
"""Why a program that ran under the tracer left no trace: one sentence, with a remedy if any."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..catalog.executable_check import Flaw, executable_flaw


def why_untraced(program: str) -> Flaw:
    """Of a command's first word, as PATH finds it. Reads the heads of files only."""
    path = Path(shutil.which(program) or program)
    flaw = executable_flaw(path)
    if flaw is not None:
        return flaw
    return (f"'{path}' allocated nothing by a malloc that a library can be in front of",
            "If it allocates at all, its allocator is part of it under other names: link it as a shared library.")
