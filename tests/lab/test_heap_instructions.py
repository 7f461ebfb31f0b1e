# SPDX-License-Identifier: Apache-2.0
"""What a call costs while its thread's cache serves it, in instructions and conditional branches: none more than before.

The golden file holds the counts by compiler. A change that is meant writes it anew:

    python tests/lab/test_heap_instructions.py
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "lab"))

import pytest  # noqa: E402

from heapyard.model import places  # noqa: E402

GOLDEN = ROOT / "tests/data/heap_instructions.json"
HEAPS = ("bfm", "scalloc", "elfmalloc", "heapyard", "bfm-sampled", "scalloc-sampled", "elfmalloc-sampled")
PAIRS = 1000
# What is not the heap's: of each call the call, the return, and a move for each argument.
AROUND = {"malloc": 6, "aligned_alloc": 7, "realloc": 10, "new": 7}
Counts = dict[str, list[int]]  # by first call of a pair: instructions, conditional branches


def compiler(library: Path) -> str:
    """The compiler of a library to its last digit, such as "Debian 12.2.0-14, x86_64": another may count otherwise."""
    told = subprocess.run(["readelf", "-p", ".comment", library], capture_output=True, text=True, check=True).stdout
    found = re.search(r"GCC: \((.*)\)|(clang version \S+)", told)
    assert found, told
    return f"{found[1] or found[2]}, {platform.machine()}"


def count(heap: str) -> Counts:
    """Runs the program once under valgrind. Shares of an instruction are calls that were not served from a cache."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", "--branch-sim=yes", f"--callgrind-out-file={out}"]
        environment = ["--trace-children=yes", "/usr/bin/env", f"LD_PRELOAD={places.native(f'lib{heap}.so')}"]
        done = subprocess.run([*command, *environment, places.native("counted_pairs")], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show=Ir,Bc", "--show-percs=no", out],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    counted = {
        name: [int(number.replace(",", "")) for number in (ir, bc)]
        for ir, bc, name in re.findall(r"^\s*([\d,]+)\s+([\d,]+)\s+\S*:count_(\w+)", told, re.MULTILINE)
    }
    nothing = counted.pop("nothing")
    assert counted.keys() == AROUND.keys(), told
    return {
        name: [(ir - nothing[0]) // PAIRS - AROUND[name], (bc - nothing[1]) // PAIRS] for name, (ir, bc) in sorted(counted.items())
    }


@pytest.mark.parametrize("heap", HEAPS)
def test_no_call_needs_more_than_before(heap: str) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind here")
    golden = json.loads(GOLDEN.read_text()).get(compiler(places.native(f"lib{heap}.so")))
    if golden is None:
        pytest.skip("the golden file has no counts of this compiler")
    found = count(heap)
    more = {
        name: (now, golden[heap][name])
        for name, now in found.items()
        if any(n > before for n, before in zip(now, golden[heap][name], strict=True))
    }
    assert not more, f"instructions and branches, now and before: {more}"


def test_ours_keeps_to_forty_instructions() -> None:
    """With the protection against signals (docs/allocator.md)."""
    for of_compiler in json.loads(GOLDEN.read_text()).values():
        assert of_compiler["heapyard"]["malloc"][0] <= 40


def main() -> int:
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    of = compiler(places.native(f"lib{HEAPS[0]}.so"))
    golden[of] = {heap: count(heap) for heap in HEAPS}
    rows = [
        f'  "{name}": {{\n' + ",\n".join(f'    "{heap}": {json.dumps(counts)}' for heap, counts in heaps.items()) + "\n  }"
        for name, heaps in sorted(golden.items())
    ]
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
