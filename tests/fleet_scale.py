# SPDX-License-Identifier: Apache-2.0
"""Experiments of a fleet that nobody ran, of any size, and what the lab needs to plan, store, read, judge and show them.

    .heapyard/venv/bin/python tests/fleet_scale.py              makes docs/measured/fleet_scale.md, an hour and 12 GB of memory
    .heapyard/venv/bin/python tests/fleet_scale.py 10000 50     measures one size and prints it as JSON
    .heapyard/venv/bin/python tests/fleet_scale.py --from FILE  makes the page of such output, a size per line

Sizes run in processes of their own, so that the peak of memory is that of one.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "lab")]

from synthetic_fleet import ALLOCATORS, WORKLOADS, blocks_of, deciding, grow, study, writing  # noqa: E402

from heapyard import store  # noqa: E402
from heapyard.model.units import format_bytes, format_duration  # noqa: E402

SIZES = ((10**4, 50), (10**5, 50), (10**5, 1000), (10**6, 1000))  # trials, nodes
PAGE = ROOT / "docs" / "measured" / "fleet_scale.md"


def measured(trials: int, nodes: int) -> dict[str, Any]:
    """Seconds and bytes for one size."""
    from heapyard.report.html import render
    from heapyard.stats.analyse import analyse

    found: dict[str, Any] = {"trials": trials, "nodes": nodes}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        parent = Path(scratch)
        found["written"] = writing(parent)
        exp = study(trials)
        found["planning"], blocks = timed(lambda: blocks_of(exp))
        found["deciding"], _decided = timed(lambda: sum(1 for _ in deciding(exp)))
        found["making"], (folder, count) = timed(lambda: grow(parent, trials, nodes))
        found["trials"], found["blocks"] = count, len(blocks)
        found["bytes"] = (folder / "experiment.sqlite").stat().st_size
        found["reading"], record = timed(lambda: store.load_record(folder))
        found["read_bytes"] = peak()
        found["analysis"], analysis = timed(lambda: analyse(record.observations))
        found["page"], text = timed(lambda: render(analysis, record))
        found["page_bytes"] = len(text.encode())
        found["peak"] = peak()
        found["merging"], _merged = timed(lambda: list(store.merge([folder], parent / "merged")))
    return found


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def peak() -> int:
    """Bytes of memory that this process held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


COLUMNS = {
    "trials": lambda f: f"{f['trials']:,}",
    "nodes": lambda f: f"{f['nodes']:,}",
    "blocks": lambda f: f"{f['blocks']:,}",
    "file": lambda f: format_bytes(f["bytes"]),
    "a trial": lambda f: format_bytes(f["bytes"] / f["trials"]),
    "written": lambda f: f"{f['written']:,.0f}/s",
    "plan": lambda f: format_duration(f["planning"]),
    "loop": lambda f: f"{f['deciding'] / f['trials'] * 1e6:.0f} µs",
    "read": lambda f: format_duration(f["reading"]),
    "analysis": lambda f: format_duration(f["analysis"]),
    "page": lambda f: format_duration(f["page"]),
    "page's size": lambda f: format_bytes(f["page_bytes"]),
    "memory": lambda f: format_bytes(f["peak"]),
    "merge": lambda f: format_duration(f["merging"]),
}


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    return "\n".join([*lines, *(f"| {' | '.join(show(row) for show in COLUMNS.values())} |" for row in rows)])


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--from"]:
        write_page([json.loads(line) for line in Path(arguments[1]).read_text().splitlines()])
        return
    if arguments:
        print(json.dumps(measured(int(arguments[0]), int(arguments[1]))))
        return
    rows = []
    for trials, nodes in SIZES:
        run = subprocess.run([sys.executable, __file__, str(trials), str(nodes)], stdout=subprocess.PIPE, check=True, text=True)
        rows.append(json.loads(run.stdout))
        print(rows[-1], file=sys.stderr)
    write_page(rows)


def write_page(rows: list[dict[str, Any]]) -> None:
    from heapyard.execute.environment import snapshot

    facts = snapshot()
    cpu = facts["cpu"].get("model")  # type: ignore[attr-defined]
    day, labels = time.strftime("%Y-%m-%d"), ALLOCATORS + 2
    PAGE.write_text(
        PAGE_TEXT.format(table=table(rows), day=day, cpu=cpu, cpus=facts["cpus_online"], workloads=WORKLOADS, labels=labels)
    )


PAGE_TEXT = """\
# The lab at the scale of fleets

Made by `.heapyard/venv/bin/python tests/fleet_scale.py` on {day}; {cpu}, {cpus} processors, which others used
meanwhile. Every experiment is synthetic: {workloads} workloads, {labels} treatments, 17 responses a trial. No trial was run.
Others loaded the machine unequally from row to row: times tell an order of magnitude, sizes and memory are exact.

{table}

- `file`, `a trial`: the experiment's SQLite file, without series.
- `written`: trials a second through the journal, with one transaction before and one after each.
- `plan`: the order of all blocks. `loop`: what the loop asks and learns around one trial.
- `read`: the file as a record. `analysis`: all of the statistics. `page`: the HTML report.
- `memory`: the peak of the process that did all of it. `merge`: the whole experiment into another folder.
"""

if __name__ == "__main__":
    main(sys.argv[1:])
