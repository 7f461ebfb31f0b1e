"""Exports in the layouts of the scalloc artifact (its manual, Listings 1 and 2), which scripts of others read.

ACDC: per allocator one file for each of access, alloc, free, combined (malloc and free) and memcons; tab-separated level,
mean, sample standard deviation; cycles of the processor's counter and kilobytes. Other mutators: `ALLOCATOR.dat`,
comma-separated threads, mean, standard deviation, mean and standard deviation of resident kilobytes, and
`ALLOCATOR-raw.dat` with one line per trial.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev

from ..model.errors import HeapyardError
from ..model.figure import is_number
from ..model.program import Program
from ..model.record import Record, TrialRecord
from .results import read_result

_ACDC = {
    "access": ("access_time",),
    "alloc": ("allocation_time",),
    "free": ("deallocation_time",),
    "combined": ("allocation_time", "deallocation_time"),
}
_PER_THREAD = "_per_thread"


def write_dat(record: Record, folder: Path) -> list[Path]:
    """Write the files of one experiment below `folder`; what was written. O(trials).

    HeapyardError when the experiment is not one of a mutator, varies more than one factor, or nothing counted. OSError
    when it cannot be written.
    """
    programs = {p.name: p for p in record.experiment.programs}
    if not all(p.mutator for p in programs.values()):
        raise HeapyardError(f"{record.id}: the artifact's layouts are for studies of a mutator")
    factor = _factor(record)
    trials: dict[str, dict[str, list[TrialRecord]]] = defaultdict(lambda: defaultdict(list))
    for trial in record.trials:
        if trial.counted and trial.treatment != record.observations.control:
            trials[trial.treatment][programs[trial.workload].levels.get(factor, "0")].append(trial)
    if not trials:
        raise HeapyardError(f"{record.id}: there is no counted trial to export")
    mutator = next(iter(programs)).split()[0]
    title = record.experiment.title.rpartition(": ")[2].lower()
    place = folder / ("ACDC" if mutator == "acdc" else "") / _file_name(title)
    place.mkdir(parents=True, exist_ok=True)
    write = _acdc_files if mutator == "acdc" else _other_files
    return [path for treatment, levels in trials.items() for path in write(record, place, treatment, factor, levels)]


def _factor(record: Record) -> str:
    """The one factor whose levels differ between the workloads."""
    levels: dict[str, set[str]] = defaultdict(set)
    for program in record.experiment.programs:
        for name, level in program.levels.items():
            levels[name].add(level)
    varied = [name for name, seen in levels.items() if len(seen) > 1]
    if len(varied) > 1:
        raise HeapyardError(f"{record.id}: the artifact's files have one x column, and {', '.join(varied)} vary")
    return varied[0] if varied else "threads"


def _acdc_files(
    record: Record, place: Path, treatment: str, factor: str, levels: dict[str, list[TrialRecord]]
) -> Iterator[Path]:
    settings = record.experiment.settings
    suffix = _PER_THREAD if settings.time_metric.endswith(_PER_THREAD) else ""
    for name, metrics in _ACDC.items():
        wanted = [metric + suffix for metric in metrics]
        columns = {
            level: [sum(t.metrics[m] for m in wanted) * _cycles_per_second(record, t) for t in those]
            for level, those in levels.items()
            if all(m in t.metrics for t in those for m in wanted)
        }
        yield from _three_columns(record, place / f"{_file_name(treatment)}-{name}.dat", factor, columns)
    memory = "rss_average" + suffix
    kilobytes = {
        level: [t.metrics[memory] / 1024 for t in those]
        for level, those in levels.items()
        if all(memory in t.metrics for t in those)
    }
    yield from _three_columns(record, place / f"{_file_name(treatment)}-memcons.dat", factor, kilobytes)


def _three_columns(record: Record, path: Path, factor: str, columns: dict[str, list[float]]) -> Iterator[Path]:
    if not columns:
        return
    count = max(len(values) for values in columns.values())
    lines = [
        f"#Created at: {record.created} on Linux {record.environment.get('kernel', 'unknown')}",
        f"#Average on {count} runs. ACDC Options: {_options(record.experiment.programs[0], factor)}",
        f"#x({factor})\taverage\tstddev",
        "",
        *(f"{level}\t{mean(values):.1f}\t{_sd(values):.1f}" for level, values in _sorted(columns)),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    yield path


def _other_files(
    record: Record, place: Path, treatment: str, factor: str, levels: dict[str, list[TrialRecord]]
) -> Iterator[Path]:
    mutator = record.experiment.programs[0].name.split()[0]
    metric, word = ("throughput", "ops") if mutator == "larson" else ("wall_time", "time")
    head = [f"# {_options(record.experiment.programs[0], factor)}", f"# recorded at: {record.created}"]
    raw, averaged = [*head], [*head]
    averaged.append(f"# repetitions: {max(len(those) for those in levels.values())}")
    averaged.append(f"# {factor},{word},sd,rss_kb,sd_rss_kb")
    for level, those in _sorted(levels):
        values = [t.metrics[metric] for t in those]
        memory = [t.metrics["rss_average"] / 1024 for t in those]
        averaged.append(f"{level},{mean(values):f},{_sd(values):f},{mean(memory):f},{_sd(memory):f}")
        raw += [
            f'{{ "threads": {level} , "{word}":  {value:f} , "rss": {rss:f} }}'
            for value, rss in zip(values, memory, strict=True)
        ]
    for name, lines in (("", averaged), ("-raw", raw)):
        path = place / f"{_file_name(treatment)}{name}.dat"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield path


def _cycles_per_second(record: Record, trial: TrialRecord) -> float:
    return float(read_result(record.path, trial.result)["cycles_per_second"])


def _sorted(columns: dict[str, list]) -> list[tuple[str, list]]:  # type: ignore[type-arg]
    numeric = all(is_number(level) for level in columns)
    return sorted(columns.items(), key=lambda item: float(item[0])) if numeric else list(columns.items())


def _sd(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _options(program: Program, factor: str) -> str:
    """The mutator's options without the varied one and without the lab's own."""
    words = list(program.command[1:])
    for name in (f"--{factor}", "--json"):
        if name in words:
            at = words.index(name)
            del words[at : at + 2]
    return " ".join(words)


def _file_name(text: str) -> str:
    """A name that is safe in a path; treatments of one study stay different."""
    return re.sub(r"[^A-Za-z0-9._:=+-]+", "-", text).strip("-")
