# SPDX-License-Identifier: Apache-2.0
"""Holds `heapyard tune` against exhaustive grids on programs that run: docs/measured/tune.md.

    .heapyard/venv/bin/python tests/measure_tune.py [NAME]...

For each program: every combination of the settings is measured in BLOCKS blocks, once. Then `tune` searches the same settings
within a fifth of the seconds that the grid's trials took. What both found, and the default, meet in fresh blocks until their
ratio is known to half a per cent. `idle` is a program for which settings do nothing: 20 searches, of which at most one may claim
a gain. Each NAME that is done has its row in the page; the others keep theirs. Three to nine minutes a program.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from math import log
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "lab"))

import heapyard  # noqa: E402
from heapyard.catalog.allocators import find_allocators  # noqa: E402
from heapyard.catalog.settings import spaces_of  # noqa: E402
from heapyard.model.record import Record  # noqa: E402
from heapyard.model.tuning import Space  # noqa: E402

PAGE = ROOT / "docs" / "measured" / "tune.md"
BIN = ROOT / ".heapyard" / "build" / "release" / "bin"
INPUTS = ROOT / ".heapyard" / "inputs"
BLOCKS = 24  # of the grid: fewer leave its own best to chance, where a trial scatters by 5 %
SHARE = 0.2  # of the grid's seconds, for the search
CLOSE = 0.01  # how far behind the grid's best it may be
SEARCHES = 20  # of the program for which settings do nothing
IDLE_BUDGET = 25.0  # seconds of each

BUFFERS = """
kept, n = {}, 7
for step in range(20000):
    n = (n * 1103515245 + 12345) % 2147483648
    kept[n % 40] = bytearray(1000 + n % 300000)
