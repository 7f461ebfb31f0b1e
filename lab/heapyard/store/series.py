"""Memory over time of one trial: a zstd file named by the SHA-256 of its content, so that equal ones are one file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from ..model.errors import HeapyardError

FOLDER = "series"
_HEADER = "seconds,rss_bytes,pss_bytes"  # PSS -1: not sampled at this point

Series = list[tuple[float, int, int]]


def write_series(folder: Path, series: Iterable[tuple[float, int, int]]) -> str:
    """Store (seconds since exec, RSS, PSS) rows under the experiment's folder; the name to find them by. O(rows).

    The file is complete or absent: it is written under another name first. OSError when the disk is full.
    """
    import zstandard

    text = "\n".join([_HEADER, *(f"{t:.6f},{rss},{pss}" for t, rss, pss in series)]) + "\n"
    name = hashlib.sha256(text.encode()).hexdigest()
    path = _path(folder, name)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(zstandard.ZstdCompressor().compress(text.encode()))
        partial.replace(path)
    return name


def read_series(folder: Path, name: str) -> Series:
    """The rows of the series `name`.

    HeapyardError when the file is missing, damaged or not what its name says. O(rows).
    """
    import zstandard

    path = _path(folder, name)
    try:
        with path.open("rb") as file:
            data = zstandard.ZstdDecompressor().stream_reader(file).read()
    except FileNotFoundError:
        raise HeapyardError(f"{path}: the series is missing") from None
    except zstandard.ZstdError as error:
        raise HeapyardError(f"{path}: the series is damaged ({error})") from None
    if hashlib.sha256(data).hexdigest() != name:
        raise HeapyardError(f"{path}: the series is damaged: its content does not match its name")
    rows = (line.split(",") for line in data.decode().splitlines()[1:])
    return [(float(t), int(rss), int(pss)) for t, rss, pss in rows]


def _path(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.zst"
