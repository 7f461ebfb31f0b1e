# SPDX-License-Identifier: Apache-2.0
"""The answer of a search for capacities as one JSON-safe object (docs/capacity.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..model.capacity import Capacities
from ..model.record import Record
from .capacity_words import control_text, headline, sentences
from .json_answer import safe

SCHEMA = 1  # raised when a field changes its meaning or goes away


def capacity_answer(found: Capacities, record: Record) -> dict[str, Any]:
    """Everything the terminal shows, unrounded, and the means of every response near the capacity. O(rows x responses)."""
    text, alarm = control_text(found)
    return safe(
        {
            "schema": SCHEMA,
            "kind": "capacity",
            "id": record.id,
            "path": str(record.path),
            "title": record.experiment.title,
            "status": record.status,
            "created": record.created,
            "heapyard": record.version,
            "seed": record.experiment.settings.seed,
            "verdict": headline(found),
            "limits": [asdict(limit) for limit in found.limits],
            "baseline": found.baseline,
            "memory": found.memory,
            "capacities": [asdict(row) for row in found.rows],
            "control": {"row": asdict(found.control) if found.control else None, "told": text, "alarming": alarm},
            "left_out": found.left_out,
            "notes": sentences(found, record),
        }
    )
