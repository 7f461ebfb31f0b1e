# SPDX-License-Identifier: Apache-2.0
"""Proof of injection, on paper: whatever the witness and the launcher bring, the verdict is a sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heapyard.execute.witness import LOADED_AFTER, TOGETHER, objection, provider_of, read_testimonies
from heapyard.model.allocator import Allocator

LIBRARY = "/opt/libmine.so"
MINE = Allocator("mine", "mine", "1", Path(LIBRARY))
ROOT = 100
FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def line(pid: int = ROOT, executable: str = "/bin/prog", **providers: str) -> str:
    words = [f"{symbol}={providers.get(symbol, LIBRARY)}" for symbol in TOGETHER]
    words += [f"{symbol}={path}" for symbol, path in providers.items() if symbol not in TOGETHER]
    return "\t".join([str(pid), executable, *words]) + "\n"


def seen(pid: int = ROOT, executable: str = "/bin/prog", **fields: object) -> dict[str, object]:
    """A program as the launcher saw it."""
    found = {"pid": pid, "name": "prog", "executable": executable, "looks": 9, "maps": 20, "mapped": True}
    return {**found, "mappings_seen_at": LOADED_AFTER, **fields}


def verdict(tmp_path: Path, text: str, processes: list[dict[str, object]] | None = None, stderr: str = "") -> str:
    (tmp_path / "witness").write_text(text)
    testimonies = read_testimonies(tmp_path / "witness")
    return objection(testimonies, [seen()] if processes is None else processes, ROOT, MINE, stderr)


def test_a_library_that_served_everything_meets_no_objection(tmp_path: Path) -> None:
    assert verdict(tmp_path, line() + line(pid=101)) == ""


@pytest.mark.parametrize("symbol", TOGETHER)
def test_each_function_of_each_process_must_be_served_by_it(tmp_path: Path, symbol: str) -> None:
    complaint = verdict(tmp_path, line() + line(pid=101, **{symbol: "/opt/other.so"}))
    assert complaint == f"in process 101 (prog) {symbol} was served by /opt/other.so, not by libmine.so"


def test_a_function_that_nobody_serves_is_an_objection(tmp_path: Path) -> None:
    assert "was served by nothing known" in verdict(tmp_path, f"{ROOT}\t/bin/prog\tmalloc={LIBRARY}\n")


def test_a_malloc_of_the_program_itself_is_named_so(tmp_path: Path) -> None:
    """The dynamic linker gives the program's own name as it was started, not as a path."""
    assert "served by /bin/prog (its own)" in verdict(tmp_path, line(malloc="prog"))


def test_a_link_to_the_library_is_the_library(tmp_path: Path) -> None:
    library = tmp_path / "libmine.so.2"
    library.touch()
    link = tmp_path / "libmine.so"
    link.symlink_to(library)
    (tmp_path / "witness").write_text(line(**dict.fromkeys(TOGETHER, str(link))))
    testimonies = read_testimonies(tmp_path / "witness")
    for name in (link, library):
        assert objection(testimonies, [], ROOT, Allocator("mine", "mine", "1", name)) == ""


def test_the_root_itself_must_testify(tmp_path: Path) -> None:
    assert "ignores LD_PRELOAD" in verdict(tmp_path, line(pid=101))


def test_the_linkers_own_words_are_passed_on(tmp_path: Path) -> None:
    stderr = f"ERROR: ld.so: object '{LIBRARY}' from LD_PRELOAD cannot be preloaded (wrong ELF class): ignored.\nbye\n"
    assert verdict(tmp_path, "", stderr=stderr).endswith("cannot be preloaded (wrong ELF class): ignored.")


def test_a_library_that_another_user_may_not_read_is_named(tmp_path: Path) -> None:
    stderr = f"ERROR: ld.so: object '{LIBRARY}' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.\n"
    complaint = verdict(tmp_path, line(), [seen(), seen(101, "/bin/postgres")], stderr=stderr)
    assert "refused the library: ld.so: object" in complaint and "another user must be able to read the file" in complaint
    complaint = verdict(tmp_path, line() + line(malloc="/opt/libother.so"), [seen()], stderr=stderr)
    assert "malloc was served by /opt/libother.so, not by libmine.so: the dynamic linker refused" in complaint
    assert verdict(tmp_path, line(), [seen()], stderr=stderr) == ""


