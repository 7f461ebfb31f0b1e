# SPDX-License-Identifier: Apache-2.0
"""The last line of an answer: how to switch to what it names, and whether that is safe."""

from __future__ import annotations

import shlex

from ..model.record import Record
from ..store.checked import remembered


def switch_for_good(record: Record, treatment: str) -> tuple[str, str]:
    """(sentence, command) for the allocator that the answer names, with what `heapyard check` last said of its library."""
    allocator = next(t.allocator for t in record.experiment.treatments if t.label == treatment)
    own = allocator.provenance.startswith("user:")
    name = shlex.quote(str(allocator.library) if own else allocator.name)
    checked = remembered(allocator)
    safe = str(checked) if checked else f"first run: heapyard check {name}"
    return f"To switch for good ({safe}):", f"heapyard wrap {name}"
