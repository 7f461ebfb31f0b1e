# SPDX-License-Identifier: Apache-2.0
"""Hours under load for machines. Bytes, seconds, and slopes per hour."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..model.hours import HoursAnswer, ServerAnswer, Slope
from .hours_words import HOUR, headline, sentences


def hours_answer(answer: HoursAnswer) -> dict[str, Any]:
    """JSON-able. `half` is of a 95 % interval."""
    return {
        "headline": headline(answer), "sentences": sentences(answer), "command": answer.title, "loads": list(answer.loads),
        "seconds": answer.seconds, "mode": answer.mode, "why": answer.why, "complete": answer.complete,
        "latency": answer.latency_name, "period": answer.period, "folder": answer.folder,
        "servers": [_server(server) for server in answer.servers],
    }


def _server(server: ServerAnswer) -> dict[str, Any]:
    return {
        "allocator": server.name, "seconds": round(server.noted.seconds, 3), "failed": server.noted.failed,
        "resident_per_hour": _slope(server.rss), "halves_per_hour": [_slope(half) for half in server.halves],
        "bends": server.bends, "live_per_hour": _slope(server.live), "held_per_hour": _slope(server.held),
        "rate_per_hour": _slope(server.rate), "latency_per_hour": _slope(server.latency),
        "spikes": [asdict(spike) for spike in server.spikes],
        "hours": [asdict(hour) for hour in server.hours],
        "launches": [{"clock": s.clock, "fresh": s.fresh, "pid": s.pid, "begin": s.begin, "ended": s.ended, "traces": s.traces}
                     for s in server.noted.stretches],
        "notes": [{"at": at, "text": text} for at, text in server.noted.notes],
        "samples": len(server.noted.samples), "passes": len(server.noted.passes),
    }


def _slope(slope: Slope | None) -> dict[str, Any] | None:
    if slope is None:
        return None
    return {"value": slope.value * HOUR, "half": slope.half * HOUR, "level": slope.level, "motion": slope.motion,
            "correlation": round(slope.memory, 3)}