print(len(kept))
"""
WORDS = "{for (i = 1; i <= NF; i++) seen[$i]++} END {for (word in seen) n += seen[word]; print n}"
GROUPS = "group_by(.user) | map({user: .[0].user, n: length}) | length"
IDLE = "BEGIN {for (i = 0; i < 1000000; i++) n = (n * 31 + i) % 65521; print n}"


@dataclass(frozen=True, slots=True)
class Case:
    """A program and what is tried of it: settings of the catalog with all their levels."""

    allocator: str
    command: tuple[str, ...]
    settings: tuple[str, ...]


def cases(folder: Path) -> dict[str, Case]:
    (folder / "buffers.py").write_text(BUFFERS)
    corpus = next(INPUTS.glob("corpus-*/corpus.txt"))
    (folder / "words.txt").write_bytes(corpus.read_bytes()[:2_500_000])
    glibc = ("arena_max", "mmap_threshold", "trim_threshold", "top_pad", "tcache_count")
    jemalloc = ("dirty_decay_ms", "narenas", "tcache_max", "background_thread", "thp")
    return {
        "buffers": Case("glibc", ("/usr/bin/python3", "-IS", str(folder / "buffers.py")), glibc),
        "words": Case("jemalloc", ("gawk", WORDS, str(folder / "words.txt")), jemalloc),
        "objects": Case("glibc", (str(BIN / "stress"), "-n", "2", "-g", "8", "--steps", "60000"), glibc),
        "large": Case("jemalloc", (str(BIN / "large_blocks"), "-n", "2", "--steps", "200", "--max-size", "8M"), jemalloc),
        "idle": Case("glibc", ("gawk", IDLE), glibc),
    }


def space_of(case: Case) -> Space:
    [space] = spaces_of(find_allocators([case.allocator]))
    return Space(space.allocator, tuple(s for s in space.settings if s.name in case.settings))


def grid(case: Case, space: Space) -> tuple[dict[str, float], float]:
    """Mean of ln(wall) of each combination, by its label; and the seconds that all trials took."""
    labels = [space.label(choice) for choice in product(*map(range, space.counts))]
    found = heapyard.compare(case.command, allocators=labels, blocks=BLOCKS, baseline=labels[0], seed=1)
    return of_record(found.record, labels)


def of_record(record: Record, labels: Sequence[str]) -> tuple[dict[str, float], float]:
    logs, seconds = defaultdict(list), 0.0
    for trial in record.trials:
        if trial.status == "ok" and trial.counted:
            logs[trial.treatment].append(log(trial.metrics["wall"]))
            seconds += trial.ended - trial.started
    return {label: mean(logs[label]) for label in labels if len(logs[label]) == BLOCKS}, seconds


def tuned(case: Case, space: Space, budget: float, seed: int) -> tuple[str, float]:
    """(the label that `tune` names, "" if it claims no gain; the seconds of its trials)."""
    words = [sys.executable, "-I", "-m", "heapyard", "tune", case.allocator, "--budget", f"{budget:.0f}s", "--seed", str(seed)]
    for setting in space.settings:
        words += ["--setting", f"{case.allocator}:{setting.name}={','.join(setting.levels)}"]
    done = subprocess.run([*words, "--json", "--quiet", "--", *case.command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"measure_tune: {done.stderr.strip()}")
    answer = json.loads(done.stdout)
    [of] = answer["allocators"]
    best = {s.name: of["best"][s.name] for s in space.settings if s.name in of["best"]} if of["best"] else {}
    options = ",".join(f"{name}={value}" for name, value in best.items())
    return (f"{case.allocator}:{options}" if options else ""), answer["seconds"]


def ratio(case: Case, label: str, baseline: str) -> tuple[float, float]:
    """(time of `label` over `baseline` on fresh blocks, half-width of its interval)."""
    if label == baseline:
        return 1.0, 0.0
    found = heapyard.compare(case.command, allocators=[label], baseline=baseline, precision=0.005, budget=100.0, seed=2)
    [row] = [c for c in found.comparisons() if c.workload and c.metric == "wall" and c.treatment == label]
    interval = row.interval
    return interval.ratio, (interval.high - interval.low) / 2


def row_of(name: str, case: Case) -> str:
    space = space_of(case)
    means, seconds = grid(case, space)
    best = min(means, key=lambda label: means[label])
    default = space.label(space.default)
    named, spent = tuned(case, space, SHARE * seconds, seed=3)
    behind, width = ratio(case, named or default, best)
    gain, gain_width = ratio(case, named or default, default)
    cells = (
        f"`{name}`", case.allocator, f"{space.combinations}", f"{BLOCKS}", f"{seconds:.0f} s",
        f"{spent:.0f} s ({spent / seconds:.0%})", f"`{best}`", f"`{named}`" if named else "no gain",
        f"{behind:.3f} ± {width:.3f}", f"{gain:.3f} ± {gain_width:.3f}",
    )
    return "| " + " | ".join(cells) + " |"


def idle_row(case: Case) -> str:
    space = space_of(case)
    claims = [tuned(case, space, IDLE_BUDGET, seed)[0] for seed in range(SEARCHES)]
    claimed = [label for label in claims if label]
    return f"| `idle` | {case.allocator} | {space.combinations} | {SEARCHES} | {len(claimed)} | {', '.join(claimed) or 'none'} |"


def write(rows: Mapping[str, str]) -> None:
    """Replaces the rows of the page, or adds them to the table of their kind."""
    text = PAGE.read_text()
    when = f"{datetime.now(UTC):%Y-%m-%d}, {platform.platform()}, {len(os.sched_getaffinity(0))} processors"
    for name, row in rows.items():
        head = "|---|---|--:|--:|--:|---|\n" if name == "idle" else "|---|---|--:|--:|--:|--:|---|---|--:|--:|\n"
        if f"\n{head}" not in text:
            sys.exit(f"measure_tune: {PAGE} has no table for {name}")
        text = re.sub(rf"^\| `{name}` \|.*\n", "", text, flags=re.MULTILINE).replace(f"\n{head}", f"\n{head}{row}\n")
    PAGE.write_text(re.sub(r"^Last run on .*$", f"Last run on {when}.", text, flags=re.MULTILINE))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    with tempfile.TemporaryDirectory() as folder:
        known = cases(Path(folder))
        parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
        for name in parser.parse_args(words).names or list(known):
            row = idle_row(known[name]) if name == "idle" else row_of(name, known[name])
            print(row, flush=True)
            write({name: row})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