@pytest.mark.parametrize(
    ("process", "words"),
    [
        (seen(101), ""),
        (seen(101, mapped=False), "ran without libmine.so"),
        (seen(101, mapped=False, mappings_seen_at=LOADED_AFTER / 2), ""),  # may still be loading
        (seen(101, mapped=False, mappings_seen_at=50 * LOADED_AFTER, has_libc=False), ""),  # still loads, where many others run
        (seen(ROOT, mapped=False, has_libc=False), ""),
        (seen(101, mapped=False, has_libc=True), "ran without libmine.so"),
        (seen(101, "/bin/mute", mapped=False, has_libc=False), "(mute), started by the program, ran without libmine.so"),  # static
        (seen(101, "/bin/mute"), "(mute), started by the program, ran without libmine.so"),
        (seen(101, "/bin/mute", looks=1), ""),  # may have died in its loader
        (seen(ROOT, "/bin/mute", looks=1), f"process {ROOT} (mute)"),
        (seen(101, "", mapped=False, mappings_seen_at=0.0), "may not be looked into"),
        (seen(101, "", mapped=False, mappings_seen_at=0.0, looks=1), ""),
        (seen(ROOT, "", mapped=False, mappings_seen_at=0.0), ""),  # closed to others, but it has testified
    ],
)
def test_every_program_seen_must_have_testified_and_have_it_mapped(
    tmp_path: Path, process: dict[str, object], words: str
) -> None:
    complaint = verdict(tmp_path, line(), [seen(), process])
    assert words in complaint and bool(complaint) is bool(words)


def test_the_c_library_serves_a_program_that_lost_its_preload_all_the_same(tmp_path: Path) -> None:
    libc = "/opt/libc.so.6"
    (tmp_path / "witness").write_text(line(**dict.fromkeys(TOGETHER, libc)))
    testimonies = read_testimonies(tmp_path / "witness")
    glibc = Allocator("glibc", "glibc", "1", Path(libc))
    assert objection(testimonies, [seen(101, "/bin/mute")], ROOT, glibc) == ""
    unknown = {"mapped": False, "mappings_seen_at": 0.0}
    assert objection(testimonies, [seen(ROOT, "/bin/mute", looks=1, **unknown)], ROOT, glibc) == ""
    assert objection(testimonies, [seen(ROOT, "/bin/mute", looks=3, **unknown)], ROOT, glibc)


def test_the_last_program_of_a_process_counts_as_what_served_it(tmp_path: Path) -> None:
    (tmp_path / "witness").write_text(line(malloc="/lib/first.so") + line(malloc="/lib/last.so"))
    testimonies = read_testimonies(tmp_path / "witness")
    assert provider_of(testimonies, ROOT) == os.path.realpath("/lib/last.so")
    assert provider_of(testimonies, 4711) == ""


def test_a_missing_file_is_no_testimony(tmp_path: Path) -> None:
    assert read_testimonies(tmp_path / "absent") == []


@FUZZ
@given(st.binary(max_size=400))
def test_garbage_is_passed_over(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "witness"
    path.write_bytes(garbage + b"\n" + line().encode())
    testimonies = read_testimonies(path)
    assert testimonies[-1].pid == ROOT and testimonies[-1].providers == dict.fromkeys(TOGETHER, LIBRARY)
    assert isinstance(objection(testimonies, [], ROOT, MINE), str)


@FUZZ
@given(cut=st.integers(0, len(line())))
def test_a_line_that_breaks_off_never_becomes_proof(tmp_path: Path, cut: int) -> None:
    """A full disk may cut the line anywhere; less than all four functions prove nothing."""
    text = line()
    complaint = verdict(tmp_path, text[:cut])
    assert (complaint == "") is (cut >= len(text) - 1)
