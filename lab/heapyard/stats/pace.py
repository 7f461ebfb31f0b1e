"""How long a round of an experiment takes, for saying what more blocks would cost."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from ..model.observations import Observations


def round_seconds(observations: Observations) -> float:
    """Seconds that one block of every workload takes; 0 where no block had two trials. O(rows).

    From the times at which the trials of a block began; the last one is taken to last as long as the others. The median over
    blocks forgets interruptions.
    """
    begun: dict[tuple[str, int], set[float]] = defaultdict(set)
    for row in observations.rows:
        begun[row.workload, row.block].add(row.started)
    lasted: dict[str, list[float]] = defaultdict(list)
    for (workload, _), times in begun.items():
        if len(times) > 1:
            lasted[workload].append((max(times) - min(times)) * len(times) / (len(times) - 1))
    return float(sum(median(durations) for durations in lasted.values()))
