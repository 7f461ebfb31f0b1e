# SPDX-License-Identifier: Apache-2.0
"""The malloc libraries made from heap/: in the catalog, complete, and in need of nothing but libc."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from heapyard.catalog.allocators import find_allocators, load_allocators
from heapyard.catalog.own_heaps import own_heaps, sampled_variant, samples_itself
from heapyard.catalog.treatments import cross
from heapyard.model import places

HEAPS = [heap.name for heap in own_heaps()]
FAMILY = (
    "malloc free calloc realloc reallocarray aligned_alloc memalign posix_memalign valloc pvalloc malloc_usable_size "
    "free_sized free_aligned_sized malloc_trim mallopt mallinfo mallinfo2 malloc_info malloc_stats "
    "__libc_malloc __libc_free __libc_calloc __libc_realloc __libc_memalign __libc_valloc __libc_pvalloc"
).split()
NEWS, DELETES = 8, 12  # forms of operator new and delete that a program may replace


def dynamic(path: Path) -> str:
    return subprocess.run(["readelf", "-d", "-W", path], capture_output=True, text=True, check=True).stdout


def interface(root: Path) -> set[str]:
    """Functions that heapyard.h declares."""
    return set(re.findall(r"\b(heapyard_\w+)\(", (root / "heap/include/heapyard.h").read_text()))


def exported(path: Path) -> set[str]:
    told = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in told.splitlines()}


def test_the_catalog_has_them_and_compares_ours_always_and_the_others_when_asked() -> None:
    assert {"bfm", "bfm-single", "bfm-multi", "bfm-cache"} <= set(HEAPS)
    catalog = load_allocators()
    for name in HEAPS:
        assert catalog[name].status == "installed" and catalog[name].version
        assert catalog[name].usual == (name == "heapyard")
    assert catalog["glibc"].usual
    assert find_allocators(["bfm"])[0].library == places.native("libbfm.so").resolve()


def test_without_a_native_build_there_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path))
    assert own_heaps() == []
    places.own_heaps().parent.mkdir(parents=True)
    places.own_heaps().write_text('[{"name": "bfm", "title": "t", "version": "1"}]')
    assert [(heap.status, heap.library) for heap in own_heaps()] == [("unavailable", None)]


@pytest.mark.parametrize("name", HEAPS)
def test_a_library_needs_libc_alone_and_stays_loaded(name: str) -> None:
    told = dynamic(places.native(f"lib{name}.so"))
    assert set(re.findall(r"NEEDED.*\[(.+)\]", told)) <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert "STATIC_TLS" in told and "NODELETE" in told and "BIND_NOW" in told


@pytest.mark.parametrize("name", HEAPS)
def test_a_library_exports_the_whole_family_and_nothing_else(root: Path, name: str) -> None:
    found = exported(places.native(f"lib{name}.so"))
    operators = {symbol for symbol in found if re.match(r"_Z(n|d)[wal]", symbol)}
    assert len([s for s in operators if s.startswith("_Zn")]) == NEWS
    assert len([s for s in operators if s.startswith("_Zd")]) == DELETES
    samples = {"heapyard_observe_samples"} if name.endswith("-sampled") else set()
    own = interface(root) if name == "heapyard" else {"heapyard_observe_pages"}
    assert found - operators == {*FAMILY, "cfree"} | samples | own
    assert samples_itself(places.native(f"lib{name}.so")) == bool(samples)


def test_the_tracer_samples_a_heap_from_within_where_it_can() -> None:
    bfm, scalloc = (places.native(f"lib{name}.so").resolve() for name in ("bfm", "scalloc-stack"))
    variant = bfm.with_name("libbfm-sampled.so")
    assert sampled_variant(bfm) == sampled_variant(variant) == variant
    assert sampled_variant(scalloc) is None and sampled_variant(None) is None
    [glibc] = find_allocators(["glibc"])
    assert sampled_variant(glibc.library) is None and not samples_itself(glibc.library)
    treatments, _ = cross(find_allocators(["bfm", "glibc"]), {"tracer": ["off", "sampled", "exact"]}, "bfm")
    served = {t.label: t.allocator.library for t in treatments}
    assert served["bfm [tracer=sampled]"] == variant and served["bfm [tracer=off]"] == served["bfm [tracer=exact]"] == bfm
    assert {t.allocator.name for t in treatments} == {"bfm", "glibc"}


def test_the_smallest_program_of_c_runs_without_a_run_time_of_cxx(tmp_path: Path) -> None:
    done = subprocess.run(["/bin/true"], env={"LD_PRELOAD": str(places.native("libbfm.so")), "LD_DEBUG": "libs"},
                          capture_output=True, text=True)
    assert done.returncode == 0 and "libstdc++" not in done.stderr
