# SPDX-License-Identifier: Apache-2.0
"""Every wrong thing a person can ask for: one sentence that names it, the right exit code, and never a result."""

from __future__ import annotations

import os
import shutil
import struct
import stat
from pathlib import Path

import pytest
from e2e_yard import one_sentence, program, shim

USAGE, FAILED = 2, 4


def refused(process, code: int, *words: str) -> None:
    """The command ended with `code` and one sentence that holds `words`."""
    sentence = one_sentence(process)
    assert process.returncode == code, sentence
    for word in words:
        assert word in sentence


def no_result(yard) -> None:
    """Nothing was measured: no experiment is there, or none of its trials counts."""
    assert not list(yard.results.glob("*")) or not any(t.counted for t in yard.record().trials)


@pytest.fixture
def library(tmp_path):
    """A copy of a sound library, to be spoilt."""
    copy = tmp_path / "libmine.so"
    shutil.copy(shim("plain"), copy)
    return copy


def test_missing_program(yard):
    refused(yard.compare("/no/such/program"), USAGE, "/no/such/program")
    refused(yard.compare("no-such-program"), USAGE, "no-such-program")
    no_result(yard)


def test_a_file_that_is_no_program(yard, tmp_path):
    text = tmp_path / "text"
    text.write_text("hello")
    refused(yard.compare(text), USAGE, str(text))
    refused(yard.compare(tmp_path), USAGE, str(tmp_path))
    no_result(yard)


def test_an_executable_file_that_the_kernel_refuses(yard, tmp_path):
    noise = tmp_path / "noise"
    noise.write_bytes(bytes(range(256)) * 16)
    noise.chmod(0o755)
    result = yard.compare(noise)
    assert result.returncode in (USAGE, FAILED) and str(noise) in one_sentence(result)
    no_result(yard)


def test_missing_library(yard, tmp_path):
    refused(
        yard.compare(program("mallocs"), own={"mine": tmp_path / "libmine.so"}), USAGE, "libmine.so", "does not exist"
    )
    no_result(yard)


def test_a_library_that_is_none(yard, library):
    library.write_text("not a library")
    refused(yard.compare(program("mallocs"), own={"mine": library}), USAGE, "libmine.so")
    no_result(yard)


def test_a_library_for_another_machine(yard, library):
    with open(library, "r+b") as file:
        file.seek(18)  # e_machine
        file.write(struct.pack("<H", 8))  # MIPS
    refused(yard.compare(program("mallocs"), own={"mine": library}), USAGE, "libmine.so", "built for")
    no_result(yard)


