# SPDX-License-Identifier: Apache-2.0
"""Measures which lines and branches of heap/ run: docs/measured/coverage.md.

    .heapyard/venv/bin/python tests/measure_coverage.py [--rounds N] [--keep FOLDER]

Builds the preset `coverage`. Then counts what the heaps' native tests reach, what the Python tests that launch programs
add to that, and what N rounds of `heapyard fuzz` for each heap add. Every line that nothing reached must have its reason in
tests/unreached.toml, and each reason there must still have its line: else exit code 1, and the page is not written.

What is counted: a line of the source once, whatever number of heaps it is compiled into; a branch is one outcome of one
condition of the source, and counts as taken if any heap takes it. Left out: what a release build leaves out (heap/os/bound.hpp);
conditions that are constants; the arm before __builtin_unreachable(); templates that no heap and no test instantiates.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "lab"))

from heapyard.model.fuzz import Round, draw_round  # noqa: E402

BUILD = ROOT / ".heapyard" / "build" / "coverage"
PAGE = ROOT / "docs" / "measured" / "coverage.md"
REASONS = ROOT / "tests" / "unreached.toml"
# Python tests that launch programs under the heaps, and measure nothing.
LAUNCHES = ("heap_failures", "heap_limits", "heap_address_space", "heap_options")
# ctest names of the heaps' tests besides heap_test.
OTHER_TESTS = r"^heap[.](abi|dlopen|forks_beside|refused_calls)[.]|^heap[.]interface|^heap[.]Hardened"
MOST_OPERATIONS = 300_000  # of a round
STAGES = ("native tests", "with Python tests", "with random rounds")


class Failed(Exception):
    """The measurement could not be made, in one sentence."""


@dataclass
class Part:
    """What one file of the sources has, and what of it ran."""

    lines: dict[int, int] = field(default_factory=dict)  # number of each line with code -> times it ran
    branches: dict[tuple[int, int, bool], int] = field(default_factory=dict)  # line, column, outcome -> times


Coverage = dict[str, Part]


def tool(name: str) -> str:
    """The program of LLVM that belongs to the compiler of the build."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE)
    version = re.search(r"-(\d+)$", compiler[1]) if compiler else None
    found = shutil.which(f"{name}-{version[1]}" if version else name)
    if found is None:
        raise Failed(f"{name} is missing; on Debian: apt-get install llvm-{version[1] if version else ''}")
    return found


def run(*command: object, **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=ROOT, **more)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise Failed(f"{Path(str(command[0])).name} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done


def build() -> None:
    run("cmake", "--preset", "coverage")
    run("cmake", "--build", "--preset", "coverage", "--parallel", os.cpu_count() or 1,
        "--target", "fuzz_heap", "tests/native/heap/all")


def counting(profiles: Path) -> dict[str, str]:
    # %m: a file for each part, which all its processes share; %c: its counters are mapped from it.
    return {**os.environ, "LLVM_PROFILE_FILE": f"{profiles}/%m%c.profraw"}


def play_native_tests(profiles: Path) -> None:
    # In one process, where ctest would start one for each of its 500 tests.
    run(BUILD / "bin" / "heap_test", "--gtest_brief=1", env=counting(profiles))
    run("ctest", "--test-dir", BUILD, "-R", OTHER_TESTS, "-j", os.cpu_count() or 1, "--output-on-failure", env=counting(profiles))


def play_launches(profiles: Path) -> None:
    """The lab takes its native parts from the state folder: one whose build is this one."""
    with tempfile.TemporaryDirectory() as state:
        (Path(state) / "build").mkdir()
        (Path(state) / "build" / "release").symlink_to(BUILD)
        env = {**counting(profiles), "HEAPYARD_STATE": state, "HEAPYARD_LOCK": f"{state}/lock"}
        files = [next(ROOT.glob(f"tests/*/test_{name}.py")) for name in LAUNCHES]
        run(sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, env=env)


def play_rounds(profiles: Path, rounds: int) -> None:
    def play(job: tuple[str, Round]) -> None:
        heap, round_ = job
        env = {**counting(profiles), "LD_PRELOAD": str(BUILD / "lib" / f"lib{heap}.so")}
        run(BUILD / "bin" / "fuzz_heap", *round_.words, env=env)

    heaps = [heap["name"] for heap in json.loads((BUILD / "heaps.json").read_text())]
    drawn = [draw_round(seed) for seed in range(1, rounds + 1)]
    jobs = [(heap, replace(r, operations=min(r.operations, MOST_OPERATIONS))) for r in drawn for heap in heaps]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(play, jobs))


