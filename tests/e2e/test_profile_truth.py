# SPDX-License-Identifier: Apache-2.0
"""A profile against programs that know their own memory: exact to the byte, sampled without bias, bands that cover."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from profiled import Seen, only, program, traced, truth_of
from scipy import stats

from heapyard.catalog.allocators import installed_allocators
from heapyard.catalog.own_heaps import samples_itself
from heapyard.profile.chains import Naming, half_width, owners
from heapyard.profile.page_data import page_data
from heapyard.profile.symbols import frames_of
from heapyard.profile.trace import Trace, load_trace
from heapyard.execute.collector import Collector, Plan

EXACT = [a for a in installed_allocators() if a.name in ("jemalloc", "mimalloc", "tcmalloc", "bfm", "scalloc")]


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("seed", [1, 2])
def test_exact_is_the_truth_to_the_byte(tmp_path: Path, threads: int, seed: int):
    run = traced(tmp_path, program("truth"), tmp_path / "truth", seed, 80_000, threads, mode="exact", never_step=True)
    assert run.exit_code == 0
    trace, told = only(run), truth_of(tmp_path / "truth")
    seen = Seen(trace)
    marks = {s.name: s for s in trace.snapshots if s.kind == "mark"}
    assert list(marks) == list(told) and len(told) == 4
    assert max(map(len, told.values())) > 1500  # chains
    for name, truth in told.items():
        assert seen.owned(marks[name]) == truth
    assert all(count == 0 for reason, count in trace.end["lost"].items()), trace.end["lost"]


def test_exact_where_threads_end_and_others_begin(tmp_path: Path):
    """Nine hundred, at most three of them and their parents at once: what one remembered of chains is the next one's memory."""
    run = traced(tmp_path, program("truth"), tmp_path / "truth", 5, 80_000, 3, 75, mode="exact", never_step=True)
    assert run.exit_code == 0
    trace, told = only(run), truth_of(tmp_path / "truth")
    seen = Seen(trace)
    for mark in (s for s in trace.snapshots if s.kind == "mark"):
        assert seen.owned(mark) == told[mark.name]
    assert len(trace.threads) > 900
    assert all(count == 0 for reason, count in trace.end["lost"].items()), trace.end["lost"]


def test_samples_keep_to_their_rate_from_the_start(tmp_path: Path):
    """Eighteen gigabytes a second: at first a quarter of a million samples a second, of which 16,000 are allowed."""
    trace = only(traced(tmp_path, program("larson"), "-n", 2, "-g", 20, "--format", "none"))
    assert trace.end["widest_interval"] > trace.meta["interval"]
    samples = trace.end["events"] / 2  # each with its free
    assert 100 < samples < 20_000 * trace.duration + 10_000
    assert all(count == 0 for reason, count in trace.end["lost"].items()), trace.end["lost"]


@pytest.mark.parametrize("allocator", EXACT, ids=lambda a: a.name)
def test_exact_under_any_allocator(tmp_path: Path, allocator):
    """Also under those whose operator new does not go through malloc."""
    run = traced(tmp_path, program("truth"), tmp_path / "truth", 3, 40_000, 2, mode="exact", never_step=True,
                 library=allocator.library, env={**os.environ, **allocator.env})
    trace, told = only(run), truth_of(tmp_path / "truth")
    assert Path(trace.meta["allocator"]).resolve() == allocator.library
    seen = Seen(trace)
    for mark in (s for s in trace.snapshots if s.kind == "mark"):
        assert seen.owned(mark) == told[mark.name]


@pytest.mark.parametrize("depth", [7, 9])
def test_exact_of_chains_longer_than_the_limit(tmp_path: Path, depth: int):
    run = traced(tmp_path, program("truth"), tmp_path / "truth", 4, 40_000, 2, mode="exact", never_step=True, depth=depth)
    trace, told = only(run), truth_of(tmp_path / "truth")
    assert trace.chains[:, 1].sum() >= trace.end["chains_cut"] > 1000
    assert trace.end["chains_torn"] == 0  # what the loader allocates before main has a root too
    seen = Seen(trace)
    for mark in (s for s in trace.snapshots if s.kind == "mark"):
        assert seen.owned(mark) == told[mark.name]
    # What is missing stands in its place, so that inner functions are not taken for roots.
    naming = Naming(trace, frames_of(trace))
    for node, cut, *_ in trace.chains.tolist():
        nodes = nodes_of(trace, node)
        assert (naming.frames(nodes[-1])[-1].function == "[outer frames, beyond --depth]") == bool(cut)
        assert len(nodes) == depth + 1 if cut else len(nodes) <= depth


def nodes_of(trace: Trace, node: int) -> list[int]:
    """From the node outwards, without the root."""
    found = []
    while node != 0:
        found.append(node)
        node = int(trace.parent[node])
    return found


LARGE = [(4 << 20) - 2, (4 << 20) - 1, 5 << 20, (8 << 20) - 1, 8 << 20, 9 << 20, (64 << 20) - 1, 64 << 20, (100 << 20) + 1]


