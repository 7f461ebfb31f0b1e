# SPDX-License-Identifier: Apache-2.0
"""Every trial of a search: the response of the first limit over the rate, one panel for each allocator."""

from __future__ import annotations

from ...model.capacity import Capacities, Capacity
from ...model.limits import ASKED, Limit, value_of
from ...model.record import Record
from .parts import BAND, FAINT, FRONT, HIGHLIGHT, INK, NARROW, WIDE, Row, Spec, described

_SIZE = {WIDE: (720, 90), NARROW: (250, 90)}


def capacity_rows(found: Capacities, record: Record) -> list[Row]:
    """One for each trial whose response was measured, and one for each interval; O(trials)."""
    limit, scale = found.limits[0], _scale(found.limits[0])
    known = (*found.rows, *([found.control] if found.control else []))
    rows: list[Row] = [_band(row) for row in known if row.rate]
    for trial in record.trials:
        value = value_of(limit, trial.metrics)
        if trial.status == "ok" and trial.stage != "warmup" and ASKED.name in trial.metrics and value is not None and value > 0:
            kept = limit.excess(value) <= 0
            rows.append({"treatment": trial.treatment, "rate": trial.metrics[ASKED.name], "value": value * scale,
                         "kind": "kept" if kept else "broken"})
    return rows


def axis_title(limit: Limit) -> str:
    name = limit.text.partition("=")[0]
    return f"{name}, ms" if limit.metric.startswith("latency_") else name


def capacities(found: Capacities, order: list[str], shape: str) -> Spec:
    """Both axes on log scales; a line at the limit, a band where the capacity lies with 95 %."""
    limit, (width, height) = found.limits[0], _SIZE[shape]
    x = {"field": "rate", "type": "quantitative", "scale": {"type": "log", "nice": False}, "title": "requests per second",
         "axis": {"format": "~s", "tickCount": 6}}  # fmt: skip
    y = {"field": "value", "type": "quantitative", "scale": {"type": "log"}, "title": axis_title(limit),
         "axis": {"format": "~r", "tickCount": 4}}  # fmt: skip
    kinds = {"domain": ["kept", "broken"], "range": [FRONT, HIGHLIGHT]}
    in_panel = {"filter": "datum.kind != 'band'"}
    return described(
        facet={"row": {"field": "treatment", "type": "nominal", "sort": order,
                       "header": {"labelAngle": 0, "labelAnchor": "start", "labelOrient": "top"}}},
        spec={"width": width, "height": height, "layer": [
            {"transform": [{"filter": "datum.kind == 'band'"}], "mark": {"type": "rect", "color": BAND},
             "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}}},
            {"transform": [in_panel], "mark": {"type": "rule", "color": FAINT, "strokeDash": [4, 3]},
             "encoding": {"y": {"datum": limit.bound * _scale(limit)}}},
            {"transform": [in_panel], "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.8, "stroke": INK,
                                               "strokeWidth": 0.3},
             "encoding": {"x": x, "y": y, "color": {"field": "kind", "type": "nominal", "scale": kinds},
                          "shape": {"field": "kind", "type": "nominal",
                                    "scale": {"domain": kinds["domain"], "range": ["circle", "cross"]}}}},
        ]},
    )  # fmt: skip


def _band(row: Capacity) -> Row:
    assert row.rate is not None
    return {"treatment": row.treatment, "kind": "band", "low": row.rate.low, "high": row.rate.high}


def _scale(limit: Limit) -> float:
    return 1e3 if limit.metric.startswith("latency_") else 1.0
