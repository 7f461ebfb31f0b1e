# SPDX-License-Identifier: Apache-2.0
"""Slices beside whole trials, hyperfine and duets (two at once on two processors): machine minutes to an interval of +-1 %.

On request, since it measures this machine for minutes:

    pytest --on-request -s tests/e2e/test_slices_beside_trials.py

It writes its rows into docs/measured/minutes.md.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import shutil
import subprocess
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, mean, stdev

import numpy as np
import pytest
from disturbance import disturbed, may_disturb

from heapyard.catalog.allocators import find_allocators
from heapyard.catalog.programs import install_programs, load_programs, prepare_program
from heapyard.design.interleaving import SHORTEST, slice_length
from heapyard.execute.slices import run_in_slices
from heapyard.execute.trial import run_trial
from heapyard.model.experiment import Settings, Treatment, TrialOutcome
from heapyard.model.program import Program
from heapyard.report.check_markdown import BEGIN, END, around_marks

PAGE = Path(__file__).resolve().parents[2] / "docs/measured/minutes.md"
WAYS = ("trials", "slices", "duet", "hyperfine")
PROGRAMS = ("gxx", "jq", "python", "sqlite", "xalan", "z3")  # of the default set, those that can be sliced on one processor
PAIR = ("glibc", "jemalloc")
BLOCKS = 12
WIDTH = 0.01

pytestmark = pytest.mark.on_request


class Race:
    """A pair of allocators on one program; seconds of wall time by way, block and allocator."""

    def __init__(self, folder: Path, program: Program):
        self.folder, self.program, self.number = folder, program, 0
        self.treatments = [Treatment(a.name, a) for a in find_allocators(list(PAIR))]
        self.walls: dict[str, list[tuple[float, float]]] = {"trials": [], "slices": [], "duet": []}
        self.cost: float | None = None

    def launch(self, treatment: Treatment, cpus: tuple[int, ...] = (), turns=None) -> TrialOutcome:
        self.number += 1
        folder = self.folder / f"trial{self.number}"
        folder.mkdir()
        settings = Settings(cpus=cpus, timeout=120)
        outcome = run_trial(self.program, treatment, settings, pad=0, folder=folder, turns=turns)
        shutil.rmtree(folder)
        assert outcome.status == "ok", outcome.reason
        return outcome

    def trials(self, block: int) -> None:
        order = self.treatments if block % 2 else self.treatments[::-1]
        found = {t.label: self.launch(t).metrics for t in order}
        self.walls["trials"].append(tuple(found[t.label]["wall"] for t in self.treatments))
        self.alone = mean(m["cpu"] for m in found.values())

    def slices(self, block: int) -> None:
        seconds = SHORTEST if self.cost is None else slice_length(self.cost)
        calls = [lambda turns, t=t: self.launch(t, turns=turns) for t in self.treatments]
        outcomes = run_in_slices(calls, seconds=seconds, seed=block)
        self.walls["slices"].append(tuple(o.metrics["wall"] for o in outcomes))
        self.cost = self.cost or mean(o.metrics["cpu"] for o in outcomes) / self.alone

    def duet(self, block: int) -> None:
        cpus = sorted(os.sched_getaffinity(0))[:2]
        found: dict[str, float] = {}

        def play(treatment: Treatment, cpu: int) -> None:
            found[treatment.label] = self.launch(treatment, (cpu,)).metrics["wall"]

        players = [
            threading.Thread(target=play, args=(t, cpus[(n + block) % 2])) for n, t in enumerate(self.treatments)
        ]
        for player in players:
            player.start()
        for player in players:
            player.join()
        self.walls["duet"].append(tuple(found[t.label] for t in self.treatments))


def minutes(ratios_sd: float, seconds: float) -> float:
    """To a 95 % interval of +-WIDTH of one ratio, from the scatter of a block's log ratio and the block's duration."""
    return (1.96 * ratios_sd / math.log1p(WIDTH)) ** 2 * seconds / 60


def of_pairs(walls: list[tuple[float, float]], at_once: bool = False) -> tuple[float, float]:
    """(ratio, minutes)."""
    logs = np.log(np.array(walls))
    apart = logs[:, 1] - logs[:, 0]
    took = [max(pair) if at_once else sum(pair) for pair in walls]
    return math.exp(apart.mean()), minutes(float(apart.std(ddof=1)), mean(took))


def of_hyperfine(program: Program, folder: Path) -> tuple[float, float]:
    """Both commands in turn, all runs of the first and then all of the second, as it does."""
    words = [word.replace("{dir}", str(folder)) for word in program.command]
    own = [f"{name}={value.replace('{dir}', str(folder))}" for name, value in program.env.items()]
    preloads = [[f"LD_PRELOAD={a.library}"] * (a.name != "glibc") for a in find_allocators(list(PAIR))]
    source = f" < {shlex.quote(str(program.stdin))}" if program.stdin else ""
    commands = [shlex.join(["/usr/bin/env", *preload, *own, *words]) + source for preload in preloads]
    output = folder / "hyperfine.json"
    call = ["hyperfine", "--runs", BLOCKS, "--warmup", 1, "--export-json", output, *commands]
    subprocess.run(list(map(str, call)), check=True, capture_output=True, cwd=folder)
    times = [result["times"] for result in json.loads(output.read_text())["results"]]
    relative = math.hypot(*(stdev(t) / mean(t) for t in times))
    return mean(times[1]) / mean(times[0]), minutes(relative, sum(map(mean, times)))


def write(depth: float, rows: list[str]) -> None:
    """The rows of this depth, in place of those the page has of it."""
    before, after = around_marks(PAGE)
    mine = f"| {depth:.0%} "
    old = PAGE.read_text()[len(before) + len(BEGIN) : -len(END) - len(after)].splitlines()
    others = [line for line in old if line.startswith("| ") and "%" in line.split("|")[1] and not line.startswith(mine)]
    head = [
        f"On {time.strftime('%Y-%m-%d')}, {platform.platform()}, `{PAIR[1]}` to `{PAIR[0]}`, {BLOCKS} blocks.",
        "",
        "| share taken | program | slice | " + " | ".join(f"ratio, minutes: {way}" for way in WAYS) + " |",
        "|---" * (3 + len(WAYS)) + "|",
    ]
    lines = sorted([mine + row for row in rows] + others, key=lambda line: line.split("|")[1])
    PAGE.write_text(before + BEGIN + "\n".join(head + lines) + "\n" + END + after)


@pytest.mark.parametrize("depth", [0.0, 0.1], ids=["as it is", "disturbed"])
def test_machine_minutes_to_one_percent(tmp_path: Path, depth: float, capsys: pytest.CaptureFixture[str]) -> None:
    if depth and not may_disturb():
        pytest.skip("real-time priority is not permitted")
    if missing := [n for n in PROGRAMS if load_programs()[n].status == "available"]:
        install_programs(missing, print)
    rows, gains = [], []
    with disturbed(depth) if depth else nullcontext():
        for name in PROGRAMS:
            program = replace(prepare_program(name, "quick", print), server=None)
            race = Race(tmp_path, program)
            for block in range(BLOCKS):
                race.trials(block)
                race.slices(block)
                race.duet(block)
            slices = race.walls["slices"][1:]  # the first one only measured what caches cost
            ways = [of_pairs(race.walls["trials"]), of_pairs(slices), of_pairs(race.walls["duet"], at_once=True)]
            if shutil.which("hyperfine"):
                ways.append(of_hyperfine(program, tmp_path))
            found = " | ".join(f"{ratio:.3f}, {least:.2g}" for ratio, least in ways)
            rows.append(f"| {name} | {slice_length(race.cost or 1) * 1000:.0f} ms | {found} |")
            gains.append([m for _, m in ways])
    means = " | ".join(f"{geometric_mean(way):.2g}" for way in zip(*gains, strict=True))
    rows.append(f"| geometric mean | | {means} |")
    with capsys.disabled():
        print("\n" + "\n".join(rows))
    if len(gains[0]) == len(WAYS):
        write(depth, rows)
    if depth:  # where speed moves, slices must pay
        trials, in_slices = (geometric_mean([g[way] for g in gains]) for way in (0, 1))
        assert in_slices < trials