def test_exact_of_large_blocks(tmp_path: Path):
    """Sizes at which what is known of a block takes another form; each is kept once, and once freed."""
    script = "\n".join([
        "import ctypes", "c = ctypes.CDLL(None)", "c.malloc.restype = c.realloc.restype = ctypes.c_void_p",
        "c.heapyard_trace_mark(b'begin')", f"for size in {LARGE}:",
        "    blocks = [c.malloc(ctypes.c_size_t(size)) for _ in range(2)]",
        "    blocks[1] = c.realloc(ctypes.c_void_p(blocks[1]), ctypes.c_size_t(size + 1))",
        "    c.heapyard_trace_mark(b'%d' % size)",
        "    c.free(ctypes.c_void_p(blocks[1]))",
        "c.heapyard_trace_mark(b'end')",
    ])
    trace = only(traced(tmp_path, "/usr/bin/python3", "-c", script, mode="exact", never_step=True))
    marks = {s.name: s for s in trace.snapshots if s.kind == "mark"}
    kept = 0
    for size in LARGE:
        kept += size
        assert marks[str(size)].total - marks["begin"].total == pytest.approx(kept + size + 1, abs=50_000)  # python's own
    assert marks["end"].total - marks["begin"].total == pytest.approx(kept, abs=50_000)
    assert trace.end["lost"]["frees"] == 0


def test_exact_tells_when(tmp_path: Path):
    """A thread that records alone stamps its events together; the peak is still where it was, but for a few milliseconds."""
    script = """import ctypes, time
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
c.heapyard_trace_mark(b'before')
time.sleep(0.4)
blocks = [c.malloc(ctypes.c_size_t(10_000)) for _ in range(2000)]
for _ in range(200): c.free(ctypes.c_void_p(blocks.pop()))  # so that nothing small comes on top of it later
time.sleep(0.4)
c.heapyard_trace_mark(b'after')
"""
    trace = only(traced(tmp_path, "/usr/bin/python3", "-c", script, mode="exact", never_step=True))
    when = {s.name or s.kind: s.time for s in trace.snapshots}
    assert when["before"] + 0.2 < when["peak"] < when["after"] - 0.2  # a late collector tells it earlier


def test_what_exact_takes_is_not_the_programs(tmp_path: Path):
    """The program's resident memory is told without what the tracer keeps beside its blocks."""
    most = {}
    for mode in ("sampled", "exact"):
        trace = only(traced(tmp_path / mode, program("netbuild"), "--shapes", 150_000, mode=mode))
        most[mode] = trace.totals[:, 5].max()
    assert most["exact"] == pytest.approx(most["sampled"], rel=0.1)


@pytest.mark.parametrize("mode, heap", [("sampled", "bfm-sampled"), ("sampled", "elfmalloc-sampled"), ("pages", "scalloc")])
def test_a_chain_begins_at_who_asked(tmp_path: Path, mode: str, heap: str):
    """Where the heap itself tells, its own functions are in every trace and in no chain."""
    [allocator] = [a for a in installed_allocators() if a.name == heap]
    trace = only(traced(tmp_path, program("truth"), tmp_path / "truth", 3, 20_000, 2, mode=mode, library=allocator.library,
                        told_by_heap=True))
    frames = frames_of(trace)
    naming = Naming(trace, frames)
    assert any(frame.function.startswith("heapyard::") for inlined in frames.values() for frame in inlined)
    chains = [naming.chain(owner.node) for owner in owners(trace, trace.snapshot("peak"))]
    assert len(chains) > 3
    assert not any(frame.module.endswith(f"lib{heap}.so") for chain in chains for frame in chain)
    assert not any(re.search("::(Mask|Prefix)Heap|SampledBlocks", name) for name in page_data(trace, naming)["names"])


RUNS = 40
INTERVAL = 1 << 13


@pytest.fixture(scope="module", params=["glibc", "bfm-sampled", *(
    pytest.param(heap, marks=pytest.mark.on_request) for heap in ("scalloc-sampled", "elfmalloc-sampled"))])
def sampled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[np.ndarray, ...]]:
    """Per run, for each of the 17 functions at the second level: truth, estimate, its standard error, blocks.

    In front of malloc under glibc, from within under ours.
    """
    folder = tmp_path_factory.mktemp("sampled")
    [heap] = [a for a in installed_allocators() if a.name == request.param]
    collector = Collector(folder / "traces", Plan(["truth"], interval=INTERVAL, library=heap.library,
                                                  told_by_heap=samples_itself(heap.library)))
    for seed in range(RUNS):
        subprocess.run([program("truth"), folder / str(seed), str(seed + 1), "12000", "1"], check=True,
                       env={**os.environ, **collector.environment})
    collector.close()
    rows = []
    traces = sorted((folder / "traces").glob("*.hytrace"))
    assert len(traces) == RUNS
    for seed, path in enumerate(traces):
        trace, told = load_trace(path), truth_of(folder / str(seed))
        seen = Seen(trace)
        mark = next(s for s in trace.snapshots if s.name == "probe 3")
        truth, estimate, variance, blocks = np.zeros((4, 17))
        for (a, _, _, _), (size, count) in told["probe 3"].items():
            truth[a] += size
            blocks[a] += count
        for chain in owners(trace, mark):
            key = seen.key(chain.node)
            if key is not None:
                estimate[key[0]] += chain.bytes
                variance[key[0]] += chain.deviation**2
        rows.append((truth, estimate, np.sqrt(variance), blocks))
    return rows


