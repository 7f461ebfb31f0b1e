# SPDX-License-Identifier: Apache-2.0
"""Where the names of points and of curves go, so that they cover neither each other nor a point."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from .parts import FONT

# A box is (left, top, right, bottom) in pixels.
Box = tuple[float, float, float, float]

REACH = 14  # rings of candidate places tried around a point, one line height apart
GAP = FONT + 2.0  # pixels between the names of two curves
TURNS = 16  # candidate places per ring


def place_labels(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    area: tuple[float, float],
    radius: float = 7.0,
) -> list[tuple[float, float]]:
    """The centre of each label, in pixels, for labels of (width, height) beside `points` inside `area`.

    Greedy: crowded points choose first, each takes the nearest free place on rings around its point, or the least
    covered one if none is free. Deterministic. O(n^2 x rings).
    """
    marks = [(x - radius, y - radius, x + radius, y + radius) for x, y in points]
    crowd = [sum(math.dist(a, b) < 80 for b in points) for a in points]
    taken: list[Box] = []
    centres: list[tuple[float, float]] = [(0.0, 0.0)] * len(points)
    for i in sorted(range(len(points)), key=lambda i: (-crowd[i], points[i])):
        width, height = sizes[i]
        best, least = points[i], math.inf
        for cost, centre in _candidates(points[i], width, height, radius):
            box = _box(centre, width, height)
            covered = sum(_overlap(box, other) for other in (*taken, *marks)) + 4 * _outside(box, area)
            if covered + cost < least:
                best, least = centre, covered + cost
            if covered == 0:
                break
        # Where every free place reaches over the edge a little, the least covered one is moved inside.
        best = (_within(best[0], width, area[0]), _within(best[1], height, area[1]))
        centres[i] = best
        taken.append(_box(best, width, height))
    return centres


def _candidates(
    point: tuple[float, float], width: float, height: float, radius: float
) -> Iterator[tuple[float, tuple[float, float]]]:
    """(cost, centre) of places around a point, nearest first; right and left before above and below."""
    x, y = point
    for ring in range(REACH):
        gap = radius + 2 + ring * height * 0.9
        places = []
        for turn in range(TURNS):
            angle = 2 * math.pi * turn / TURNS
            across, down = math.cos(angle), math.sin(angle)
            centre = (x + across * (gap + width / 2), y + down * (gap + height / 2))
            places.append((ring + abs(down) / 2 + (across < 0) / 8, centre))
        yield from sorted(places)


def _within(centre: float, length: float, whole: float) -> float:
    return min(max(centre, length / 2), whole - length / 2) if length <= whole else centre


def _box(centre: tuple[float, float], width: float, height: float) -> Box:
    return centre[0] - width / 2, centre[1] - height / 2, centre[0] + width / 2, centre[1] + height / 2


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _outside(box: Box, area: tuple[float, float]) -> float:
    inside = _overlap(box, (0.0, 0.0, *area))
    return (box[2] - box[0]) * (box[3] - box[1]) - inside


def edge_places(wanted: Sequence[float], height: float) -> list[float]:
    """Pixels from the bottom for names of curves at the right edge that belong at `wanted`, in the same order.

    GAP apart and within the height if that many fit. O(n log n).
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    found: list[float] = []
    for i in order:
        found.append(max(wanted[i], found[-1] + GAP) if found else max(wanted[i], 0.0))
    limit = height
    for k in range(len(found) - 1, -1, -1):  # push down again what was pushed beyond the top
        found[k] = min(found[k], limit)
        limit = found[k] - GAP
    places = dict(zip(order, found, strict=True))
    return [places[i] for i in range(len(wanted))]
