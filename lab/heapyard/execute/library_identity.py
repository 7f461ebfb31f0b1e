# SPDX-License-Identifier: Apache-2.0
"""Is a library still the file the experiment began with? Rebuilding it meanwhile must not change what is measured."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from ..model.allocator import Allocator


def replaced(allocator: Allocator) -> str:
    """One sentence if the library's content has changed since the allocator was looked up, else "". O(1) if not."""
    if allocator.library is None or not allocator.sha256:
        return ""
    try:
        digest = digest_of(allocator.library)
    except OSError as error:
        return f"{allocator.library} cannot be read any more ({error.strerror})"
    return (
        "" if digest == allocator.sha256 else f"{allocator.library} was replaced by another file during the experiment"
    )


def digest_of(path: Path) -> str:
    """sha256 of a file's content. OSError when it cannot be read. O(1) where the file is as it was when last asked."""
    found = path.stat()
    return _digest(path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@lru_cache(maxsize=256)
def _digest(library: Path, *identity: int) -> str:
    """sha256 of the content; `identity` changes whenever the file does."""
    with library.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
