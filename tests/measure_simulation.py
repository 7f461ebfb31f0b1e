# SPDX-License-Identifier: Apache-2.0
"""Holds simulated machines against real ones: docs/measured/simulation.md.

    .heapyard/venv/bin/python tests/measure_simulation.py STAGE... [--only NAME,...]

Stages: `machine` and `measured` need a quiet machine, half a minute and six minutes. `simulated`, `scaling`, `published`,
`claims` and `peers` simulate, and may run beside other programs: five to thirty minutes each. `page` writes the page from what
all stages found; each stage keeps that in .heapyard/simulation. `--only`: studies of a stage, to run it in pieces.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "lab"))

import heapyard  # noqa: E402
from heapyard.api.simulating import allocators_to_simulate, program_to_simulate, simulate  # noqa: E402
from heapyard.catalog.allocators import installed_allocators  # noqa: E402
from heapyard.catalog.own_heaps import own_heaps  # noqa: E402
from heapyard.catalog.study import read_study  # noqa: E402
from heapyard.execute.loop.signals import stop_on_signals  # noqa: E402
from heapyard.model.errors import HeapyardError  # noqa: E402
from heapyard.model.record import Record  # noqa: E402
from heapyard.model.simulation import Simulated, Simulation  # noqa: E402
from heapyard.stats.claims.judge import judge_all  # noqa: E402

PAGE = ROOT / "docs" / "measured" / "simulation.md"
KEPT = ROOT / ".heapyard" / "simulation"
STUDIES = ROOT / "studies"
PUBLISHED = ROOT / "tests" / "data" / "published"
BIN = ROOT / ".heapyard" / "build" / "release" / "bin"
HERE = Simulated("epyc", 8, 1)  # the machine that is most like the one that measures
CLOSE = 0.15  # a simulated ratio is right within it

# Commands of published figures, scaled down: the same program, threads and sizes, less of it. Their machine has 20 threads.
TWENTY = Simulated("desktop", 20, 1)
FIGURES = {
    "larson": "larson --min-size 8 --max-size 999 --chunks 1000 --rounds 2 --generations 2 --threads 20",
    "rptest": "producer_consumer 20 0 1 2 20 1000 100 8 16000",
    "sh6bench": "shbench --slots 2000 --sweeps 40 --threads 40",
    "sh8bench": "shbench --variant sh8 --slots 8000 --sweeps 800 --foreign 800 --threads 40",
    "xmalloc": "xmalloc --pairs 20 --size 64 --objects 500 --batches 6",
}
RPTEST = "producer_consumer {threads} 0 1 2 20 3000 300 16 8000"


def keep(stage: str, found: dict[str, Any]) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{stage}.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **found, "_": {"date": f"{datetime.now(UTC):%Y-%m-%d}"}}, indent=1))


def kept(stage: str) -> dict[str, Any]:
    path = KEPT / f"{stage}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found.pop("_", None)
    return found


def studies(folder: str, only: Sequence[str]) -> list[Path]:
    return [path for path in sorted((STUDIES / "simulated" / folder).glob("*.toml")) if not only or path.stem in only]


def medians(record: Record, metric: str) -> dict[str, float]:
    """By "workload under allocator"; trials that count, without the control."""
    found = defaultdict(list)
    for trial in record.trials:
        if trial.status == "ok" and trial.counted and metric in trial.metrics and "control" not in trial.treatment:
            found[f"{trial.workload} under {trial.treatment}"].append(trial.metrics[metric])
    return {name: median(values) for name, values in found.items()}


def finished(outcome: heapyard.Outcome) -> Record:
    """Its record; what was interrupted is no result of a stage."""
    if outcome.status != "finished":
        sys.exit(f"measure_simulation: {outcome.record.experiment.title}: {outcome.status}")
    return outcome.record


def note(text: str) -> None:
    print(f"measure_simulation: {text}", file=sys.stderr, flush=True)


# Stages ---------------------------------------------------------------------------------------------------------------------------


def machine(only: Sequence[str]) -> None:
    done = subprocess.run([BIN / "latencies"], capture_output=True, text=True, check=True)
    keep("machine", json.loads(done.stdout))


def measured(only: Sequence[str]) -> None:
    for path in studies("here", only):
        note(f"measuring {path.stem}")
        keep("measured", {path.stem: medians(finished(heapyard.run(path)), "wall_time")})


def simulated(only: Sequence[str]) -> None:
    """The same commands as `measured`, under the same allocators."""
    for path in studies("here", only):
        study = read_study(path)
        names = [a.name for a in installed_allocators() if a.name in {*study.allocators, *study.if_installed}]
        options = " ".join(f"--{name} {value}" for name, value in study.options.items())
        found = {}
        for threads in study.levels["threads"]:
            note(f"simulating {path.stem}, {threads} threads")
            for one in simulations(f"{study.mutator} {options} --threads {threads}", names, HERE):
                if one.run is None or one.run.measured_seconds is None:
                    note(f"{one.allocator}: {one.reason}")
                else:
                    found[f"{study.mutator} threads={threads} under {one.allocator}"] = one.run.measured_seconds
        keep("simulated", {path.stem: found})


def scaling(only: Sequence[str]) -> None:
    for path in studies("64-threads", only):
        note(f"64 threads: {path.stem}")
        began = time.monotonic()
        record = finished(heapyard.run(path))
        trials = [t for t in record.trials if t.status == "ok"]
        accesses = sum(t.metrics[f"simulated_{n}"] for t in trials for n in ("loads", "stores", "atomics"))
        keep(
            "scaling",
            {
                path.stem: {
                    "seconds": time.monotonic() - began,
                    "engine_seconds": sum(t.ended - t.started for t in trials),
                    "accesses": accesses,
                    "failed": sorted({f"{t.treatment}: {t.reason}" for t in record.trials if t.status not in ("ok", "skipped")}),
                    "trials": len(trials),
                    "times": medians(record, "simulated_wall_time"),
                    "transfers": medians(record, "simulated_transfers"),
                }
            },
        )
    native(only)


def native(only: Sequence[str]) -> None:
    """How long the same runs take without the simulator, for the slowdown."""
    for path in studies("64-threads", only):
        record = finished(heapyard.run(path, simulated=Simulated(), blocks=1))
        keep("scaling-native", {path.stem: sum(t.ended - t.started for t in record.trials if t.status == "ok")})


def simulations(command: str, names: Iterable[str], on: Simulated) -> list[Simulation]:
    allocators = allocators_to_simulate(list(names), {})
    with stop_on_signals() as stop:
        answer = simulate(program_to_simulate(command.split(), allocators), allocators, on, baseline="", stop=stop)
    return list(answer.runs)


def speeds(command: str, names: Iterable[str], on: Simulated) -> dict[str, float]:
    """Operations of the heap per simulated second; what failed is missing, and told."""
    found = {}
    for one in simulations(command, names, on):
        if one.run is None:
            note(f"{one.allocator}: {one.reason}")
        else:
            found[one.allocator] = one.operations / (one.run.measured_seconds or one.run.seconds)
    return found


def rows(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / name).open() as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def published(only: Sequence[str]) -> None:
    names = {row["allocator"] for row in rows("mimalloc-bench.csv")} & {a.name for a in installed_allocators()}
    for figure, command in FIGURES.items():
        if only and figure not in only:
            continue
        note(f"published: {figure}")
        keep("published", {figure: speeds(command, sorted(names), TWENTY)})
    for threads in sorted({int(row["threads"]) for row in rows("rptest-threads.csv")}):
        name = f"rptest {threads}"
        if only and name not in only:
            continue
        note(f"published: {name}")
        keep("published", {name: speeds(RPTEST.format(threads=threads), sorted(names), TWENTY)})
    for row in rows("scalloc-threadtest.csv"):
        name = f"scalloc {row['threads']}"
        if only and "scalloc" not in only:
            continue
        command = f"threadtest --objects 24000 --size 64 --iterations 20 --threads {row['threads']}"
        keep("published", {name: speeds(command, ["scalloc"], Simulated("server", 24, 1))})


def needs_processors() -> list[Path]:
    """Studies of the scalloc, elfmalloc and ACDC papers with claims that ask for processors."""
    found = [path for paper in ("scalloc", "elfmalloc", "acdc") for path in sorted((STUDIES / paper).glob("*.toml"))]
    return [path for path in found if "\nprocessors" in path.read_text()]


def claims(only: Sequence[str]) -> None:
    for path in needs_processors():
        name = f"{path.parent.name}/{path.stem}"
        if only and name not in only:
            continue
        note(f"claims: {name}")
        began = time.monotonic()
        record = finished(heapyard.run(path, scale="simulated", simulated=Simulated("server", 64, 1)))
        keep(
            "claims",
            {
                name: {
                    "seconds": time.monotonic() - began,
                    "claims": [
                        {
                            "text": j.claim.text,
                            "processors": j.claim.processors,
                            "verdict": j.verdict,
                            "evidence": j.evidence,
                            "source": j.claim.source,
                        }
                        for j in judge_all(record.observations)
                    ],
                }
            },
        )


def peers(only: Sequence[str]) -> None:
    """Every installed peer, and our heaps without their variants: two threads exchange objects."""
    variants = {heap.name for heap in own_heaps()} - {"bfm", "scalloc", "elfmalloc", "heapyard"}
    for allocator in installed_allocators():
        if allocator.name in variants or (only and allocator.name not in only):
            continue
        run, reason = None, ""
        try:
            [one] = simulations("producer_consumer --threads 2 --loops 10 --blocks 200 --operations 50", [allocator.name], HERE)
            run, reason = one.run, one.reason
        except HeapyardError as error:
            reason = str(error)
        warnings = list(run.warnings) if run else []
        waits = run.totals.futex_waits if run else 0
        keep("peers", {allocator.name: {"runs": run is not None, "reason": reason, "warnings": warnings, "futex_waits": waits}})


CHANGES = """## What was changed because of these figures

