# SPDX-License-Identifier: Apache-2.0
"""The answer of `heapyard simulate` as one JSON-safe object (docs/simulation.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..model.simulation import Simulation, Simulations
from .json_answer import safe
from .simulation_table import ratios_of, seconds_of

SCHEMA = 1  # raised when a field changes its meaning or goes away


def simulation_answer(found: Simulations) -> dict[str, Any]:
    """Everything the terminal shows, unrounded, and every line that was kept. O(runs + lines)."""
    return safe(
        {
            "schema": SCHEMA,
            "kind": "simulated",
            "program": found.program,
            "command": list(found.command),
            "machine": {"name": found.machine.machine, "cores": found.machine.cores},
            "baseline": found.baseline,
            "complete": found.complete,
            "allocators": [
                {"allocator": name, "ratios": ratios_of(found, name), "runs": [_run(o) for o in found.runs if o.allocator == name]}
                for name in found.allocators
            ],
        }
    )


def _run(one: Simulation) -> dict[str, Any]:
    if one.run is None:
        return {"seed": one.seed, "failed": one.reason}
    run = asdict(one.run) | {"lines": [_line(asdict(line)) for line in one.lines]}
    return {"seed": one.seed, "simulated_seconds": seconds_of(one.run), "operations": one.operations or None, **run}


def _line(named: dict[str, Any]) -> dict[str, Any]:
    """A line with its names, flat; its address as people write one."""
    line = named.pop("line")
    return {**line, **named, "address": hex(line["address"])}
