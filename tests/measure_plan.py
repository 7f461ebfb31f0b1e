# SPDX-License-Identifier: Apache-2.0
"""Holds `heapyard plan STUDY --fleet 3` against real runs on three nodes of a throw-away Slurm: docs/measured/plan.md.

    .heapyard/venv/bin/python tests/measure_plan.py [NAME]...

A small study of the same programs runs on three nodes first, and gives the trial times. `plan` simulates a larger study from
them; then that study runs on three nodes, and its duration and balance are held against the prediction. Trials mostly sleep, so
that three nodes can share one machine. Each NAME that is done has its row in the page; the others keep theirs. Two to four
minutes a study.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "lab"))

from heapyard.model.record import Record  # noqa: E402
from heapyard.store import list_records, load_record  # noqa: E402

PAGE = ROOT / "docs" / "measured" / "plan.md"
NODES = 3
LAB = [sys.executable, "-I", "-m", "heapyard"]


@dataclass(frozen=True, slots=True)
class Case:
    """`sleeps`: seconds of a trial of each program. `tried`, `blocks`: of the small study and of the one that is predicted."""

    sleeps: tuple[float, ...]
    tried: int
    blocks: int


CASES = {
    "alike": Case((1.0,), 6, 20),
    "unequal": Case((0.3, 1.0, 2.5), 3, 7),
    "short": Case((0.2,), 6, 40),
    "one long": Case((0.3, 6.0), 3, 4),
}
HEAD = "|---|---|--:|--:|--:|--:|--:|--:|---|--:|\n"


def study(case: Case, blocks: int) -> str:
    names = ", ".join(f'"nap{i}"' for i in range(len(case.sleeps)))
    return (
        f'[study]\ntitle = "naps"\nprograms = [{names}]\nallocators = ["glibc", "jemalloc"]\nblocks = {blocks}\nseed = 1\n'
        'interleave = "trials"\n'
    )


def row_of(name: str, case: Case) -> str:
    with tempfile.TemporaryDirectory(prefix="plan-") as scratch:
        folder = Path(scratch)
        (folder / "config" / "heapyard").mkdir(parents=True)
        naps = (f'[program.nap{i}]\ncommand = ["sleep", "{seconds}"]\n' for i, seconds in enumerate(case.sleeps))
        (folder / "config" / "heapyard" / "catalog.toml").write_text("\n".join(naps))
        (folder / "small.toml").write_text(study(case, case.tried))
        (folder / "whole.toml").write_text(study(case, case.blocks))
        small = carried_out(folder, "small.toml")
        plan = planned(folder, "whole.toml", small.id)
        whole = carried_out(folder, "whole.toml")
    predicted = next(size for size in plan["sizes"] if size["nodes"] == NODES)
    duration, shares = what_it_took(whole)
    repeated = len({t.block for t in whole.trials if not t.counted and t.stage != "warmup"})
    cells = (
        f"`{name}`", " ".join(f"{s:g} s" for s in case.sleeps), str(case.blocks * len(case.sleeps)), str(repeated),
        f"{predicted['duration']:.1f} s", f"{predicted['low']:.1f}–{predicted['high']:.1f} s", f"{duration:.1f} s",
        f"{duration / predicted['duration'] - 1:+.0%}",
        f"{predicted['emptiest']:.0%}–{predicted['fullest']:.0%}", f"{min(shares):.0%}–{max(shares):.0%}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def carried_out(folder: Path, study_file: str) -> Record:
    run = [*LAB, "run", study_file, "--fleet", "slurm", "--nodes", str(NODES), "--no-html"]
    said(folder, [*LAB, "fleet", "try", "--nodes", str(NODES), "--", "sh", "-c", shlex.join(run)])
    newest = next(iter(list_records(folder / "results")))
    return load_record(newest.path)


def planned(folder: Path, study_file: str, source: str) -> dict[str, Any]:
    return json.loads(said(folder, [*LAB, "plan", study_file, "--fleet", str(NODES), "--from", source, "--json"]))["fleet"]


def said(folder: Path, words: Sequence[str]) -> str:
    own = {"XDG_CONFIG_HOME": folder / "config", "HEAPYARD_RESULTS": folder / "results", "HEAPYARD_LOCK": folder / "lock"}
    done = subprocess.run(words, cwd=folder, env={**os.environ, **{k: str(v) for k, v in own.items()}}, capture_output=True,
                          text=True)  # fmt: skip
    if done.returncode:
        sys.exit(f"{shlex.join(words)}: {done.stderr}")
    return done.stdout


def what_it_took(record: Record) -> tuple[float, list[float]]:
    """Seconds from the first trial to the last one's end, and the share of them in which each node ran a block."""
    blocks: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for trial in record.trials:
        blocks[trial.node, trial.block].append((trial.started, trial.ended))
    begin = min(start for spans in blocks.values() for start, _ in spans)
    duration = max(end for spans in blocks.values() for _, end in spans) - begin
    busy: dict[str, float] = defaultdict(float)
    for (node, _), spans in blocks.items():
        busy[node] += max(end for _, end in spans) - min(start for start, _ in spans)
    return duration, [busy.get(f"node{i + 1}", 0.0) / duration for i in range(NODES)]


def write(name: str, row: str) -> None:
    """Replaces the row of the page, or adds it."""
    text = PAGE.read_text() if PAGE.exists() else TEXT
    when = f"{datetime.now(UTC):%Y-%m-%d}, {platform.platform()}, {len(os.sched_getaffinity(0))} processors"
    text = re.sub(rf"^\| `{name}` \|.*\n", "", text, flags=re.MULTILINE)
    order = list(CASES)
    rows = sorted([*re.findall(r"^\| `.*\n", text, flags=re.MULTILINE), f"{row}\n"], key=lambda r: order.index(r.split("`")[1]))
    text = re.sub(r"^\| `.*\n", "", text, flags=re.MULTILINE).replace(HEAD, HEAD + "".join(rows))
    PAGE.write_text(re.sub(r"^Last run on .*$", f"Last run on {when}.", text, flags=re.MULTILINE))


TEXT = f"""\
# Plans of fleets, held against runs

`heapyard plan STUDY --fleet {NODES}` beside the same study on {NODES} nodes of `heapyard fleet try`. The plan goes by a smaller
run of the same programs there. Made by `.heapyard/venv/bin/python tests/measure_plan.py`.

Last run on .

| study | a trial sleeps | blocks | repeated | predicted | 95 % of runs | took | off by | nodes, predicted | nodes ran |
{HEAD}
- Blocks have three trials: glibc, jemalloc and the A/A control. `repeated`: attempts that a guard ended.
- `95 % of runs`: that were simulated. `took`: from the first trial to the end of the last one.
- `nodes`: the share of that time in which the emptiest and the fullest node had a block.

All nodes share one machine, which others may load meanwhile. A run is one draw of what the plan gives an interval for.
"""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    for name in parser.parse_args(words).names or list(CASES):
        row = row_of(name, CASES[name])
        print(row, flush=True)
        write(name, row)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