def test_sampled_is_unbiased(sampled):
    """Chi-square over the groups' mean errors of all runs: neither too far from zero nor suspiciously near."""
    errors = np.array([estimate - truth for truth, estimate, _, _ in sampled])
    used = errors.std(axis=0) > 0
    assert used.sum() >= 14
    z = errors.mean(axis=0)[used] / (errors.std(axis=0, ddof=1)[used] / np.sqrt(RUNS))
    p = stats.chi2.sf((z**2).sum(), used.sum())
    assert 1e-4 < p < 1 - 1e-4, z


def test_bands_cover(sampled):
    """Of totals, and of groups that hold enough to be estimated at all."""
    truth, estimate, deviation, blocks = (np.array([row[k] for row in sampled]) for k in range(4))
    all_half = np.vectorize(half_width)(estimate.sum(axis=1), np.sqrt((deviation**2).sum(axis=1)))
    inside = np.abs(estimate.sum(axis=1) - truth.sum(axis=1)) <= all_half
    # Every run of this test draws samples of its own: three standard errors.
    assert 0.95 - 3 * (0.05 * 0.95 / RUNS) ** 0.5 <= inside.mean()
    large = blocks > 80  # of 1 KiB on average but for a few that are always sampled: 10 samples and more
    assert large.sum() > 2.5 * RUNS
    covered = (np.abs(estimate - truth) <= np.vectorize(half_width)(estimate, deviation))[large].mean()
    noise = 3 * (0.05 * 0.95 / large.sum()) ** 0.5
    assert 0.92 - noise <= covered <= 0.98 + noise


def test_steps_down_when_it_cannot_keep_up(tmp_path: Path):
    """A collector held up for a while in exact mode: the trace says when it began to sample, and then is still right."""
    collector = Collector(tmp_path, Plan(["subject"], mode="exact"))
    child = subprocess.Popen([program("subject"), "spin"], stdout=subprocess.PIPE, env={**os.environ, **collector.environment})
    assert child.stdout is not None and child.stdout.readline() == b"spinning\n"
    time.sleep(0.2)
    os.kill(collector.pid, signal.SIGSTOP)
    time.sleep(0.5)  # three threads nap meanwhile, 0.1 ms each
    os.kill(collector.pid, signal.SIGCONT)
    time.sleep(0.5)
    child.kill()
    child.communicate()
    collector.close()
    trace = load_trace(next(tmp_path.glob("*.hytrace")))
    [step] = [s for s in trace.snapshots if s.kind == "step"]
    end = trace.snapshot("end")
    assert trace.end["mode"] == "sampled" and trace.interval > 0 and end is not None
    assert all(count == 0 for reason, count in trace.end["lost"].items()), trace.end["lost"]
    # Three threads hold up to 4,096 blocks each, a third of 266 bytes on average, the others of 1,516. Their sizes run through
    # 3,000 in turn, so the last 4,096 are of up to 1,770 bytes on average.
    held, most = (3 * 4096 * (266 + 2 * average) / 3 for average in (1516, 1770))
    at_start = 4_000_000  # the main thread's, known to the byte throughout
    for estimate in (step, end):
        deviation = sum(chain.deviation**2 for chain in owners(trace, estimate)) ** 0.5
        assert estimate.total - at_start < 1.01 * most + 4 * deviation
        assert deviation < held / 2
    assert end.total - at_start > 0.5 * held - 4 * deviation
    assert trace.peak_bytes - at_start < 3 * held


@pytest.mark.parametrize("heap", ["bfm", "scalloc", "elfmalloc", "fourth"])
def test_pages_sum_to_what_the_heap_holds(tmp_path: Path, heap: str):
    """Who made the heap grow: never less than what is live, and not much less than what is resident."""
    [allocator] = [a for a in installed_allocators() if a.name == heap]
    run = traced(tmp_path, program("truth"), tmp_path / "truth", 7, 80_000, 2, mode="pages", library=allocator.library)
    assert run.exit_code == 0
    trace, told = only(run), truth_of(tmp_path / "truth")
    live = sum(size for size, _ in told["probe 3"].values())
    mark = next(s for s in trace.snapshots if s.name == "probe 3")
    assert live < mark.total < 4 * live
    assert mark.bytes.sum() == mark.total
    seen = Seen(trace)
    owned = sum(size for size, _ in seen.owned(mark).values())
    assert owned > 0.9 * mark.total  # by chains of the program itself
    assert trace.end["events"] < 80_000 / 4
