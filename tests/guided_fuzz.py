# SPDX-License-Identifier: Apache-2.0
"""Looks for calls that reach new code of our heaps (libFuzzer), and keeps the shortest that do: lab/native/fuzz/corpus.

    .heapyard/venv/bin/python tests/guided_fuzz.py [--seconds N] [--inputs FOLDER] [HEAP...]
    .heapyard/venv/bin/python tests/guided_fuzz.py --compare

Builds the preset `guided`. Plays each heap for N seconds, beginning with what FOLDER holds of it, and keeps in FOLDER what
reached something new. What stays in the corpus is the fewest inputs that reach the same edges. What fails is kept in FOLDER as
HEAP-crash-*; `guided_HEAP FILE` plays it again. --compare writes the table of docs/measured/coverage-guided.md: what the corpus
reaches in each heap, and what random rounds of one thread reach.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import measure_coverage as measure
from measure_coverage import ROOT, Coverage, Failed, run

HEAPS = ("bfm", "elfmalloc", "heapyard", "scalloc")
BIN = ROOT / ".heapyard" / "build" / "guided" / "bin"
CORPUS = ROOT / "lab" / "native" / "fuzz" / "corpus"
PAGE = ROOT / "docs" / "measured" / "coverage-guided.md"
MOST_BYTES = 3000  # of an input: 500 operations
RANDOM = (10_000, 100_000, 1_000_000)  # operations of random rounds, in rounds of at most 100,000
ROUND = 100_000


def look(heap: str, inputs: Path, seconds: int) -> None:
    """Plays for so long. What reaches something new stays in `inputs`."""
    command = [BIN / f"guided_{heap}", f"-max_len={MOST_BYTES}", "-len_control=20", f"-max_total_time={seconds}",
               "-malloc_limit_mb=0", f"-artifact_prefix={inputs.parent}/{heap}-", inputs]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
        raise Failed(f"{heap} failed; {inputs.parent} holds what did it")


def keep(heap: str, inputs: Path) -> None:
    """The fewest inputs that reach the same edges, as operations."""
    with tempfile.TemporaryDirectory() as scratch:
        few, text = Path(scratch, "few"), Path(scratch, "text")
        few.mkdir()
        run(BIN / f"guided_{heap}", "-merge=1", "-use_counters=0", "-malloc_limit_mb=0", few, inputs)
        for file in sorted(few.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
            run(BIN / f"guided_{heap}", "-runs=0", "-malloc_limit_mb=0", file, env={**os.environ, "HEAPYARD_OPERATIONS": str(text)})
        head = f"# What reaches new code of {heap}, made by tests/guided_fuzz.py: {len(list(few.iterdir()))} inputs.\n"
        CORPUS.mkdir(exist_ok=True)
        (CORPUS / f"{heap}.operations").write_text(head + text.read_text())


def reached(heap: str, words: list[list[str]]) -> Coverage:
    """What runs of the native program reach in a heap, all together."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**measure.counting(Path(folder)), "LD_PRELOAD": str(measure.BUILD / "lib" / f"lib{heap}.so")}
        for some in words:
            run(measure.BUILD / "bin" / "fuzz_heap", *some, env=env)
        return measure.read(Path(folder), [measure.BUILD / "lib" / f"lib{heap}.so"])


def outcomes(coverage: Coverage) -> set[tuple[str, int, int, bool]]:
    return {(name, *branch) for name, part in coverage.items() for branch, count in part.branches.items() if count > 0}


def random_rounds(operations: int) -> list[list[str]]:
    # A seed has one habit after another; so many short rounds have more of them than one long round.
    each = min(operations, ROUND)
    seeds = range(1, operations // each + 1)
    return [["--seed", str(seed), "--operations", str(each), "--no-forks", "--no-ends"] for seed in seeds]


def compare() -> None:
    measure.build()
    out = [
        "# Measured: what guided calls reach that random calls do not", "",
        "[coverage.md](../coverage.md#calls-that-are-looked-for) explains. A command writes this page:", "",
        "    .heapyard/venv/bin/python tests/guided_fuzz.py --compare", "",
        f"{measure.machine()}, date: {datetime.now(UTC):%Y-%m-%d}. Outcomes of conditions in the heap, one thread.", "",
        "| heap | operations of the corpus | outcomes they reach | " + " | ".join(f"{n:,} random operations" for n in RANDOM)
        + " | only the corpus | only random |", "|---" * (5 + len(RANDOM)) + "|",
    ]
    for heap in HEAPS:
        file = CORPUS / f"{heap}.operations"
        count = sum(not line.startswith("#") for line in file.read_text().splitlines())
        guided = outcomes(reached(heap, [["--replay", str(file)]]))
        chance = [outcomes(reached(heap, random_rounds(operations))) for operations in RANDOM]
        cells = [heap, f"{count:,}", len(guided), *map(len, chance), len(guided - chance[-1]), len(chance[-1] - guided)]
        out.append("| " + " | ".join(map(str, cells)) + " |")
        only = sorted(guided - chance[-1])
        print(out[-1], *(f"  only the corpus: {name}:{line}:{column} {yes}" for name, line, column, yes in only), sep="\n")
    PAGE.write_text("\n".join(out) + "\n")


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--seconds", type=int, default=150, metavar="N", help="for each heap")
    asked.add_argument("--inputs", type=Path, metavar="FOLDER", help="what earlier runs found, and where more is kept")
    asked.add_argument("--compare", action="store_true", help="compare the corpus with random rounds")
    asked.add_argument("heaps", nargs="*", default=HEAPS, metavar="HEAP")
    words = asked.parse_args()
    if words.compare:
        compare()
        return 0
    run("cmake", "--preset", "guided")
    run("cmake", "--build", "--preset", "guided", "--parallel", os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = (words.inputs or Path(scratch)).resolve()
        for heap in words.heaps:
            (folder / heap).mkdir(parents=True, exist_ok=True)
            if words.seconds:
                print(f"{heap}: {words.seconds} s ...", file=sys.stderr, flush=True)
                look(heap, folder / heap, words.seconds)
            keep(heap, folder / heap)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"guided_fuzz: {error}")
