# SPDX-License-Identifier: Apache-2.0
"""How fast each machine is: its block means beside those of the others. In ratios within blocks this cancels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...model.machines import MachineSpeed
from ..contrasts import interval_about
from ..quantiles import t_quantile
from ..satterthwaite import satterthwaite
from ..tables import Table
from .group_means import F, group_means
from .parts import crossed, grouped


def speeds_of(
    metric: str, tables: Sequence[Table], nodes: Sequence[str], labels: Sequence[str], *, confidence: float
) -> list[MachineSpeed]:
    """Ratios of the machines' means over `labels` to their geometric mean, with intervals that hold for all machines together
    (Bonferroni); of the machines that have a block of each workload, as `crossed` chooses them. O(blocks x labels)."""
    asked, nodes = crossed(tables, nodes)
    if len(nodes) < 2:
        return []
    values, groups = [], []
    for table in asked:
        y, group = grouped(table, {node: i for i, node in enumerate(nodes)})
        values.append(y[:, [table.labels.index(label) for label in labels]].mean(axis=1))
        groups.append(group)
    found, count = group_means(values, groups, len(nodes)), len(nodes)
    made = []
    for i, node in enumerate(nodes):
        # Of the machine's mean less the mean of all: its own variance weighs (1 - 1/n)^2, every other 1/n^2.
        weights = [(1 - 1 / count) ** 2 if i == j else 1 / count**2 for j in range(count)]
        parts = [w * float(v) for w, v in zip(weights, found.variance, strict=True)]
        df = found.df if found.method == F else satterthwaite(parts, found.dfs)
        error = math.sqrt(sum(parts)) if df else math.nan
        critical = t_quantile(1 - (1 - confidence) / (2 * count), df)
        made.append(MachineSpeed(node, metric, interval_about(float(found.mean[i] - found.mean.mean()), critical, error)))
    return made
