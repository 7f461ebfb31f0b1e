# SPDX-License-Identifier: Apache-2.0
"""From what was noted of a server to what is said of it: slopes after warm-up, a row for each hour, spikes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..model.hours import Hour, Noted, Pass, Sample, ServerAnswer, Slope, Spike
from .slope import slope_of

if TYPE_CHECKING:
    import numpy as np

WARM_UP = 1 / 5  # of each stretch is left out: caches fill, heaps find their size
_COURSE = 1 / 20  # of a stretch: its median is memory's course, above which a spike rises
_LEAST_COURSE = 5  # samples
_CLEAR = 6.0  # standard deviations, as the median of deviations tells them
_CLEAR_SHARE = 0.05  # of the memory
_TO_NORMAL = 1.4826  # from a median of deviations to a standard deviation


@dataclass(frozen=True, slots=True)
class Live:
    """Bytes of live blocks at each sample of a stretch. `interval`: mean bytes between the profile's samples, 0 if it is exact."""

    bytes: np.ndarray
    interval: float = 0.0


def answer_of(noted: Noted, period: float, latency: str, live: Mapping[int, Live] = {}) -> ServerAnswer:
    """`period`: seconds of a row. `latency`: name of the response. `live`: by stretch.

    O(samples x length of a course).
    """
    counting = _warm(noted.samples)
    passes = _warm_passes(noted.passes)
    halves = [_slope([[s for s in part if (s.at < (part[0].at + part[-1].at) / 2) == first] for part in counting if part])
              for first in (True, False)]
    owned, held = _live_and_held(noted, counting, live)
    return ServerAnswer(
        noted, _hours(noted, period, latency, live),
        rss=_slope(counting), halves=(halves[0], halves[1]), live=owned, held=held,
        rate=_slope_of_passes(passes, "request_rate"),
        latency=_slope_of_passes(passes, latency) if latency else None,
        spikes=tuple(spike for part in _parts(noted.samples) for spike in spikes_of(part)),
    )


def _parts(samples: Sequence[Sample]) -> list[list[Sample]]:
    """By stretch."""
    found: dict[int, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.stretch, []).append(sample)
    return list(found.values())


def _warm(samples: Sequence[Sample]) -> list[list[Sample]]:
    """The samples that count, by stretch."""
    return [[s for s in part if s.at >= part[0].at + WARM_UP * (part[-1].at - part[0].at)] for part in _parts(samples)]


def _slope(parts: Sequence[Sequence[Sample]]) -> Slope | None:
    import numpy as np

    return slope_of([(np.array([s.at for s in part]), np.array([float(s.rss) for s in part])) for part in parts if part])


def _warm_passes(passes: Sequence[Pass]) -> list[list[Pass]]:
    found: dict[int, list[Pass]] = {}
    for one in passes:
        found.setdefault(one.stretch, []).append(one)
    return [[p for p in part if p.begin >= part[0].begin + WARM_UP * (part[-1].end - part[0].begin)] for part in found.values()]


def _slope_of_passes(parts: Sequence[Sequence[Pass]], name: str) -> Slope | None:
    """Each pass stands in its middle."""
    import numpy as np

    told = [[p for p in part if name in p.metrics] for part in parts]
    return slope_of([(np.array([(p.begin + p.end) / 2 for p in part]), np.array([p.metrics[name] for p in part]))
                     for part in told if part])


def _live_and_held(
    noted: Noted, counting: Sequence[Sequence[Sample]], live: Mapping[int, Live]
) -> tuple[Slope | None, Slope | None]:
    """Slopes of live bytes, and of what is resident beyond them, over the stretches that were profiled."""
    import numpy as np

    owned, held = [], []
    whole = {part[0].stretch: len(part) for part in _parts(noted.samples)}
    for part in counting:
        if part and part[0].stretch in live:
            at, rss = np.array([s.at for s in part]), np.array([float(s.rss) for s in part])
            blocks = live[part[0].stretch].bytes[whole[part[0].stretch] - len(part) :]
            owned.append((at, blocks))
            held.append((at, rss - blocks))
    interval = max((one.interval for one in live.values()), default=0.0)
    slopes = slope_of(owned), slope_of(held)
    if slopes[0] is None or slopes[1] is None:
        return None, None
    error = _error_of_samples(slopes[0], interval)
    return replace(slopes[0], half=math.hypot(slopes[0].half, error)), replace(slopes[1], half=math.hypot(slopes[1].half, error))


def _error_of_samples(live: Slope, interval: float) -> float:
    """Half-width that sampling adds to the slope of growing live bytes, per second.

    Every byte is a sample with probability 1/interval, so the estimate of what has grown has a variance of its bytes times
    the interval. That error wanders as they grow: the slope through it varies by 6/5 of what the two ends do.
    """
    grown = abs(live.value) * live.seconds
    return 1.96 * math.sqrt(1.2 * interval * grown) / live.seconds


def _live_in(part: Sequence[Sample], live: Mapping[int, Live]) -> Sequence[float]:
    """A number for each sample of a stretch; NaN where there is no profile."""
    known = live.get(part[0].stretch)
    return [math.nan] * len(part) if known is None else known.bytes.tolist()


def _hours(noted: Noted, period: float, latency: str, live: Mapping[int, Live]) -> tuple[Hour, ...]:
    """Rows of `period` seconds; a last one that is shorter than half of that goes into the one before."""
    end = noted.seconds
    count = max(1, round(end / period)) if end else 0
    owned = [float(value) for part in _parts(noted.samples) for value in _live_in(part, live)]
    rows = []
    for number in range(count):
        begin, until = number * period, end if number == count - 1 else (number + 1) * period

        def here(at: float, begin: float = begin, until: float = until) -> bool:
            return begin <= at < until or at == until == end

        samples = [s for s in noted.samples if here(s.at)]
        passes = [p for p in noted.passes if here((p.begin + p.end) / 2)]
        blocks = [v for s, v in zip(noted.samples, owned, strict=True) if here(s.at) and v == v]
        rows.append(Hour(
            begin, until, _mean([float(s.rss) for s in samples]), max((float(s.rss) for s in samples), default=None),
            _mean([p.metrics["request_rate"] for p in passes if "request_rate" in p.metrics]),
            _mean([p.metrics[latency] for p in passes if latency in p.metrics]), _mean(blocks),
        ))
    return tuple(rows)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def spikes_of(part: Sequence[Sample]) -> list[Spike]:
    """Where one stretch rose above its course, the running median, and came back; in order of time.

    What stays is how much higher the course is behind the spike than its line before would have it. O(samples x window).
    """
    import numpy as np
    from scipy.ndimage import median_filter

    window = max(_LEAST_COURSE, round(_COURSE * len(part))) | 1
    if len(part) < 4 * window:
        return []
    at, rss = np.array([s.at for s in part]), np.array([float(s.rss) for s in part])
    course = median_filter(rss, window, mode="nearest")
    above = rss - course
    clear = max(_CLEAR * _TO_NORMAL * float(np.median(np.abs(above))), _CLEAR_SHARE * float(np.median(rss)))
    edges = np.flatnonzero(np.diff(np.r_[0, (above > clear).astype(int), 0]))
    found = []
    for first, behind in zip(edges[::2], edges[1::2], strict=True):
        before, after = max(0, first - window), min(len(part) - 1, behind + window)
        rise = course[after] - course[before]
        slope = (course[-1] - course[0]) / (at[-1] - at[0])
        found.append(Spike(float(at[first]), float(above[first:behind].max()), float(at[min(behind, len(at) - 1)] - at[first]),
                           float(rise - slope * (at[after] - at[before]))))
    return found
