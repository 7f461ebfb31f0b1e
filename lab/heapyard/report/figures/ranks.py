# SPDX-License-Identifier: Apache-2.0
"""The critical-difference diagram: mean ranks over workloads, and how far apart two must lie to differ.

After Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets (JMLR 7, 2006), section 3.2.2. Bars join
what shares a letter, that is what signed-rank tests with Holm's correction cannot tell apart.
"""

from __future__ import annotations

from ...model.analysis import Ranking
from .parts import FAINT, INK, Row, Spec, described, fill

_ROW = 22  # pixels
_WIDTH = 640


def ranks(ranking: Ranking) -> Spec:
    """One line per treatment, best on top; below them a bar for each group that cannot be told apart."""
    rows: list[Row] = [
        {"treatment": r.treatment, "rank": r.rank, "y": i, "kind": "treatment", "text": f"{r.treatment}  {r.letters}"}
        for i, r in enumerate(ranking.rows)
    ]
    letters = sorted({letter for r in ranking.rows for letter in r.letters})
    ranked = {letter: [r.rank for r in ranking.rows if letter in r.letters] for letter in letters}
    groups = {letter: found for letter, found in ranked.items() if len(found) > 1}
    for i, (letter, of_group) in enumerate(groups.items()):
        rows.append({"kind": "group", "rank": min(of_group), "to": max(of_group), "y": len(ranking.rows) + i,
                     "text": letter})  # fmt: skip
    worst = len(ranking.rows)
    rows.append({"kind": "critical", "rank": 1.0, "to": min(1.0 + ranking.critical_difference, float(worst)),
                 "y": len(ranking.rows) + len(groups), "text": "critical difference"})  # fmt: skip
    # One label per whole rank, centred below it: labels pushed inwards at the ends of the axis run into their neighbours.
    x = {"field": "rank", "type": "quantitative", "title": "← better · mean rank · worse →",
         "axis": {"values": list(range(1, worst + 1)), "format": "d", "labelFlush": False},
         "scale": {"domain": [1, worst], "nice": False}}  # fmt: skip
    y = {"field": "y", "type": "ordinal", "axis": None}
    spec = described(
        width=_WIDTH,
        height=_ROW * len(rows),
        layer=[
            {"transform": [{"filter": "datum.kind != 'treatment'"}],
             "mark": {"type": "rule", "strokeWidth": 4, "color": FAINT},
             "encoding": {"x": x, "x2": {"field": "to"}, "y": y}},
            {"transform": [{"filter": "datum.kind == 'treatment'"}],
             "mark": {"type": "point", "filled": True, "size": 80, "color": INK, "opacity": 1},
             "encoding": {"x": x, "y": y}},
            {"mark": {"type": "text", "align": {"expr": f"datum.rank > {0.7 * worst} ? 'right' : 'left'"},
                      "dx": {"expr": f"datum.kind != 'treatment' ? 0 : datum.rank > {0.7 * worst} ? -10 : 10"},
                      "dy": {"expr": "datum.kind == 'treatment' ? 0 : -8"}},
             "encoding": {"x": x, "y": y, "text": {"field": "text"}}},
        ],
    )  # fmt: skip
    return fill(spec, rows)