Each change has a physical cause, and none was fitted to a ratio.

- *A line goes one way at a time.* Transfers of one line had overlapped, so that threads counted up a shared counter the
  faster the more they were. Now it takes a transfer an increment, as `tests/e2e/test_simulated_counts.py` asks.
- *Threads that meet stay close.* A thread that waits for a word was ahead of the others by a quantum when the word changed,
  which made ping-pong several times too slow. Now it takes its two transfers.
- *Store buffer, overlapping loads, prefetcher.* Each miss had held its core up in full, which no core of these machines does.
- *Costs of the kernel.* The machine `epyc` has a system call, a page fault and a wake as they were measured on its like.
"""


# Page -----------------------------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A column of figures stands to the right."""
    body = [tuple(line) for line in lines]
    figures = [all(line[i][:1].isdigit() or line[i][:1] == "-" for line in body) for i in range(len(head))]
    rule = "|" + "|".join("--:" if right else "---" for right in figures) + "|"
    rows_ = ["| " + " | ".join(line) + " |" for line in (head, *body)]
    return "\n".join((rows_[0], rule, *rows_[1:]))


def machine_part() -> str:
    found = kept("machine")
    if not found:
        return ""
    cycle = found["cycle"]
    told = {
        "cycle": "a cycle: additions that wait for each other",
        "l1": "L1",
        "l2": "L2",
        "l3": "L3, 8 MiB",
        "memory": "memory, 256 MiB",
        "atomic": "an atomic on an own line",
        "system_call": "a system call",
        "page_fault": "first touch of a page",
        "handover": "a word handed to another core: a transfer, and a write that takes the copy",
        "sleeping_handover": "the same by futex",
    }
    lines = [
        (words, f"{found[name]:.{0 if found[name] >= 100 else 2}f} ns", f"{found[name] / cycle:.0f}")
        for name, words in told.items()
    ]
    return f"""## The machine that measured

`.heapyard/build/release/bin/latencies` takes the least of several runs. The simulated machine `epyc` has these latencies,
but for its caches: there it has the published ones. A chase through L3 on this machine also pays for translation, and for
other guests' lines.

{table(("what", "time", "cycles"), lines)}
"""


