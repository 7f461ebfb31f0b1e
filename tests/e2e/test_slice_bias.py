# SPDX-License-Identifier: Apache-2.0
"""Do slices change a ratio? Ratios in slices of several lengths against ratios of whole trials, within the same blocks.

Cold caches at the beginning of slices could cost one allocator more than another. On request, since it measures this
machine for two minutes a program:

    python tests/e2e/test_slice_bias.py                         every program of the catalog that can be sliced
    python tests/e2e/test_slice_bias.py --programs python jq    these; the table keeps the rows of the others

Both write their rows into docs/measured/slices.md.
"""

from __future__ import annotations

import argparse
import math
import platform
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "lab"))

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from scipy import stats  # noqa: E402

from heapyard.catalog.allocators import find_allocators  # noqa: E402
from heapyard.catalog.programs import install_programs, load_programs, prepare_program  # noqa: E402
from heapyard.design.interleaving import SHORTEST, slice_length  # noqa: E402
from heapyard.execute.slices import LEAST_SECONDS, run_in_slices  # noqa: E402
from heapyard.execute.trial import run_trial  # noqa: E402
from heapyard.model.experiment import Settings, Treatment, TrialOutcome  # noqa: E402
from heapyard.model.metrics import PEAK_RSS  # noqa: E402
from heapyard.model.program import Program  # noqa: E402
from heapyard.report.check_markdown import BEGIN, END, around_marks  # noqa: E402

PAGE = ROOT / "docs/measured/slices.md"
ALLOCATORS = ("glibc", "jemalloc", "elfmalloc")
LENGTHS = (SHORTEST, 0.015, 0.05)  # seconds
WIDTH = 0.01  # half-width of a discrepancy, as ratio minus one, at which a program is done
LEAST, MOST = 8, 60  # blocks
BUDGET = 150.0  # seconds of a program


@dataclass(frozen=True, slots=True)
class Found:
    """What slices did to the ratios of a program. Discrepancies are ratios in slices over ratios alone."""

    name: str
    blocks: int
    cpu: float  # seconds of a whole trial
    memory: float  # bytes, peak of resident memory
    costs: tuple[float, ...]  # CPU time in slices over alone, by length
    chosen: float  # seconds: the length that the lab would choose
    # By allocator but the first: its ratio alone and its half-width, then by length discrepancy and half-width.
    of: Mapping[str, tuple[tuple[float, float], ...]]

    @property
    def widest(self) -> float:
        """The half-width of the discrepancy at the length that the lab would choose."""
        at = nearest(self.chosen)
        return max(pairs[1 + at][1] for pairs in self.of.values())

    def rows(self) -> list[str]:
        head = f"| {self.name} | {self.cpu:.2f} s | {self.memory / 2**20:.0f} MiB | {self.chosen * 1000:.0f} ms "
        head += "| " + ", ".join(f"{100 * (cost - 1):+.0f}" for cost in self.costs) + f" % | {self.blocks} |"
        return [
            f"{head} {allocator} | " + " | ".join(f"{r:.3f} ± {100 * w:.1f} %" for r, w in pairs) + " |"
            for allocator, pairs in self.of.items()
        ]


def nearest(seconds: float) -> int:
    """The index of the length that was tried and is nearest."""
    return min(range(len(LENGTHS)), key=lambda n: abs(math.log(LENGTHS[n] / seconds)))


