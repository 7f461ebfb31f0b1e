# SPDX-License-Identifier: Apache-2.0
"""Memory over time of one trial, as rows of text in a file named by its content."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..model.damage import DAMAGE, in_words
from ..model.errors import HeapyardError
from .blobs import read_blob, write_blob

FOLDER = "series"
_HEADER = "seconds,rss_bytes,pss_bytes"  # PSS -1: not sampled at this point

Series = list[tuple[float, int, int]]


def write_series(folder: Path, series: Iterable[tuple[float, int, int]]) -> str:
    """Store (seconds since exec, RSS, PSS) rows under the experiment's folder; the name to find them by. O(rows)."""
    text = "\n".join([_HEADER, *(f"{t:.6f},{rss},{pss}" for t, rss, pss in series)]) + "\n"
    return write_blob(folder / FOLDER, text.encode())


def read_series(folder: Path, name: str) -> Series:
    """The rows of the series `name`; HeapyardError when the file is missing or damaged. O(rows)."""
    content = read_blob(folder / FOLDER, name, "series")
    try:
        rows = (line.split(",") for line in content.decode().splitlines()[1:])
        return [(float(t), int(rss), int(pss)) for t, rss, pss in rows]
    except DAMAGE as error:
        raise HeapyardError(f"{folder / FOLDER / name}.zst: is not a series ({in_words(error)})") from None
