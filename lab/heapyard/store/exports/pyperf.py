# SPDX-License-Identifier: Apache-2.0
"""Export as pyperf JSON (format version 1.0): counted trials only, since pyperf knows no blocks and no failures.

pyperf compares benchmarks of equal names in two files; so one treatment per file is what its `compare_to` wants.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TextIO

from ...model.errors import HeapyardError
from ...model.metrics import PRIMARY_TIME, metric_named
from ...model.record import Record, TrialRecord

_UNITS = {"s": "second", "B": "byte", "1": "integer"}


def write_pyperf(record: Record, out: TextIO, treatment: str | None = None) -> None:
    """A suite of one benchmark per workload, treatment and metric; every trial is a run of one value. O(rows).

    With `treatment` only that one, so that names do not hold it. HeapyardError when nothing was counted. Zeros are left
    out: pyperf demands positive values.
    """
    found: dict[tuple[str, str, str], list[TrialRecord]] = defaultdict(list)
    for trial in record.trials:
        if trial.counted and treatment in (None, trial.treatment):
            for metric, value in trial.metrics.items():
                if value > 0 and metric_named(metric).unit in _UNITS:
                    found[trial.workload, trial.treatment, metric].append(trial)
    if not found:
        raise HeapyardError(f"{record.id}: there is no counted trial to export")
    suite = {
        "version": "1.0",
        "metadata": {"command": " ".join(record.experiment.argv)},
        "benchmarks": [_benchmark(record, *key, trials, named=treatment is None) for key, trials in found.items()],
    }
    json.dump(suite, out, indent=1)
    out.write("\n")


def _benchmark(
    record: Record, workload: str, treatment: str, metric: str, trials: list[TrialRecord], *, named: bool
) -> dict[str, object]:
    parts = [workload, *([treatment] if named else []), *([metric_named(metric).title] if metric != PRIMARY_TIME else [])]
    unit = metric_named(metric).unit
    runs = [
        {
            "values": [int(t.metrics[metric]) if unit != "s" else t.metrics[metric]],
            "metadata": {"duration": t.ended - t.started, "heapyard_trial": t.id, "heapyard_block": t.block}
            | ({"heapyard_node": t.node} if t.node else {}),
        }
        for t in trials
        if unit == "s" or t.metrics[metric] >= 1
    ]
    return {
        "metadata": {"name": ", ".join(parts), "unit": _UNITS[unit], "loops": 1, "heapyard_experiment": record.id},
        "runs": runs,
    }
