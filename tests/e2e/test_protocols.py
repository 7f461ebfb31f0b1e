# SPDX-License-Identifier: Apache-2.0
"""What the order of trials is worth: the A/A trials stored on this machine, judged by two protocols.

On request, for it needs experiments that were run here: pytest --on-request -s tests/e2e/test_protocols.py
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from heapyard import store
from heapyard.model import places
from heapyard.model.record import Record
from scipy import stats

pytestmark = pytest.mark.on_request

LEAST = 8  # trials of the baseline and its control together
LEVEL = 0.05


def p_values(record: Record) -> list[tuple[float, float]]:
    """Per workload p of (all of one, then all of the other; in shuffled blocks), the same trials in their order."""
    baseline, control = record.observations.baseline, record.observations.control
    metric = record.experiment.settings.time_metric
    found = []
    for workload in record.observations.workloads:
        trials = [
            t for t in record.trials
            if t.workload == workload and t.counted and t.treatment in (baseline, control) and t.metrics.get(metric)
        ]
        trials.sort(key=lambda t: t.started)
        if len(trials) < LEAST:
            continue
        logs = np.log([t.metrics[metric] for t in trials])
        half = len(logs) // 2
        blocks = {t.block: {} for t in trials}
        for t, log in zip(trials, logs, strict=True):
            blocks[t.block][t.treatment] = log
        differences = [b[baseline] - b[control] for b in blocks.values() if len(b) == 2]
        one_after_the_other = stats.ttest_ind(logs[:half], logs[half:]).pvalue
        found.append((float(one_after_the_other), float(stats.ttest_1samp(differences, 0).pvalue)))
    return [pair for pair in found if not any(map(math.isnan, pair))]


def test_equal_allocators_differ_less_often_in_shuffled_blocks() -> None:
    """Nothing differs, so each protocol should call a difference in one of twenty."""
    found: list[tuple[float, float]] = []
    for folder in sorted(Path(places.results()).iterdir()):
        if folder.is_dir():
            try:
                found += p_values(store.load_record(folder))
            except Exception as error:  # of another version, or half written
                print(f"{folder.name} is left out: {error}")
    assert len(found) >= 20, "run some studies first"
    first, second = (float(np.mean([p < LEVEL for p in column])) for column in zip(*found, strict=True))
    print(f"\n{len(found)} comparisons of a baseline with itself; called different at 5 %:")
    print(f"all trials of one, then all of the other: {100 * first:.0f} %; in shuffled blocks: {100 * second:.0f} %")
    assert second < 0.15