def ratio_rows() -> list[tuple[str, str, str, float, float]]:
    """(study, threads, allocator, simulated ratio to glibc, measured one)."""
    ours, theirs = kept("simulated"), kept("measured")
    found = []
    for study in sorted(set(ours) & set(theirs)):
        for name, value in ours[study].items():
            workload, allocator = name.split(" under ")
            base = f"{workload} under glibc"
            if allocator == "glibc" or name not in theirs[study]:
                continue
            threads = workload.rsplit("=", 1)[1]
            found.append((study, threads, allocator, value / ours[study][base], theirs[study][name] / theirs[study][base]))
    return found


def times_part() -> str:
    found = ratio_rows()
    if not found:
        return ""
    right = [row for row in found if abs(row[3] / row[4] - 1) <= CLOSE]
    factor = math.exp(median(abs(math.log(row[3] / row[4])) for row in found))
    allocators = sorted({row[2] for row in found})
    cells = {row[:3]: row for row in found}
    lines = []
    for study, threads in sorted({row[:2] for row in found}):
        line = [f"`{study}`", threads]
        for allocator in allocators:
            row = cells.get((study, threads, allocator))
            miss = "" if row is None or row in right else " **!**"
            line.append("-" if row is None else f"{row[3]:.2f} : {row[4]:.2f}{miss}")
        lines.append(line)
    absolute = []
    ours, theirs = kept("simulated"), kept("measured")
    for study in sorted(set(ours) & set(theirs)):
        for name in sorted(ours[study]):
            if name.endswith(" under glibc"):
                absolute.append(
                    (
                        f"`{study}`",
                        name.split("=")[1].split()[0],
                        f"{ours[study][name] * 1e3:.2f} ms",
                        f"{theirs[study][name] * 1e3:.2f} ms",
                    )
                )
    per = defaultdict(lambda: [0, 0])
    for row in found:
        per[row[2]][0] += row in right
        per[row[2]][1] += 1
    by = [(name, f"{of}", f"{good}") for name, (good, of) in sorted(per.items(), key=lambda item: -item[1][0])]
    return f"""## Times on one and two processors

Each cell has the ratio to glibc's time, simulated : measured. **!** marks a miss: the simulated ratio is off by more
than {CLOSE:.0%}. Measured are the medians of 12 interleaved blocks. Of {len(found)} ratios
{len(right)} are within {CLOSE:.0%}; half of all are within a factor of {factor:.2f}.

{table(("study", "threads", *allocators), lines)}

{table(("allocator", "ratios", f"within {CLOSE:.0%}"), by)}

Causes of misses that are known:

- Each instruction costs the same here. Where caches answer nearly everything, the ratio of times is that of instructions. Then the
  shorter paths of the fast heaps gain more than on the real processor (`sh6`, `sh8`, `threadtest`).
- Memory given back costs a system call and new page faults, but not the pages that the kernel takes apart, nor the interrupt to the
  other processor (`exchange`, `larson`).
- A simulated heap begins at fixed addresses. Whether two small objects share a line depends on them (`passive`, `active`).
- Two threads fill this machine, so that measured ratios scatter more with two than with one. Interrupts between the processors of a
  guest cost far more than the model knows (`threadtest` with two threads: heaps that give memory back).

glibc's own time, of which nothing was fitted:

{table(("study", "threads", "simulated", "measured"), absolute)}
"""


