# SPDX-License-Identifier: Apache-2.0
"""Text files that travel between machines: each appears whole, and whoever reads it knows whether it is.

The last line of the file is the SHA-256 of all before it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ..model.errors import HeapyardError


class Damaged(HeapyardError):
    """A sealed file that is cut off or was changed."""


def seal(path: Path, text: str) -> None:
    """Write `text`, on stable storage before the file has its name. O(bytes). OSError when the disk is full."""
    content = text.encode() + b"\n"
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content + hashlib.sha256(content).hexdigest().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def unseal(path: Path) -> str:
    """The text. Damaged when it is not as it was written, OSError when it cannot be read. O(bytes)."""
    content, _, digest = path.read_bytes().removesuffix(b"\n").rpartition(b"\n")
    if hashlib.sha256(content + b"\n").hexdigest().encode() != digest:
        raise Damaged(f"{path}: is cut off or damaged: its content does not match its digest")
    return content.decode()
