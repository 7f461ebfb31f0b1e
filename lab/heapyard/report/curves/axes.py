# SPDX-License-Identifier: Apache-2.0
"""The axes of a study's figure: where levels stand, how treatments step aside there, how far the response reaches."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from ...model.analysis import Curves
from ...model.figure import is_number
from .units import Readable
from ..figures.parts import NARROW, Spec

SPREAD = 50.0  # a response that spans more than this factor is drawn on a log scale
WILD = 1.5  # an interval above this multiple of the greatest mean is cut off: it would flatten every curve
ASIDE = 2.4  # pixels between the bars of two treatments at one level, where there is room
_MOST_DIGITS = 1e12  # from here on a level is shown as a power of ten
MARGIN = 12  # pixels between the outermost levels and the edges


@dataclass(frozen=True, slots=True)
class Levels:
    """Places of the levels in pixels from the left; treatments stand `step` pixels apart, centred on their level."""

    places: dict[str, float]
    step: float
    width: int

    def place(self, level: str, turn: int, of: int) -> float:
        """Where the `turn`-th of `of` treatments stands at a level."""
        return self.places[level] + (turn - (of - 1) / 2) * self.step


def levels_axis(curves: Curves, treatments: int, width: int) -> Levels:
    """Numbers stand to scale, logarithmic if the figure wants it; names side by side. O(levels log levels)."""
    if not curves.numeric:
        at = {level: float(i) for i, level in enumerate(curves.levels)}
    elif curves.figure.log_x and min(float(level) for level in curves.levels) > 0:
        at = {level: math.log(float(level)) for level in curves.levels}
    else:
        at = {level: float(level) for level in curves.levels}
    least, span = min(at.values(), default=0.0), (max(at.values(), default=0.0) - min(at.values(), default=0.0))
    room = width - 2 * MARGIN
    places = {level: MARGIN + (room * (x - least) / span if span else room / 2) for level, x in at.items()}
    order = sorted(places.values())
    closest = min((b - a for a, b in zip(order, order[1:], strict=False)), default=float(room))
    return Levels(places, min(ASIDE, 2 * MARGIN / treatments, 0.6 * closest / treatments) if treatments else 0.0, width)


def x_axis(curves: Curves, levels: Levels, shape: str) -> Spec:
    """The channel of places in pixels, labelled with the levels."""
    figure = curves.figure
    title = figure.x_title or figure.over.replace("-", " ").replace("_", " ")
    if shape == NARROW and len(title) > 34:
        title = title.split(" (")[0]
    names, places = json.dumps(levels_shown(curves)), list(levels.places.values())
    return {
        "field": "x",
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [0, levels.width], "nice": False, "zero": False},
        "axis": {
            "values": places,
            "labelExpr": f"{names}[indexof({json.dumps(places)}, datum.value)]",
            "grid": False,
            "labelOverlap": "greedy",
            "labelSeparation": 5,
        },
    }


@dataclass(frozen=True, slots=True)
class Reach:
    """The ends of the y axis in the figure's unit, and whether it is logarithmic."""

    low: float
    high: float
    log: bool

    def place(self, value: float, height: float) -> float:
        """Pixels from the bottom, within the frame."""
        inside = min(max(value, self.low), self.high)
        if self.log:
            return height * math.log(inside / self.low) / math.log(self.high / self.low)
        return height * (inside - self.low) / (self.high - self.low)


def reach(curves: Curves, unit: Readable, headroom: float = 0.0) -> Reach:
    """What the y axis covers: every mean and every interval that is not wild, and above them a share of the height.

    It begins at nought unless it is logarithmic, or shows ratios that lie close together.
    """
    values = [p.mean.ratio / unit.size for p in curves.points]
    ends = [p.mean.high / unit.size for p in curves.points if math.isfinite(p.mean.high)]
    least, most = min(values, default=0.0), max(values, default=1.0)
    if most <= 0:
        return Reach(0.0, 1.0, False)
    top = min(max([most, *ends]), WILD * most)
    if least > 0 and (curves.figure.log_y or most / least > SPREAD):
        low, high = least / 1.25, top * 1.15
        return Reach(low, low * (high / low) ** (1 / (1 - headroom)), True)
    low = least * 0.95 if curves.figure.relative and least > most / 2 else 0.0
    return Reach(low, low + (top * 1.05 - low) / (1 - headroom), False)


def y_axis(title: tuple[str, str], ends: Reach, shape: str) -> Spec:
    """The channel of the response; numbers as people write them, where Vega would write 1e+2.

    The title stands beside the axis in two lines, or above it where the width is precious.
    """
    axis: Spec = {"labelExpr": "format(datum.value, ',~r')", "tickCount": 6}
    if shape == NARROW:
        axis |= {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": -36, "titleY": -22}
    scale: Spec = {"domain": [ends.low, ends.high], "nice": False, "zero": False}
    if ends.log:
        axis["values"], scale["type"] = _ticks(ends.low, ends.high), "log"
    return {"field": "y", "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten within the domain, and 2 and 5 times these where few of them are."""
    steps = (1,) if high / low > 1e3 else (1, 2, 5)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**e for e in exponents for s in steps if low <= s * 10.0**e <= high]


def levels_shown(curves: Curves) -> list[str]:
    """Levels as people read them: `1,024`, `1,600,000`."""
    return [_with_commas(float(level)) if is_number(level) else level for level in curves.levels]


def _with_commas(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() and abs(value) < _MOST_DIGITS else f"{value:,.6g}"


def oversubscribed_from(curves: Curves) -> str | None:
    """The least level from which on more threads ran than there are processors, in a figure over threads."""
    if curves.figure.over != "threads" or not curves.numeric:
        return None
    inside = [float(p.level) for p in curves.points if not p.oversubscribed]
    beyond = {float(p.level): p.level for p in curves.points if p.oversubscribed}
    return beyond[min(beyond)] if beyond and min(beyond) > max(inside, default=0.0) else None
