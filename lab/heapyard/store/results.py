# SPDX-License-Identifier: Apache-2.0
"""What a mutator wrote in one trial, whole: its parameters, responses, counts and series over logical time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..model.damage import DAMAGE, in_words, object_of
from ..model.errors import HeapyardError
from .blobs import read_blob, write_blob

FOLDER = "results"


def write_result(folder: Path, content: bytes) -> str:
    """Store a result under the experiment's folder; the name to find it by."""
    return write_blob(folder / FOLDER, content)


def read_result(folder: Path, name: str) -> dict[str, Any]:
    """The JSON object of the result `name`; HeapyardError when the file is missing or damaged."""
    content = read_blob(folder / FOLDER, name, "result")
    try:
        return object_of(content)
    except DAMAGE as error:
        raise HeapyardError(f"{folder / FOLDER / name}.zst: is not a mutator's result ({in_words(error)})") from None
