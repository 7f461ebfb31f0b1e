# SPDX-License-Identifier: Apache-2.0
"""A whole search over settings as one HTML page that needs nothing but itself."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..model.analysis import Interval, ParetoPoint
from ..model.metrics import metric_named
from ..model.record import Record
from ..model.switching import paste_lines
from ..model.tuning import PHASES, Candidate, Effect, TuneAnswer, Tuned
from ..stats.pareto import dominates
from .figures import forest, scatter
from .figures.parts import NARROW, WIDE, Row, fill
from .html import svg, templates
from .page_file import write_page
from .page_tables import flattened
from .tune_answer import headline, moved, options, sentence, sides
from .words import interval_text

DEFAULT = "default"
WHAT = {
    "screening": "a designed few of all combinations, for what each setting brings by itself",
    "race": "the promising ones; beaten ones leave",
    "refinement": "the best without each of their settings, and near them",
    "confirmation": "the finalists against the default, in blocks that the search never saw",
}


@dataclass(frozen=True, slots=True)
class Numbered:
    """A candidate that the figure names by a number."""

    number: int
    candidate: Candidate
    finalist: bool


def write_search(path: Path, answer: TuneAnswer, record: Record, reports: Mapping[str, str]) -> None:
    """Write the page to `path`. `record`: the first phase, for the command and the machine. `reports`: by phase, where a page of
    its own lies, relative to `path`. HeapyardError when it cannot be written. About a second for each allocator, for drawing."""
    write_page(path, render(answer, record, reports))


def render(answer: TuneAnswer, record: Record, reports: Mapping[str, str]) -> str:
    """The page's text. O(candidates^2 + effects)."""
    figures: dict[str, str] = {}
    for tuned in answer.tuned:
        for shape in (WIDE, NARROW):
            for name, text in _figures(answer, tuned, shape).items():
                figures[f"{tuned.space.allocator}-{name}-{shape}"] = text
    return templates().get_template("tune.html.j2").render(
        answer=answer,
        headline=headline(answer),
        sentence_of=lambda tuned: sentence(answer, tuned),
        numbered=numbered,
        others=_others,
        front_of=_confirmed_front,
        inverse=[metric_named(m).title for m in (answer.time, answer.memory) if metric_named(m).direction == "higher"],
        sides=sides,
        moved=moved,
        options=options,
        effect_rows=lambda tuned: _effect_rows(answer, tuned),
        paste=paste_lines,
        wrap=lambda tuned: f"heapyard wrap {shlex.quote(tuned.space.label(tuned.best))}",
        metrics=(metric_named(answer.time), metric_named(answer.memory)),
        phases=PHASES,
        what=WHAT,
        reports={phase: reports.get(phase, "") for phase in PHASES},
        figures=figures,
        command=shlex.join(record.experiment.argv),
        program=record.experiment.programs[0],
        environment=flattened(record.environment),
    )


def numbered(tuned: Tuned) -> list[Numbered]:
    """What the figure names: the front and the finalists, from least time on. O(candidates log candidates)."""
    named = [c for c in tuned.candidates if c.on_front or c.choice in tuned.finalists]
    named.sort(key=lambda c: (c.time.ratio, c.memory.ratio))
    return [Numbered(number, c, c.choice in tuned.finalists) for number, c in enumerate(named, start=1)]


def _others(tuned: Tuned) -> list[Candidate]:
    """Those that the figure does not name, from least time on."""
    named = {n.candidate.choice for n in numbered(tuned)}
    return sorted((c for c in tuned.candidates if c.choice not in named), key=lambda c: c.time.ratio)


def _figures(answer: TuneAnswer, tuned: Tuned, shape: str) -> dict[str, str]:
    drawn = {}
    name = tuned.space.allocator
    if tuned.candidates:
        rows, scales = scatter.scatter_rows(_points(answer, tuned), DEFAULT, shape)
        drawn["front"] = svg(fill(scatter.scatter(scales, shape), rows), f"{name}-front-{shape}")
    for metric, margin in zip((answer.time, answer.memory), answer.margins, strict=True):
        effects = [e for e in tuned.effects if e.metric == metric and _drawable(e.interval)]
        if effects:
            told = metric_named(metric)
            spec = forest.forest([told.title], [f"{e.setting}={e.level}" for e in effects], shape)
            drawn[metric] = svg(fill(spec, [_effect_row(e, told.title, margin) for e in effects], **forest.parts(told, margin)),
                                f"{name}-{metric}-{shape}")
    return drawn


def _points(answer: TuneAnswer, tuned: Tuned) -> list[ParetoPoint]:
    """Named by their numbers, on axes of which less is better; the bars of those without a number would hide the figure."""
    numbers = {n.candidate.choice: str(n.number) for n in numbered(tuned)}
    points = []
    for c in tuned.candidates:
        number = numbers.get(c.choice, "")
        time, memory = _cost(c.time, answer.time, number), _cost(c.memory, answer.memory, number)
        points.append(ParetoPoint(number, time, memory, c.on_front))
    one = (1.0, 1.0)
    beaten = any(dominates((p.time.ratio, p.memory.ratio), one) for p in points)
    return [ParetoPoint(DEFAULT, Interval(1.0, 1.0, 1.0), Interval(1.0, 1.0, 1.0), not beaten), *points]


def _cost(interval: Interval, metric: str, number: str) -> Interval:
    """The inverse of what is better the more of it there is; without a number the point alone."""
    if metric_named(metric).direction == "higher":
        interval = Interval(1 / interval.ratio, 1 / interval.high, 1 / interval.low if interval.low > 0 else math.inf)
    return interval if number else Interval(interval.ratio, interval.ratio, interval.ratio)


def _drawable(interval: Interval) -> bool:
    return interval.low > 0 and math.isfinite(interval.high)


def _effect_row(effect: Effect, title: str, margin: float) -> Row:
    """A verdict in the figure's words only: the screening claims nothing."""
    interval = effect.interval
    less = metric_named(effect.metric).direction == "lower"
    verdict = "undecided"
    if 1 / (1 + margin) <= interval.low and interval.high <= 1 + margin:
        verdict = "equivalent"
    elif interval.high < 1 or interval.low > 1:
        verdict = "better" if (interval.high < 1) == less else "worse"
    return {"program": title, "treatment": f"{effect.setting}={effect.level}", "ratio": interval.ratio, "low": interval.low,
            "high": interval.high, "verdict": verdict, "label": interval_text(interval)}


def _confirmed_front(tuned: Tuned) -> set[str]:
    return {point.treatment for point in tuned.confirmed.pareto if point.on_front} if tuned.confirmed else set()


def _effect_rows(answer: TuneAnswer, tuned: Tuned) -> list[tuple[str, str, list[Interval | None]]]:
    """(setting=level, what the setting is, time and memory) in the order of the catalog."""
    found = {(e.setting, e.level, e.metric): e.interval for e in tuned.effects}
    return [
        (f"{setting.name}={level}", setting.about,
         [found.get((setting.name, level, metric)) for metric in (answer.time, answer.memory)])
        for setting in tuned.space.settings for level in setting.levels
    ]