def test_a_truncated_library(yard, library):
    os.truncate(library, library.stat().st_size // 3)
    result = yard.compare(program("mallocs"), own={"mine": library})
    assert result.returncode == USAGE and "libmine.so" in one_sentence(result)
    no_result(yard)


def test_a_library_without_malloc(yard):
    refused(yard.compare(program("mallocs"), own={"mine": shim("nomalloc")}), USAGE, "malloc")
    no_result(yard)


def test_a_library_that_crashes_at_load(yard):
    refused(yard.compare(program("mallocs"), own={"mine": shim("crash_load")}), USAGE, "libcrash_load.so", "SIGSEGV")
    no_result(yard)


def test_static_program(yard):
    result = yard.compare(program("static_program"), 200, 100)
    assert result.returncode in (USAGE, FAILED) and "static" in one_sentence(result)
    no_result(yard)


def test_setuid_program(yard, tmp_path):
    if os.geteuid() == 0:
        command = [Path(shutil.copy(program("mallocs"), tmp_path / "setuid")), 200, 100]
        os.chown(command[0], 65534, 65534)  # of another user than ours: the loader then ignores preloads
        command[0].chmod(0o755 | stat.S_ISUID)
    else:
        command = [shutil.which("su"), "--version"]
    result = yard.compare(*command)
    assert result.returncode in (USAGE, FAILED) and "setuid" in one_sentence(result)
    no_result(yard)


def test_a_program_that_brings_its_own_malloc(yard):
    result = yard.compare(program("own_malloc"))
    assert result.returncode in (USAGE, FAILED) and "malloc" in one_sentence(result)
    no_result(yard)


def test_a_program_that_fails(yard):
    result = yard.compare("sh", "-c", "exit 7")
    assert result.returncode == FAILED and "7" in one_sentence(result)
    no_result(yard)


def test_a_program_that_never_ends(yard):
    result = yard.compare("sleep", "1000", options=["--timeout", "1s"])
    assert result.returncode == FAILED and "1 s" in one_sentence(result)
    no_result(yard)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["compare", "no-such-thing"], ["no-such-thing"]),
        (["compare", "--allocators", "glibc,jemaloc", "--", "true"], ["jemaloc", "jemalloc"]),
        (["compare", "--allocators", "glibc:no_such_option=1", "--", "true"], ["no_such_option"]),
        (["compare", "--allocator", "mine", "--", "true"], ["NAME=LIBRARY"]),
        (["compare", "--precision", "often", "--", "true"], ["often"]),
        (["compare", "--precision", "0%", "--", "true"], ["0%"]),
        (["compare", "--budget", "soon", "--", "true"], ["soon"]),
        (["compare", "--budget", "-5m", "--", "true"], ["5m"]),
        (["compare", "--timeout", "0", "--", "true"], ["0"]),
        (["compare", "--blocks", "0", "--", "true"], ["blocks"]),
        (["compare", "--margin", "150%", "--", "true"], ["150%"]),
        (["compare", "--pin", "9999", "--", "true"], ["9999"]),
        (["compare", "--baseline", "nobody", "--", "true"], ["nobody"]),
        (["compare", "--no-such-option"], ["--no-such-option"]),
        (["compare", "--"], []),
        (["show", "no-such-result"], ["no-such-result"]),
        (["resume", "no-such-result"], ["no-such-result"]),
        (["export", "no-such-result", "--csv"], ["no-such-result"]),
        (["report", "no-such-result"], ["no-such-result"]),
        (["run", "no-such-study.toml"], ["no-such-study.toml"]),
        (["compre"], ["compare"]),
    ],
)
def test_words_nobody_knows(yard, arguments, words):
    refused(yard.run(*arguments), USAGE, *words)
    no_result(yard)


@pytest.mark.parametrize(
    "text, line, words",
    [
        ('[study]\ntitle = "x"\nblocks = = 3\n', 3, ["not valid TOML"]),
        ('[study]\ntitle = "x"\n\nblokcs = 3\n', 4, ["'study.blokcs'", "blocks"]),
        ("[study]\ntitle = 7\n", 2, ["'study.title'", "string", "7"]),
        ("[study]\nblocks = -1\n", 2, ["'study.blocks'", "at least 1"]),
        ('[study]\nprecision = "often"\n', 2, ["'study.precision'", "often"]),
        ("[study]\nallocators = [1, 2]\n", 2, ["'study.allocators'", "strings"]),
        ("[study]\n[allocator.mine]\n", 2, ["'allocator.mine.library'", "missing"]),
        ('[study]\n[factors]\nthp = ["sometimes"]\n', 3, ["'factors.thp'", "sometimes"]),
        ('title = "no table"\n', 1, ["[study]"]),
        ("[study]\n\xff", 0, ["UTF-8"]),
    ],
    ids=lambda value: value.splitlines()[-1] if isinstance(value, str) and value else None,
)
def test_a_study_with_a_mistake(yard, tmp_path, text, line, words):
    """The message names the file, the line and the field."""
    study = tmp_path / "study.toml"
    study.write_bytes(text.encode("latin-1"))
    refused(yard.run("run", study), USAGE, f"{study}:{line}" if line else str(study), *words)
    no_result(yard)


def test_a_catalog_of_ones_own_with_a_mistake(yard):
    catalog = yard.config / "heapyard" / "catalog.toml"
    catalog.parent.mkdir(parents=True)
    catalog.write_text(f'[allocator.mine]\nlibrary = "{shim("plain")}"\nlibary = "./libmine.so"\n')
    refused(yard.compare(program("mallocs"), own={}), USAGE, f"{catalog}:3", "libary")


def test_damaged_records_are_said_to_be_damaged(yard):
    assert yard.compare(program("mallocs"), 200, 100, blocks=2).returncode == 0
    file = next(yard.record().path.glob("*.sqlite*"))
    file.write_bytes(b"not a database" * 100)
    result = yard.run("show", "last")
    assert result.returncode == FAILED and file.name in one_sentence(result)
    listed = yard.run("results")
    assert listed.returncode == 0 and file.parent.name in listed.stdout
