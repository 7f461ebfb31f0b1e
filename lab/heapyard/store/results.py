# SPDX-License-Identifier: Apache-2.0
"""What a mutator wrote in one trial, whole: its parameters, responses, counts and series over logical time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
        return json.loads(content)
    except ValueError as error:
        raise HeapyardError(f"{folder / FOLDER / name}.zst: is not a mutator's result ({error})") from None
