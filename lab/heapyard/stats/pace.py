# SPDX-License-Identifier: Apache-2.0
"""How long a round of an experiment takes, for saying what more blocks would cost."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from statistics import median

from ..model.observations import Observations


def round_seconds(observations: Observations) -> float:
    """Seconds that one block of every workload takes; 0 where no block had two trials. O(rows log rows).

    From the times at which trials and blocks began: a block lasts until the next one begins. Of the last block only its
    trials tell, the last of which is taken to last as long as the others. The median over blocks forgets interruptions.
    """
    begun: dict[tuple[str, int], set[float]] = defaultdict(set)
    for row in observations.rows:
        begun[row.workload, row.block].add(row.started)
    blocks = sorted((min(times), workload, max(times), len(times)) for (workload, _), times in begun.items())
    lasted: dict[str, list[float]] = defaultdict(list)
    for (first, workload, _, _), (following, *_) in pairwise(blocks):
        lasted[workload].append(following - first)
    for first, workload, last, trials in blocks[-1:]:
        if workload not in lasted and trials > 1:
            lasted[workload].append((last - first) * trials / (trials - 1))
    return float(sum(median(durations) for durations in lasted.values()))
