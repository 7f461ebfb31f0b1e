# SPDX-License-Identifier: Apache-2.0
"""Hours under load as pictures: resident memory over time, and what the load saw. One line per allocator."""

from __future__ import annotations

from ...model.hours import HoursAnswer, ServerAnswer
from ..hours_words import HOUR, is_time, latency_title
from .curves import COLOURS
from .parts import WIDE, Row, Spec, described, fill

MIB = 1 << 20
POINTS = 400  # of a line: more than a screen shows, so each stands for a least and a most
HEIGHT = 240
WIDTH = {WIDE: 780}
NARROW_WIDTH = 270
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3], [12, 3])


def memory(answer: HoursAnswer, shape: str) -> Spec:
    """Resident memory, thin; the line that was fitted behind the warm-up, thick and dashed; live blocks where they are known."""
    size, title = time_unit(answer)
    rows = [row for server in answer.servers for row in _memory_rows(server, size)]
    fits = [row for server in answer.servers for row in _fit_rows(server, size)]
    x, colour, dash = _x(title), _colour(answer), _dash(answer)
    y = {"field": "mib", "type": "quantitative", "title": "resident, MiB", "axis": {"tickCount": 5}, "scale": {"zero": False}}
    line = {"x": x, "y": y, "color": colour, "strokeDash": dash, "detail": {"field": "stretch"}}
    layer = [
        {"transform": [{"filter": "datum.kind === 'resident'"}], "mark": {"type": "line", "strokeWidth": 1.4}, "encoding": line},
        {"transform": [{"filter": "datum.kind === 'fit'"}], "mark": {"type": "line", "strokeWidth": 3, "opacity": 0.45},
         "encoding": {**line, "strokeDash": {"value": [1, 0]}}},
    ]
    return fill(described(width=_width(shape), height=HEIGHT, layer=layer), [*rows, *fits])


def latency(answer: HoursAnswer, shape: str) -> Spec:
    """The response of each pass that stands for latency, means of neighbours where there are many."""
    size, title = time_unit(answer)
    unit = "ms" if is_time(answer.latency_name) else ""
    factor = 1e3 if unit else 1.0
    rows = [{"name": server.name, "x": at / size, "y": factor * value}
            for server in answer.servers for at, value in _thinned(server, answer.latency_name)]
    name = f"{latency_title(answer.latency_name)}{f', {unit}' if unit else ''}"
    y = {"field": "y", "type": "quantitative", "title": name, "axis": {"tickCount": 5}}
    shapes = {"field": "name", "type": "nominal", "scale": {"domain": [s.name for s in answer.servers]},
              "legend": {"orient": "top", "columns": 3 if shape == WIDE else 2}}
    layer = [{"mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.8},
              "encoding": {"x": _x(title), "y": y, "color": _colour(answer), "shape": shapes}}]
    return fill(described(width=_width(shape), height=HEIGHT * 2 // 3, layer=layer), rows)


def time_unit(answer: HoursAnswer) -> tuple[float, str]:
    """(seconds of a unit, title of the axis)."""
    longest = max((server.noted.seconds for server in answer.servers), default=0.0)
    if longest >= HOUR:
        return HOUR, "hours under load"
    return (60.0, "minutes under load") if longest >= 120 else (1.0, "seconds under load")


def _memory_rows(server: ServerAnswer, size: float) -> list[Row]:
    """Of each bucket of neighbours the least and the most, so that no spike is lost."""
    samples = server.noted.samples
    step = max(1, len(samples) // POINTS)
    rows = []
    for first in range(0, len(samples), step):
        part = samples[first : first + step]
        chosen = {min(part, key=lambda s: s.rss), max(part, key=lambda s: s.rss)}
        rows += [{"name": server.name, "kind": "resident", "stretch": f"{server.name} {s.stretch}", "x": s.at / size,
                  "mib": s.rss / MIB} for s in sorted(chosen, key=lambda s: s.at)]
    return rows


def _fit_rows(server: ServerAnswer, size: float) -> list[Row]:
    """Two ends of the fitted line, of a server of one stretch."""
    from ...stats.hours import WARM_UP

    if server.rss is None or len({s.stretch for s in server.noted.samples}) != 1:
        return []
    first, last = server.noted.samples[0].at, server.noted.samples[-1].at
    begin = first + WARM_UP * (last - first)
    middle = (begin + last) / 2
    return [{"name": server.name, "kind": "fit", "stretch": f"{server.name} fit", "x": at / size,
             "mib": (server.rss.level + server.rss.value * (at - middle)) / MIB} for at in (begin, last)]


def _thinned(server: ServerAnswer, name: str) -> list[tuple[float, float]]:
    told = [((p.begin + p.end) / 2, p.metrics[name]) for p in server.noted.passes if name in p.metrics]
    step = max(1, len(told) // POINTS)
    parts = [told[first : first + step] for first in range(0, len(told), step)]
    return [(sum(at for at, _ in part) / len(part), sum(value for _, value in part) / len(part)) for part in parts]


def _x(title: str) -> Spec:
    return {"field": "x", "type": "quantitative", "title": title, "scale": {"nice": False},
            "axis": {"grid": False, "tickCount": 6}}


def _colour(answer: HoursAnswer) -> Spec:
    names = [server.name for server in answer.servers]
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(names))]
    return {"field": "name", "type": "nominal", "scale": {"domain": names, "range": colours},
            "legend": {"orient": "top", "columns": 3}}


def _dash(answer: HoursAnswer) -> Spec:
    names = [server.name for server in answer.servers]
    dashes = [_DASHES[i % len(_DASHES)] for i in range(len(names))]
    return {"field": "name", "type": "nominal", "scale": {"domain": names, "range": dashes}}


def _width(shape: str) -> int:
    return WIDTH.get(shape, NARROW_WIDTH)
