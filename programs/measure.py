# SPDX-License-Identifier: Apache-2.0
"""Measures every program of the catalog under glibc: programs/measured.json, and the table in docs/programs.md.

    python programs/measure.py [--launches N] [--record-answers] [NAME...]

Wall time (median) and peak RSS (largest) of N launches; calls of malloc and bytes asked for from one more launch,
served by a library that counts. With --record-answers the digests of reproducible answers are written into the
programs' files. Needs the lab's Python environment and the native parts. The table says how much work a program is;
it compares nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "lab"))

from heapyard.catalog.allocators import find_allocators  # noqa: E402
from heapyard.catalog.programs import load_programs, prepare_program  # noqa: E402
from heapyard.execute.trial import run_trial  # noqa: E402
from heapyard.model import places  # noqa: E402
from heapyard.model.allocator import Allocator  # noqa: E402
from heapyard.model.experiment import Settings, Treatment, TrialOutcome  # noqa: E402
from heapyard.model.program import Program  # noqa: E402

MEASURED = ROOT / "programs" / "measured.json"
TABLE = ROOT / "docs" / "programs.md"


class Failed(Exception):
    """A program could not be measured, in one sentence."""


def launch(program: Program, allocator: Allocator) -> TrialOutcome:
    # Answers are judged here: a program being recorded has no right one yet.
    if program.answer.output == "same":
        program = replace(program, answer=replace(program.answer, output="consistent"))
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_trial(program, Treatment(allocator.name, allocator), Settings(), pad=0, folder=Path(folder))
    if outcome.status != "ok":
        raise Failed(outcome.reason)
    return outcome


def measure(program: Program, launches: int) -> tuple[dict[str, float], set[str]]:
    """Facts of one program, and the digests of its answers."""
    glibc = find_allocators(["glibc"])[0]
    outcomes = [launch(program, glibc) for _ in range(launches)]
    with tempfile.NamedTemporaryFile() as counts:
        os.chmod(counts.name, 0o666)  # PostgreSQL's processes belong to another user
        library = places.native("libcount_mallocs.so")
        counter = Allocator("counter", "", "", library, env={"COUNT_MALLOCS_FILE": counts.name})
        outcomes.append(launch(program, counter))
        rows = [tuple(map(int, line.split())) for line in Path(counts.name).read_text().splitlines()]
    facts = {
        "wall": round(statistics.median(outcome.metrics["wall"] for outcome in outcomes[:launches]), 3),
        "peak_rss": max(outcome.metrics["peak_rss"] for outcome in outcomes[:launches]),
        "mallocs": sum(row[0] for row in rows),
        "malloc_bytes": sum(row[1] for row in rows),
    }
    return facts, {outcome.answer for outcome in outcomes}


def record_answer(name: str, size: str, digest: str) -> None:
    """Write the digest as the last line but `input` of the size's table."""
    path = ROOT / "programs" / f"{name}.toml"
    head, table, rest = path.read_text().partition(f"[sizes.{size}]\n")
    body, gap, others = rest.partition("\n\n")
    lines = [line for line in body.rstrip("\n").split("\n") if not line.startswith("digest")] + [f'digest = "{digest}"']
    path.write_text(head + table + "\n".join(lines) + (gap + others if gap else "\n"))


def write_table(measured: dict[str, dict[str, dict[str, float]]], launches: int) -> None:
    rows = ["| program | size | wall | peak RSS | calls of malloc | mean size |", "|---|---|---:|---:|---:|---:|"]
    for name, sizes in sorted(measured.items()):
        for size, f in sizes.items():
            mean = f["malloc_bytes"] / f["mallocs"] if f["mallocs"] else 0
            cells = (f"{f['wall']:.2f} s", f"{f['peak_rss'] / 2**20:.0f} MiB", f"{f['mallocs']:,}", f"{mean:,.0f} B")
            rows.append(f"| {name} | {size} | {' | '.join(cells)} |")
    about = (f"Measured by programs/measure.py under glibc {platform.libc_ver()[1]} on {os.cpu_count()} cores: "
             f"median wall time of {launches} launches, largest peak RSS.")
    text = TABLE.read_text()
    begin, end = "<!-- measured: begin -->\n", "<!-- measured: end -->"
    before, rest = text.split(begin)
    TABLE.write_text(before + begin + about + "\n\n" + "\n".join(rows) + "\n" + end + rest.split(end)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--record-answers", action="store_true")
    wanted = parser.parse_args()
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    failed = False
    for name, card in load_programs().items():
        for size in card.sizes if name in wanted.names or not (wanted.names or card.own) else ():
            program = prepare_program(name, size, print)
            try:
                facts, answers = measure(program, wanted.launches)
                if wanted.record_answers and len(answers) == 1 and card.answer.output == "same":
                    record_answer(name, size, next(iter(answers)))
                elif card.answer.output == "same" and answers != {program.answer.digest}:
                    raise Failed(f"its {len(answers)} answers are not the one recorded")
            except Failed as failure:
                print(f"{program.name}: {failure}", file=sys.stderr, flush=True)
                failed = True
                continue
            measured.setdefault(name, {})[size] = facts
            memory = f"{facts['peak_rss'] / 2**20:6.0f} MiB"
            print(f"{name:8} {size:6} {facts['wall']:6.2f} s {memory} {facts['mallocs']:>12,} mallocs", flush=True)
    MEASURED.write_text(json.dumps(measured, indent=1, sort_keys=True) + "\n")
    write_table(measured, wanted.launches)
    sys.exit(failed)


if __name__ == "__main__":
    main()
