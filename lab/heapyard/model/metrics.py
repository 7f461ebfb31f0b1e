# SPDX-License-Identifier: Apache-2.0
"""The responses a trial can have: name, unit, direction and the scale they are analysed on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from .leading import CHARGED, GROUP_CHARGED, PEAK_RSS

SIMULATED = "simulated_"  # before the name of every response of a trial on a simulated machine
SIMULATED_TIME, SIMULATED_PHASE, SIMULATED_MEMORY = f"{SIMULATED}time", f"{SIMULATED}measured_time", f"{SIMULATED}memory"

Direction = Literal["lower", "higher", "neutral"]
Scale = Literal["log", "count"]
Margin = Literal["time", "memory"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One response. `unit` is the unit of stored values (s, B, 1, 1/s); `direction` says which way is better.

    `scale` "log": positive, analysed as ln(value), effects are ratios. "count": may be zero, analysed as ln(value + 1)
    and marked so in reports. `margin` names which equivalence margin applies.
    """

    name: str
    title: str
    unit: str
    direction: Direction = "lower"
    scale: Scale = "log"
    margin: Margin = "time"
    about: str = ""


def _metrics(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


SLICES = "slices"
TIMES = ("wall", "cpu", "user", "sys")  # what a trial in slices tells
ALONE = "_alone"  # added to their names for whole trials of a program whose times come from slices
_ALONE: tuple[tuple[str, str, Scale], ...] = (
    ("wall", "wall time", "log"),
    ("cpu", "CPU time", "log"),
    ("user", "user time", "log"),
    ("sys", "system time", "count"),
)

# Counts of a simulated machine: name, title without the label, unit, direction, what it is.
_SIMULATED_COUNTS: tuple[tuple[str, str, str, Direction, str], ...] = (
    ("coherence_misses", "coherence misses", "1", "lower", "of lines that the core had and lost to another core's write"),
    ("transfers", "line transfers", "1", "lower", "lines that came from another core's cache"),
    ("far_transfers", "line transfers from afar", "1", "lower", "those from another socket or cluster of cores"),
    ("invalidations", "invalidations", "1", "lower", "copies of lines that another core's write took away"),
    ("atomics", "atomic operations", "1", "lower", ""),
    ("lock_handovers", "lock hand-overs", "1", "lower", "a lock taken by another thread than had it last"),
    ("lock_waiting", "lock waiting", "s", "lower", "asleep in the kernel for a lock, of all threads together"),
    ("futex_waits", "futex waits", "1", "lower", ""),
    ("page_faults", "page faults", "1", "lower", "first touches of a page, also after it was given back"),
    ("l1_misses", "L1 misses", "1", "lower", ""),
    ("l2_misses", "L2 misses", "1", "lower", ""),
    ("l3_misses", "L3 misses", "1", "lower", ""),
    ("instructions", "instructions", "1", "lower", "in user space, of all threads together"),
    ("loads", "loads", "1", "neutral", ""),
    ("stores", "stores", "1", "neutral", ""),
)

# Order is display order. "Over the whole process tree" unless said otherwise.
METRICS: dict[str, Metric] = _metrics(
    Metric(
        "wall",
        "wall time",
        "s",
        about="from exec to exit of the program, or of the client for a server; in slices without what lies between them",
    ),
    Metric("cpu", "CPU time", "s", about="user + system"),
    Metric("user", "user time", "s"),
    Metric("sys", "system time", "s", scale="count"),
    Metric(SLICES, "slices", "1", "neutral", about="in which the trial ran, by turns with the others of its block"),
    *(
        Metric(name + ALONE, f"{title} alone", "s", scale=scale, about="of the whole trials where times come from slices")
        for name, title, scale in _ALONE
    ),
    Metric(
        CHARGED,
        "charged memory",
        "B",
        margin="memory",
        about="peak of resident memory, page tables, swap and kernel stacks of all processes together; from looks",
    ),
    Metric(
        GROUP_CHARGED,
        "charged memory (group)",
        "B",
        margin="memory",
        about="peak of what the trial's control group is charged for, without the cache of files",
    ),
    Metric(
        PEAK_RSS,
        "peak RSS",
        "B",
        margin="memory",
        about="largest resident set of any one process, from its wait status",
    ),
    Metric(
        "tree_peak_rss", "peak RSS of the tree", "B", margin="memory", about="largest sampled sum over all processes"
    ),
    Metric(
        "page_tables",
        "page tables",
        "B",
        margin="memory",
        about="largest sampled sum over all processes",
    ),
    Metric(
        "group_peak",
        "peak of the control group",
        "B",
        margin="memory",
        about="the group's memory.peak: with the cache of files",
    ),
    Metric("mean_rss", "average RSS", "B", margin="memory", about="time average of the sampled sum over all processes"),
    Metric("mean_pss", "average PSS", "B", margin="memory", about="time average of the sampled proportional set size"),
    Metric("minor_faults", "minor faults", "1", scale="count"),
    Metric("major_faults", "major faults", "1", scale="count"),
    Metric("voluntary_switches", "voluntary context switches", "1", "neutral", "count"),
    Metric("involuntary_switches", "involuntary context switches", "1", "neutral", "count"),
    Metric(
        "maps", "memory mappings", "1", "neutral", "count", about="largest sampled number of mappings of one process"
    ),
    Metric("processes", "processes", "1", "neutral", "count"),
    Metric("instructions", "instructions", "1", about="hardware counter, else a separate valgrind launch"),
    Metric("mmap_calls", "mmap calls", "1", scale="count", about="separate launch under strace"),
    Metric("munmap_calls", "munmap calls", "1", scale="count", about="separate launch under strace"),
    Metric("madvise_calls", "madvise calls", "1", scale="count", about="separate launch under strace"),
    Metric("brk_calls", "brk calls", "1", scale="count", about="separate launch under strace"),
    Metric("trace_bytes", "bytes of trace", "B", scale="count", margin="memory", about="of a traced treatment, all processes"),
    Metric("collector_rss", "peak RSS of the collector", "B", scale="count", margin="memory", about="of a traced treatment"),
    Metric("collector_cpu", "CPU time of the collector", "s", scale="count", about="of a traced treatment"),
    Metric(
        "charged_error",
        "unseen part of charged memory",
        "B",
        "neutral",
        "count",
        margin="memory",
        about="largest growth of page tables, swap and kernel stacks from one look to the next",
    ),
    Metric(
        "group_error",
        "unseen part of charged memory (group)",
        "B",
        "neutral",
        "count",
        margin="memory",
        about="change of the cache of files around the look that saw the group's peak",
    ),
    Metric("sample_gap", "largest sampling gap", "s", "neutral", about="longest time between two memory samples"),
    Metric(SIMULATED_TIME, "simulated time", "s", about="of the whole program on the simulated machine"),
    Metric(SIMULATED_PHASE, "simulated time measured", "s", about="of the phase that a mutator measures"),
    Metric(SIMULATED_MEMORY, "simulated peak memory", "B", margin="memory", about="pages touched and not given back"),
    *(
        Metric(SIMULATED + name, f"simulated {title}", unit, direction, "count", about=about)
        for name, title, unit, direction, about in _SIMULATED_COUNTS
    ),
)

PRIMARY_TIME = "wall"
PRIMARY_MEMORY = CHARGED

# Responses that mutators defined in their results, as stored with an experiment; by name, in order of appearance.
_defined: dict[str, Metric] = {}


def define(metrics: Iterable[Metric]) -> None:
    """Make responses of a program's own known by name; the catalogued ones cannot be changed."""
    _defined.update((m.name, m) for m in metrics if m.name not in METRICS)


def own_metric(name: str, unit: str, direction: Direction, title: str = "") -> Metric:
    """A response that a mutator defines. `unit` is one of the stored units; bytes are judged by the memory margin."""
    margin: Margin = "memory" if unit == "B" else "time"
    return Metric(name, title or name.replace("_", " ").replace("rss", "RSS"), unit, direction, margin=margin)


# What stands on a simulated machine for a response of a real one, where it is not the same word.
_INSTEAD = {
    "wall": SIMULATED_TIME,
    **dict.fromkeys((CHARGED, GROUP_CHARGED, PEAK_RSS, "tree_peak_rss", "group_peak"), SIMULATED_MEMORY),
}


def as_simulated(name: str) -> str:
    """The response on a simulated machine that stands for `name` on a real one: no name serves both, so that none can be
    taken for the other."""
    return name if name.startswith(SIMULATED) else _INSTEAD.get(name, SIMULATED + name)


def metric_named(name: str) -> Metric:
    """The metric of that name; one that nobody described is shown as it is, and neither direction is better."""
    return METRICS.get(name) or _defined.get(name) or Metric(name, name.replace("_", " "), "1", "neutral")


def display_order(names: Collection[str]) -> tuple[str, ...]:
    """The names as reports list them: catalogued, then defined by programs, then unknown ones by name."""
    known = [n for n in (*METRICS, *_defined) if n in names]
    return (*known, *sorted(set(names) - set(known)))
