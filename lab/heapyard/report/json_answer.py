# SPDX-License-Identifier: Apache-2.0
"""The answer as one JSON-safe object: a documented schema for scripts (docs/report.md)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from ..model.analysis import Analysis
from ..model.preference import BY_TIME, Preference
from ..model.record import Record
from .choice import choose, dominated
from .huge_page_words import huge_pages_of, mode_of
from .machine_words import chosen_by_kind, everywhere
from .more_time import more_time
from .verdict import answered, verdict

SCHEMA = 2  # raised when a field changes its meaning or goes away


def answer(analysis: Analysis, record: Record, preference: Preference = BY_TIME) -> dict[str, Any]:
    """Everything the terminal shows, unrounded. NaN and infinity become null. O(analysis)."""
    settings = record.experiment.settings
    return safe(
        {
            "schema": SCHEMA,
            "id": record.id,
            "path": str(record.path),
            "title": record.experiment.title,
            "status": record.status,
            "created": record.created,
            "heapyard": record.version,
            "seed": settings.seed,
            "simulated": asdict(settings.simulated) if settings.simulated.wanted else None,
            "huge_pages": {"machine": mode_of(record), "told": huge_pages_of(record)},
            "verdict": verdict(analysis, preference),
            "answer": asdict(answered(analysis, preference))
            | {"chosen": choose(analysis, preference), "more_time": more_time(analysis)},
            "preference": asdict(preference),
            "out": [asdict(lost) for lost in dominated(analysis)],
            "baseline": analysis.baseline,
            "leading": {"time": analysis.time, "memory": analysis.memory},
            "treatments": list(analysis.treatments),
            "allocators": [
                asdict(t.allocator) | {"label": t.label, "levels": t.levels, "library": str(t.allocator.library or "")}
                for t in record.experiment.treatments
                if t.role == "treatment"
            ],
            "control": asdict(analysis.control)
            | {"clean": analysis.control.clean, "alarming": analysis.control.alarming},
            "overall": [asdict(o) for o in analysis.overall],
            "cells": [asdict(c) for c in analysis.cells],
            "levels": [asdict(b) for b in analysis.by_level],
            "machines": _machines(analysis, preference),
            "pareto": [asdict(p) for p in analysis.pareto],
            "figures": [asdict(c) for c in analysis.curves],
            "growth": [asdict(t) for t in analysis.trends],
            "scaling": [asdict(s) for s in analysis.scalings],
            "modes": [asdict(m) for m in analysis.modes],
            "ranks": [asdict(r) for r in analysis.rankings],
            "anova": [asdict(a) for a in analysis.anovas],
            "claims": [asdict(j) for j in analysis.judgements],
            "failures": [asdict(f) for f in analysis.failures],
            "notes": list(analysis.notes),
            "memory": [asdict(row) for row in record.memory],
        }
    )


def _machines(analysis: Analysis, preference: Preference) -> dict[str, Any] | None:
    """None without a fleet."""
    if analysis.machines is None:
        return None
    best = everywhere(analysis, preference)
    chosen = {kind.name: treatment for kind, treatment in chosen_by_kind(analysis, preference)}
    kinds = [asdict(k) | {"facts": dict(k.facts), "chosen": chosen[k.name]} for k in analysis.machines.kinds]
    return asdict(analysis.machines) | {"kinds": kinds, "best_everywhere": best.treatment if best else None}


def safe(value: Any) -> Any:
    """What strict JSON can hold: NaN and infinity become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: safe(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [safe(item) for item in value]
    return value
