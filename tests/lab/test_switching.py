# SPDX-License-Identifier: Apache-2.0
"""Switching for good: `heapyard wrap`, the lines to paste, and the last line of an answer."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heapyard.catalog.allocators import find_allocators
from heapyard.model import places
from heapyard.model.check import CheckCase, Found, ReportCard
from heapyard.model.switching import environment_of, shell_words, ways
from heapyard.store.checked import remember, remembered

BFM = find_allocators(["bfm"])[0]
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), min_size=1)


def wrap(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "heapyard", "wrap", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_the_command_runs_under_it_with_its_own_input_output_and_exit_code() -> None:
    done = wrap("bfm", "--", "sh", "-c", "cat; grep -q libbfm /proc/self/maps && exit 7", input="said\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "said\n", "")


def test_a_preload_of_before_stays_behind_it() -> None:
    before = str(places.native("libledger.so"))
    done = wrap("bfm", "--", "printenv", "LD_PRELOAD", env={**os.environ, "LD_PRELOAD": before})
    assert done.stdout.strip() == f"{BFM.library}:{before}"


@pytest.mark.parametrize(("words", "said"), [
    (["nothing", "--", "true"], "there is no allocator 'nothing'"),
    (["bfm", "--", "no-such-program"], "there is no program 'no-such-program'"),
    (["bfm", "--json", "--", "true"], "--json prints how to switch"),
    (["system", "--", "true"], "name a library"),
])
def test_what_cannot_be_is_one_sentence(words: list[str], said: str) -> None:
    done = wrap(*words)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") <= 2 and not done.stdout


def test_a_program_that_takes_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fixed.c").write_text("int main(void) { return 0; }")
    subprocess.run(["cc", "-static", "-o", tmp_path / "fixed", tmp_path / "fixed.c"], check=True)
    done = wrap("bfm", "--", tmp_path / "fixed")
    assert done.returncode == 2 and "static" in done.stderr


@given(st.dictionaries(st.from_regex(r"HY_[A-Z]{1,8}", fullmatch=True), VALUES, min_size=1, max_size=4))
def test_a_shell_understands_any_value(environment: dict[str, str]) -> None:
    assert dict(word.split("=", 1) for word in shlex.split(shell_words(environment))) == environment


def test_values_with_blanks_quotes_and_signs_are_quoted_as_each_place_wants() -> None:
    _, systemd, docker, kubernetes = ways({"CONF": 'a b"$x%'})
    assert systemd.lines[1] == 'Environment="CONF=a b\\"$x%%"'
    assert docker.lines[0] == 'ENV CONF="a b\\"\\$x%"'
    assert kubernetes.lines == ("env:", "- name: CONF", '  value: "a b\\"$x%"')


def test_a_library_of_debian_is_installed_into_the_image_and_any_other_copied() -> None:
    environment = {"LD_PRELOAD": "/usr/lib/x/libjemalloc.so.2"}
    assert ways(environment, "Debian libjemalloc2 5.3.0-1")[2].lines[0].endswith("install -y libjemalloc2")
    copied = ways(environment, "crate rpmalloc 1.0")
    assert copied[2].lines[1:] == ("COPY libjemalloc.so.2 /usr/local/lib/libjemalloc.so.2",
                                   "ENV LD_PRELOAD=/usr/local/lib/libjemalloc.so.2")
    assert "/usr/local/lib/libjemalloc.so.2" in copied[3].lines[2]


def test_the_libc_that_programs_have_needs_only_its_settings() -> None:
    assert environment_of(find_allocators(["glibc"])[0]) == {}
    assert environment_of(find_allocators(["glibc:tcache=0"])[0]).keys() == {"GLIBC_TUNABLES"}
    assert "nothing to switch" in wrap("glibc").stdout


def test_the_check_of_before_is_told_of_the_same_library_with_the_same_settings(heapyard, tmp_path: Path) -> None:
    case = CheckCase("limits", "data", "")
    card = ReportCard(BFM, tuple(Found(case, verdict, "", {}, 0.1) for verdict in ("pass", "note", "fail", "information")))
    assert "Not checked" in heapyard("wrap", "bfm").out
    remember(card)
    said = heapyard("wrap", "bfm").out
    assert "heapyard check passes 2 of 3, 1 note (20" in said and str(BFM.library) in said
    assert remembered(dataclasses.replace(BFM, env={"SETTING": "1"})) is None
    assert json.loads(heapyard("wrap", "bfm", "--json").out)["checked"]["failed"] == 1
    for file in places.checked().iterdir():
        file.write_text('{"day": 1}')
    assert "Not checked" in heapyard("wrap", "bfm").out
