# SPDX-License-Identifier: Apache-2.0
"""A wrong composition of layers is refused at once, and the compiler names the contract that it breaks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIRST_LINES = 8  # of the compiler's answer: the error, and its reason
COMPILERS = {
    "gcc": ("g++",),
    "clang": ("clang++", *(f"clang++-{version}" for version in range(21, 13, -1))),
}
USES = """
#include "heap/allocators/elfmalloc.hpp"
#include "heap/allocators/heapyard.hpp"
#include "heap/allocators/scalloc.hpp"
using namespace heapyard;
struct NotPages { static void* map(std::size_t); };
using Tree = BestFitTree<os::SystemPages>;
struct Mine;
using Right = ScallocParts<ScallocDefaults, Mine>;
"""
# What is wrong, and the concept that says so.
WRONG = {
    "pages that only come": ("BestFitTree<NotPages> wrong;", "PageSource"),
    "a window over pages without places": ("VirtualSpans<NotPages> wrong;", "PlacedPageSource"),
    "a thread's cache over ranges": ("using Wrong = ThreadCache<Tree, Tree, 8, Mine>;", "SpanHeap"),
    "records over pages": ("BucketHeap<BfmSteps, os::SystemPages> wrong;", "RangeSource"),
    "a prefix map without classes": ("PrefixMap<Tree> wrong;", "SizeClasses"),
    "spans found in a tree": ("extern Tree tree; SlabMap<Tree> wrong{tree};", "SpanWindow"),
    "a pool of ranges": ("extern Tree tree; SpanPool<Right::Classes, ListSpan, Tree, EagerMadvise, 1> wrong{tree};", "SpanSource"),
    "a buffer without a pool": ("AllocationBuffer<Right::Classes, Tree> wrong;", "SpanStore"),
    "a front end of threads over a pool": ("using Wrong = ThreadBuffers<Right::Pool, os::SystemPages, Mine>;", "ThreadBuffer"),
    "magazines over spans of lists": (
        "using Wrong = MagazineCache<Right::Pool, Right::Map, os::SystemPages, MagazineCapacity, Mine>;",
        "SlabStore",
    ),
    "a window of small pages over pages without places": ("PageWindow<NotPages> wrong;", "PlacedPageSource"),
    "a map of pages over a tree": ("extern Tree tree; PageMap<Tree> wrong{tree};", "GrowingWindow"),
    "runs of pages without a map": ("extern Tree tree; PageRuns<Tree> wrong{tree};", "RunMap"),
    "spans of pages over a tree": ("extern Tree tree; PageSpans<Tree> wrong{tree};", "RunSource"),
    "magazines over a pool of spans": ("using Wrong = Magazines<Right::Pool, os::SystemPages, Mine>;", "BlockSource"),
    "a heap of pages without a window": ("void* wrong() { return PageHeap<Right>::allocate(1); }", "PageParts"),
    "blocks of ranges without a way in": (
        "using Wrong = RangeBlocks<Tree, Right::Large, Right::Outside, NoSampledBlocks>;",
        "Doors",
    ),
    "reusable records": ("ReusableDeque<PageRun> wrong;", "ReusableSpan"),
    "a pool of records": (
        "extern Right::Spans spans; SpanPool<Right::Classes, PageRun, Right::Spans, EagerMadvise, 1> wrong{spans};",
        "PooledSpan",
    ),
    "groups of records": ("using Wrong = PageGroups<PageRun, VirtualSpans<os::SystemPages>, 4096, true>;", "SizedPage"),
    "a heap for samples whose cache counts nothing": (
        "struct Parts : Right { using Samples = SampledBlocks<Mine, Tree>; };"
        "void* wrong() { return HeapShell<Parts>::allocate(1); }",
        "HeapParts",
    ),
    "a sampled front end without stacks": (
        "using Wrong = SampledFront<NoCache<BfmParts<BfmSteps, 1, 8>::Pool, Mine>>;",
        "StackedFrontEnd",
    ),
    "parts without layers": ("struct Parts {}; void* wrong() { return HeapShell<Parts>::allocate(1); }", "HeapParts"),
    "a classifier by words over a front end by spans": (
        "struct Parts : Right { using Map = PrefixMap<BfmSteps>; static constexpr Map map{}; };"
        "void* wrong() { return HeapShell<Parts>::allocate(1); }",
        "HeapParts",
    ),
    "tight blocks without a source that shrinks": (
        "struct Parts : Right { using Large = LoneRanges<Outside>; static inline constinit Large large; };"
        "void* wrong() { return HeapShell<Parts>::allocate(1); }",
        "HeapParts",
    ),
}


def compiler(family: str) -> str:
    for name in COMPILERS[family]:
        if shutil.which(name):
            return name
    pytest.skip(f"no {family} here")


def answer(family: str, source: str) -> subprocess.CompletedProcess[str]:
    command = [compiler(family), "-std=c++20", "-D_GNU_SOURCE", f"-I{ROOT}", "-fsyntax-only", "-fdiagnostics-color=never"]
    command += ["-x", "c++", "-"]
    return subprocess.run(command, input=USES + source, text=True, capture_output=True, check=False)


@pytest.mark.parametrize("family", COMPILERS)
def test_the_right_composition_is_accepted(family: str) -> None:
    """So what is refused below is refused for its fault."""
    done = answer(family, "void* right() { return HeapShell<Right>::allocate(1); }")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("family", ["gcc", pytest.param("clang", marks=pytest.mark.on_request)])
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_composition_names_the_contract(family: str, fault: str) -> None:
    source, concept = WRONG[fault]
    done = answer(family, source)
    assert done.returncode != 0
    first = done.stderr.splitlines()[:FIRST_LINES]
    assert any(concept in line for line in first), "\n".join(first)
