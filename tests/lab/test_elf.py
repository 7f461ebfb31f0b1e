# SPDX-License-Identifier: Apache-2.0
"""The ELF reader, against files the system's compiler makes and against damaged ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies

from heapyard.catalog.elf import NotElfError, elf_facts, exported, own_machine

BUILD_ID = "0123456789abcdef0123456789abcdef01234567"
SOURCE = """
extern int elsewhere(void);
int here = 1;
int malloc_like(void) { return elsewhere(); }
__attribute__((weak)) int weakly(void) { return here; }
static int hidden(void) { return 2; }
int main(void) { return hidden(); }
"""


def compiled(folder: Path, *flags: str) -> Path:
    source, result = folder / "part.c", folder / "part"
    source.write_text(SOURCE)
    subprocess.run(["cc", *flags, str(source), "-o", str(result)], check=True)
    return result


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    return compiled(folder, "-shared", "-fPIC", "-Wl,-soname,libpart.so.7", f"-Wl,--build-id=0x{BUILD_ID}")


def test_facts_of_a_shared_library(shared: Path) -> None:
    facts = elf_facts(shared)
    assert (facts.bits, facts.machine) == own_machine()
    assert (facts.executable, facts.interpreter, facts.static) == (False, "", False)
    assert (facts.soname, facts.build_id) == ("libpart.so.7", BUILD_ID)
    assert "libc.so.6" in elf_facts(Path("/bin/sh").resolve()).needed


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_exports_are_what_the_dynamic_linker_would_find(tmp_path: Path, style: str) -> None:
    library = compiled(tmp_path, "-shared", "-fPIC", f"-Wl,--hash-style={style}")
    asked = ["malloc_like", "weakly", "here", "main", "elsewhere", "hidden", "absent", ""]
    assert exported(library, asked) == {"malloc_like", "weakly", "here", "main"}


def test_exports_agree_with_nm_on_the_c_library() -> None:
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    listing = subprocess.run(["nm", "-D", "--defined-only", libc], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines() if line.split()[1] != "A"}
    assert len(names) > 1000
    assert exported(Path(libc), names) == names


@pytest.mark.parametrize(("flag", "static"), [
    ("-static", True), ("-static-pie", True), ("-pie", False), ("-no-pie", False),
])
def test_a_program_without_a_dynamic_linker_is_static(tmp_path: Path, flag: str, static: bool) -> None:
    facts = elf_facts(compiled(tmp_path, flag, "-fPIE", "-Delsewhere=hidden_too", "-include", _stub(tmp_path)))
    assert (facts.executable, facts.static) == (True, static)


def _stub(folder: Path) -> str:
    stub = folder / "stub.h"
    stub.write_text("static int hidden_too(void) { return 3; }\n")
    return str(stub)


def test_no_build_id(tmp_path: Path) -> None:
    assert elf_facts(compiled(tmp_path, "-shared", "-fPIC", "-Wl,--build-id=none")).build_id == ""


def test_a_program_of_go_says_so(tmp_path: Path) -> None:
    (tmp_path / "note.h").write_text(
        'asm(".section .note.go.buildid, \\"a\\", @note; .balign 4; .long 4, 4, 4; .ascii \\"Go\\\\0\\\\0some\\"; .previous");')
    flags = ("-fPIE", "-pie", "-Delsewhere=hidden_too", "-include", _stub(tmp_path))
    assert not elf_facts(compiled(tmp_path, *flags)).go
    facts = elf_facts(compiled(tmp_path, *flags, "-include", str(tmp_path / "note.h"), f"-Wl,--build-id=0x{BUILD_ID}"))
    assert facts.go and facts.build_id == BUILD_ID


@pytest.mark.parametrize(("content", "complaint"), [
    (b"", "is empty"),
    (b"#!/bin/sh\n", "is not an ELF"),
    (b"\x7fELF", "is not an ELF"),
])
def test_what_is_not_elf_is_said_so(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(NotElfError, match=complaint):
        elf_facts(path)


def _ask_everything(path: Path) -> None:
    try:
        elf_facts(path)
        exported(path, ["malloc_like", "absent"])
    except NotElfError:
        pass


def test_every_truncation_is_an_answer_or_a_complaint(tmp_path: Path, shared: Path) -> None:
    whole, path = shared.read_bytes(), tmp_path / "cut"
    for length in range(1, len(whole), 17):
        path.write_bytes(whole[:length])
        _ask_everything(path)


@pytest.mark.parametrize("missing", [0, 16])  # where the strings are, and the symbols
def test_a_missing_table_is_said_so(tmp_path: Path, shared: Path, missing: int) -> None:
    content = bytearray(shared.read_bytes())
    tags = [tag.to_bytes(8, "little") for tag in (5, 6, 10)]  # strings, symbols, length of the strings, as linkers order them
    [at] = [at for at in range(0, len(content), 8) if [bytes(content[at + i : at + i + 8]) for i in (0, 16, 32)] == tags]
    content[at + missing] = 77
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with pytest.raises(NotElfError, match="a table is missing"):
        exported(path, ["malloc_like"])


@settings(max_examples=300, deadline=None)
@given(damage=strategies.dictionaries(strategies.integers(16, 4096), strategies.integers(0, 255), min_size=1))
def test_every_damage_is_an_answer_or_a_complaint(shared: Path, damage: dict[int, int]) -> None:
    content = bytearray(shared.read_bytes())
    for at, value in damage.items():
        content[at % len(content)] = value
    path = shared.with_name("damaged")
    path.write_bytes(content)
    _ask_everything(path)
