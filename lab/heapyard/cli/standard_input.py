# SPDX-License-Identifier: Apache-2.0
"""Our own standard input, kept so that every trial can read it."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path


def spool_stdin(parent: Path) -> Path:
    """Keep our standard input for the trials to read, each from its beginning: a file named by its content.

    O(bytes).
    """
    folder = parent / "stdin"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as kept:
        shutil.copyfileobj(sys.stdin.buffer, kept)
    with open(kept.name, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Path(kept.name).replace(folder / digest)
