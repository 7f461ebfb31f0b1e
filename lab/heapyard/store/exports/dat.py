# SPDX-License-Identifier: Apache-2.0
"""Exports in the layouts of the scalloc artifact (its manual, Listings 1 and 2), which scripts of others read.

ACDC: per allocator one file for each of access, alloc, free, combined (malloc and free) and memcons; tab-separated
level, mean, sample standard deviation; cycles of the processor's counter and kilobytes. Other mutators: `ALLOCATOR.dat`,
comma-separated threads, mean, standard deviation, mean and standard deviation of resident kilobytes, and
`ALLOCATOR-raw.dat` with one line per trial. The heading of a file names its units; the deviation of one run is NaN.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from ...model.errors import HeapyardError
from ...model.figure import is_number
from ...model.metrics import as_simulated
from ...model.record import Record, TrialRecord
from ..results import read_result

_ACDC = {
    "access": ("access_time",),
    "alloc": ("allocation_time",),
    "free": ("deallocation_time",),
    "combined": ("allocation_time", "deallocation_time"),
}
_PER_THREAD = "_per_thread"
_MEMORY = "rss_average"

Levels = list[tuple[str, list[TrialRecord]]]  # in the order of the x column


@dataclass(frozen=True, slots=True)
class _View:
    """One x column: the factor, where the others are held, the folder, and the options that all rows share."""

    factor: str
    at: dict[str, str]
    place: Path
    options: str


def write_dat(record: Record, folder: Path) -> list[Path]:
    """Write the files of one experiment below `folder`; what was written. O(trials).

    One set of files for each factor that the study's figures stand over; without figures for the one that varies.
    HeapyardError when the experiment is not one of a mutator, no factor can be the x column, or nothing counted.
    OSError when it cannot be written.
    """
    if not all(p.mutator for p in record.experiment.programs):
        raise HeapyardError(f"{record.id}: the artifact's layouts are for studies of a mutator")
    if not any(_counts(record, t) for t in record.trials):
        raise HeapyardError(f"{record.id}: there is no counted trial to export")
    mutator = record.experiment.programs[0].name.split()[0]
    paths: list[Path] = []
    for view in _views(record, folder / ("ACDC" if mutator == "acdc" else "")):
        view.place.mkdir(parents=True, exist_ok=True)
        for treatment, levels in _selected(record, view).items():
            if mutator == "acdc":
                paths += _acdc_files(record, view, treatment, levels)
            else:
                paths += _other_files(record, view, treatment, levels)
    return paths


def _counts(record: Record, trial: TrialRecord) -> bool:
    return trial.counted and trial.status == "ok" and trial.treatment != record.observations.control


def _views(record: Record, folder: Path) -> list[_View]:
    """The x columns of the figures that fix every other factor, else the one factor that varies."""
    levels: dict[str, set[str]] = defaultdict(set)
    for program in record.experiment.programs:
        for name, level in program.levels.items():
            levels[name].add(level)
    varied = [name for name, seen in levels.items() if len(seen) > 1]
    wanted = [
        (f.over, f.at) for f in record.observations.figures if f.over in levels and set(varied) <= {f.over, *f.at}
    ]
    if not wanted and len(varied) > 1:
        raise HeapyardError(f"{record.id}: the artifact's files have one x column, and {', '.join(varied)} vary")
    wanted = wanted or [(varied[0] if varied else "threads", {})]
    distinct = [pair for i, pair in enumerate(wanted) if pair not in wanted[:i]]
    title = _file_name(record.experiment.title.rpartition(": ")[2].lower())
    views = []
    for factor, at in distinct:
        words = [factor, *(f"{name}={level}" for name, level in at.items())] if len(distinct) > 1 else []
        views.append(_View(factor, at, folder / title / _file_name("-".join(words)), _options(record, factor, varied)))
    return views


def _selected(record: Record, view: _View) -> dict[str, Levels]:
    """Per treatment the counted trials of each level, levels in the order of the x column."""
    programs = {p.name: p.levels for p in record.experiment.programs}
    found: dict[str, dict[str, list[TrialRecord]]] = defaultdict(lambda: defaultdict(list))
    for trial in record.trials:
        levels = programs[trial.workload]
        if _counts(record, trial) and all(levels.get(name) == level for name, level in view.at.items()):
            found[trial.treatment][levels.get(view.factor, "0")].append(trial)
    return {treatment: _sorted(levels) for treatment, levels in found.items()}


def _acdc_files(record: Record, view: _View, treatment: str, levels: Levels) -> Iterator[Path]:
    suffix = _PER_THREAD if record.experiment.settings.time_metric.endswith(_PER_THREAD) else ""
    rates = {t.id: _cycles_per_second(record, t) for _, those in levels for t in those}
    if all(rates.values()):
        unit = f"in cycles of a counter at {mean(rates.values()) / 1e9:.3f} GHz"
    else:
        rates, unit = dict.fromkeys(rates, 1e3), "in milliseconds (the results name no counter)"
    for name, wanted in _ACDC.items():
        metrics = [_response(record, metric + suffix) for metric in wanted]
        times = [
            (level, [sum(t.metrics[m] for m in metrics) * rates[t.id] for t in those if _has(t, *metrics)])
            for level, those in levels
        ]
        yield from _three_columns(record, view, f"{_file_name(treatment)}-{name}.dat", unit, times)
    memory = _response(record, _MEMORY + suffix)
    sizes = [(level, [t.metrics[memory] / 1024 for t in those if _has(t, memory)]) for level, those in levels]
    yield from _three_columns(record, view, f"{_file_name(treatment)}-memcons.dat", "in kilobytes", sizes)


def _three_columns(
    record: Record, view: _View, name: str, unit: str, columns: list[tuple[str, list[float]]]
) -> Iterator[Path]:
    rows = [(level, values) for level, values in columns if values]
    if not rows:
        return
    lines = [
        f"#Created at: {record.created} on {_machine(record)}",
        f"#Average on {_runs(rows)} runs. ACDC Options: {view.options}",
        f"#x({view.factor})\taverage\tstddev\t{unit}",
        "",
        *(f"{level}\t{mean(values):.9g}\t{_sd(values):.9g}" for level, values in rows),
    ]
    yield _written(view.place / name, lines)


def _machine(record: Record) -> str:
    """Processor and kernel, or the machine that was simulated; its name stays with its owner."""
    if record.experiment.settings.simulated.wanted:
        return f"a simulated {record.experiment.settings.simulated.words}"
    cpu = record.environment.get("cpu")
    model = cpu.get("model") if isinstance(cpu, dict) else None
    return f"{model or 'an unknown processor'}, Linux {record.environment.get('kernel', 'unknown')}"


def _other_files(record: Record, view: _View, treatment: str, levels: Levels) -> Iterator[Path]:
    wanted = "throughput" if record.experiment.programs[0].name.split()[0] == "larson" else "wall_time"
    word, unit = ("ops", "operations per second") if wanted == "throughput" else ("time", "seconds")
    wanted, memory_response = _response(record, wanted), _response(record, _MEMORY)
    rows = [(level, [t for t in those if _has(t, wanted, memory_response)]) for level, those in levels]
    rows = [(level, those) for level, those in rows if those]
    if not rows:
        return
    head = [f"# {view.options}", f"# recorded at: {record.created} on {_machine(record)}"]
    averaged = [f"# repetitions: {_runs(rows)}", f"# {view.factor},{word},sd,rss_kb,sd_rss_kb; {word} in {unit}"]
    raw = []
    for level, those in rows:
        values, memory = [t.metrics[wanted] for t in those], [t.metrics[memory_response] / 1024 for t in those]
        averaged.append(",".join([level, *(f"{f(those):f}" for those in (values, memory) for f in (mean, _sd))]))
        raw += [
            f'{{ "{view.factor}": {level} , "{word}":  {value:f} , "rss": {rss:f} }}'
            for value, rss in zip(values, memory, strict=True)
        ]
    yield _written(view.place / f"{_file_name(treatment)}.dat", head + averaged)
    yield _written(view.place / f"{_file_name(treatment)}-raw.dat", head + raw)


def _written(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _response(record: Record, name: str) -> str:
    """What the trials of this experiment have under that name."""
    return as_simulated(name) if record.experiment.settings.simulated.wanted else name


def _has(trial: TrialRecord, *metrics: str) -> bool:
    return all(metric in trial.metrics for metric in metrics)


def _cycles_per_second(record: Record, trial: TrialRecord) -> float:
    """The counter's rate as that trial measured it; 0 where its result does not say, or its clock was simulated."""
    if record.experiment.settings.simulated.wanted:
        return 0.0
    return float(read_result(record.path, trial.result).get("cycles_per_second", 0.0)) if trial.result else 0.0