def parts() -> list[Path]:
    """What is compiled with counters: the libraries, and the test of the layers."""
    heaps = [heap["name"] for heap in json.loads((BUILD / "heaps.json").read_text())]
    return [BUILD / "bin" / "heap_test", *(BUILD / "lib" / f"lib{heap}.so" for heap in heaps)]


def read(profiles: Path, among: list[Path] | None = None) -> Coverage:
    """What ran of these parts according to the profiles in a folder. `among`: all parts, unless said otherwise."""
    merged = profiles / "merged.profdata"
    run(tool("llvm-profdata"), "merge", "-sparse", "-o", merged, *sorted(profiles.glob("*.profraw")))
    first, *others = among or parts()
    exported = run(tool("llvm-cov"), "export", first, *(word for part in others for word in ("-object", part)),
                   f"-instr-profile={merged}", "-skip-functions", "-skip-expansions", ROOT / "heap")
    found: Coverage = {}
    for file in json.loads(exported.stdout)["data"][0]["files"]:
        name = str(Path(file["filename"]).relative_to(ROOT))
        text = Path(file["filename"]).read_text().splitlines()
        found[name] = Part(counted_lines(file["segments"]), counted_branches(file["branches"], file["segments"], text))
    return found


def counted_lines(segments: Iterable[list]) -> dict[int, int]:
    """How often each line ran, by LLVM's rule: the most of the regions that begin on it, and of the one it begins within.

    A segment: line, column, count, whether it counts, whether a region begins there, whether that is a gap.
    """
    by_line: defaultdict[int, list[list]] = defaultdict(list)
    for segment in segments:
        by_line[segment[0]].append(segment)
    lines: dict[int, int] = {}
    around: list | None = None
    for line in range(min(by_line, default=0), max(by_line, default=-1) + 1):
        here = by_line.get(line, [])
        entries = [s for s in here if s[4] and not s[5] and s[3]]
        skipped = bool(here) and not here[0][3] and here[0][4]
        within = around is not None and around[3]
        if not skipped and (entries or within):
            counts = [s[2] for s in entries] + ([around[2]] if within and around else [])
            lines[line] = max(counts)
        if here:
            around = here[-1]
    return lines


def counted_branches(branches: Iterable[list], segments: list[list], text: list[str]) -> dict[tuple[int, int, bool], int]:
    """How often each outcome of each condition came. A branch: line, column, their ends, times true, times false, ..."""
    counts: defaultdict[tuple[int, int, bool], int] = defaultdict(int)
    for line, column, _, _, yes, no, *_ in branches:
        counts[line, column, True] += yes
        counts[line, column, False] += no
    found = {}
    for (line, column, outcome), count in counts.items():
        at_all = counts[line, column, True] + counts[line, column, False]
        if at_all == 0 and runs_at(segments, line, column) > 0:
            continue  # it runs, and has no outcome: a constant
        if outcome and "__builtin_unreachable" in text[line - 1]:
            continue
        found[line, column, outcome] = count
    return found


def runs_at(segments: Iterable[list], line: int, column: int) -> int:
    before = [s for s in segments if (s[0], s[1]) <= (line, column)]
    return before[-1][2] if before and before[-1][3] else 0