def spearman(pairs: Sequence[tuple[float, float]]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr([a for a, _ in pairs], [b for _, b in pairs]).statistic)


def published_part() -> str:
    found = kept("published")
    if not found:
        return ""
    lines = []

    def compare(title: str, theirs: dict[str, float], ours: dict[str, float]) -> None:
        names = sorted(set(theirs) & set(ours), key=lambda name: -theirs[name])
        if len(names) < 3:
            return
        rank = {name: place for place, name in enumerate(sorted(names, key=lambda n: -ours[n]))}
        misses = [name for place, name in enumerate(names) if abs(rank[name] - place) > 2]
        lines.append(
            (
                title,
                f"{spearman([(theirs[n], ours[n]) for n in names]):.2f}",
                f"{len(names)}",
                " > ".join(names),
                " > ".join(sorted(names, key=lambda n: -ours[n])),
                ", ".join(misses) or "-",
            )
        )

    seconds: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows("mimalloc-bench.csv"):
        seconds[row["figure"], row["threads"]][row["allocator"]] = 1 / float(row["seconds"])
    for (figure, threads), theirs in seconds.items():
        if figure in found:
            compare(f"{figure}, {threads} threads", theirs, found[figure])
    operations: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows("rptest-threads.csv"):
        operations[row["threads"]][row["allocator"]] = float(row["operations"])
    for threads, theirs in operations.items():
        if f"rptest {threads}" in found:
            compare(f"rptest-threads, {threads}", theirs, found[f"rptest {threads}"])
    text = table(
        ("figure", "Spearman", "allocators", "published, fastest first", "simulated", "off by more than two places"), lines
    )
    curve = [
        (float(row["seconds"]), found[f"scalloc {row['threads']}"]["scalloc"], row["threads"])
        for row in rows("scalloc-threadtest.csv")
        if f"scalloc {row['threads']}" in found
    ]
    if curve:
        base = curve[0]
        curves = [(threads, f"{base[0] / seconds:.2f}", f"{speed / base[1]:.2f}") for seconds, speed, threads in curve]
        text += f"""

The scalloc artifact's overview prints one curve, of threadtest, without naming the allocator. Speed-up over one thread, against
scalloc simulated on the server with 24 cores; Spearman {spearman([(-s, speed) for s, speed, _ in curve]):.2f}:

{table(("threads", "published", "simulated"), curves)}"""
    return f"""## Published figures

`tests/data/published` holds the figures with their source. The figures of the scalloc, elfmalloc and ACDC papers are pictures
without numbers, so their text is judged below, as claims. The tables of rpmalloc's repository have numbers. Their machine is an
i7-13800H, 6 fast and 8 slow cores with 20 hardware threads. Simulated is the desktop with 20 cores, and less work.

{text}
"""


