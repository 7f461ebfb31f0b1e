# SPDX-License-Identifier: Apache-2.0
"""`tune` from the command to the answer: a program whose memory depends on one setting by construction, and an interruption."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from e2e_yard import wait_until

from heapyard import store

PINNED = Path(__file__).resolve().parents[1] / "data" / "settings" / "pinned.c"
INTERRUPTED = 130


def test_a_setting_that_matters_by_construction_is_found_and_confirmed(yard, tmp_path):
    pinned = tmp_path / "pinned"
    subprocess.run(["cc", "-O1", "-o", pinned, PINNED], check=True)
    process = yard.start(
        "tune", "glibc", "--setting", "glibc:mmap_threshold=131072", "--setting", "glibc:tcache_count=0", "--seed", 1,
        "--precision", "50%", "--prefer", "memory", "--", pinned,
    )  # fmt: skip
    wait_until(lambda: len(yard.trials()) >= 6, of=process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED and "Traceback" not in errors
    assert "tune --resume" in errors and "nothing is claimed" in output

    done = yard.run("tune", "--resume", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    [glibc] = found["allocators"]
    assert glibc["best"]["mmap_threshold"] == "131072"
    [confirmed] = [c for c in glibc["confirmed"] if c["settings"] == glibc["best"]]
    assert confirmed["memory"]["verdict"] == "better" and confirmed["memory"]["high"] < 0.75 and confirmed["on_front"]
    assert "glibc.malloc.mmap_threshold=131072" in glibc["environment"]["GLIBC_TUNABLES"].split(":")
    alone = {(e["metric"], e["setting"]): e for e in glibc["main_effects"]}
    assert alone[found["memory"], "mmap_threshold"]["high"] < 0.75
    assert abs(alone[found["memory"], "tcache_count"]["ratio"] - 1) < 0.05
    # Nothing is claimed from trials that the search saw.
    records = {phase: store.load_record(yard.results / name) for phase, name in found["experiments"].items()}
    assert {"screening", "confirmation"} <= set(records)
    assert len({r.experiment.settings.seed for r in records.values()}) == len(records)
    assert {r.experiment.suite for r in records.values()} == {records["screening"].experiment.suite}
