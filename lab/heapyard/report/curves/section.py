# SPDX-License-Identifier: Apache-2.0
"""The figures of a study as a page shows them: a picture in two shapes, and the numbers below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...model.analysis import Analysis
from ..figures import curves as figure_curves
from .tables import CurveTable, curve_table
from ..figures.parts import NARROW, WIDE, Spec


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure ready for a page: its table and its fixed pictures, for a desk and for a hand."""

    table: CurveTable
    wide: str
    narrow: str


def drawn(analysis: Analysis, svg: Callable[[Spec, str], str]) -> list[Drawn]:
    """Every figure that has points; `svg` makes the picture of a description under a name. O(points)."""
    found = []
    for number, curves in enumerate(c for c in analysis.curves if c.points):
        wide, narrow = (
            svg(figure_curves.draw(curves, analysis.baseline, shape), f"curve-{number}-{shape}")
            for shape in (WIDE, NARROW)
        )
        found.append(Drawn(curve_table(curves, analysis.baseline), wide, narrow))
    return found
