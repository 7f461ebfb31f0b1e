"""The figures and claims of a study as a page shows them: pictures, the numbers below each, and what came of each claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ..model.analysis import Analysis, Curves
from ..model.claim import ClaimVerdict, Judgement
from ..model.metrics import metric_named
from . import figure_curves
from .curve_units import readable
from .figure_parts import NARROW, WIDE, Spec
from .words import bounded, direction_text

VERDICT_CLASS: dict[ClaimVerdict, str] = {"holds": "holds", "does not hold": "fails", "cannot tell": "open"}
VERDICT_SIGN: dict[ClaimVerdict, str] = {"holds": "+", "does not hold": "-", "cannot tell": "?"}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure ready for a page; `rows`: treatment -> per level the mean and half its interval in words."""

    title: str
    source: str
    wide: str
    narrow: str
    unit: str
    over: str
    levels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def drawn(analysis: Analysis, svg: Callable[[Spec, str], str]) -> list[Drawn]:
    """Every figure that has points; `svg` makes the picture of a description under a name. O(points)."""
    found = []
    for number, curves in enumerate(analysis.curves):
        if not curves.points:
            continue
        pictures = [
            svg(figure_curves.draw(curves, analysis.baseline, shape), f"curve-{number}-{shape}")
            for shape in (WIDE, NARROW)
        ]
        metric = metric_named(curves.figure.metric)
        unit = readable(curves, metric)
        found.append(
            Drawn(
                curves.figure.title,
                curves.figure.source,
                *pictures,
                "; ".join(part for part in (unit.name, direction_text(metric)) if part),
                curves.figure.x_title or curves.figure.over,
                tuple(figure_curves.levels_shown(curves)),
                table_rows(curves),
            )
        )
    return found


def table_rows(curves: Curves) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Per treatment, per level (mean, `low to high`), both "" where it was not measured; in the figure's unit."""
    unit = readable(curves, metric_named(curves.figure.metric))
    found = {(p.treatment, p.level): p.mean for p in curves.points}
    rows = []
    for treatment in dict.fromkeys(p.treatment for p in curves.points):
        cells = []
        for level in curves.levels:
            mean = found.get((treatment, level))
            if mean is None:
                cells.append(("", ""))
            else:
                ends = f"{unit.show(mean.low)} to {unit.show(mean.high)}" if bounded(mean) else "one block"
                cells.append((unit.show(mean.ratio), ends))
        rows.append((treatment, tuple(cells)))
    return tuple(rows)


def tally(judgements: tuple[Judgement, ...]) -> str:
    """`5 of 7 claims hold here, 1 does not, 1 cannot be told`."""
    count = Counter(j.verdict for j in judgements)
    total = len(judgements)
    noun, hold = ("claim", "holds") if total == 1 else ("claims", "hold")
    does = "does not" if count["does not hold"] == 1 else "do not"
    return (
        f"{count['holds']} of {total} {noun} {hold} here, {count['does not hold']} {does}, "
        f"{count['cannot tell']} cannot be told"
    )