class Beside:
    """Whole trials and slices of one program, in blocks; logs of wall time by way, block and allocator."""

    def __init__(self, folder: Path, program: Program):
        self.folder, self.program, self.number = folder, program, 0
        self.treatments = [Treatment(a.name, a) for a in find_allocators(list(ALLOCATORS))]
        self.logs: dict[float, list[list[float]]] = {0.0: [], **{length: [] for length in LENGTHS}}  # 0: alone
        self.cpu: dict[float, list[float]] = {way: [] for way in self.logs}
        self.memory = 0.0

    def launch(self, treatment: Treatment, turns=None) -> TrialOutcome:
        self.number += 1
        folder = self.folder / f"trial{self.number}"
        folder.mkdir()
        pad = random.Random(self.number).randrange(4096)
        outcome = run_trial(self.program, treatment, Settings(timeout=120), pad=pad, folder=folder, turns=turns)
        shutil.rmtree(folder)
        assert outcome.status == "ok", outcome.reason
        return outcome

    def block(self, number: int) -> None:
        """Every way once, each with every allocator, in an order of its own."""
        draw = random.Random(number)
        for way in draw.sample(sorted(self.logs), len(self.logs)):
            order = draw.sample(self.treatments, len(self.treatments))
            if way:
                calls = [lambda turns, t=t: self.launch(t, turns) for t in order]
                outcomes = run_in_slices(calls, seconds=way, seed=draw.randrange(1 << 30))
            else:
                outcomes = [self.launch(t) for t in order]
                self.memory = max(self.memory, *(o.metrics[PEAK_RSS] for o in outcomes))
            walls = {t.label: o.metrics["wall"] for t, o in zip(order, outcomes, strict=True)}
            self.logs[way].append([math.log(walls[t.label]) for t in self.treatments])
            self.cpu[way].append(sum(o.metrics["cpu"] for o in outcomes) / len(outcomes))

    def found(self) -> Found:
        alone = np.array(self.logs[0.0])
        ratios = alone[:, 1:] - alone[:, :1]
        of: dict[str, tuple[tuple[float, float], ...]] = {}
        for n, treatment in enumerate(self.treatments[1:]):
            pairs = [with_width(ratios[:, n])]
            for length in LENGTHS:
                turns = np.array(self.logs[length])
                pairs.append(with_width(turns[:, 1 + n] - turns[:, 0] - ratios[:, n]))
            of[treatment.label] = tuple(pairs)
        cpu = median(self.cpu[0.0])
        costs = tuple(median(self.cpu[length]) / cpu for length in LENGTHS)
        return Found(self.program.name, len(alone), cpu, self.memory, costs, slice_length(costs[0]), of)


def with_width(logs: np.ndarray) -> tuple[float, float]:
    """Geometric mean and the half-width of its 95 % interval, as ratio minus one."""
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return math.exp(logs.mean()), math.expm1(half)


def sliceable() -> list[str]:
    """Programs of the catalog that have no client."""
    return [name for name, card in load_programs().items() if not card.server]


def measure(name: str, folder: Path, say: Callable[[str], None]) -> Found | None:
    """None where a trial is too short to be sliced."""
    if load_programs()[name].status == "available":
        install_programs([name], say)
    beside = Beside(folder, replace(prepare_program(name, "quick", say), server=None))
    begin = time.monotonic()
    if beside.launch(beside.treatments[0]).metrics["wall"] < LEAST_SECONDS:
        return None
    for number in range(MOST):
        beside.block(number)
        if number + 1 < LEAST:
            continue
        found = beside.found()
        if found.widest <= WIDTH or time.monotonic() - begin > BUDGET:
            break
    say("\n".join(found.rows()))
    return found


def write(found: Sequence[Found], page: Path = PAGE) -> None:
    """The rows of these programs, in place of those the page has of them."""
    before, after = around_marks(page)
    old = page.read_text()[len(before) + len(BEGIN) : -len(END) - len(after)].splitlines()
    new = {f.name: f.rows() for f in found}
    for line in old:
        if (name := line.strip("| ").split(" | ")[0]) in sliceable() and name not in {f.name for f in found}:
            new.setdefault(name, []).append(line)
    in_ms = ", ".join(f"{length * 1000:.0f}" for length in LENGTHS)
    lengths = " | ".join(f"in {length * 1000:.0f} ms" for length in LENGTHS)
    head = [
        f"On {time.strftime('%Y-%m-%d')}, {platform.platform()}, `{' '.join(ALLOCATORS[1:])}` to `{ALLOCATORS[0]}`.",
        "",
        "| program | CPU time | memory | slice chosen "
        f"| CPU time added by slices of {in_ms} ms | blocks | allocator | ratio alone | {lengths} |",
        "|---" * (8 + len(LENGTHS)) + "|",
    ]
    rows = [line for name in sorted(new) for line in new[name]]
    page.write_text(before + BEGIN + "\n".join(head + rows) + "\n" + END + after)


@pytest.mark.on_request
@pytest.mark.parametrize("name", sliceable())
def test_slices_leave_ratios_alone(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        found = measure(name, tmp_path, print)
    if found is None:
        pytest.skip("it is too short to be sliced")
    at = nearest(found.chosen)
    for allocator, pairs in found.of.items():
        ratio, width = pairs[1 + at]
        # The lab calls a bias that is beyond its margin and beyond chance.
        assert abs(math.log(ratio)) <= max(2 * math.log1p(width), math.log(1.02)), (allocator, ratio, width)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=sliceable(), default=sliceable(), metavar="NAME")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page whose table gets the rows")
    options = parser.parse_args()
    for name in options.programs:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(name, Path(folder), print)
        if found is None:
            print(f"{name} is too short to be sliced")
        else:
            write([found], options.page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
