# SPDX-License-Identifier: Apache-2.0
"""Files named by the SHA-256 of their content, compressed with zstd: equal content is one file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ..model.errors import HeapyardError


_MOST = 1 << 28  # bytes: what a trial leaves is far smaller, and a few damaged bytes can stand for gigabytes


def write_blob(folder: Path, content: bytes) -> str:
    """Store `content` in `folder` (made if need be); the name to find it by. O(bytes).

    The file is complete or absent: it is written under another name first. OSError when the disk is full.
    """
    import zstandard

    name = hashlib.sha256(content).hexdigest()
    path = _path(folder, name)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(zstandard.ZstdCompressor().compress(content))
        partial.replace(path)
    return name


def read_blob(folder: Path, name: str, what: str) -> bytes:
    """The content of the file `name`, called `what` in errors.

    HeapyardError when the file is missing, damaged or not what its name says. O(bytes).
    """
    import zstandard

    path = _path(folder, name)
    try:
        with path.open("rb") as file:
            content = zstandard.ZstdDecompressor().stream_reader(file).read(_MOST + 1)
    except FileNotFoundError:
        raise HeapyardError(f"{path}: the {what} is missing") from None
    except zstandard.ZstdError as error:
        raise HeapyardError(f"{path}: the {what} is damaged ({error})") from None
    if len(content) > _MOST:
        raise HeapyardError(f"{path}: the {what} is damaged: it has more than {_MOST >> 20} MiB")
    if hashlib.sha256(content).hexdigest() != name:
        raise HeapyardError(f"{path}: the {what} is damaged: its content does not match its name")
    return content


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.zst"