def groups_of(lines: Iterable[int], with_code: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of lines with nothing but lines without code between them."""
    code = sorted(with_code)
    place = {line: index for index, line in enumerate(code)}
    found: list[tuple[int, int]] = []
    for line in sorted(lines):
        if found and place[line] == place[found[-1][1]] + 1:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
    return found


def unreached(coverage: Coverage) -> list[tuple[str, tuple[int, int]]]:
    return [(name, group) for name, part in sorted(coverage.items())
            for group in groups_of([line for line, count in part.lines.items() if count == 0], part.lines)]


@dataclass
class Reason:
    """Why nothing reaches a line: `text` stands on it. `sometimes`: whether it is reached depends on threads."""

    file: str
    text: str
    why: str
    sometimes: bool = False


def explained(coverage: Coverage, reasons: list[Reason]) -> tuple[list[tuple[str, int, int, str]], list[str]]:
    """Groups of lines with their reasons, and what is wrong with the list of reasons."""
    rows, wrong, used = [], [], set()
    for name, (first, last) in unreached(coverage):
        text = "\n".join((ROOT / name).read_text().splitlines()[first - 1 : last])
        fits = [index for index, reason in enumerate(reasons) if reason.file == name and reason.text in text]
        used.update(fits)
        if not fits:
            wrong.append(f"{name}:{first}-{last} is not reached, and tests/unreached.toml has no reason:\n{text}")
        else:
            rows.append((name, first, last, " ".join(dict.fromkeys(reasons[index].why for index in fits))))
    for index, reason in enumerate(reasons):
        if index not in used and not reason.sometimes:
            wrong.append(f"tests/unreached.toml has a reason for `{reason.text}` of {reason.file}, which is reached or gone")
    return rows, wrong


def share(done: int, all_: int) -> str:
    return f"{100 * done / all_:.1f} %" if all_ else "—"


def page(stages: list[Coverage], rows: list[tuple[str, int, int, str]], rounds: int) -> str:
    last = stages[-1]
    compiler = run(tool("clang"), "--version").stdout.splitlines()[0]
    out = [
        "# Measured: lines and branches of the heaps", "",
        "[coverage.md](../coverage.md) explains what is counted. A command writes this page:", "",
        f"    .heapyard/venv/bin/python tests/measure_coverage.py --rounds {rounds}", "",
        f"{machine()}, {compiler}, date: {datetime.now(UTC):%Y-%m-%d}.", "",
        "| file | lines | " + " | ".join(STAGES) + " | branches | " + " | ".join(STAGES) + " |",
        "|---" * (4 + 2 * len(STAGES) - 1) + "|",
    ]

    def row(title: str, names: Iterable[str]) -> str:
        cells = [title]
        for what in ("lines", "branches"):
            whole = sum(len(getattr(last[name], what)) for name in names)
            cells.append(f"{whole:,}")
            for stage in stages:
                done = sum(count > 0 for name in names if name in stage for count in getattr(stage[name], what).values())
                cells.append(share(done, whole))
        return "| " + " | ".join(cells) + " |"

    out.append(row("all", list(last)))
    out += [row(f"`{name}`", [name]) for name in sorted(last)]
    out += ["", "## Lines that nothing reaches", "", "| lines | why |", "|---|---|"]
    out += [f"| `{name}`:{first if first == last_ else f'{first}-{last_}'} | {why} |" for name, first, last_, why in rows]
    return "\n".join(out) + "\n"


def machine() -> str:
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} processors, {system}, Linux {platform.release()}"


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--rounds", type=int, default=8, metavar="N", help="random rounds for each heap")
    asked.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the profiles, and take those of an earlier run from there")
    words = asked.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        profiles = words.keep or Path(scratch)
        plays = {"native": play_native_tests, "launches": play_launches, "rounds": lambda p: play_rounds(p, words.rounds)}
        build()
        stages: list[Coverage] = []
        before: Path | None = None
        for name, play in plays.items():
            folder = profiles / name
            if not (folder / "merged.profdata").exists():
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(before, folder) if before else folder.mkdir(parents=True)
                print(f"{name} ...", file=sys.stderr, flush=True)
                play(folder)
            stages.append(read(folder))
            before = folder
    reasons = [Reason(**entry) for entry in tomllib.loads(REASONS.read_text())["reason"]]
    rows, wrong = explained(stages[-1], reasons)
    for stage, name in zip(stages, STAGES, strict=True):
        for what in ("lines", "branches"):
            counts = [count for part in stage.values() for count in getattr(part, what).values()]
            print(f"{name}: {share(sum(c > 0 for c in counts), len(counts))} of {len(counts):,} {what}")
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    PAGE.write_text(page(stages, rows, words.rounds))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"measure_coverage: {error}")