def claims_part() -> str:
    found = kept("claims")
    if not found:
        return ""
    lines, verdicts = [], defaultdict(int)
    for study, result in sorted(found.items()):
        for claim in result["claims"]:
            if not claim["processors"]:
                continue
            verdicts[claim["verdict"]] += 1
            lines.append(
                (f"`{study}`", claim["text"], f"needs {claim['processors']} processors", claim["verdict"], claim["evidence"])
            )
    seconds = sum(result["seconds"] for result in found.values())
    missing = sorted({f"{path.parent.name}/{path.stem}" for path in needs_processors()} - set(found))
    left = f"\nNot run yet: {', '.join(missing)}." if missing else ""
    counted = ", ".join(f"{verdict}: {count}" for verdict, count in sorted(verdicts.items()))
    return f"""## Claims that need processors

The claims of the papers that could not be told here for want of processors, on the simulated server with 64 cores. Each study ran
at its scale `simulated`: {len(found)} studies in {seconds / 60:.0f} minutes.{left}
Verdicts: {counted}.

The work is less than the papers', so a thread's first calls weigh more. A claim about a slope holds or not by the law that fits
the levels of threads best: the evidence says how far off it is.

{table(("study", "claim", "measured", "simulated", "evidence, simulated"), lines)}
"""