def _runs(rows: list[tuple[str, list]]) -> str:
    """`5`, or `3 to 5` where levels have different numbers of runs."""
    counts = sorted({len(values) for _, values in rows})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _sorted(levels: dict[str, list[TrialRecord]]) -> Levels:
    numeric = all(is_number(level) for level in levels)
    return sorted(levels.items(), key=lambda item: float(item[0])) if numeric else list(levels.items())


def _sd(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else math.nan


def _options(record: Record, factor: str, varied: list[str]) -> str:
    """The mutator's options that are the same in every workload, without the lab's own."""
    words = record.experiment.programs[0].command[1:]
    others = [p.command for p in record.experiment.programs[1:]]
    kept: list[str] = []
    i = 0
    while i < len(words):
        pair = words[i : i + (2 if i + 1 < len(words) and not words[i + 1].startswith("--") else 1)]
        i += len(pair)
        own = pair[0] == "--json" or pair[0].lstrip("-") in (factor, *varied)
        if not own and all(" ".join(pair) in " ".join(other) for other in others):
            kept += pair
    return " ".join(kept)


def _file_name(text: str) -> str:
    """A name that is safe in a path; treatments of one study stay different."""
    return re.sub(r"[^A-Za-z0-9._:=+-]+", "-", text).strip("-")
