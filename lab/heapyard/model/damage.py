# SPDX-License-Identifier: Apache-2.0
"""What reading a damaged or wrongly written file raises, and that as one sentence.

Readers take files apart without asking at each step whether the next is there. One `reading` around them, or one
`except DAMAGE`, answers for all that may be missing or of another kind.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import UsageError

# Wrong text, number, key, index, type; a number too large for its place; nesting without end.
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, struct.error)

_LONGEST = 160  # characters of what Python says


def in_words(error: BaseException) -> str:
    """What an error says, on one line and not too long: for brackets at the end of a sentence."""
    said = " ".join(str(error).split())[:_LONGEST]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turns whatever reading the file at `path` raises into a UsageError that names it. `what` it should be: "trace"."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except DAMAGE as error:
        raise UsageError(f"{path}: is damaged, or no {what} ({in_words(error)})") from error


def object_of(content: str | bytes) -> dict[str, Any]:
    """The JSON object in a text. An error of DAMAGE when it is none."""
    found = json.loads(content)
    if not isinstance(found, dict):
        raise TypeError(f"an object was expected, not {type(found).__name__}")
    return found