def scaling_part() -> str:
    found, plain = kept("scaling"), kept("scaling-native")
    if not found:
        return ""
    seconds = sum(one["seconds"] for one in found.values())
    accesses = sum(one["accesses"] for one in found.values())
    engine = sum(one["engine_seconds"] for one in found.values())
    lines = []
    for study, one in sorted(found.items()):
        times = {name.split(" under ")[1]: value for name, value in one["times"].items()}
        order = sorted(times, key=lambda name: times[name])
        slow = f"{one['engine_seconds'] / plain[study]:.0f}" if study in plain else "-"
        lines.append(
            (
                f"`{study}`",
                f"{one['trials']}",
                f"{one['seconds'] / 60:.1f} min",
                f"{one['accesses'] / 1e6:.0f}",
                f"{one['engine_seconds'] / one['accesses'] * 1e9:.0f} ns",
                slow,
                ", ".join(f"{name} {times[name] / times['glibc']:.3g}" for name in order),
                "; ".join(one["failed"]) or "-",
            )
        )
    head = ("study", "runs", "time", "million accesses", "per access", "slowdown", "simulated time, multiple of glibc's", "failed")
    return f"""## 64 threads on two processors

    heapyard run studies/simulated/64-threads

{len(found)} workloads under 10 allocators and the control took {seconds / 60:.1f} minutes, two runs at a time.
A simulated access costs {engine / accesses * 1e9:.0f} ns, launch and preflight included.

{table(head, lines)}

The slowdown is against the same runs without the simulator, 64 threads on the processors of this machine. Other programs ran
beside them, so that an undisturbed machine is faster. Each thread does little, so that its first calls of the heap weigh much.
"""


def peers_part() -> str:
    found = kept("peers")
    if not found:
        return ""
    lines = [
        (name, "runs" if one["runs"] else "no", one["reason"] or "; ".join(one["warnings"]) or "-", f"{one['futex_waits']}")
        for name, one in sorted(found.items())
    ]
    return f"""## Which allocators run

Two threads exchange objects under each installed allocator ([simulation.md](../simulation.md#what-runs) says what rseq, fork and
signals do). Futex waits are of the whole run: who waits, waits in simulated time.

{table(("allocator", "simulated", "why not, or what was not simulated", "futex waits"), lines)}
"""


PARTS = {
    "What was changed because of these figures": lambda: CHANGES,
    "The machine that measured": machine_part,
    "Times on one and two processors": times_part,
    "Published figures": published_part,
    "64 threads on two processors": scaling_part,
    "Claims that need processors": claims_part,
    "Which allocators run": peers_part,
}


def page(only: Sequence[str]) -> None:
    """Sections whose stages did not run here stay as they are."""
    before = {part.partition("\n")[0]: f"## {part.strip()}\n" for part in PAGE.read_text().split("\n## ")[1:]}
    parts = [made() or before.get(title, "") for title, made in PARTS.items()]
    PAGE.write_text(
        f"""# Measured: simulated machines beside real ones

[simulation.md](../simulation.md) explains the simulator. Here it is held against what was measured and published.
All times but those said to be measured or published are simulated.

    .heapyard/venv/bin/python tests/measure_simulation.py machine measured simulated published scaling claims peers page

Last run on {datetime.now(UTC):%Y-%m-%d}, {platform.platform()}, {os.cpu_count()} processors. A stage may be run alone, with `page`
after it; the other sections stay.

"""
        + "\n".join(part for part in parts if part)
    )
    note(f"{PAGE}")


STAGES: dict[str, Callable[[Sequence[str]], None]] = {
    "machine": machine,
    "measured": measured,
    "simulated": simulated,
    "scaling": scaling,
    "published": published,
    "claims": claims,
    "peers": peers,
    "page": page,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Holds simulated machines against real ones.")
    parser.add_argument("stages", nargs="+", choices=list(STAGES), metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("--only", default="", help="studies of the stage, joined by commas")
    options = parser.parse_args()
    for stage in options.stages:
        STAGES[stage]([name for name in options.only.split(",") if name])


if __name__ == "__main__":
    main()
