# SPDX-License-Identifier: Apache-2.0
"""The answer of a search over settings for machines."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from ..model.analysis import Comparison, Interval
from ..model.switching import paste_lines
from ..model.tuning import Choice, TuneAnswer, Tuned
from .tune_answer import headline, sentence, sides


def tune_answer(answer: TuneAnswer) -> dict[str, Any]:
    """Ratios against each allocator's default; `confirmed` alone is claimed. Ends that are unbounded are null."""
    return {
        "id": answer.id,
        "headline": headline(answer),
        "workload": answer.workload,
        "time": answer.time,
        "memory": answer.memory,
        "complete": answer.complete,
        "reached": answer.reached,
        "experiments": answer.experiments,
        "trials": answer.trials,
        "seconds": round(answer.seconds, 3),
        "stages": [asdict(stage) for stage in answer.stages],
        "allocators": [_allocator(answer, tuned) for tuned in answer.tuned],
    }


def _allocator(answer: TuneAnswer, tuned: Tuned) -> dict[str, Any]:
    front = {p.treatment for p in tuned.confirmed.pareto if p.on_front} if tuned.confirmed else set[str]()
    return {
        "allocator": tuned.space.allocator,
        "sentence": sentence(answer, tuned),
        "best": None if tuned.best is None else tuned.space.options(tuned.best),
        "environment": tuned.environment,
        "paste": [{"where": where, "line": line} for where, line in paste_lines(tuned.environment)],
        "confirmed": [
            {"settings": tuned.space.options(choice), "variant": tuned.space.label(choice),
             "on_front": tuned.space.label(choice) in front, **_sides(tuned, choice)}
            for choice in tuned.finalists if tuned.confirmed
        ],
        "main_effects": [
            {"metric": e.metric, "setting": e.setting, "level": e.level, **_interval(e.interval)} for e in tuned.effects
        ],
        "candidates": [
            {"settings": tuned.space.options(c.choice), "phase": c.phase, "blocks": c.blocks, "on_front": c.on_front,
             "time": _interval(c.time), "memory": _interval(c.memory)}
            for c in tuned.candidates
        ],
        "screened": tuned.screened,
        "raced": tuned.raced,
        "combinations": tuned.space.combinations,
    }


def _sides(tuned: Tuned, choice: Choice) -> dict[str, Any]:
    time, memory = sides(tuned, choice)
    return {"time": _comparison(time), "memory": _comparison(memory)}


def _comparison(found: Comparison | None) -> dict[str, Any] | None:
    return None if found is None else {**_interval(found.simultaneous), "verdict": found.verdict, "blocks": found.blocks}


def _interval(interval: Interval) -> dict[str, float | None]:
    return {
        "ratio": _finite(interval.ratio),
        "low": interval.low if interval.low > 0 else None,
        "high": _finite(interval.high),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
