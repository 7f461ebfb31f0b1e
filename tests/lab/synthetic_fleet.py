# SPDX-License-Identifier: Apache-2.0
"""Experiments of a fleet that nobody ran, of any size: as many rows and as much text as real ones leave."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from yard import experiment

from heapyard import store
from heapyard.design.blocks import make_blocks
from heapyard.execute.loop.plan import Plan
from heapyard.execute.loop.tally import Tally
from heapyard.model.experiment import Block, Experiment, TrialOutcome

WORKLOADS, ALLOCATORS = 28, 10  # a study of paper scale; the baseline and its control come on top
WRITTEN = 2000  # trials whose transactions are timed one by one


def study(trials: int, workloads: int = WORKLOADS) -> Experiment:
    """An experiment of about so many trials."""
    rounds = max(round(trials / (workloads * (ALLOCATORS + 2))), 2)
    names = tuple(f"workload{n:02}" for n in range(workloads))
    return experiment(tuple(f"allocator{n}" for n in range(ALLOCATORS)), names, blocks=rounds, interleave="trials")


def blocks_of(exp: Experiment) -> list[Block]:
    names, labels = [p.name for p in exp.programs], [t.label for t in exp.treatments]
    return make_blocks(names, labels, range(exp.settings.blocks or 0), seed=7, stage="main", first_index=0)


def outcome(exp: Experiment, block: Block, label: str, node: int, luck: random.Random) -> TrialOutcome:
    """What a trial of this kind leaves: as many responses and as much text as a real one. A node and an allocator have effects."""
    wall = math.exp(0.02 * hash_of(label) + 0.05 * hash_of(node) + luck.gauss(0, 0.02))
    memory = 1e7 * math.exp(0.1 * hash_of(label) + luck.gauss(0, 0.001))
    metrics = {
        "wall": wall, "cpu": 0.98 * wall, "user": 0.9 * wall, "sys": 0.08 * wall, "charged": memory, "charged_error": 4096.0,
        "peak_rss": 0.97 * memory, "mean_rss": 0.8 * memory, "tree_peak_rss": 0.97 * memory, "page_tables": 65536.0, "maps": 65.0,
        "minor_faults": memory / 4096, "major_faults": 0.0, "processes": 1.0, "sample_gap": 0.01,
        "voluntary_switches": 2.0, "involuntary_switches": float(luck.randrange(9)),
    }  # fmt: skip
    process = {"executable": f"/usr/bin/{block.workload}", "looks": 2, "mapped": True, "name": block.workload, "pid": 10346}
    detail = {"huge_pages": "madvise", "sampling_cost": 5e-4, "stragglers": 0, "processes": [process]}
    return TrialOutcome(
        status="ok", metrics=metrics, provider=f"/lib/{label}.so", answer="0" * 64, exit_code=0,
        command_line=f"LD_PRELOAD=/lib/{label}.so /usr/bin/{block.workload}", detail=detail,
        guards={"cpu_wait": 0.01, "others_share": 0.02, "pswpin": 0.0, "pswpout": 0.0, "steal_share": 0.0, "throttled": 0.0},
    )  # fmt: skip


def hash_of(what: object) -> float:
    """A fixed number between -1 and 1."""
    return random.Random(str(what)).uniform(-1, 1)


def grow(parent: Path, trials: int, nodes: int, workloads: int = WORKLOADS) -> tuple[Path, int]:
    """A stored experiment as a fleet would leave it, and its number of trials. In one transaction. O(trials)."""
    exp = study(trials, workloads)
    blocks, luck = blocks_of(exp), random.Random(trials)
    with store.create(exp, parent) as journal:
        journal.snapshot("start", {"host": "controller", "cpus_allowed": [0, 1]})
        begun = 0
        clocks = [0.0] * nodes
        connection = journal._connection
        connection.execute("BEGIN")
        names = [f"n{n:04}" for n in range(nodes)]
        connection.executemany("INSERT INTO node VALUES (?, ?)", [(name, json.dumps({"host": name})) for name in names])
        for block in blocks:
            node = min(range(nodes), key=clocks.__getitem__) if nodes < 64 else block.index % nodes
            connection.execute("INSERT INTO block VALUES (?, 'main', ?, ?, 0, 'done', ?)",
                               (block.index, block.round, block.workload, names[node]))  # fmt: skip
            for position, label in enumerate(block.order):
                begun += 1
                o = outcome(exp, block, label, node, luck)
                connection.execute(
                    "INSERT INTO trial (id, block, position, treatment, pad, status, started, ended, command_line, provider, "
                    "answer, exit_code, guards_json, detail_json) VALUES (?, ?, ?, ?, 0, 'ok', ?, ?, ?, ?, ?, 0, ?, ?)",
                    (begun, block.index, position, label, clocks[node], clocks[node] + o.metrics["wall"], o.command_line,
                     o.provider, o.answer, json.dumps(o.guards), json.dumps(o.detail)),
                )  # fmt: skip
                connection.executemany("INSERT INTO response VALUES (?, ?, ?)", [(begun, *r) for r in o.metrics.items()])
                clocks[node] += o.metrics["wall"]
        connection.execute("COMMIT")
        journal.set_status("finished")
        return journal.folder, begun


def writing(parent: Path) -> float:
    """Trials per second through the journal, each with its transactions."""
    exp = study(WRITTEN)
    blocks, luck = blocks_of(exp)[: WRITTEN // (ALLOCATORS + 2)], random.Random(1)
    with store.create(exp, parent) as journal:
        journal.add_blocks(blocks)
        began = time.perf_counter()
        for block in blocks:
            journal.set_node(block, "n0000", {"host": "n0000"})
            for position, label in enumerate(block.order):
                trial = journal.start_trial(block, position)
                journal.end_trial(trial, outcome(exp, block, label, 0, luck))
            journal.end_block(block, "done")
        return len(blocks) * (ALLOCATORS + 2) / (time.perf_counter() - began)


class Nowhere:
    """A journal that keeps nothing, for what the loop itself costs."""

    def plan(self) -> list[Any]:
        return []

    def add_blocks(self, blocks: object) -> None: ...

    def end_block(self, block: object, status: object) -> None: ...


def deciding(exp: Experiment) -> Iterator[None]:
    """What the loop asks and learns around every trial of the experiment; yields after each trial."""
    plan, tally = Plan(exp, Nowhere()), Tally(exp)  # type: ignore[arg-type]
    plan.extend("main", [t.label for t in exp.treatments], range(exp.settings.blocks or 0))
    luck, number = random.Random(3), 0
    while due := plan.due("main"):
        block = due[0]
        tally.dropped()
        for position, label in enumerate(block.order):
            number += 1
            gone, dropped = tally.abandoned(), tally.dropped()
            sum(n * tally.expected_of(w, labels, dropped) for (w, labels), n in plan.due_alike().items() if w not in gone)
            tally.most_held(block.workload, label), plan.done, plan.planned, tally.trials, tally.spent
            found = TrialOutcome(status="ok", metrics={"wall": luck.random(), "peak_rss": 1e6}, answer="a")
            tally.add(block, position, number, found, found.metrics["wall"])
            yield
        plan.end(block, "done")
